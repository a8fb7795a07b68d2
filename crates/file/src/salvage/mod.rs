//! A damaged pool on a file, opened to copy out of it what can still be trusted.
//!
//! [`File`](super::File) stops at the first damage. A [`DamagedFile`] goes on. It looks at the whole file
//! once, so that it knows each good image and each good block, whoever names them. It reads the
//! first of these that is good:
//!
//! ```text
//! seed         uuid of the newer good superblock · what two checksums in the file agree on
//! root         the one that the superblock names · none named: the newest one, if no page or leaf is newer
//! leaf         the one that the root names · no root: the newest one
//! page         the image that the leaf names · the newest image that is not newer than the root
//!              then its changes in order; a gap: a later change that needs no image goes on, else the page
//!              is stale
//! journal      from the superblock's place on, all good blocks whose opens follow each other, whatever lies
//!              between; no superblock: those of the root's open and later ones
//! large value  the image that the journal names · the one that the table names · the newest one
//! ```
//!
//! An image that nothing names may be older than the page was. It counts as the page only if
//!
//! - the journal has changes of the page, and they go on where the image ends: it has all from the root on;
//! - or the page's leaf is lost, and with the newest images of all its pages as many bytes of each extent
//!   are alive as the root says.
//!
//! Otherwise it is used, and [`stale`](DamagedFile::stale) says so. An image that a checkpoint wrote which
//! did not end is newer than the root, and is never used while there is a root. Large values have a
//! checksum of their own, so that any image may be tried. Pages that the table calls free are free.
//! All damage is either in [`findings`](DamagedFile::findings), or belongs to a page: then it is
//! the error of its fetch, or `stale` or [`replaced`](DamagedFile::replaced) say it.
//!
//! Nothing is written, on disk or into the journal. The pages are a [`Medium`] that no step can
//! enter, so the layers above read them by the functions that read live pools.

mod blocks;
mod changes;
mod look;
mod scan;
mod seed;
mod superblock;
mod table;
mod values;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};

use blocks::{FoundJournal, JournalStart};
use changes::{PageChanges, found_counts, plan};
use everleaf_pmem::door::{copy_in, move_slots, move_words, put};
use everleaf_pmem::dram::outside;
use everleaf_pmem::error::{Error, Result};
use everleaf_pmem::locks::Mutex;
use everleaf_pmem::medium::{Change, Medium, Redo};
use everleaf_pmem::page::{Geometry, Page, PageNo, SEQ_WORD, SUM_WORD, Word};
use everleaf_pmem::region::Region;

use crate::io::{Access, Io, IoFile, refused, take_lock};
use crate::open::data::SLOTS_WANTED;
use crate::store::format::u64_at;
use crate::store::image::{ImageKey, ImageKind, ImageName, Placed};
use crate::store::superblock::Super;

use scan::Found;
use table::{BestKnown, FoundRoot, FoundTable, read_image};
use values::FoundValues;

pub use look::{JournalBlock, JournalRecord, own_tag};
pub use scan::Finding;

/// The shortest image takes so many bytes: no file has more pages than this allows.
const LEAST_IMAGE: u64 = 48;

/// Facts that must be known of a pool to read its remains.
#[derive(Debug, Clone, Copy)]
pub struct DamagedFileOptions {
    /// The layout that an intact superblock must name.
    pub layout_hash: u64,
    /// Which changes set all of a page that counts, so that no earlier state is needed.
    pub whole: fn(u8) -> bool,
    /// Slots of a page, if neither a superblock nor a page says them.
    pub slots: u32,
}

/// A damaged pool on a file, as a medium that can only be read.
#[derive(Debug)]
pub struct DamagedFile {
    /// Locked, shared, as long as this lives.
    data: Box<dyn IoFile>,
    data_bytes: u64,
    key: ImageKey,
    region: Region,
    found: Found,
    table: FoundTable,
    /// Behind the last page that the table knows.
    end: PageNo,
    journal: FoundJournal,
    changes: PageChanges,
    values: FoundValues,
    /// How many pairs each tree had, by its anchor, if that is known.
    counts: Option<HashMap<PageNo, u64>>,
    whole: fn(u8) -> bool,
    findings: Vec<Finding>,
    /// Whether changes may be missing of any page.
    has_gaps: bool,
    /// Pages that are older than they should be, and why.
    stale: Mutex<BTreeMap<PageNo, Finding>>,
    /// Pages whose image is damaged, and what else says what they are.
    replaced: Mutex<BTreeMap<PageNo, Finding>>,
    fetched: AtomicUsize,
}

