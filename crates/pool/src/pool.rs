//! The pool: a medium, what is known about it in DRAM, and first touches.

use std::sync::atomic::{AtomicU64, Ordering};

use everleaf_pmem::{
    Error, Geometry, LatchGuard, Medium, Page, PageNo, Redo, Result, Retries, Seen, Stay, fallible,
};

use crate::anchor;
use crate::arena::{ARENA_MARK, ArenaState, Arenas, arena_state};
use crate::change::fence;
use crate::class::Classes;
use crate::hooks::Hooks;
use crate::kind::{self, ANCHOR, FREE, KIND_WORD, NODE, RECORD, kind_of, level_of};
use crate::map::{self, Role};
use crate::order;
use crate::pins::Pins;
use crate::space::FreeSpace;

/// The anchor of the catalog: the tree that knows the other trees.
pub const CATALOG_ANCHOR: PageNo = 1;

/// Which mark of a page's frame says which of the pool's fetches brought the page into memory.
const LIFE_MARK: usize = 6;
const _: () = assert!(LIFE_MARK != ARENA_MARK, "each mark of a frame has one use");

/// How soon a page leaves memory, in a pool whose trees read nodes and anchors by their versions: the map is read without,
/// and takes a byte for each page, so it stays. Inner nodes stay long. The page may be changing; that of a kind that can
/// leave keeps it until it is free. See the file medium's option of that name.
pub fn stay(page: Page<'_>) -> Stay {
    let word = page.head(KIND_WORD).load();
    match kind_of(word) {
        NODE if level_of(word) > 0 => Stay::Long,
        FREE | NODE | RECORD | ANCHOR => Stay::Rounds,
        _ => Stay::Always,
    }
}

/// Whether the frame of a page that is absent stays, because a thread fills the page with records. Anything else that a
/// frame of such a page says may be forgotten: the page itself is asked whether it is listed.
pub fn frame_stays(page: Page<'_>) -> bool {
    arena_state(page) == ArenaState::Arena
}

/// Which fetch has brought the page into memory, or was the last one that did.
pub(crate) fn life_of(page: Page<'_>) -> &AtomicU64 {
    page.mark(LIFE_MARK)
}

/// Why planning stopped. Nothing was changed.
#[derive(Debug)]
pub enum Stop {
    /// Somebody else holds a latch. Drop everything, give way and start again.
    Busy,
    /// It does not work, and trying again would not help.
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(e: Error) -> Self {
        Stop::Failed(e)
    }
}

/// Repeats an attempt at a step while it finds a page busy, and waits longer each time. An attempt that has failed holds
/// nothing, so that who has the page can end its step.
///
/// # Errors
/// The failure of an attempt; [`Error::Stuck`].
#[inline(always)]
pub fn retry<T>(attempt: impl FnMut() -> Result<T, Stop>) -> Result<T, Error> {
    retry_in(Retries::default(), attempt)
}

/// The same, in turns of the caller's.
#[inline(always)]
fn retry_in<T>(
    mut turns: Retries,
    mut attempt: impl FnMut() -> Result<T, Stop>,
) -> Result<T, Error> {
    loop {
        match attempt() {
            Ok(done) => return Ok(done),
            Err(Stop::Busy) => turns.again("a step that needs pages of others")?,
            Err(Stop::Failed(error)) => return Err(error),
        }
    }
}

/// How many pages each kind of owner has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PageCounts {
    /// Nodes of trees.
    pub nodes: u32,
    /// Record pages.
    pub records: u32,
    /// Map pages.
    pub maps: u32,
    /// Anchors, and the log pages of trees that have one.
    pub anchors: u32,
    /// Pages of extents.
    pub extents: u32,
    /// Pages that may still be used.
    pub free: u32,
}

/// Whether the first map page is that of a pool that has been made.
fn is_complete(first: Page<'_>) -> bool {
    map::byte(first, 0) == kind::MAP && map::byte(first, CATALOG_ANCHOR) == kind::ANCHOR
}

