//! One slotted node: a page that is changed as a tree would, by notes of a journal, and by anything at all.
//!
//! ```text
//! input   shape u8: bytes of the page in the low bits, bit 7: an inner node | steps until the end
//! step    kind u8 | operands by kind
//! ```
//!
//! Questions end, whatever the page holds, and say nothing or Corrupt. A page that passes the check can be
//! changed, and passes it again.

use std::cmp::Ordering;

use everleaf_pmem::{Change, Dram, Error, Geometry, Medium, Page, Result};
use everleaf_tree::slotted::{
    self, Asking, Edit, Even, Image, Merge, Split, Value, ValueSize, View, check_page,
};

use crate::input::Input;
use crate::script;

/// Steps that one input makes at most.
const STEPS_MAX: usize = 200;

/// Runs the steps in `data`.
///
/// # Panics
/// On a violation.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let shape = input.u8();
    let page_bytes = [512, 1024, 4096, 32_768][usize::from(shape % 4)];
    let geometry = Geometry::whole(page_bytes).expect("a power of two");
    let m = Dram::new(geometry, 3).expect("memory");
    let (page, right) = (m.page(1).expect("inside"), m.page(2).expect("inside"));
    let _latches = [page, right].map(|page| page.latch().lock());
    let mut node = Node { m: &m, page, other: right };
    node.make(shape >> 7);
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        node.step(&mut input);
    }
}

/// An order for keys that are in records which are nowhere.
fn anywhere(record: u64) -> Result<Ordering> {
    Ok([Ordering::Less, Ordering::Equal, Ordering::Greater][(record % 3) as usize])
}

/// The value of an answer, if it has one; any error but Corrupt is a violation.
fn typed<T>(result: Result<T>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(Error::Corrupt { what, .. }) => {
            assert!(!what.is_empty());
            None
        }
        Err(error) => panic!("no page causes this: {error:?}"),
    }
}

struct Node<'m> {
    m: &'m Dram,
    page: Page<'m>,
    other: Page<'m>,
}