/// The state of a page before its changes.
#[derive(Default)]
struct Base {
    image: Option<Vec<u8>>,
    /// The changes that it has seen.
    seq: u64,
    /// The damage to the image that the table names.
    bad: Option<Error>,
    /// Where the image is, if it may be older than the page was.
    doubtful: Option<u64>,
    /// Whether there is no image, and nothing says that there was none.
    is_unknown: bool,
}

/// Facts that are known without the table and the journal.
struct Start {
    superblock: Option<Super>,
    seed: u32,
    root: Option<FoundRoot>,
    found: Found,
}

impl Start {
    fn new(
        data: &dyn IoFile,
        len: u64,
        layout_hash: u64,
        findings: &mut Vec<Finding>,
    ) -> Result<Self> {
        let superblock = superblock::read(data, layout_hash, findings)?;
        if let Some(s) = superblock {
            let seed = crc32c::crc32c(&s.uuid);
            let root = table::named_root(data, ImageKey::of_seed(seed), &s, findings)?;
            let bound = root.as_ref().map_or(u64::MAX, |root| root.stamp);
            let found = scan::scan(data, len, seed, bound, findings)?;
            return Ok(Self { superblock: Some(s), seed, root, found });
        }
        let nothing =
            || Error::foreign("neither a superblock nor anything else of a pool is there");
        let seed = seed::find(data, len)?.ok_or_else(nothing)?;
        let found = scan::scan(data, len, seed, u64::MAX, findings)?;
        if found.is_nothing() {
            return Err(nothing());
        }
        let newest = found.root.filter(|root| found.newest <= root.stamp);
        let read = newest.map(|r| table::read_root(data, ImageKey::of_seed(seed), r.placed));
        let root = match read {
            Some(Err(error @ Error::NoMemory { .. })) => return Err(error),
            read => read.and_then(Result::ok),
        };
        if root.is_none() {
            let what =
                "no root of the page table is the last one: pages may be older than they were";
            findings.push(Finding::data(80, what.into()));
        }
        Ok(Self { superblock: None, seed, root, found })
    }

    /// Slots of a page, if anything says them.
    fn slots(&self) -> Option<u32> {
        let by_images = || {
            let bytes = self.found.page_bytes()?;
            u32::try_from(bytes.checked_sub(64)? / 16).ok()
        };
        let is_right = |slots: &u32| Geometry::from_slots(*slots).is_some();
        self.superblock.as_ref().map(|s| s.slots).or_else(by_images).filter(is_right)
    }

    /// Where the journal begins, as far as that is known.
    fn journal(&self) -> JournalStart {
        match &self.superblock {
            Some(s) => JournalStart::of(s),
            None => {
                let stamp = self.root.as_ref().map_or(self.found.newest, |root| root.stamp);
                JournalStart::behind_root((stamp >> 32) as u32)
            }
        }
    }
}

impl DamagedFile {
    /// Opens what is left of the pool at `path`, under a shared lock. Changes nothing. Reads all of the file.
    ///
    /// # Errors
    /// Foreign, if nothing of a pool is there, or an intact superblock says that it is of another
    /// kind; Locked, if somebody writes to it; I/O errors of opening the file.
    pub fn open(io: &dyn Io, path: &Path, options: &DamagedFileOptions) -> Result<Self> {
        let data = io.open(path, Access::Read).map_err(|e| refused(path, e))?;
        take_lock(&*data, path, true)?;
        let failed = |e| Error::io(format!("opening {}", path.display()), e);
        let data_bytes = data.len().map_err(failed)?;
        let mut findings = Vec::new();
        let mut start = Start::new(&*data, data_bytes, options.layout_hash, &mut findings)?;
        let slots = start.slots().unwrap_or_else(|| {
            let what = format!("nothing says how large pages are: {} slots", options.slots);
            findings.push(Finding::data(40, what));
            options.slots
        });
        let g = Geometry::from_slots(slots).ok_or_else(|| Error::InvalidOption {
            option: "slots",
            what: format!("{slots} slots; {SLOTS_WANTED}"),
        })?;
        let (key, begin) = (ImageKey::of_seed(start.seed), start.journal());
        let mut table =
            FoundTable::new(&*data, key, start.root.as_ref(), &start.found, &mut findings)?;
        let blocks = std::mem::take(&mut start.found.blocks);
        let mut journal = blocks::read(&*data, start.seed, &begin, blocks, &mut findings)?;
        let changes = PageChanges::new(&mut journal, &mut findings)?;
        let values = FoundValues::new(&mut journal, &changes, &mut findings)?;
        if let Some(root) = &start.root {
            table.prove(root, &start.found, &values.places)?;
        }
        let is_named = start.superblock.is_some() && table.has_root();
        let has_gaps = !is_named || journal.has_gaps || start.found.is_unread;
        let counts = match start.root.take().filter(|_| !has_gaps) {
            Some(root) => found_counts(root.counts, &journal, &changes, &mut findings)?,
            None => None,
        };
        let end = table.end(&start.found);
        let ends =
            [end, values.end(), changes.pages(0).last().map_or(0, |no| no.saturating_add(1))];
        let region = reserve(g, end, ends.into_iter().max().unwrap_or(0), &mut findings)?;
        Ok(Self {
            data,
            data_bytes,
            key,
            region,
            found: start.found,
            table,
            end,
            journal,
            changes,
            values,
            counts,
            whole: options.whole,
            findings,
            has_gaps,
            stale: Mutex::default(),
            replaced: Mutex::default(),
            fetched: AtomicUsize::new(0),
        })
    }