/// Whether the header of a page, which has been fetched, says that it is in use. Where a crash may
/// leave any bytes in free pages, none is.
pub(crate) fn is_in_use<M: Medium>(page: Page<'_>) -> bool {
    M::JOURNALED && kind::kind_of(page.head(kind::KIND_WORD).load()) != kind::FREE
}

/// A pool on a medium.
pub struct Pool<M: Medium> {
    pub(crate) medium: M,
    pub(crate) hooks: Hooks<M>,
    pub(crate) classes: Classes,
    pub(crate) space: FreeSpace,
    pub(crate) arenas: Arenas,
    pub(crate) pins: Pins,
    /// How many pages have been fetched.
    fetches: AtomicU64,
}

impl<M: Medium> Pool<M> {
    /// A pool on what a superblock says, or is about to say.
    fn of_medium(medium: M, hooks: Hooks<M>) -> Result<Self> {
        let geometry = medium.geometry();
        if !(hooks.fits)(geometry) {
            let what = format!("{} slots a page, which these nodes do not fit", geometry.slots());
            return Err(Error::corrupt(40, what));
        }
        let classes = Classes::new(geometry);
        let arenas = Arenas::new(classes.count())?;
        let space = FreeSpace::new(geometry, medium.limit());
        Ok(Self {
            medium,
            hooks,
            classes,
            space,
            arenas,
            pins: Pins::new(),
            fetches: AtomicU64::new(0),
        })
    }

    /// Makes an empty pool on an empty medium: the first map page, and the catalog's anchor without a
    /// root. On strict media the anchor's map byte is stored last. [`Pool::open`] therefore refuses a
    /// pool that a crash left half made, and this function makes it again.
    ///
    /// # Errors
    /// [`Error::InUse`] if there is a pool already, [`Error::Full`] below two pages,
    /// [`Error::InvalidOption`] for pages that the nodes do not fit, and the medium's own.
    pub fn format(medium: M, hooks: Hooks<M>) -> Result<Self> {
        if !(hooks.fits)(medium.geometry()) {
            let what = format!("nodes do not fit pages of {} slots", medium.geometry().slots());
            return Err(Error::InvalidOption { option: "slots", what });
        }
        let pool = Self::of_medium(medium, hooks)?;
        let m = &pool.medium;
        if m.limit() <= CATALOG_ANCHOR {
            return Err(pool.space.full());
        }
        {
            let (first, _latch) = pool.latch(0)?;
            let (anchor, _latch) = pool.latch(CATALOG_ANCHOR)?;
            if is_complete(first) {
                return Err(Error::InUse { what: "there is a pool on the medium" });
            }
            let mut op = m.enter()?;
            anchor::init(m, &mut op, anchor, 0);
            map::make(m, &mut op, first, Role::Pages);
            fence(m);
            map::change(m, &mut op, first, (CATALOG_ANCHOR, 1), kind::ANCHOR);
            fence(m);
        }
        pool.space.add_group(Role::Pages, |i| i != CATALOG_ANCHOR)?;
        Ok(pool)
    }

    /// Whether there is no pool on this medium, which is memory, or a crash interrupted its making.
    /// [`Pool::format`] may make it then: nothing is lost, because no page is given out and no tree
    /// has a root. This also looks at the page that a pool gives out first, so that it does not
    /// mistake a pool whose first pages have been wiped for none.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for a medium of less than two pages.
    pub fn is_unmade(medium: &M) -> Result<bool> {
        let (first, anchor) = (medium.page(0)?, medium.page(CATALOG_ANCHOR)?);
        let mut bytes = (1..map::group_pages(first.geometry())).map(|i| map::byte(first, i));
        let is_blank =
            |page: Page<'_>| (0..page.geometry().page_words()).all(|i| page.word(i).load() == 0);
        Ok(bytes.all(|byte| byte == kind::FREE)
            && anchor::is_rootless(anchor)
            && medium.page(CATALOG_ANCHOR + 1).map_or(true, is_blank))
    }

