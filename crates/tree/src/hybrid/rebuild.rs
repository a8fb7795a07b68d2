//! Recovery (§4.3): every leaf goes back to the end of the last durable epoch, and the inner nodes
//! are built anew. Also after a clean end, since inner nodes live in DRAM.
//!
//! ```text
//! read     all pages that the map calls nodes, in parallel: lowest and greatest key that the
//!          durable epoch shows, sibling                                    (stores nothing)
//! chain    from the first leaf along the siblings, over what has been read: order, cycles; leaves
//!          that show nothing are left out; entries that a split cut off by the crash has left in
//!          both leaves are dropped from the left one (docs/PAPERS.md, B18), and so are those of a merge
//! mend     the leaves of the chain, in parallel: roll back, link, range, entry in the inner nodes
//! return   pages that are nodes and not in the chain: leaked, or just left out
//! ```
//!
//! Nothing is stored before the whole chain has been found sound. The stores do not change
//! what the durable epoch shows, and the epoch's own word stays as it is, so a crash in here is like
//! none: the next rebuild finds the same (docs/PAPERS.md, B17). Steps begin only after it, and then
//! no leaf knows of the lost epochs, whose numbers are used again.
//!
//! The paper's 200 µs for 10 M pairs would mean to read 922 GB/s (docs/PAPERS.md, B21).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use everleaf_pmem::{Buffered, Dram, Error, Medium, Page, PageNo, Result};
use everleaf_pool::{Leaks, Pool, kind};

use crate::bug::{self, Bug};
use crate::hybrid::epoch_bitmap::{
    epoch_of, find, is_leaf, key_of, link, ones, roll_back, sibling, value_of, visible, wipe,
};
use crate::hybrid::frame::{LeafRange, range, set_range};
use crate::hybrid::tree::{Hybrid, enter_inner};
use crate::named::CircTree;
use crate::node::damaged;

/// Leaves that one thread takes at a time.
const PORTION: usize = 4096;

/// How far a rebuild is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Pages read, and leaves mended, so far.
    pub done: u64,
    /// Pages to be read, and to be mended at most.
    pub total: u64,
}

/// How a tree is rebuilt.
pub struct Rebuild<'a> {
    /// Threads that read and mend; 0: as many as the machine has processors.
    pub threads: usize,
    /// Told after each portion, by the thread that did it.
    pub progress: &'a (dyn Fn(Progress) + Sync),
}

impl Default for Rebuild<'_> {
    fn default() -> Self {
        Self { threads: 0, progress: &|_| {} }
    }
}

/// The result of a rebuild.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rebuilt {
    /// The epoch whose end the tree is at.
    pub epoch: u64,
    /// Leaves in the chain.
    pub leaves: u64,
    /// Leaves that had changes of lost epochs.
    pub rolled_back: u64,
    /// Leaves without entries that have been unlinked.
    pub unlinked: u64,
    /// Pages that had leaked and are free again.
    pub returned: u64,
}

/// A page that may be a leaf, as the durable epoch shows it.
#[derive(Debug, Clone, Copy)]
enum Surveyed {
    /// Not in use as a node.
    Other,
    /// A node in the map that cannot be one in the chain.
    Damaged,
    /// A leaf: its lowest and greatest key, if it shows any.
    Leaf { sibling: PageNo, keys: Option<(u64, u64)> },
}

/// A leaf of the chain as it will be.
struct Link {
    page: PageNo,
    /// The lowest and the greatest key that it shows; `None` only for the first leaf.
    keys: Option<(u64, u64)>,
    /// Slots that a split has left behind.
    dropped: u64,
    /// The page behind it is another one than its sibling says.
    relink: bool,
}

