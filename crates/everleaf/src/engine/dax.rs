//! The store on persistent memory: every operation is durable when it returns.
//!
//! A batch keeps an undo list in the catalog, under the empty name, which no tree can have:
//!
//! ```text
//! writers out                      nobody else changes a key of the batch meanwhile
//! catalog[""] := old values        a crash from here on: the next open puts them back
//! apply the changes
//! remove catalog[""]               the batch has happened
//! ```
//!
//! After a crash the open gives back what leaked, by a walk over all trees, O(size of the pool), and
//! then undoes the batch. After a clean close there is nothing to do.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use everleaf_file::{Dax, Share};
use everleaf_pmem::{Medium, PageNo, fallible};
use everleaf_pool::{Pool, Wants, anchor};
use everleaf_tree::blink::Condition;
use everleaf_tree::slots::{Circular, Sentinel, Strings};
use everleaf_tree::{INDEX_ANCHOR, open_dax, reclaim};

use super::admission::{RightOfWay, Store};
use super::locks::Locks;
use super::medium::{DbMedium, DbTree};
use super::named_trees::NamedTrees;
use super::open_tree::OpenTree;
use super::open_tree::{Alone, TreeChanges, TreeHandle, apply_alone};
use super::reclaim::Reclaim;
use super::versions::{Closed, Gate};
use super::{forecast, undo};
use crate::{Error, Options, Result};

/// The catalog's key for the undo list.
const UNDO_KEY: &[u8] = b"";

const _: () = assert!(UNDO_KEY.is_empty(), "a tree could be called like that");

pub(crate) struct DaxStore {
    pub store: NamedTrees<Dax>,
    /// A batch could be neither finished nor undone: the next open undoes it.
    stuck: AtomicBool,
}

impl DaxStore {
    pub fn open(path: &Path, options: &Options, emulate: bool) -> Result<Self> {
        let dax_options = options.dax_options(emulate)?;
        let pool = Arc::new(open_dax::<Circular, Sentinel>(path, &dax_options)?);
        // Until all is recovered, an end leaves the pool marked unclean.
        pool.medium().set_recovering(true);
        // A reader cannot make what a crash kept from being made.
        let is_blank = || {
            let is_unmade = Pool::is_unmade(pool.medium())?;
            Ok::<_, Error>(is_unmade || DbTree::<Dax>::is_rootless(&pool, INDEX_ANCHOR)?)
        };
        let blank = options.read_only && is_blank()?;
        let store = NamedTrees::open(pool, blank, options)?;
        let on = Self { store, stuck: AtomicBool::new(false) };
        let recovered = on.recover()?;
        on.store.find_dropped()?;
        on.store.medium().set_recovering(!recovered);
        Ok(on)
    }

    /// Whether what nobody names is damage, and not what a crash may leave until an open for writing
    /// has given it back.
    pub fn is_recovered(&self) -> bool {
        self.store.medium().was_clean() || !self.store.read_only
    }

    /// Completes what a crash cut off. False if damage is in the way of some of it: `check` tells
    /// of it, and so does who reads what is damaged; the next open tries again.
    fn recover(&self) -> Result<bool> {
        let Some(catalog) =
            self.store.catalog.as_ref().filter(|_| !self.store.medium().was_clean())
        else {
            return Ok(true);
        };
        // An operation that a crash has cut off may say otherwise: the open looks again when all is recovered.
        self.store.find_dropped()?;
        let recovered = sound(self.complete_trees().and_then(|()| {
            // Before the batch is undone, which may need the pages.
            if self.store.read_only { Ok(()) } else { self.reclaim() }
        }))?;
        if let Some(list) = catalog.get(UNDO_KEY)? {
            if self.store.read_only {
                let what = "a crash has cut off a batch: open the pool for writing once";
                return Err(Error::Unrecovered { what: what.into() });
            }
            self.undo(&list)?;
        }
        Ok(recovered)
    }

    /// Keeps how many pairs trees have, for the next open, if this is the first end of the pool.
    fn keep_counts(&self) {
        let dax = self.store.medium();
        if dax.alive().is_err() || dax.enter().is_err() {
            return;
        }
        for anchor in self.store.open_anchors() {
            // A number that is not kept is counted again.
            if let (Ok(Some(pairs)), Ok((page, _held))) =
                (dax.counted(anchor), self.store.pool.latch(anchor))
            {
                anchor::set_pairs(dax, page, Some(pairs));
            }
        }
    }

    /// Opening a tree completes what a crash cut off in it. All are opened, whatever some are like.
    fn complete_trees(&self) -> Result<()> {
        let mut first_error = Ok(());
        for (_, anchor) in self.store.entries()?.iter() {
            first_error = first_error.and(self.store.tree_at(anchor).map(drop));
        }
        first_error
    }

