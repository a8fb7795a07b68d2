//! Map pages: one byte a page says who owns it.
//!
//! Page `g × G` maps the pages `g × G … g × G + G − 1`, itself first, where `G` is the number of
//! bytes in a body. Groups come into being in order, so the walk at open ends at the first page
//! whose own byte is not [`MAP`](crate::kind::MAP).
//!
//! ```text
//! w1 role: 0 pages, 1 extents | w5 kind | body byte i: the owner of page g × G + i
//! ```
//!
//! A group serves pages or extents for ever. Extents are written to disk directly, around the
//! journal. Were a page number to change sides, a late checkpoint of the page would overwrite the
//! extent, and the first fetch of a page would find an extent's bytes where its checksum should be.
//!
//! Media in this file: `store` then, on strict media, `flush`; the caller fences, because it knows
//! what else the fence can cover.

use everleaf_pmem::{Change, Error, Geometry, Medium, Page, PageNo, Result, fallible};

use crate::change::{TAG_FREE_PAGE, TAG_MAP, TAG_MAP_INIT, damaged, fence, flush};
use crate::kind::{EXTENT_TAIL, FREE, KIND_WORD, LOG, MAP, kind_of, pack};

/// Header word that holds the group's role.
const ROLE_WORD: usize = 1;

const _: () = assert!(ROLE_WORD != KIND_WORD);
const _: () = assert!(EXTENT_TAIL < LOG, "the log is the last owner that a map may hold");

/// The use of a group's pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Nodes, record pages, anchors.
    Pages = 0,
    /// Extents.
    Extents = 1,
}

impl Role {
    pub fn from_word(word: u64) -> Option<Self> {
        match word {
            0 => Some(Role::Pages),
            1 => Some(Role::Extents),
            _ => None,
        }
    }
}

/// Consecutive pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRun {
    /// The first page.
    pub first: PageNo,
    /// How many.
    pub pages: u32,
}

/// Pages in one group.
pub(crate) fn group_pages(geometry: Geometry) -> u32 {
    16 * geometry.slots() as u32
}

/// The byte that a map page holds at `index`.
pub(crate) fn byte(page: Page<'_>, index: u32) -> u8 {
    (page.body_word(index as usize / 8).load() >> (8 * (index % 8))) as u8
}

/// The owners of a group's pages, read at once; one that is unknown is damage.
pub(crate) fn owners(page: Page<'_>) -> Result<Vec<u8>> {
    let words = 2 * page.slots();
    let mut owners = fallible::list(8 * words, "the owners of pages")?;
    owners.extend((0..words).flat_map(|j| page.body_word(j).load().to_le_bytes()));
    if let Some(i) = owners.iter().position(|owner| *owner > LOG) {
        let what = format!("the map holds an unknown owner {}", owners[i]);
        return Err(damaged(page, 64 + i, what));
    }
    Ok(owners)
}

/// The role of a map page's group, or what is wrong with the page.
pub(crate) fn role(page: Page<'_>) -> Result<Role> {
    if kind_of(page.head(KIND_WORD).load()) != MAP {
        return Err(damaged(page, 8 * KIND_WORD, "a map page whose header says otherwise"));
    }
    Role::from_word(page.head(ROLE_WORD).load())
        .ok_or_else(|| damaged(page, 8 * ROLE_WORD, "a map page of unknown role"))
}

/// Sets `len` bytes from `first` and starts to write them back. O(len / 8).
pub(crate) fn set_run<M: Medium>(m: &M, page: Page<'_>, first: u32, len: u32, value: u8) {
    debug_assert!(len > 0 && first + len <= group_pages(page.geometry()), "a run in one group");
    let (first, end) = (first as usize, (first + len) as usize);
    let all = u64::from_ne_bytes([value; 8]);
    for j in first / 8..end.div_ceil(8) {
        let (from, to) = (first.max(8 * j) - 8 * j, end.min(8 * j + 8) - 8 * j);
        let mask = (u64::MAX >> (64 - 8 * (to - from))) << (8 * from);
        let word = page.body_word(j);
        m.store(word, word.load() & !mask | all & mask);
    }
    for line in page.body_word(first / 8).line()..=page.body_word((end - 1) / 8).line() {
        flush(m, page, line);
    }
}