impl<M: Medium> Hybrid<M> {
    /// Opens the tree of an anchor, and makes it if the anchor has no root yet. It reads the whole tree
    /// once. Its repairs are durable when it returns.
    ///
    /// # Errors
    /// Corrupt, if leaves are not what crashes can leave: nothing has been changed then. WrongLayout
    /// for a pool that was opened for other trees; InUse for one that has been used since its medium was
    /// made: what has been durable since then would be rolled back. Errors of the medium.
    pub fn open(
        pool: Arc<Pool<Buffered<M>>>,
        anchor: PageNo,
        how: &Rebuild<'_>,
    ) -> Result<(Self, Rebuilt)> {
        pool.expect_nodes(Self::hooks().nodes)?;
        let head = pool.anchor(anchor)?;
        let m = pool.medium();
        let is_used =
            m.clock() != m.recovered_epoch() + 1 || (head != 0 && range(m.page(head)?).is_some());
        if is_used {
            let what = "the pool is in use: a tree is opened once, before anything else is done";
            return Err(Error::InUse { what });
        }
        let owners = pool.map_bytes()?;
        let work = Work::new(&pool, how, &owners);
        let seen = work.read(&owners)?;
        if head == 0 {
            work.expect_unmade(&seen, anchor)?;
            let returned = give_back(&pool, &owners, |_| false)?;
            let epoch = work.durable;
            let tree = Self::create(pool, anchor)?;
            return Ok((tree, Rebuilt { epoch, leaves: 1, returned, ..Rebuilt::default() }));
        }
        let (chain, unlinked) = work.chain(head, &seen)?;
        let mut kept = vec![false; owners.len()];
        chain.iter().for_each(|link| kept[link.page as usize] = true);
        work.expect_leaks(&seen, &kept, &chain)?;
        drop(seen);
        let inner = Self::new_inner(&pool)?;
        let rolled_back = work.mend(&chain, &inner)?;
        let returned = give_back(&pool, &owners, |no| kept[no as usize])?;
        let rebuilt = Rebuilt {
            epoch: work.durable,
            leaves: chain.len() as u64,
            rolled_back,
            unlinked,
            returned: returned.saturating_sub(unlinked),
        };
        Ok((Self { pool, inner, head, empty: Default::default(), merges: false }, rebuilt))
    }
}

/// Frees the nodes that are not kept. Their headers are durably no leaves' before: what they show may
/// be a part of a split that never was, and must not be taken for a lost leaf when a crash leaks the
/// page again, in its next life and before it has been built.
fn give_back<M: Medium>(
    pool: &Pool<Buffered<M>>,
    owners: &[u8],
    is_kept: impl Fn(PageNo) -> bool,
) -> Result<u64> {
    let nodes = (0..).zip(owners).filter(|(_, owner)| **owner == kind::NODE).map(|(no, _)| no);
    let lost = Leaks { nodes: nodes.filter(|no| !is_kept(*no)).collect(), ..Leaks::default() };
    for no in &lost.nodes {
        wipe(pool.medium(), pool.page(*no)?);
    }
    pool.medium().fence();
    match pool.reclaim(&lost) {
        // A reader can do without.
        Err(Error::ReadOnly) => Ok(0),
        done => done.map(|()| lost.nodes.len() as u64),
    }
}

struct Work<'a, M: Medium> {
    m: &'a Buffered<M>,
    durable: u64,
    threads: usize,
    done: AtomicU64,
    total: u64,
    progress: &'a (dyn Fn(Progress) + Sync),
}

impl<'a, M: Medium> Work<'a, M> {
    fn new(pool: &'a Pool<Buffered<M>>, how: &Rebuild<'a>, owners: &[u8]) -> Self {
        let processors = || std::thread::available_parallelism().map_or(1, |n| n.get());
        let nodes = owners.iter().filter(|owner| **owner == kind::NODE).count() as u64;
        Self {
            m: pool.medium(),
            durable: pool.medium().recovered_epoch(),
            threads: if how.threads == 0 { processors() } else { how.threads },
            done: 0.into(),
            total: 2 * nodes,
            progress: how.progress,
        }
    }

    fn tell(&self, done: u64) {
        let done = self.done.fetch_add(done, Ordering::Relaxed) + done;
        (self.progress)(Progress { done, total: self.total });
    }

