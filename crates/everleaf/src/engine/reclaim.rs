//! How [dropped](super::dropped) trees go away.

use std::ops::Deref;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use everleaf_file::workers::{Job, Length, Task};

use everleaf_pmem::{Medium, PageNo, fallible};

use super::admission::Store;
use super::dropped::{DROPPED, Dropped, NamelessKey, nameless_key};
use super::medium::{DbMedium, DbTree};
use super::named_trees::NamedTrees;
use super::open_tree::OpenTree;
use super::sync::{Mutex, MutexGuard, lock};
use crate::{Error, Result};

/// A caller that drops a tree while so many others wait reclaims some of them itself.
const MANY_DROPPED: u64 = 256;

/// A store that reclaims trees.
pub(crate) trait Reclaim: Store {
    type Medium: DbMedium;

    fn trees(&self) -> &NamedTrees<Self::Medium>;

    /// Gives back the pages of a tree that holds no pair any more, and its key. The caller is inside of the gate, or
    /// alone.
    fn finish(&self, tree: &OpenTree<Self::Medium>, key: &[u8]) -> Result<()>;

    /// Takes from a tree what it has, and its name unless it `stays` as an empty one: at once, also for a crash.
    /// Says how many pairs it had.
    ///
    /// # Errors
    /// As a write; Full if there is no room for what takes its place.
    fn part_from(&self, name: &str, tree: &Arc<OpenTree<Self::Medium>>, stays: bool)
    -> Result<u64>;

    /// Whether somebody may write.
    fn goes_on(&self) -> bool;

    /// Removes a tree with all that it holds; says whether there was one.
    fn drop_tree(&self, name: &str) -> Result<bool> {
        let trees = self.trees();
        trees.writable_catalog()?;
        let _names = trees.names();
        let Some(tree) = trees.find_tree(name)? else { return Ok(false) };
        match self.part_from(name, &tree, false) {
            Err(Error::Full { .. }) => self.drop_slowly(name, &tree)?,
            parted => drop(parted?),
        }
        Ok(true)
    }

    /// Takes all pairs out of a tree; says how many there were. `likely` is a name that it had.
    ///
    /// # Errors
    /// Those of [`part_from`](Self::part_from).
    fn clear(&self, tree: &Arc<OpenTree<Self::Medium>>, likely: &str) -> Result<u64> {
        let trees = self.trees();
        trees.writable_catalog()?;
        let _names = trees.names();
        if trees.medium().counted(tree.anchor())?.is_none() {
            // Before anybody waits.
            trees.len(tree)?;
        }
        let name = trees.name_of(tree.anchor(), likely)?.ok_or(Error::NoTree)?;
        self.part_from(&name, tree, true)
    }

    /// Removes a part of the dropped trees that no snapshot needs. Says whether there is more to do now.
    ///
    /// # Errors
    /// Those of a write.
    fn reclaim_some(&self) -> Result<bool> {
        let trees = self.trees();
        if trees.dropped.count() == 0 || !self.goes_on() {
            return Ok(false);
        }
        self.reclaim_in_turn(trees.dropped.hold())
    }

    /// The same, for who drops trees faster than they are reclaimed, unless somebody is at it.
    ///
    /// # Errors
    /// Those of a write.
    fn reclaim_with_others(&self) -> Result<()> {
        let dropped = &self.trees().dropped;
        if dropped.count() > MANY_DROPPED
            && let Some(turn) = dropped.try_hold()
        {
            self.reclaim_in_turn(turn)?;
        }
        Ok(())
    }

    fn reclaim_in_turn(&self, _turn: MutexGuard<'_, ()>) -> Result<bool> {
        let trees = self.trees();
        let next = trees.dropped.first().filter(|one| !trees.versions.is_needed(one.tree.until()));
        let Some(dropped) = next else { return Ok(false) };
        let key = nameless_key(dropped.tree.anchor());
        let reclaimed = self.reclaim_part(&dropped, &key);
        if let Err(Error::Corrupt { .. }) = &reclaimed {
            dropped.is_stuck.store(true, Ordering::Relaxed);
            return Ok(true);
        }
        reclaimed.map(|()| true)
    }