    fn reclaim(&self) -> Result<()> {
        let mut reports = Vec::new();
        self.store.reports(true, |_, report| {
            fallible::push(&mut reports, report, "the reports of all trees")
        })?;
        for report in reports.iter().filter(|report| report.damages.is_empty()) {
            self.store.medium().know_count(report.anchor, report.entries)?;
        }
        reclaim(&self.store.pool, &reports).map(drop)
    }

    /// Applies all changes or none, also if there is a crash; durable when it returns.
    pub fn commit(&self, batch: &[TreeChanges<'_>], alone: Option<&Alone<'_>>) -> Result<()> {
        let Some(catalog) = self.store.catalog.as_ref().filter(|_| !self.store.read_only) else {
            return Err(Error::ReadOnly);
        };
        let closed = self.store.gate.close();
        self.expect_sound()?;
        batch.iter().try_for_each(TreeChanges::expect_tree)?;
        alone.map_or(Ok(()), |alone| (alone.validate)(&|_| false))?;
        if let [part @ TreeChanges { changes: [change], .. }] = batch {
            return apply_alone(&self.store.versions, part, change, alone);
        }
        let mut places = forecast::Places::default();
        let places = places.of(batch)?;
        forecast::touch(batch, places)?;
        let (pool, list) = (&self.store.pool, undo::list(batch)?);
        // And for the undo list: a record, its extents, and a split of the catalog's leaf.
        let mut wants = forecast::tight(pool, batch, places)?;
        wants += Wants { pages: 6, extents: pool.wants_of_pair(0, list.len()).extents };
        let _room = pool.promise(wants)?;
        if let Some(alone) = alone {
            alone.begin();
        }
        let _changing = self.store.versions.begin_whole();
        let apply = || forecast::apply(batch, places).map_err(|(_, error)| error);
        self.all_or_none(&closed, catalog, &list, apply)
    }

    /// Makes the changes that the undo list is for, or none, with the gate closed.
    fn all_or_none(
        &self,
        _closed: &Closed<'_>,
        catalog: &DbTree<Dax>,
        list: &[u8],
        apply: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        debug_assert!(!self.stuck.load(Ordering::Acquire), "one undo list would replace another");
        catalog.set(UNDO_KEY, list, Condition::Always)?;
        // Also if the thread panics: nobody may write over what the next open undoes.
        self.stuck.store(true, Ordering::Release);
        let applied = apply();
        match applied {
            Ok(()) => catalog.delete(UNDO_KEY).map(drop),
            Err(_) => self.undo(list),
        }?;
        self.stuck.store(false, Ordering::Release);
        applied
    }

    /// Nobody may write any more, and the next open looks for what was cut off.
    pub fn poison(&self) {
        self.stuck.store(true, Ordering::Release);
    }

    /// Makes a tree, unless another thread was faster.
    pub fn make_tree(&self, name: &str) -> Result<Arc<OpenTree<Dax>>> {
        self.pass(|| self.store.make_tree(name))
    }

    /// Gives a tree another name, if it is there.
    pub fn rename_tree(&self, from: &str, to: &str) -> Result<bool> {
        let _names = self.store.names();
        let closed = self.store.gate.close();
        self.expect_sound()?;
        let catalog = self.store.writable_catalog()?;
        let Some(anchor) = self.store.anchor_to_rename(from, to)? else { return Ok(false) };
        let mut list = Vec::new();
        undo::push(&mut list, (INDEX_ANCHOR, to.as_bytes(), None))?;
        undo::push(&mut list, (INDEX_ANCHOR, from.as_bytes(), Some(&anchor.to_le_bytes())))?;
        self.all_or_none(&closed, catalog, &list, || {
            self.store.set_name(to.as_bytes(), Some(anchor))?;
            self.store.set_name(from.as_bytes(), None)
        })?;
        Ok(true)
    }

    /// Puts old values back, the last one first, and forgets them. A value that was not changed is not stored again:
    /// that would take room which a full pool does not have.
    fn undo(&self, list: &[u8]) -> Result<()> {
        for (anchor, key, old) in undo::read(list)?.into_iter().rev() {
            if anchor == INDEX_ANCHOR {
                if self.store.writable_catalog()?.get(key)?.as_deref() == old {
                    continue;
                }
                let old = old.map(|old| old.try_into().map(PageNo::from_le_bytes));
                let damaged = |_| Error::corrupt(0, "an undo list names a tree by no page");
                self.store.set_name(key, old.transpose().map_err(damaged)?)?;
                continue;
            }
            let tree = TreeHandle::Dax(self.store.tree_at(anchor)?);
            if tree.get(key)?.as_deref() == old {
                continue;
            }
            match old {
                Some(old) => tree.put(key, old),
                None => tree.delete(key),
            }?;
        }
        match &self.store.catalog {
            Some(catalog) => catalog.delete(UNDO_KEY).map(drop),
            None => Ok(()),
        }
    }
}

/// On persistent memory each store must leave a node that the next open can mend, so slots are of one
/// size and pairs are in records.
impl DbMedium for Dax {
    type Nodes = (Circular, Sentinel, Strings);

