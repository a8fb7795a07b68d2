//! Byte strings on a strict medium: large values lie in extents, which are stored, flushed and
//! fenced through the door like everything else.

use std::sync::Arc;

use everleaf_crash_check::SharedMedium;
use everleaf_pmem::{LINE_BYTES, Medium, PageNo, Result, Sim, Word};
use everleaf_pool::{ExtentIo, Hooks, Pool};
use everleaf_tree::{INDEX_ANCHOR, StringTree, TreeReport};

use super::{Create, Kind};
use crate::texts::Texts;

type M = SharedMedium<Sim>;

/// Trees of byte strings.
pub struct Text;

const EXTENTS: ExtentIo<M> = ExtentIo::in_place(write_extent, read_extent);

fn hooks() -> Hooks<M> {
    Hooks { extents: Some(EXTENTS), ..StringTree::<M>::hooks() }
}

impl Kind for Text {
    type Tree = Texts<M>;
    const SHAPE: (u32, u32) = (8, 400);
    const COST: u64 = 12;
    const GROWS: bool = false;

    fn open(sim: &Arc<Sim>) -> Result<Texts<M>> {
        let pool = Pool::open(SharedMedium::new(sim), hooks())?;
        StringTree::open(Arc::new(pool), INDEX_ANCHOR).map(Texts)
    }
    fn report(tree: &Texts<M>) -> Result<TreeReport> {
        let mut report = tree.check()?;
        report.damages.extend(tree.0.pool().check());
        Ok(report)
    }
}

impl Create for Text {
    fn create(sim: &Arc<Sim>) -> Result<Texts<M>> {
        let pool = Pool::format(SharedMedium::new(sim), hooks())?;
        StringTree::create(Arc::new(pool), INDEX_ANCHOR).map(Texts)
    }
}

/// Calls `see` for each word that the bytes from `offset` on touch, with the places of the word's
/// bytes among them; answers nothing of words outside.
fn each_word(
    m: &M,
    first: PageNo,
    offset: u64,
    len: usize,
    mut see: impl FnMut(Word<'_>, usize, std::ops::Range<usize>),
) -> Result<()> {
    let (mut at, end) = (offset as usize, offset as usize + len);
    while at < end {
        let (word, within) = (at / 8, at % 8);
        let bytes = (8 - within).min(end - at);
        let words = m.geometry().page_words();
        let page = m.page(first + (word / words) as PageNo)?;
        let from = at - offset as usize;
        see(page.word(word % words), within, from..from + bytes);
        at += bytes;
    }
    Ok(())
}

fn write_extent(m: &M, first: PageNo, offset: u64, bytes: &[u8]) -> Result<()> {
    let mut lines = Vec::new();
    each_word(m, first, offset, bytes.len(), |word, within, range| {
        let mut value = word.load().to_le_bytes();
        value[within..within + range.len()].copy_from_slice(&bytes[range]);
        lines.push((word.page(), word.index() * 8 / LINE_BYTES));
        m.store(word, u64::from_le_bytes(value));
    })?;
    lines.dedup();
    for (no, line) in lines {
        m.flush(m.page(no)?, line);
    }
    m.fence();
    Ok(())
}

fn read_extent(m: &M, first: PageNo, offset: u64, buf: &mut [u8]) -> Result<()> {
    each_word(m, first, offset, buf.len(), |word, within, range| {
        let value = word.load().to_le_bytes();
        let len = range.len();
        buf[range].copy_from_slice(&value[within..within + len]);
    })
}