    /// Has `each` done for portions of `items`, in parallel; the first error wins.
    fn share<T: Send, R: Send>(
        &self,
        items: Vec<T>,
        each: impl Fn(T) -> Result<R> + Sync,
    ) -> Result<Vec<R>> {
        let threads = self.threads.min(items.len());
        let left = std::sync::Mutex::new(items.into_iter());
        let run = || {
            let mut done = Vec::new();
            loop {
                let next = left.lock().expect("no panic while taking").next();
                match next {
                    Some(item) => done.push(each(item)?),
                    None => return Ok::<_, Error>(done),
                }
            }
        };
        std::thread::scope(|scope| {
            // With fewer threads than wanted it takes longer.
            let start = |_| std::thread::Builder::new().spawn_scoped(scope, run);
            let helpers: Vec<_> = (1..threads).map_while(|i| start(i).ok()).collect();
            let mut all = run()?;
            for helper in helpers {
                match helper.join() {
                    Ok(done) => all.extend(done?),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            Ok(all)
        })
    }

    fn read(&self, owners: &[u8]) -> Result<Vec<Surveyed>> {
        let mut seen = vec![Surveyed::Other; owners.len()];
        let portions: Vec<_> = (0..)
            .step_by(PORTION)
            .zip(owners.chunks(PORTION).zip(seen.chunks_mut(PORTION)))
            .collect();
        self.share(portions, |(first, (owners, seen))| {
            let mut nodes = 0;
            for (no, (owner, seen)) in (first as PageNo..).zip(owners.iter().zip(seen)) {
                if *owner == kind::NODE {
                    *seen = self.look(self.m.page(no)?);
                    nodes += 1;
                }
            }
            self.tell(nodes);
            Ok(())
        })?;
        Ok(seen)
    }

    /// Without a root there is nothing, or what a crash has left of making the tree: one empty leaf.
    fn expect_unmade(&self, seen: &[Surveyed], anchor: PageNo) -> Result<()> {
        let nodes = seen.iter().filter(|seen| !matches!(seen, Surveyed::Other)).count();
        if nodes > 1 || seen.iter().any(|seen| matches!(seen, Surveyed::Leaf { keys: Some(_), .. }))
        {
            return Err(damaged(self.m.page(anchor)?, "the tree has no root, but leaves"));
        }
        Ok(())
    }

    /// A leaf that the chain does not lead to must be one that a crash can leak. A leaf of a split that was cut
    /// off is of a lost epoch, and what has been unlinked shows nothing; so a leaf of a durable epoch
    /// with entries has been lost, unless the chain has them, too: then it was merged, and the crash came before its page
    /// was free.
    fn expect_leaks(&self, seen: &[Surveyed], kept: &[bool], chain: &[Link]) -> Result<()> {
        for ((no, seen), kept) in (0..).zip(seen).zip(kept) {
            if let (false, Surveyed::Leaf { keys: Some(_), .. }) = (kept, seen) {
                let page = self.m.page(no)?;
                if epoch_of(page) <= self.durable && !self.is_in(chain, page)? {
                    return Err(damaged(
                        page,
                        "a leaf with entries that the chain does not lead to",
                    ));
                }
            }
        }
        Ok(())
    }

    /// Whether the chain shows all that a page shows, with the same values. O(entries · log leaves).
    fn is_in(&self, chain: &[Link], page: Page<'_>) -> Result<bool> {
        for slot in self.shown(page, 0) {
            let key = key_of(page, slot);
            let begins = |link: &Link| link.keys.is_none_or(|(min, _)| min <= key);
            let at = chain.partition_point(begins);
            let Some(link) = at.checked_sub(1).map(|at| &chain[at]) else { return Ok(false) };
            let leaf = self.m.page(link.page)?;
            let twin = find(leaf, visible(leaf, self.durable) & !link.dropped, key);
            if twin.is_none_or(|twin| value_of(leaf, twin) != value_of(page, slot)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn look(&self, page: Page<'_>) -> Surveyed {
        // Leaves of the two epochs after the durable one may be there, and no others.
        if !is_leaf(page) || epoch_of(page) > self.durable + 2 {
            return Surveyed::Damaged;
        }
        let keys = ends(page, self.shown(page, 0));
        Surveyed::Leaf { sibling: sibling(page).unwrap_or(0), keys }
    }

    fn shown(&self, page: Page<'_>, dropped: u64) -> impl Iterator<Item = usize> {
        ones(visible(page, self.durable) & !dropped)
    }

    /// The chain as it will be, and how many leaves it loses.
    fn chain(&self, head: PageNo, seen: &[Surveyed]) -> Result<(Vec<Link>, u64)> {
        let mut chain: Vec<Link> = Vec::new();
        let (mut next, mut steps) = (head, 0);
        while next != 0 {
            let page = self.m.page(next)?;
            steps += 1;
            if steps > seen.len() {
                return Err(damaged(page, "siblings form a cycle"));
            }
            let Some(&Surveyed::Leaf { sibling, keys }) = seen.get(next as usize) else {
                return Err(damaged(page, "the chain of leaves leads to a page that is no leaf"));
            };
            if let Some((min, _)) = keys {
                while chain.last().and_then(|left| left.keys).is_some_and(|(_, max)| max >= min) {
                    self.drop_twins(&mut chain, page, min)?;
                }
            }
            if keys.is_some() || next == head {
                chain.push(Link { page: next, keys, dropped: 0, relink: false });
            } else if let Some(left) = chain.last_mut() {
                left.relink = true;
            }
            next = sibling;
        }
        let unlinked = steps - chain.len();
        Ok((chain, unlinked as u64))
    }

    /// A crash has cut off a split or a merge: what `right` shows from its lowest key `min` on, the leaf to its
    /// left may still show, too. Anything else is damage.
    fn drop_twins(&self, chain: &mut Vec<Link>, right: Page<'_>, min: u64) -> Result<()> {
        let Some(link) = chain.last_mut() else { return Ok(()) };
        let left = self.m.page(link.page)?;
        // Either is the last change of its line before the crash.
        let is_of_this_crash = epoch_of(left) > self.durable && sibling(left) == Some(right.no());
        for slot in self.shown(left, 0).filter(|slot| key_of(left, *slot) >= min) {
            let (key, value) = (key_of(left, slot), value_of(left, slot));
            let mut twins = self.shown(right, 0).filter(|twin| key_of(right, *twin) == key);
            if !is_of_this_crash || twins.next().is_none_or(|twin| value_of(right, twin) != value) {
                let what = format!("key {key:#x} should lie in a leaf further right");
                return Err(damaged(left, what));
            }
            link.dropped |= 1 << slot;
        }
        link.keys = ends(left, self.shown(left, link.dropped));
        if link.keys.is_none() && chain.len() > 1 {
            chain.pop();
            if let Some(left) = chain.last_mut() {
                left.relink = true;
            }
        }
        Ok(())
    }

    /// Brings the leaves of the chain to what the durable epoch shows, and enters them.
    fn mend(&self, chain: &[Link], inner: &CircTree<Dram>) -> Result<u64> {
        let portions: Vec<_> = (0..chain.len()).step_by(PORTION).collect();
        let counts = self.share(portions, |first| {
            let mut rolled_back = 0;
            let end = chain.len().min(first + PORTION);
            for at in first..end {
                rolled_back += u64::from(self.mend_one(chain, at)?);
                enter_inner(inner, low_of(chain, at), chain[at].page);
            }
            self.m.fence();
            self.tell((end - first) as u64);
            Ok(rolled_back)
        })?;
        Ok(counts.into_iter().sum())
    }

    fn mend_one(&self, chain: &[Link], at: usize) -> Result<bool> {
        let own = &chain[at];
        debug_assert!(own.keys.is_some() || at == 0, "only the first leaf may show nothing");
        let page = self.m.page(own.page)?;
        let mut held = page.latch().lock();
        let lost = epoch_of(page) > self.durable;
        if !bug::is(Bug::B17) {
            roll_back(self.m, page, self.durable, own.dropped);
        }
        let next = chain.get(at + 1);
        if own.relink {
            link(self.m, page, next.map_or(0, |next| next.page));
        }
        set_range(
            page,
            LeafRange { low: low_of(chain, at), high: next.map(|_| low_of(chain, at + 1)) },
        );
        held.set_ready();
        Ok(lost)
    }
}

/// The lowest key that a leaf of the chain is for.
fn low_of(chain: &[Link], at: usize) -> u64 {
    // Only the first leaf may show nothing, and it is for the lowest keys whatever it shows.
    if at == 0 { 0 } else { chain[at].keys.map_or(0, |(min, _)| min) }
}

/// The lowest and the greatest key of slots.
fn ends(page: Page<'_>, slots: impl Iterator<Item = usize>) -> Option<(u64, u64)> {
    slots.map(|slot| key_of(page, slot)).fold(None, |ends, key| {
        let (min, max) = ends.unwrap_or((key, key));
        Some((key.min(min), key.max(max)))
    })
}