/// Makes a map page in which only the page itself is taken. Complete when it returns, except for
/// the fence of the last store, the page's own byte: until that is durable there is no such group.
/// Words are cleared only where a medium was not empty.
pub(crate) fn init<M: Medium>(m: &M, page: Page<'_>, role: Role) {
    for i in [0, 2, 3, 4] {
        m.store(page.head(i), 0);
    }
    m.store(page.head(ROLE_WORD), role as u64);
    m.store(page.head(KIND_WORD), pack(MAP, 0, 0, 0));
    flush(m, page, 0);
    for j in 0..2 * page.slots() {
        let word = page.body_word(j);
        if word.load() != 0 {
            m.store(word, 0);
            flush(m, page, word.line());
        }
    }
    fence(m);
    set_run(m, page, 0, 1, MAP);
}

/// [`init`], and a note for the journal.
pub(crate) fn make<M: Medium>(m: &M, op: &mut M::Op<'_>, page: Page<'_>, role: Role) {
    debug_assert!(
        page.no().is_multiple_of(group_pages(page.geometry())),
        "page {} is not the first of its group",
        page.no()
    );
    init(m, page, role);
    m.note(op, page, Change { tag: TAG_MAP_INIT, bytes: &[role as u8] });
}

/// [`set_run`], and a note for the journal.
pub(crate) fn change<M: Medium>(
    m: &M,
    op: &mut M::Op<'_>,
    page: Page<'_>,
    run: (u32, u32),
    to: u8,
) {
    let (first, len) = run;
    debug_assert!(page.latch().is_held(), "the map changes under the latch of its page");
    debug_assert!(first > 0 && byte(page, 0) == MAP, "the map page stays its own");
    debug_assert!(
        if to == FREE { byte(page, first) != FREE } else { is_run(page, first, len, FREE, FREE) },
        "{len} pages from {first} on become {to}: a page has one owner"
    );
    debug_assert!(first + len <= u32::from(u16::MAX), "the operands have 16 bits");
    set_run(m, page, first, len, to);
    let [f0, f1] = (first as u16).to_le_bytes();
    let [l0, l1] = (len as u16).to_le_bytes();
    m.note(op, page, Change { tag: TAG_MAP, bytes: &[f0, f1, l0, l1, to] });
}

/// Whether the map says that a page is free.
fn is_free<M: Medium>(m: &M, page: Page<'_>) -> bool {
    let index = page.no() % group_pages(page.geometry());
    m.page(page.no() - index).is_ok_and(|map| byte(map, index) == FREE)
}

/// Says in the header of a page that it is free. The caller has latched the page.
///
/// On strict media call it after [`Step::publish_free`](crate::Step::publish_free), because the header
/// must not contradict the map's byte until that is durable. The header itself need not be durable.
pub fn note_free<M: Medium>(m: &M, op: &mut M::Op<'_>, page: Page<'_>) {
    debug_assert!(page.latch().is_held(), "the caller has latched the page");
    debug_assert!(M::JOURNALED || is_free(m, page), "the header says so after the map");
    m.store(page.head(KIND_WORD), 0);
    m.note(op, page, Change { tag: TAG_FREE_PAGE, bytes: &[] });
}

/// Redoes a [`change`].
pub(crate) fn redo_change<M: Medium>(m: &M, page: Page<'_>, operands: &[u8]) -> Result<()> {
    let &[f0, f1, l0, l1, to] = operands else {
        return Err(damaged(page, 0, "a map change of the wrong length"));
    };
    let first = u32::from(u16::from_le_bytes([f0, f1]));
    let len = u32::from(u16::from_le_bytes([l0, l1]));
    if len == 0 || first + len > group_pages(page.geometry()) {
        return Err(damaged(page, 0, format!("a map change of {len} bytes at {first}")));
    }
    set_run(m, page, first, len, to);
    Ok(())
}

