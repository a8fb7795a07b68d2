//! Pools whose structures lie under right checksums, opened for writing and used until all work in the
//! background is done.
//!
//! ```text
//! input   pool u8 (mod the number of pools) | how it is used u8 | changes until the end
//! change  kind u8 | operands by kind
//! ```
//!
//! The pools are [made](pools) once. Between them they have every structure of docs/FORMAT.md: trees of several levels, a
//! catalog of several leaves, records, large values, dropped trees that are not gone yet, and journals of
//! several epochs with records of all kinds.

use std::sync::OnceLock;

use everleaf::{Db, Options};
use everleaf_file::io::SimIo;

use crate::format::{self, BLOCK, BLOCK_HEAD, LEAF, PLACED, RECORD_HEAD};
use crate::input::Input;
use crate::open_structured::{copy_page, entry, number, owner, page_word, shorten, slot};
use crate::parts::Parts;
use crate::script;
use crate::wear::{Use, wear};

/// Changes that one input makes at most.
const CHANGES_MAX: usize = 8;

/// Changes a pool, puts the checksums right, opens and uses it.
///
/// # Panics
/// On a violation.
pub fn run(data: &[u8]) {
    let (disk, how) = disk(data);
    wear(&disk, &Use::of(how));
}

/// A changed pool whose checksums are right, and how it is to be used.
///
/// # Panics
/// If the store does what it must not.
pub fn disk(data: &[u8]) -> (SimIo, u8) {
    let mut input = Input::new(data);
    let all = pools();
    let (which, how) = (input.below(all.len()), input.u8());
    let mut parts = all[which].clone();
    let mut torn = Vec::new();
    for _ in 0..CHANGES_MAX {
        if input.is_empty() {
            break;
        }
        change(&mut input, &mut parts, &mut torn);
    }
    parts.seal(&torn);
    (parts.disk(), how)
}

/// The sound pools that are changed.
///
/// # Panics
/// If the store does what it must not.
pub fn pools() -> &'static [Parts] {
    static POOLS: OnceLock<Vec<Parts>> = OnceLock::new();
    POOLS.get_or_init(|| {
        let mut pools = Vec::new();
        for page_bytes in [512, 4096] {
            for left in [Left::Closed, Left::Killed, Left::Worked] {
                pools.push(Parts::take(&pool(page_bytes, left)));
            }
        }
        pools
    })
}

/// How a pool is left.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    Closed,
    /// With a journal of all that ever happened.
    Killed,
    /// With a checkpoint, and a journal behind it.
    Worked,
}

fn pool(page_bytes: u32, left: Left) -> SimIo {
    let disk = SimIo::new(1);
    let db = script::open(&disk, &options(page_bytes)).expect("a new pool");
    fill(&db, 0).expect("a sound pool");
    if left == Left::Worked {
        db.sync().and_then(|()| db.checkpoint()).expect("no fault");
    }
    // A snapshot keeps what it needs, so that its trees are dropped and not gone.
    let snapshot = db.snapshot().expect("open");
    fill(&db, 1).expect("a sound pool");
    if left == Left::Closed {
        db.close().expect("no fault");
        return disk;
    }
    let disk = disk.power_cut(0);
    drop((snapshot, db));
    disk
}

fn options(page_bytes: u32) -> Options {
    script::options(page_bytes).max_bytes(1 << 28)
}

/// Trees of all shapes; the second time some of them go.
fn fill(db: &Db, time: u8) -> everleaf::Result<()> {
    let wide = db.tree("a")?;
    for i in 0..60_u8 {
        wide.put([i.wrapping_mul(37), time], [i; 30])?;
    }
    let other = db.tree("b")?;
    for i in 0..12_u8 {
        other.put(format!("a common prefix of some length {i:03}, {time}"), [i; 3])?;
    }
    other.put([b'k'; 200], b"a long key")?;
    other.put(b"record", [7; 400])?;
    db.sync()?;
    other.put([b'l', time], vec![1; 9000])?;
    other.put([b'm', time], vec![2; 5000])?;
    db.sync()?;
    for no in 0..9_u8 {
        db.tree(&format!("one of some trees, {no}"))?.put([no], [time])?;
    }
    if time == 1 {
        other.delete([b'l', 0])?;
        db.sync()?;
        other.put(b"n", vec![3; 9000])?;
        db.drop_tree("one of some trees, 3")?;
        db.tree("one of some trees, 4")?.clear()?;
        db.drop_tree("b twice")?;
        let going = db.tree("going")?;
        for i in 0..40_u8 {
            going.put([i], [i; 40])?;
        }
        going.put(b"large", vec![4; 4000])?;
        db.sync()?;
        let _held = db.snapshot()?;
        db.drop_tree("going")?;
        wide.remove_range([40, 0]..[90, 0])?;
    }
    db.sync()
}