    /// Damage to superblock, page table and journal.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Whether changes that were durable may be missing, of any page.
    pub fn has_gaps(&self) -> bool {
        self.has_gaps
    }

    /// How many pairs each tree had, for trees that had some, by their anchors. None if something is damaged that
    /// says it, or changes may be [missing](Self::has_gaps).
    pub fn counts(&self) -> Option<&HashMap<PageNo, u64>> {
        self.counts.as_ref()
    }

    /// The length of the file in bytes.
    pub fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    /// The pages that the page table knows, as far as the file has room for so many.
    pub fn pages(&self) -> PageNo {
        let most = (self.data_bytes / LEAST_IMAGE).max(2);
        let most = PageNo::try_from(most).unwrap_or(PageNo::MAX);
        self.end.max(2).min(most).min(self.region.limit())
    }

    /// The pages behind [`pages`](Self::pages) that the table or the journal knows, rising.
    pub fn further_pages(&self) -> Vec<PageNo> {
        let from = self.pages();
        let mut pages = self.changes.pages(from);
        pages.extend(self.table.pages(&self.found, from));
        pages.retain(|no| *no < self.region.limit());
        pages.sort_unstable();
        pages.dedup();
        pages
    }

    /// Whether a checkpoint has written this page or one behind it.
    pub fn has_been_home(&self, no: PageNo) -> bool {
        no < self.end
    }

    /// Where the image of a page is in the file, or was; 0 if it has none.
    pub fn place_of(&self, no: PageNo) -> u64 {
        match self.table.get(&self.found, no) {
            BestKnown::Is(placed) => placed.place,
            BestKnown::Newest(newest) => newest.map_or(0, |placed| placed.place),
        }
    }

    /// Why a page that has been fetched is older than it should be, if it is.
    pub fn stale(&self, no: PageNo) -> Option<Finding> {
        self.stale.lock().unwrap_or_else(PoisonError::into_inner).get(&no).cloned()
    }

    /// Damage to the image of a page that has been fetched, if it is known all the same what
    /// the page was: by an older image and the journal. If that may be too old, [`stale`](Self::stale) says
    /// so.
    pub fn replaced(&self, no: PageNo) -> Option<Finding> {
        self.replaced.lock().unwrap_or_else(PoisonError::into_inner).get(&no).cloned()
    }

    /// Pages fetched since the last [`forget`](Self::forget).
    pub fn fetched(&self) -> usize {
        self.fetched.load(Ordering::Relaxed)
    }

    /// Gives back the memory of all pages; each is fetched again when it is touched.
    ///
    /// # Errors
    /// I/O errors, if the system has no address space.
    pub fn forget(&mut self) -> Result<()> {
        // The old one goes first, so that there is room for the new one.
        let (g, limit) = (self.region.geometry(), self.region.limit());
        self.region = Region::sparse(g, 0)?;
        self.region = Region::sparse(g, limit)?;
        *self.fetched.get_mut() = 0;
        Ok(())
    }