/// Redoes a [`make`].
pub(crate) fn redo_make<M: Medium>(m: &M, page: Page<'_>, operands: &[u8]) -> Result<()> {
    let role = match operands {
        &[role] => Role::from_word(u64::from(role)),
        _ => None,
    };
    let role = role.ok_or_else(|| damaged(page, 0, "a map page of unknown role"))?;
    init(m, page, role);
    Ok(())
}

/// Whether `len` bytes from `first` are `first_byte` and then all `rest`.
pub(crate) fn is_run(page: Page<'_>, first: u32, len: u32, first_byte: u8, rest: u8) -> bool {
    byte(page, first) == first_byte && (first + 1..first + len).all(|i| byte(page, i) == rest)
}

/// Checks that a run lies in one group, below the limit, and not on the map page; gives the group
/// and the index in it.
pub(crate) fn locate<M: Medium>(m: &M, first: PageNo, len: u32) -> Result<(u32, u32)> {
    let per_group = group_pages(m.geometry());
    let (group, index) = (first / per_group, first % per_group);
    let end = u64::from(first) + u64::from(len);
    let fits = u64::from(index) + u64::from(len) <= u64::from(per_group);
    if index == 0 || len == 0 || !fits || end > u64::from(m.limit()) {
        let offset = m.page(first).map_or(0, |page| page.file_offset());
        return Err(Error::corrupt(offset, format!("{len} pages from {first} are no run")));
    }
    Ok((group, index))
}

#[cfg(test)]
mod tests {
    use super::*;
    use everleaf_pmem::Dram;

    #[test]
    fn runs_change_their_bytes_and_no_others() {
        runs_of(Geometry::new(4).expect("valid"), 1);
        runs_of(Geometry::whole(512).expect("valid"), 13);
    }

    /// Sets runs that begin at each `step`, of each length that is one more than a multiple of it.
    fn runs_of(geometry: Geometry, step: usize) {
        let (m, all) = (Dram::new(geometry, 2).expect("memory"), group_pages(geometry));
        let page = m.page(0).expect("there");
        let mut model = vec![0u8; all as usize];
        for first in (0..all).step_by(step) {
            for len in (1..=all - first).step_by(step) {
                let value = (first * 7 + len) as u8;
                set_run(&m, page, first, len, value);
                model[first as usize..(first + len) as usize].fill(value);
                assert!((0..all).all(|i| byte(page, i) == model[i as usize]));
            }
        }
        init(&m, page, Role::Extents);
        assert_eq!(role(page).expect("a map page"), Role::Extents);
        assert!(is_run(page, 0, all, MAP, FREE));
    }

    #[test]
    fn runs_outside_of_a_group_or_the_pool_are_refused() {
        let geometry = Geometry::new(4).expect("valid");
        let all = group_pages(geometry);
        let m = Dram::new(geometry, all + 10).expect("memory");
        let fits = |first, len| locate(&m, first, len);
        assert_eq!(fits(1, all - 1).expect("all but the map"), (0, 1));
        assert_eq!(fits(all + 1, 9).expect("up to the end of the pool"), (1, 1));
        let wrong = [(0, 1), (all, 1), (1, 0), (2, all - 1), (all - 1, 2), (all + 1, 10)];
        for (first, len) in wrong {
            let refused = fits(first, len);
            assert!(matches!(refused, Err(Error::Corrupt { .. })), "{len} from {first}");
        }
        let page = m.page(0).expect("there");
        init(&m, page, Role::Extents);
        let redo = |first: u32, len: u32| {
            let (first, len) = ((first as u16).to_le_bytes(), (len as u16).to_le_bytes());
            redo_change(&m, page, &[first[0], first[1], len[0], len[1], 9])
        };
        for (first, len) in [(1, 0), (1, all), (all, 1), (0xffff, 0xffff)] {
            let refused = redo(first, len);
            assert!(matches!(refused, Err(Error::Corrupt { .. })), "{len} bytes at {first}");
        }
        redo(1, all - 1).expect("it is on the page");
        assert!(is_run(page, 1, all - 1, 9, 9));
    }
}