impl Node<'_> {
    fn make(&mut self, level: u8) {
        let page_bytes = self.page.geometry().page_bytes();
        let image = match level {
            0 => Image::empty(page_bytes, 0),
            _ => Image::root(page_bytes, level, 7, b"m", Value::Child(8)),
        };
        let mut image = image.expect("memory");
        slotted::build(self.m, &mut (), self.page, &mut image);
        check_page(self.page).expect("a new node is sound");
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let is_sound = typed(check_page(self.page)).is_some();
        match input.u8() % 16 {
            0..=5 if is_sound => self.put(input),
            6 | 7 if is_sound => self.remove(input),
            8 if is_sound => slotted::compact(self.m, &mut (), &View::read(self.page), None),
            9 if is_sound => self.split(input),
            10 | 11 => return self.redo(input),
            12 => return self.make(input.u8() & 1),
            _ => return self.change(input),
        }
        if is_sound {
            check_page(self.page).expect("sound before, sound after");
        }
        self.ask(input);
    }

    fn put(&mut self, input: &mut Input<'_>) {
        let (key, mut value) = (script::key(input), script::value(input));
        let view = View::read(self.page);
        let page_bytes = view.page_bytes();
        value.truncate(slotted::inline_value_max(page_bytes));
        let name = u64::from(input.u32()) << 16;
        let value = match (view.is_leaf(), slotted::is_cut(key.len(), page_bytes)) {
            (true, false) => Value::Inline(&value),
            (true, true) => Value::Reference(name),
            (false, false) => Value::Child(5),
            (false, true) => Value::LongChild(5, name),
        };
        let mut low = Vec::new();
        if let Some(fence) = view.low() {
            view.fence_into(fence, &mut low).expect("checked");
        }
        let is_inside = key >= low && view.cmp_high(&key, anywhere).expect("checked").is_lt();
        let located = typed(view.locate(&key, anywhere)).filter(|_| is_inside);
        let Some((rank, old)) = located else { return };
        // The first entry of an inner node stays, and `anywhere` says of no cut key what is true.
        let is_cut = |pos: usize| pos < view.count() && view.entry(pos).cut;
        let beside = [rank.lt().saturating_sub(1), rank.lt(), rank.lt() + 1];
        if !view.is_leaf() && rank.lt() == 0 || beside.into_iter().any(is_cut) {
            return;
        }
        let mut edit = Edit::default();
        if edit.put(&view, (rank, old.as_ref()), &key, value) {
            edit.apply(self.m, &mut (), &view);
        }
    }

    fn remove(&mut self, input: &mut Input<'_>) {
        let view = View::read(self.page);
        let first = usize::from(!view.is_leaf());
        if view.count() > first {
            let pos = first + input.below(view.count() - first);
            slotted::remove(self.m, &mut (), &view, pos);
        }
    }

    /// Cuts the node in two, and goes on with either half.
    fn split(&mut self, input: &mut Input<'_>) {
        let view = View::read(self.page);
        let (pos, goes_right) = (input.below(view.count() + 1), input.u8() & 1 == 0);
        let keep = typed(view.split_point(pos.min(view.count()), 40));
        let Some(keep) = keep.filter(|keep| (1..view.count()).contains(keep)) else { return };
        let Some(Some(separator)) = typed(view.separator(keep)) else { return };
        let Some(mut split) = typed(Split::new(&view, keep, separator)) else { return };
        split.apply(self.m, &mut (), (self.page, self.other), [3 << 16, 4 << 16]);
        check_page(self.other).expect("the right half of a sound node");
        check_page(self.page).expect("the left half of a sound node");
        if goes_right {
            std::mem::swap(&mut self.page, &mut self.other);
        }
    }

    /// A note of a journal that may say anything.
    fn redo(&mut self, input: &mut Input<'_>) {
        let (tag, n) = (6 + input.u8() % 11, usize::from(input.u8()));
        let bytes = input.bytes(n);
        typed(slotted::redo(self.m, self.page, Change { tag, bytes }));
        self.ask(input);
    }

    /// A byte of the page becomes another, in the header or where slots and entries are.
    fn change(&mut self, input: &mut Input<'_>) {
        let (words, count) = (self.page.geometry().page_words(), View::read(self.page).count());
        let word = match input.u8() % 4 {
            0 | 1 => usize::from(input.u8() % 6),
            2 => 8 + input.below(count + 1),
            _ => words - 1 - input.below(words - 8).min(words - 9),
        };
        let (word, byte, value) = (word.min(words - 1), input.u8() % 8, u64::from(input.u8()));
        let (cell, by) = (self.page.word(word), 8 * u32::from(byte));
        self.m.store(cell, cell.load() & !(0xff << by) | value << by);
        self.ask(input);
    }

    /// Asks the node everything that reads.
    fn ask(&self, input: &mut Input<'_>) {
        let (view, mut to) = (View::read(self.page), Vec::new());
        let n = view.count();
        for pos in [0, 1, n / 2, n.saturating_sub(1), n, 70_000] {
            typed(view.key_into(pos, &mut to));
            typed(view.value_into(pos, &mut to));
            let entry = view.entry(pos);
            typed(view.far_of(&entry));
            let _ = (view.child(pos), view.reference_of(&entry), slotted::is_entry(&view, pos));
        }
        for fence in [view.low(), view.high()].into_iter().flatten() {
            typed(view.fence_into(fence, &mut to));
        }
        for key in [script::key(&mut input.clone()), Vec::new(), vec![0xff; 9], b"m".to_vec()] {
            if let Some(rank) = typed(view.rank(&key, anywhere)) {
                assert!(rank.le <= n);
            }
            typed(view.cmp_high(&key, anywhere));
            let _ = view.room_for(&key, ValueSize::Inline(9));
        }
        typed(view.split_point(n / 2, 50));
        if n > 1 {
            typed(view.separator(n / 2));
            typed(Split::new(&view, n / 2, b"s".to_vec()));
        }
        for in_left in [true, false] {
            let asking = Asking { in_left, key: b"k", pos: 0, bytes: 40, replaces: n > 0 };
            typed(Even::plan(&view, &View::read(self.other), &asking));
        }
        typed(Merge::plan(&view, &View::read(self.other), 0));
        typed(slotted::check_header(self.page).map(drop));
    }
}