    /// Makes a pool without any page, for a medium that cannot be formatted because it is open
    /// read-only. The pool holds nothing and gives out nothing.
    ///
    /// # Errors
    /// [`Error::NoMemory`]; [`Error::Corrupt`] for pages that the nodes do not fit.
    pub fn unformatted(medium: M, hooks: Hooks<M>) -> Result<Self> {
        Self::of_medium(medium, hooks)
    }

    /// Opens the pool on a medium by reading its map; no other page is read. O(pages / 4096).
    ///
    /// # Errors
    /// [`Error::Foreign`] if there is no pool, [`Error::Corrupt`] if the map is damaged or the nodes do not
    /// fit pages of that shape.
    pub fn open(medium: M, hooks: Hooks<M>) -> Result<Self> {
        let pool = Self::of_medium(medium, hooks)?;
        let per_group = map::group_pages(pool.geometry());
        for no in (0..pool.medium.limit()).step_by(per_group as usize) {
            let (page, _held) = pool.latch(no)?;
            if map::byte(page, 0) != kind::MAP {
                break;
            }
            let (role, owners) = (map::role(page)?, map::owners(page)?);
            let below = (pool.medium.limit() - no).min(per_group) as usize;
            let mut records = fallible::list(below.div_ceil(64), "the list of record pages")?;
            records.extend(owners[..below].chunks(64).map(|owners| {
                let bit = |bits, owner: &u8| bits << 1 | u64::from(*owner == kind::RECORD);
                owners.iter().rev().fold(0, bit)
            }));
            pool.arenas.add_all_unseen(no, &records)?;
            pool.space.add_group(role, |i| owners[i as usize] == kind::FREE)?;
        }
        pool.expect_catalog()?;
        Ok(pool)
    }

    fn expect_catalog(&self) -> Result<()> {
        let foreign = |what: &str| Error::foreign(what);
        if self.space.groups() == 0 {
            return Err(foreign("there is no map"));
        }
        let (page, _held) = self.latch(0)?;
        if map::byte(page, CATALOG_ANCHOR) != kind::ANCHOR {
            return Err(foreign("it has no catalog: making it was interrupted"));
        }
        Ok(())
    }