fn change(input: &mut Input<'_>, parts: &mut Parts, torn: &mut Vec<u32>) {
    let pages = parts.page_count();
    if pages == 0 {
        return;
    }
    match input.u8() % 24 {
        0..=2 => page_word(input, parts),
        3 => slot(input, parts),
        4 => entry(input, parts),
        5 => copy_page(input, parts),
        6 => owner(input, parts),
        7 | 8 => {
            // Words of both copies of the superblock.
            let at = 4 * input.below(32) + 8;
            let value = number(input, format::u64_at(&parts.supers, at));
            for copy in 0..2 {
                format::put(&mut parts.supers, copy * BLOCK + at, &value.to_le_bytes());
            }
        }
        9 => block_head(input, parts),
        10 | 11 => record(input, parts),
        12 | 13 => table_word(input, parts),
        14 => {
            // One page's image where another's should be.
            let entries = parts.table.len() / PLACED;
            let (from, to) = (input.below(entries) * PLACED, input.below(entries) * PLACED);
            let placed = parts.table[from..from + PLACED].to_vec();
            format::put(&mut parts.table, to, &placed);
        }
        15 | 16 => {
            let at = 4 * input.below(64);
            let value = number(input, 0);
            let width = [1, 2, 4, 8][input.below(4)];
            parts.root_edits.push((at, value.to_le_bytes()[..width].to_vec()));
        }
        17 => head(input, parts),
        18 | 19 => link(input, parts),
        20 | 21 => child(input, parts),
        22 => {
            let no = input.below(pages);
            torn.push(no as u32);
        }
        _ => shorten(input, parts),
    }
}

/// A page number: one of the pool's, or near its end.
fn page(input: &mut Input<'_>, parts: &Parts) -> u64 {
    input.below(parts.page_count() + 3) as u64
}

/// Changes the link of an anchor or a node to the page that comes next: its root, or its sibling.
fn link(input: &mut Input<'_>, parts: &mut Parts) {
    let (from, to) = (input.below(parts.page_count()), page(input, parts));
    // The next anchor, half of the time.
    let is_anchor = |no: &usize| parts.pages[no * parts.page_bytes + 40] == 4;
    let anchor = (from..parts.page_count()).find(is_anchor);
    let no = anchor.filter(|_| input.u8() & 1 == 0).unwrap_or(from);
    format::put(parts.page_mut(no), 8, &to.to_le_bytes());
}

/// An entry's value of four bytes: the child of a node, or a tree's anchor in the catalog.
fn child(input: &mut Input<'_>, parts: &mut Parts) {
    let (no, which, to) = (input.below(parts.page_count()), input.u8(), page(input, parts));
    let count = usize::from(u16::from_le_bytes([parts.page_mut(no)[0], parts.page_mut(no)[1]]));
    let (at, len, _) = format::value_at(parts.page_mut(no), usize::from(which) % count.max(1));
    format::put(parts.page_mut(no), at, &to.to_le_bytes()[..len.min(4)]);
}

/// Something of what the table says of a page, or of a large value.
fn table_word(input: &mut Input<'_>, parts: &mut Parts) {
    let at = 4 * input.below(parts.table.len() / 4);
    let old = format::u64_at(&parts.table, at);
    let value = match input.u8() % 4 {
        // A whole number of extents further.
        0 => old.wrapping_add(u64::from(input.u8()) << 20),
        _ => number(input, old),
    };
    let width = [4, 8][input.below(2)];
    format::put(&mut parts.table, at, &value.to_le_bytes()[..width]);
}

/// A field of the head of an image: of a page, a leaf of the table or the root.
fn head(input: &mut Input<'_>, parts: &mut Parts) {
    let (kind, number_of) = match input.u8() % 4 {
        0 => (4, 0),
        1 => (3, input.below(parts.table.len() / LEAF) as u32),
        _ => (1, input.below(parts.page_count()) as u32),
    };
    let (at, width) =
        [(16, 4), (20, 1), (21, 1), (24, 4), (28, 4), (32, 4), (36, 4), (40, 8)][input.below(8)];
    let value = number(input, parts.page_bytes as u64);
    parts.head_edits.push((kind, number_of, at, value.to_le_bytes()[..width].to_vec()));
}

fn block_head(input: &mut Input<'_>, parts: &mut Parts) {
    let at = [0, 8, 16, 24, 28, 32, 40, 44, 48, 52][input.below(10)];
    let which = input.below(parts.blocks.len());
    if let Some(block) = parts.blocks.get_mut(which) {
        let value = number(input, format::u64_at(&block.bytes, at));
        let width = [4, 8][input.below(2)];
        format::put(&mut block.bytes, at, &value.to_le_bytes()[..width]);
    }
}

/// A field of any record of the journal: its head, or its operands.
fn record(input: &mut Input<'_>, parts: &mut Parts) {
    let (which, nth) = (input.below(parts.blocks.len()), usize::from(input.u8()));
    let Some(block) = parts.blocks.get_mut(which) else { return };
    let end = format::block_end(&block.bytes).min(block.bytes.len());
    let (mut places, mut at) = (Vec::new(), BLOCK_HEAD);
    while at + RECORD_HEAD <= end {
        places.push(at);
        at += RECORD_HEAD
            + usize::from(u16::from_le_bytes([block.bytes[at + 1], block.bytes[at + 2]]));
    }
    let Some(at) = places.get(nth % places.len().max(1)) else { return };
    let (field, width) = match input.u8() % 8 {
        0 => (0, 1),
        1 => (1, 2),
        2 => (3, 4),
        3 => (7, 4),
        _ => (RECORD_HEAD + usize::from(input.u8() % 48), [1, 2, 4, 8][input.below(4)]),
    };
    let value = number(input, format::u64_at(&block.bytes, at + field));
    format::put(&mut block.bytes, at + field, &value.to_le_bytes()[..width]);
}