    fn identity(&self) -> [u8; 16] {
        self.uuid()
    }

    /// No page takes memory of the process here.
    fn share_memory(&self, options: &Options) -> Share {
        Share::new(&options.memory_budget().0)
    }

    fn know_count(&self, anchor: PageNo, pairs: u64) -> Result<()> {
        Dax::know_count(self, anchor, pairs)
    }

    /// The anchor says how many pairs there are after a close, and nothing while somebody writes: no crash can
    /// leave a number that is wrong.
    fn begin_count(pool: &Pool<Self>, anchor: PageNo, is_new: bool) -> Result<()> {
        if pool.medium().counted(anchor)?.is_some() && !is_new {
            return Ok(());
        }
        let (page, _held) = pool.latch(anchor)?;
        let pairs = if is_new { Some(0) } else { anchor::pairs_of(page) };
        if pairs.is_some() && pool.medium().enter().is_ok() {
            anchor::set_pairs(pool.medium(), page, None);
        }
        pairs.map_or(Ok(()), |pairs| pool.medium().know_count(anchor, pairs))
    }
}

impl Store for DaxStore {
    #[inline(always)]
    fn alive(&self) -> Result<()> {
        self.store.medium().alive()
    }

    #[inline(always)]
    fn way(&self) -> &RightOfWay {
        &self.store.way
    }

    #[inline(always)]
    fn locks(&self) -> &Locks {
        &self.store.locks
    }

    #[inline(always)]
    fn gate(&self) -> &Gate {
        &self.store.gate
    }

    fn expect_sound(&self) -> Result<()> {
        if !self.stuck.load(Ordering::Acquire) {
            return Ok(());
        }
        let what =
            "a batch was cut off and could not be undone: open the pool again, larger if full";
        Err(Error::Poisoned { cause: Arc::new(Error::Interrupted { what }) })
    }

    fn why(&self, error: Error) -> Error {
        error
    }

    fn free_room(&self) -> Result<bool> {
        Reclaim::reclaim(self)
    }

    /// Everything is durable.
    fn sync(&self) -> Result<()> {
        Ok(())
    }

    /// Marks the pool clean.
    fn close(&self) -> Result<()> {
        let _closed = self.store.gate.close();
        if self.stuck.load(Ordering::Acquire) {
            self.store.medium().set_recovering(true);
        }
        self.keep_counts();
        self.store.medium().close();
        Ok(())
    }

    #[inline(always)]
    fn alive_after_read(&self) -> Result<()> {
        self.alive()
    }
}

impl Reclaim for DaxStore {
    type Medium = Dax;

    fn trees(&self) -> &NamedTrees<Dax> {
        &self.store
    }

    /// A crash after the key is gone leaks the rest, which the next open gives back.
    fn finish(&self, tree: &OpenTree<Dax>, key: &[u8]) -> Result<()> {
        self.expect_sound()?;
        self.store.forget(tree, key).map_err(|error| match error {
            Error::Poisoned { cause } => {
                self.store.medium().set_recovering(true);
                self.why((*cause).clone())
            }
            error => self.why(error),
        })
    }

    /// A crash before the catalog knows leaks the empty one, which the next open gives back.
    fn part_from(&self, name: &str, tree: &Arc<OpenTree<Dax>>, stays: bool) -> Result<u64> {
        let catalog = self.store.writable_catalog()?;
        let closed = self.store.gate.close();
        self.expect_sound()?;
        let pairs = self.store.medium().counted(tree.anchor())?.unwrap_or(0);
        let (parting, anchor) = (self.store.part(tree, stays)?, tree.anchor());
        let next = parting.next_anchor();
        let mut list = Vec::new();
        undo::push(&mut list, (INDEX_ANCHOR, &parting.key, None))?;
        undo::push(&mut list, (INDEX_ANCHOR, name.as_bytes(), Some(&anchor.to_le_bytes())))?;
        let renamed = self.all_or_none(&closed, catalog, &list, || {
            self.store.set_name(&parting.key, Some(anchor))?;
            self.store.set_name(name.as_bytes(), next)
        });
        if let Err(error) = renamed {
            if !self.stuck.load(Ordering::Acquire) && self.store.stay(parting).is_err() {
                self.store.medium().set_recovering(true);
            }
            return Err(error);
        }
        self.store.leave(parting);
        Ok(pairs)
    }

    fn goes_on(&self) -> bool {
        !self.store.read_only && self.store.medium().alive().is_ok() && self.expect_sound().is_ok()
    }
}

impl Drop for DaxStore {
    fn drop(&mut self) {
        // In a fork somebody may have the gate for ever.
        if self.store.medium().alive().is_ok() && !std::thread::panicking() {
            let _ = self.close();
        }
    }
}

/// Whether nothing was damaged; other errors stay errors.
fn sound(outcome: Result<()>) -> Result<bool> {
    match outcome {
        Ok(()) => Ok(true),
        Err(Error::Corrupt { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}