    /// The medium.
    #[inline(always)]
    pub fn medium(&self) -> &M {
        &self.medium
    }
    /// Which nodes the pool was opened for: [`Hooks::nodes`].
    pub fn nodes(&self) -> &'static str {
        self.hooks.nodes
    }
    /// Refuses a tree of nodes `own` that the pool was not opened for.
    ///
    /// # Errors
    /// [`Error::WrongLayout`] then.
    pub fn expect_nodes(&self, own: &str) -> Result<()> {
        let pool = self.nodes();
        if own == pool {
            return Ok(());
        }
        Err(Error::WrongLayout { tree: own.to_owned(), pool: pool.to_owned() })
    }
    /// Returns the space of large values that were freed, as far as no crash brings them back and nobody
    /// reads them. Says whether some are left. O(values returned).
    pub fn settle(&self) -> bool {
        let durable = (self.hooks.durable)(&self.medium);
        self.space.settle(durable, &self.pins, |run| {
            if let Some(io) = &self.hooks.extents {
                (io.release)(&self.medium, run.first, run.pages);
            }
        })
    }
    /// Brings every page up to date of which a journal says more than it has, while it `goes_on`. O(those pages).
    ///
    /// # Errors
    /// Those of reading a page.
    pub fn drain(&self, goes_on: impl Fn() -> bool) -> Result<()> {
        while let Some(no) = self.medium.pending().filter(|_| goes_on()) {
            drop(self.latch(no)?);
        }
        Ok(())
    }
    /// As [`Medium::throttle`], [`with_room`](Self::with_room).
    ///
    /// # Errors
    /// Those of the medium.
    #[inline(always)]
    pub fn throttle(&self, adds: bool) -> Result<()> {
        match self.medium.throttle(adds) {
            Ok(()) => Ok(()),
            Err(error) => self.throttle_again(adds, &error),
        }
    }

    #[cold]
    fn throttle_again(&self, adds: bool, error: &Error) -> Result<()> {
        self.settle();
        if matches!(error, Error::EpochTooLarge { .. }) {
            // A checkpoint makes room when nothing waits for recovery any more.
            self.drain(|| true)?;
        }
        self.medium.throttle(adds)
    }

    /// Does what needs room on the medium. Where it finds none that may be with the large values that were
    /// freed: they are given back, and it is done again.
    ///
    /// # Errors
    /// Those of the second time.
    pub fn with_room<T>(&self, mut ask: impl FnMut() -> Result<T>) -> Result<T> {
        ask().or_else(|_| {
            self.settle();
            ask()
        })
    }

    /// The shape of the pages.
    #[inline(always)]
    pub fn geometry(&self) -> Geometry {
        self.medium.geometry()
    }
    /// How many pages there can be in use: those of all groups. O(1).
    pub fn pages_in_groups(&self) -> u32 {
        self.space.groups().saturating_mul(map::group_pages(self.geometry()))
    }
    /// Sets the limit that [`Error::Full`] names: the one that the user gave, in bytes.
    pub fn say_limit(&self, bytes: u64) {
        self.space.say_limit(bytes);
    }
    /// A page by its number; see [`Medium::page`].
    ///
    /// # Errors
    /// [`Error::Corrupt`] if there is no such page.
    #[inline(always)]
    pub fn page(&self, no: PageNo) -> Result<Page<'_>> {
        self.medium.page(no)
    }

    /// Latches a page, waiting as long as it takes, and makes it ready.
    ///
    /// # Errors
    /// Errors of the first fetch. The page is then unlatched and still absent.
    pub fn latch(&self, no: PageNo) -> Result<(Page<'_>, LatchGuard<'_>)> {
        let page = self.page(no)?;
        debug_assert!(order::may_wait_for(page), "page {no}: a step waits for an anchor only");
        let mut held = page.latch().lock();
        self.ensure(page, &mut held)?;
        Ok((page, held))
    }

    /// Makes a latched page ready. All first touches, of pages of all kinds, happen here. O(1) if the
    /// page is ready; otherwise one read, and the changes that a journal holds for the page.
    ///
    /// # Errors
    /// Those of [`Medium::fetch`] and of the hooks. The page is then still absent.
    #[inline]
    pub fn ensure(&self, page: Page<'_>, held: &mut LatchGuard<'_>) -> Result<()> {
        if !held.is_ready() {
            debug_assert!(page.latch().is_held(), "a first touch happens under the latch");
            self.fetch(page, M::fetch)?;
            (self.hooks.first_touch)(&self.medium, page)?;
            held.set_ready();
        }
        Ok(())
    }

    /// As [`Pool::ensure`] for a page that nobody owns and that is about to get
    /// new bytes: nothing is repaired. False if its header says that it is in use all the same, so
    /// that the map is wrong, or the header.
    pub(crate) fn ensure_fresh(&self, page: Page<'_>, held: &mut LatchGuard<'_>) -> Result<bool> {
        if !held.is_ready() {
            self.fetch(page, M::fetch_unowned)?;
            if is_in_use::<M>(page) {
                (self.hooks.first_touch)(&self.medium, page)?;
            }
            held.set_ready();
        }
        Ok(!is_in_use::<M>(page))
    }

    #[cold]
    fn fetch(
        &self,
        page: Page<'_>,
        fetch: impl FnOnce(&M, Page<'_>, &mut Redo<'_>) -> Result<()>,
    ) -> Result<()> {
        // No other fetch has the number, also of pages whose frames are forgotten in between.
        let life = self.fetches.fetch_add(1, Ordering::Relaxed) + 1;
        life_of(page).store(life, Ordering::Release);
        let m = &self.medium;
        fetch(m, page, &mut |page, change| (self.hooks.redo)(m, page, change))
    }

    /// Makes a page beside the pool what the page of its number would be after a first touch. False if only a first
    /// touch can tell.
    ///
    /// # Errors
    /// Those of [`ensure`](Self::ensure).
    pub(crate) fn copy(&self, copy: Page<'_>) -> Result<bool> {
        let mut held = copy.latch().lock();
        let is_read = self.medium.read_aside(copy.no(), copy)?;
        if is_read {
            (self.hooks.first_touch)(&self.medium, copy)?;
            held.set_ready();
        }
        Ok(is_read)
    }

    /// The root that an anchor holds now. This takes no latch once the page is in memory.
    ///
    /// # Errors
    /// [`Error::Corrupt`](everleaf_pmem::Error::Corrupt) if the page is no anchor; I/O errors of the first
    /// fetch.
    pub fn anchor(&self, no: PageNo) -> Result<PageNo> {
        self.read(no, "reading an anchor", anchor::root_of)?
    }

    /// Reads a page as it is at one moment. This takes no latch once the page is in memory, and waits for its writer.
    ///
    /// # Errors
    /// I/O errors of the first fetch; [`Error::Stuck`](everleaf_pmem::Error::Stuck), which says `what` was done.
    pub fn read<'p, T>(
        &'p self,
        no: PageNo,
        what: &'static str,
        read: impl Fn(Page<'p>) -> T,
    ) -> Result<T> {
        let page = self.page(no)?;
        let mut turns = Retries::default();
        loop {
            match page.latch().read_version() {
                Seen::Ready(version) => {
                    let seen = read(page);
                    if page.latch().validate(version) {
                        return Ok(seen);
                    }
                }
                Seen::Absent => self.latch(no)?.1.unlock_unchanged(),
            }
            turns.go_on(what)?;
        }
    }

    /// The owner of a page that lies in a group, as the map says now. This takes no latch once the map
    /// page is in memory. While somebody holds the page's latch, its owner does not change.
    ///
    /// # Errors
    /// Those of fetching map pages; [`Error::Corrupt`] outside the pool.
    pub fn owner(&self, no: PageNo) -> Result<u8> {
        let per_group = map::group_pages(self.geometry());
        let page = self.page(no / per_group * per_group)?;
        if !page.latch().is_ready() {
            self.latch(page.no())?.1.unlock_unchanged();
        }
        Ok(map::byte(page, no % per_group))
    }

    /// The whole map as it is now: the owners of all pages up to the end of the last group. O(pages).
    ///
    /// # Errors
    /// Those of fetching map pages.
    pub fn map_bytes(&self) -> Result<Vec<u8>> {
        let per_group = map::group_pages(self.geometry());
        let mut bytes = Vec::new();
        for g in 0..self.space.groups() {
            let (page, held) = self.latch(g * per_group)?;
            let left = (self.medium.limit() - g * per_group).min(per_group);
            fallible::more(&mut bytes, left as usize, "the map")?;
            bytes.extend((0..left).map(|i| map::byte(page, i)));
            held.unlock_unchanged();
        }
        Ok(bytes)
    }

    /// Counts the pages by owner. O(pages).
    ///
    /// # Errors
    /// Those of fetching map pages.
    pub fn stats(&self) -> Result<PageCounts> {
        let mut stats = PageCounts { free: self.medium.limit(), ..PageCounts::default() };
        for byte in self.map_bytes()? {
            let count = match byte {
                kind::NODE => &mut stats.nodes,
                kind::RECORD => &mut stats.records,
                kind::MAP => &mut stats.maps,
                kind::ANCHOR | kind::LOG => &mut stats.anchors,
                kind::EXTENT_HEAD | kind::EXTENT_TAIL => &mut stats.extents,
                _ => continue,
            };
            *count += 1;
            stats.free -= 1;
        }
        Ok(stats)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_finds_its_pages_busy_for_ever_is_given_up() {
        let mut attempts = 0;
        let stuck = retry_in(Retries::left(2), || {
            attempts += 1;
            Err::<(), _>(Stop::Busy)
        });
        assert!(matches!(stuck, Err(Error::Stuck { .. })), "{stuck:?}");
        assert_eq!(attempts, 3);
        let done = retry_in(Retries::left(2), || {
            attempts += 1;
            if attempts < 6 { Err(Stop::Busy) } else { Ok(attempts) }
        });
        assert_eq!(done.expect("the third attempt"), 6);
    }
}
