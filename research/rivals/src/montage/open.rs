//! Making a tree, and opening one: a pass over all payloads, and another that makes those none that do not count.

use std::collections::{HashMap, HashSet};
use std::marker::PhantomData;
use std::sync::{Arc, Mutex};

use everleaf_pmem::{Buffered, Medium, PageNo, Result, fallible};
use everleaf_pool::{Hooks, Pool, kind};
use everleaf_tree::blink::Condition;

use super::payload::{Payload, Said, Type, WORDS};
use super::{LOCKS, Montage, value_of};
use crate::cells::{Cell, Cells};
use crate::dram;
use crate::version::Version;

/// Names this memory in errors.
const PAYLOADS: &str = "the payloads of a tree";

/// A report of what an open has found and done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MontageOpened {
    /// Payloads that count, which are the keys.
    pub keys: u64,
    /// Payloads that do not: older ones, cancelled ones, and those of epochs that are lost.
    pub dropped: u64,
    /// The last epoch that counts.
    pub epoch: u64,
    /// Pages without a payload that are free again.
    pub returned: u64,
}

impl<M: Medium, V: Version> Montage<M, V> {
    /// The facts about the payloads that a pool must know.
    pub fn hooks() -> Hooks<Buffered<M>> {
        Hooks { nodes: std::any::type_name::<Self>(), ..Hooks::default() }
    }

    /// Makes an empty pool for a tree of this type, of pages of any shape.
    ///
    /// # Errors
    /// The same as for [`Pool::format`].
    pub fn format_pool(medium: Buffered<M>) -> Result<Pool<Buffered<M>>> {
        Pool::format(medium, Self::hooks())
    }

    /// Opens a pool with a tree of this type.
    ///
    /// # Errors
    /// The same as for [`Pool::open`].
    pub fn open_pool(medium: Buffered<M>) -> Result<Pool<Buffered<M>>> {
        Pool::open(medium, Self::hooks())
    }

    /// Opens the tree of a pool, which has but this one: reads all payloads, goes back to the last durable epoch, and
    /// builds the tree in DRAM. Payloads that do not count are none, durably, when this returns; else they might count
    /// later. O(pages + n log n).
    ///
    /// # Errors
    /// WrongLayout for a pool of other nodes; NoMemory; errors of the medium.
    pub fn open(pool: Arc<Pool<Buffered<M>>>) -> Result<(Self, MontageOpened)> {
        pool.expect_nodes(Self::hooks().nodes)?;
        let all = payloads(&pool)?;
        let newest = all.iter().map(|(_, said)| said.epoch).max().unwrap_or(0);
        let durable = pool.medium().recovered_epoch();
        let epoch = if V::has('b') { newest.saturating_sub(2) } else { durable };
        let counting = counting(&all, epoch)?;
        let counts = |cell: &Cell, said: &Said| {
            counting.get(&said.number).is_some_and(|(_, newest)| newest == cell)
        };
        for kind in [Type::Pair, Type::Anti] {
            // An anti-payload after those that it cancels.
            let of_kind =
                all.iter().filter(|(cell, said)| said.kind == kind && !counts(cell, said));
            wipe(&pool, of_kind.map(|(cell, _)| *cell))?;
        }
        let tree = dram::tree(u64::from(pool.medium().limit()) * per_page(&pool) as u64)?;
        let mut reached = Vec::new();
        for (cell, said) in all.iter().filter(|(cell, said)| counts(cell, said)) {
            tree.put(&said.key, &value_of(*cell), Condition::Always)?;
            fallible::push(&mut reached, *cell, PAYLOADS)?;
        }
        let (keys, dropped) = (reached.len() as u64, (all.len() - reached.len()) as u64);
        let next = all.iter().map(|(_, said)| said.number + 1).max().unwrap_or(0).into();
        let (payloads, returned) =
            Cells::recover(Arc::clone(&pool), WORDS, reached, &HashSet::new())?;
        let locks = (0..LOCKS).map(|_| Mutex::default()).collect();
        let (retired, limbo, _version) = (Mutex::default(), Default::default(), PhantomData);
        let montage = Self { pool, tree, payloads, next, locks, retired, limbo, _version };
        Ok((montage, MontageOpened { keys, dropped, epoch, returned }))
    }
}

fn per_page<M: Medium>(pool: &Pool<M>) -> usize {
    crate::cells::per_page(pool.geometry(), WORDS)
}

/// All payloads that are any.
fn payloads<M: Medium>(pool: &Arc<Pool<M>>) -> Result<Vec<(Cell, Said)>> {
    let (cells, mut all) = (Cells::new(Arc::clone(pool), WORDS), Vec::new());
    for (no, owner) in (0..).zip(pool.map_bytes()?) {
        if owner != kind::NODE {
            continue;
        }
        let page = pool.page(no as PageNo)?;
        for at in 0..per_page(pool) as u16 {
            let cell = Cell { page: no, at };
            let said = Payload::of(&cells, page, cell).said();
            if said.kind != Type::None {
                fallible::push(&mut all, (cell, said), PAYLOADS)?;
            }
        }
    }
    Ok(all)
}

/// Of each number that no anti-payload cancels the newest payload, with its epoch, as far as epochs count.
fn counting(all: &[(Cell, Said)], epoch: u64) -> Result<HashMap<u64, (u64, Cell)>> {
    let (mut newest, mut cancelled) = (HashMap::new(), HashSet::new());
    for (cell, said) in all.iter().filter(|(_, said)| said.epoch <= epoch) {
        if said.kind == Type::Anti {
            fallible::insert(&mut cancelled, said.number, PAYLOADS)?;
            continue;
        }
        fallible::more_keys(&mut newest, 1, PAYLOADS)?;
        let known = newest.entry(said.number).or_insert((said.epoch, *cell));
        if known.0 < said.epoch {
            *known = (said.epoch, *cell);
        }
    }
    newest.retain(|number, _| !cancelled.contains(number));
    Ok(newest)
}

/// Makes payloads none, durably.
fn wipe<M: Medium>(pool: &Arc<Pool<M>>, wiped: impl Iterator<Item = Cell>) -> Result<()> {
    let (cells, m) = (Cells::new(Arc::clone(pool), WORDS), pool.medium());
    let mut wiped = wiped.peekable();
    if wiped.peek().is_none() {
        return Ok(());
    }
    let _op = m.enter()?;
    for cell in wiped {
        let (page, _held) = pool.latch(cell.page)?;
        let payload = Payload::of(&cells, page, cell);
        payload.set_type(m, Type::None);
        m.flush(page, payload.line());
    }
    m.fence();
    Ok(())
}