    fn reclaim_part(&self, dropped: &Arc<Dropped<Self::Medium>>, key: &[u8]) -> Result<()> {
        // Steps that are made before others have a turn.
        const PART: usize = 64;
        // Of a snapshot that was given up somebody may be reading still.
        dropped.tree.end();
        if let Some(was) = &dropped.was {
            was.forget(&dropped.tree);
        }
        for _ in 0..PART {
            if !self.enter(|| dropped.tree.tree().strip())? {
                let _pass = self.gate().pass();
                self.finish(&dropped.tree, key)?;
                self.trees().dropped.remove(dropped);
                return Ok(());
            }
        }
        Ok(())
    }

    /// Whether there are dropped trees that go when no snapshot needs them any more.
    fn waits(&self) -> bool {
        self.trees().dropped.first().is_some()
    }

    /// Removes all dropped trees that no snapshot needs; says whether there were any.
    fn reclaim(&self) -> Result<bool> {
        let mut some = false;
        // Each time less is left of the trees that were dropped; who drops many others takes a part in it.
        while self.reclaim_some()? {
            some = true;
        }
        Ok(some)
    }

    /// Removes a tree that keeps its name until it is gone, for want of room to do without.
    fn drop_slowly(&self, name: &str, tree: &Arc<OpenTree<Self::Medium>>) -> Result<()> {
        let life = tree.end();
        // Nothing of what it has is kept for snapshots. Others are made while it goes, and see a part of it.
        let give_up = || {
            let closed = self.gate().close();
            self.trees().versions.give_up_all();
            closed
        };
        drop(give_up());
        let emptied = || -> Result<()> {
            while self.enter(|| tree.tree().strip())? {}
            let _alone = give_up();
            self.finish(tree, name.as_bytes())
        };
        emptied().inspect_err(|_| {
            let _closed = give_up();
            tree.go_on(life);
        })
    }
}

/// A tree that is about to be what it is not any more; see [`NamedTrees::part`].
pub(super) struct Parting<M: DbMedium> {
    tree: Arc<OpenTree<M>>,
    dropped: Arc<Dropped<M>>,
    /// The tree that it will be.
    next: Option<DbTree<M>>,
    pub key: NamelessKey,
}

impl<M: DbMedium> Parting<M> {
    pub fn next_anchor(&self) -> Option<PageNo> {
        self.next.as_ref().map(DbTree::<M>::anchor)
    }
}

impl<M: DbMedium> NamedTrees<M> {
    /// Prepares a tree for [`leave`](Self::leave), or [`stay`](Self::stay) if that cannot be; the caller keeps
    /// writers out from here to there. It will be an empty tree if it `stays`.
    pub(super) fn part(&self, tree: &Arc<OpenTree<M>>, stays: bool) -> Result<Parting<M>> {
        // Another tree may have its anchor by now.
        tree.writable()?;
        tree.make_room()?;
        self.dropped.make_room()?;
        let (pool, anchor) = (Arc::clone(&self.pool), tree.anchor());
        let former = tree.as_former(DbTree::<M>::open(pool, anchor)?, self.versions.end_stamp());
        let dropped = Dropped::new(former, Some(Arc::clone(tree)));
        let next = if stays { Some(self.new_tree_for(tree)?) } else { None };
        Ok(Parting { tree: Arc::clone(tree), dropped, next, key: nameless_key(anchor) })
    }

    /// The tree is what it was.
    pub(super) fn stay(&self, parting: Parting<M>) -> Result<()> {
        parting.next.as_ref().map_or(Ok(()), |next| self.discard_new(next))
    }