    /// Reads bytes of a large value. If a page of it cannot be read, what is before it has been read.
    ///
    /// # Errors
    /// Corrupt for a page that is damaged or not there, Invalid outside the pool, I/O errors.
    pub fn extent_read(&self, first: PageNo, offset: u64, buf: &mut [u8]) -> Result<()> {
        let page_bytes = self.region.geometry().page_bytes() as u64;
        let end = offset.checked_add(buf.len() as u64);
        let end = end.map(|end| u64::from(first) + end.div_ceil(page_bytes));
        if end.is_none_or(|end| end > u64::from(self.region.limit())) {
            let n = buf.len();
            let what = format!("outside the pool: {n} bytes at {offset} behind page {first}");
            return Err(Error::Invalid { what });
        }
        let mut no = first + (offset / page_bytes) as PageNo;
        let (mut skip, mut done) = ((offset % page_bytes) as usize, 0);
        while done < buf.len() {
            let known = match self.table.get(&self.found, no) {
                BestKnown::Is(placed) => Some(placed),
                BestKnown::Newest(_) => None,
            };
            let newest = self.found.values.get(&no).map(|image| image.placed);
            let others = [known, newest];
            let (raw, place) = self.values.read(&*self.data, self.key, no, others, page_bytes)?;
            let there = raw.get(skip..).unwrap_or_default();
            let some = there.len().min(buf.len() - done);
            if some == 0 {
                let what = format!("large value's page {no}: it ends before the value");
                return Err(Error::corrupt(place, what));
            }
            buf[done..done + some].copy_from_slice(&there[..some]);
            (done, skip, no) = (done + some, 0, no + 1);
        }
        Ok(())
    }

    fn image(&self, no: PageNo, placed: Placed) -> Result<Vec<u8>> {
        let bytes = self.region.geometry().page_bytes();
        let name = ImageName { kind: ImageKind::Page, number: no };
        let (raw, _) = read_image(&*self.data, self.key, placed, name, bytes as u64)?;
        if raw.len() != bytes {
            let what = format!("{name}: {} bytes of {bytes}", raw.len());
            return Err(Error::corrupt(placed.place, what));
        }
        Ok(raw)
    }

    /// The state of a page to begin with.
    fn base(&self, no: PageNo) -> Result<Base> {
        let of =
            |image: Vec<u8>| Base { seq: seq_of(&image), image: Some(image), ..Base::default() };
        let (mut bad, newest) = match self.table.get(&self.found, no) {
            BestKnown::Is(placed) if !placed.has_image() => {
                return Ok(Base { seq: placed.crc.into(), ..Base::default() });
            }
            BestKnown::Is(placed) => match self.image(no, placed) {
                Ok(image) => return Ok(of(image)),
                Err(error @ Error::NoMemory { .. }) => return Err(error),
                Err(error) => {
                    let newest = self.found.pages.get(&no).map(|image| image.placed);
                    (Some(error), newest.filter(|newest| *newest != placed))
                }
            },
            BestKnown::Newest(newest) => (None, newest),
        };
        let is_doubtful = bad.is_some() || self.table.has_root() && self.table.is_doubtful();
        let is_unknown = newest.is_none() && bad.is_none() && self.table.is_doubtful();
        if let Some(newest) = newest {
            match self.image(no, newest) {
                Ok(image) => {
                    let doubtful = is_doubtful.then_some(newest.place);
                    return Ok(Base { bad, doubtful, ..of(image) });
                }
                Err(error @ Error::NoMemory { .. }) => return Err(error),
                Err(error) => drop(bad.get_or_insert(error)),
            }
        }
        Ok(Base { bad, is_unknown, ..Base::default() })
    }

