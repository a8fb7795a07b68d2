//! A payload: a line of its own.
//!
//! ```text
//! word 0, 1   a table of functions and what retires it, in the source; 0 here
//! word 2      epoch
//! word 3      0 none | 1 a pair | 2 an anti-payload
//! word 4      the thread that made it
//! word 5      number
//! word 6, 7   key | value
//! ```
//!
//! The words of a line become durable in the order of their stores. A new payload lies where there is none, or an
//! anti-payload that cancels nothing more; its epoch, which is not durable, is stored before what it says.

use everleaf_pmem::{Medium, Page, Word};

use crate::cells::{Cell, Cells};

/// Words of a payload.
pub const WORDS: usize = 8;

const EPOCH: usize = 2;
const TYPE: usize = 3;
const THREAD: usize = 4;
const NUMBER: usize = 5;
const KEY: usize = 6;
const VALUE: usize = 7;

/// The type of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// None; also what no version has written.
    None,
    /// A pair.
    Pair,
    /// One that cancels its number.
    Anti,
}

/// The content of a payload.
#[derive(Debug, Clone, Copy)]
pub struct Said {
    pub epoch: u64,
    pub kind: Type,
    pub number: u64,
    pub key: u64,
    pub value: u64,
}

/// A payload in its page.
#[derive(Clone, Copy)]
pub struct Payload<'m> {
    words: [Word<'m>; WORDS],
}

impl<'m> Payload<'m> {
    pub fn of<M: Medium>(cells: &Cells<M>, page: Page<'m>, cell: Cell) -> Self {
        Self { words: std::array::from_fn(|i| cells.word(page, cell, i)) }
    }

    pub fn line(&self) -> usize {
        self.words[0].line()
    }

    pub fn value(&self) -> u64 {
        self.words[VALUE].load()
    }

    pub fn said(&self) -> Said {
        let word = |i: usize| self.words[i].load();
        let kind = match word(TYPE) {
            1 => Type::Pair,
            2 => Type::Anti,
            _ => Type::None,
        };
        Said { epoch: word(EPOCH), kind, number: word(NUMBER), key: word(KEY), value: word(VALUE) }
    }

    pub fn set_value<M: Medium>(&self, m: &M, value: u64) {
        m.store(self.words[VALUE], value);
    }

    pub fn set_type<M: Medium>(&self, m: &M, kind: Type) {
        m.store(self.words[TYPE], kind as u64);
    }

    pub fn write<M: Medium>(&self, m: &M, thread: u64, said: &Said) {
        for (i, value) in [(0, 0), (1, 0), (EPOCH, said.epoch), (THREAD, thread)] {
            m.store(self.words[i], value);
        }
        for (i, value) in [(NUMBER, said.number), (KEY, said.key), (VALUE, said.value)] {
            m.store(self.words[i], value);
        }
        self.set_type(m, said.kind);
    }
}
