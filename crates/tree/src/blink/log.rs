//! The undo log of one node, for changes on strict media that are more than one 8-byte commit.
//!
//! Splits and merges of words need none (FAIR; docs/PAPERS.md, *Split*). Byte strings do: which of
//! their slots are void is told by the identities alone, so the half that a split moves must be
//! cleared slot by slot, and a merge gives every slot a new prefix. And *FAST+Logging* keeps one to
//! show what that costs.
//!
//! ```text
//! copy the node to the tree's log page; flush; fence      a crash: the log is not valid yet
//! anchor: logged := the node; flush; fence                a crash from here on: open copies it back
//! change the node in any order; flush; fence
//! anchor: logged := 0; flush; fence                       the change has happened
//! ```
//!
//! One change at a time: the anchor's latch is held from the first line to the last. The log page
//! keeps the words of the node, but for the kind, which says that it is a log.

use everleaf_pmem::{HEAD_WORDS, LINE_BYTES, Medium, Page, PageNo, Result, SEQ_WORD};
use everleaf_pool::kind::{self, KIND_WORD};

use crate::blink::descend::Blink;
use crate::node::{Kind, damaged};

/// Anchor word that names the tree's log page.
const LOG_WORD: usize = 3;
/// Anchor word that names the node whose copy in the log page counts; 0: none.
const LOGGED_WORD: usize = 4;
/// Anchor word that announces a merge.
pub(super) const MERGE_WORD: usize = 2;
const _: () = {
    // An anchor's words: the pool's root comes first, the kind and what is the medium's last.
    assert!(everleaf_pool::anchor::ROOT_WORD < MERGE_WORD && MERGE_WORD < LOG_WORD);
    assert!(LOG_WORD < LOGGED_WORD && LOGGED_WORD < KIND_WORD && KIND_WORD < SEQ_WORD);
};

/// Whether splits are logged.
pub(super) const fn logs_splits<M: Medium, K: Kind>() -> bool {
    !M::JOURNALED && K::LOGGED
}

/// Stores the name of a new log page into an anchor; what flushes the root flushes it, too.
pub(super) fn name_page<M: Medium>(m: &M, anchor: Page<'_>, log: PageNo) {
    m.store(anchor.head(LOG_WORD), u64::from(log));
}

/// Makes an empty log page.
pub(super) fn init<M: Medium>(m: &M, log: Page<'_>) {
    m.store(log.head(KIND_WORD), kind::pack(kind::LOG, 0, 0, 0));
    m.flush(log, 0);
    m.fence();
}

/// The log page of an anchor, if it has one.
pub(crate) fn page_of(anchor: Page<'_>) -> Option<PageNo> {
    Some(anchor.head(LOG_WORD).load() as PageNo).filter(|no| *no != 0)
}

/// Copies a node into or out of the log page; durable when it returns.
fn copy<M: Medium>(m: &M, from: Page<'_>, to: Page<'_>, to_kind: u8) {
    // The sequence number and the checksum belong to the medium.
    let words = (0..SEQ_WORD).chain(HEAD_WORDS..from.geometry().page_words());
    for i in words {
        let word = from.word(i).load();
        let word = if i == KIND_WORD { word & !0xff | u64::from(to_kind) } else { word };
        m.store(to.word(i), word);
    }
    for line in 0..from.geometry().page_bytes() / LINE_BYTES {
        m.flush(to, line);
    }
    m.fence();
}

fn set_logged<M: Medium>(m: &M, anchor: Page<'_>, no: PageNo) {
    debug_assert!(anchor.latch().is_held(), "one change at a time, under the anchor's latch");
    m.store(anchor.head(LOGGED_WORD), u64::from(no));
    m.flush(anchor, 0);
    m.fence();
}

impl<M: Medium, K: Kind> Blink<M, K> {
    /// Changes a node under the log; the caller holds its latch and the anchor's.
    pub(super) fn logged(&self, anchor: Page<'_>, node: Page<'_>, change: &mut dyn FnMut()) {
        let m = self.medium();
        let log = page_of(anchor).and_then(|no| m.page(no).ok()).expect("checked at open");
        debug_assert!(node.latch().is_held(), "page {} changes without its latch", node.no());
        debug_assert!(log.no() != node.no() && log.no() != anchor.no());
        debug_assert_eq!(anchor.head(LOGGED_WORD).load(), 0, "another change is under way");
        copy(m, node, log, kind::LOG);
        set_logged(m, anchor, node.no());
        change();
        set_logged(m, anchor, 0);
    }

    /// Undoes the change that a crash cut off. Comes before the first touch of any node.
    pub(super) fn undo_logged(&self) -> Result<()> {
        if !logs_splits::<M, K>() {
            return Ok(());
        }
        let m = self.medium();
        let (anchor, _held) = self.pool.latch(self.anchor())?;
        let log = match page_of(anchor).map(|no| self.pool.latch(no)).transpose()? {
            Some((log, _)) if kind::kind_of(log.head(KIND_WORD).load()) == kind::LOG => log,
            _ => return Err(damaged(anchor, "the anchor names no log page")),
        };
        let no = anchor.head(LOGGED_WORD).load();
        if no == 0 {
            return Ok(());
        }
        let node = PageNo::try_from(no).ok().and_then(|no| m.page(no).ok());
        let Some(node) = node.filter(|node| ![anchor.no(), log.no()].contains(&node.no())) else {
            return Err(damaged(anchor, format!("page {no} cannot have been logged")));
        };
        let mut held = node.latch().lock();
        copy(m, log, node, kind::NODE);
        // The next thread that touches it finds it as if for the first time.
        held.set_absent();
        drop(held);
        set_logged(m, anchor, 0);
        Ok(())
    }
}