    fn load(&self, page: Page<'_>, redo: &mut Redo<'_>) -> Result<()> {
        let no = page.no();
        let Base { image, seq, bad, doubtful, is_unknown } = self.base(no)?;
        let base = seq as u32;
        let entries = self.changes.of(&self.journal, no, base);
        // A page whose first change is in the journal needs no image, good or bad.
        let is_new = image.is_none() && base == 0 && entries.first().is_some_and(|e| e.seq == 1);
        let is_free = image.is_none() && base != 0;
        let is_blank = bad.is_none() && !is_unknown && entries.is_empty();
        let has_base = image.is_some() || is_free || is_new || is_blank;
        let Some(plan) = plan(&entries, base, has_base, self.whole) else {
            return Err(bad.unwrap_or_else(|| match entries.first() {
                Some(e) => gap(no, 0, e).as_error(),
                None => {
                    Error::corrupt(self.place_of(no), format!("page {no}: no image of it is left"))
                }
            }));
        };
        let image = image.filter(|_| plan.on_home);
        let mut now = if plan.on_home { seq } else { 0 };
        put_image(page, image.as_deref());
        put(page.head(SEQ_WORD), now);
        let mut stale = plan.is_stale.then(|| gap(no, now, &entries[plan.end]));
        if let Some(place) = doubtful.filter(|_| image.is_some() && stale.is_none())
            && (self.has_gaps || !self.changes.reach(&self.journal, no, base))
        {
            let what = format!(
                "page {no}: its image is damaged or not known; the newest one that is left may be older \
                 than the page was"
            );
            stale = Some(Finding::data(place, what));
        }
        for entry in &entries[plan.first..plan.end] {
            if let Err(error) = redo(page, Change { tag: entry.tag, bytes: entry.bytes }) {
                stale = Some(Finding::data(entry.offset, format!("page {no}: {error}")));
                break;
            }
            now = now & !u64::from(u32::MAX) | u64::from(entry.seq);
            put(page.head(SEQ_WORD), now);
        }
        let (notes, finding) = match (stale, bad) {
            (Some(finding), _) => (&self.stale, finding),
            (None, Some(error)) => {
                let mut finding = Finding::of(&error, self.place_of(no));
                finding.what += "; the journal says what the page was";
                (&self.replaced, finding)
            }
            (None, None) => return Ok(()),
        };
        notes.lock().unwrap_or_else(PoisonError::into_inner).insert(no, finding);
        Ok(())
    }
}

/// Address space for all pages that anything good names: `here` by the table, `wanted` in all.
fn reserve(
    g: Geometry,
    here: PageNo,
    wanted: PageNo,
    findings: &mut Vec<Finding>,
) -> Result<Region> {
    let (here, wanted) = (here.max(2), wanted.max(2));
    Region::sparse(g, wanted).or_else(|_| {
        let what =
            format!("there is no room for {wanted} pages: those behind page {here} are left");
        findings.push(Finding::data(0, what));
        Region::sparse(g, here)
    })
}

fn seq_of(image: &[u8]) -> u64 {
    // As a number of 64 bits it only counts up.
    u64_at(image, 8 * SEQ_WORD)
}

/// A change whose predecessor is missing.
fn gap(no: PageNo, now: u64, entry: &changes::FoundChange<'_>) -> Finding {
    let what = format!("page {no} has seen change {now}, the next that is left is {}", entry.seq);
    Finding::data(entry.offset, what)
}

fn put_image(page: Page<'_>, image: Option<&[u8]>) {
    for i in 0..page.geometry().page_words() {
        let word = image.filter(|_| i != SUM_WORD).map_or(0, |image| u64_at(image, 8 * i));
        put(page.word(i), word);
    }
}

impl Medium for DamagedFile {
    type Op<'m> = ();
    const ORDERED: bool = false;
    const JOURNALED: bool = true;

    fn geometry(&self) -> Geometry {
        self.region.geometry()
    }
    fn limit(&self) -> PageNo {
        self.region.limit()
    }
    fn page(&self, no: PageNo) -> Result<Page<'_>> {
        let region = &self.region;
        region.page(no).ok_or_else(|| outside(no, region.limit(), region.geometry(), "data"))
    }
    fn fetch(&self, page: Page<'_>, redo: &mut Redo<'_>) -> Result<()> {
        self.fetched.fetch_add(1, Ordering::Relaxed);
        self.load(page, redo)
    }
    fn store(&self, word: Word<'_>, value: u64) {
        debug_assert!(word.is_latched_here(), "only a fetch stores here, under the page's latch");
        put(word, value);
    }
    fn move_slots(&self, page: Page<'_>, from: usize, n: usize, right: bool) {
        move_slots(page, from, n, right);
    }
    fn copy_in(&self, page: Page<'_>, at: usize, bytes: &[u8]) {
        debug_assert!(page.head(0).is_latched_here(), "only a fetch stores here");
        copy_in(page, at, bytes);
    }
    fn move_words(&self, page: Page<'_>, from: usize, to: usize, n: usize) {
        debug_assert!(page.head(0).is_latched_here(), "only a fetch stores here");
        move_words(page, from, to, n);
    }
    fn flush(&self, _: Page<'_>, _: usize) {}
    fn fence(&self) {}
    fn enter(&self) -> Result<()> {
        Err(Error::ReadOnly)
    }
    fn note(&self, (): &mut (), _: Page<'_>, _: Change<'_>) {}
    fn epoch(&self, (): &()) -> u64 {
        0
    }
}