    /// The catalog knows that the tree is another one now, or none. Needs no memory.
    pub(super) fn leave(&self, parting: Parting<M>) {
        let Parting { tree, dropped, next, .. } = parting;
        self.unlist(tree.anchor(), || {
            tree.leave(&dropped.tree, next);
            self.dropped.add(dropped);
        });
    }

    /// Looks for trees that were dropped, and of which a crash or a close has left something.
    ///
    /// # Errors
    /// Those of a read; NoMemory.
    pub fn find_dropped(&self) -> Result<()> {
        let mut found = Vec::new();
        for anchor in self.nameless()? {
            // One that cannot even be opened stays as it is; a check tells of its pages.
            let tree = match DbTree::<M>::open(Arc::clone(&self.pool), anchor) {
                Err(Error::Corrupt { .. }) => continue,
                tree => OpenTree::found(tree?, &self.versions),
            };
            fallible::push(&mut found, Dropped::new(tree, None), DROPPED)?;
        }
        self.dropped.set(found);
        Ok(())
    }
}

/// When it is looked again whether snapshots still need what was dropped, or whether writes go on.
const REST: Duration = Duration::from_millis(50);

/// A store with a thread for what was dropped, as long as there is something. Without threads the calls do that
/// themselves that would wake one.
pub(crate) struct Background<S: Reclaim> {
    /// Before the store, which it uses.
    task: Mutex<Option<Task>>,
    has_threads: bool,
    pub store: Arc<S>,
}

impl<S: Reclaim> Deref for Background<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.store
    }
}

impl<S: Reclaim> Background<S> {
    /// Goes on with what an earlier process has not finished.
    pub fn new(store: S, has_threads: bool) -> Self {
        let background = Self { task: Mutex::default(), has_threads, store: Arc::new(store) };
        background.reclaim_soon();
        background
    }

    /// Something was dropped: it is to go. A failure leaves it for later, or for the next open.
    pub fn reclaim_soon(&self) {
        if self.trees().dropped.count() == 0 || !self.goes_on() {
            return;
        }
        if !self.has_threads {
            let _ = self.reclaim();
            return;
        }
        let mut task = lock(&self.task);
        if task.is_none() {
            let job = Reclaimer { store: Arc::downgrade(&self.store) };
            *task = Task::new(Length::Long, Box::new(job)).ok();
        }
        if let Some(task) = &*task {
            task.waker().wake();
        }
        drop(task);
        let _ = self.reclaim_with_others();
    }

    /// Without threads: what snapshots have kept from going may go by now.
    fn reclaim_alone(&self) {
        if !self.has_threads {
            self.reclaim_soon();
        }
    }

    /// Before the pool ends: nobody uses it in the background any more.
    pub fn stop(&self) {
        let task = lock(&self.task).take();
        drop(task);
    }

    /// Makes everything durable that was written.
    pub fn sync(&self) -> Result<()> {
        self.alive()?;
        self.reclaim_alone();
        self.store.sync()
    }

    /// Closes the pool, and gives its lock back whatever handles live on. A second time it says what
    /// it said the first time.
    pub fn close(&self) -> Result<()> {
        if let Err(error @ Error::Forked) = self.alive() {
            return Err(error);
        }
        self.stop();
        self.store.close()
    }
}

impl<S: Reclaim> Drop for Background<S> {
    fn drop(&mut self) {
        // A caller that wants to hear of an error calls `Db::close`.
        let _ = self.close();
    }
}

struct Reclaimer<S> {
    store: Weak<S>,
}

impl<S: Reclaim> Job for Reclaimer<S> {
    fn run(&mut self) -> Option<Duration> {
        let store = self.store.upgrade()?;
        if store.trees().dropped.count() == 0 || !store.goes_on() {
            return None;
        }
        match store.reclaim_some() {
            Ok(true) => Some(Duration::ZERO),
            Ok(false) | Err(_) => store.waits().then_some(REST),
        }
    }

    /// The next open goes on.
    fn broke(&mut self) {}
}
