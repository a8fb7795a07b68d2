//! A damaged pool on a file, opened to copy out of it what can still be trusted.
//!
//! [`File`](super::File) stops at the first damage. A [`DamagedFile`] goes on: what the superblock does
//! not say any more is learned from the rest, each good journal block counts, and each page is
//! brought up to date as far as its own changes go.
//!
//! ```text
//! superblock   the newer good copy; none: uuid from a journal header, page size by trying each
//! journal      all good blocks of the generations that a replay needs, whatever lies between
//! page         home or its copy in the double-write area, the later one · then its changes in order
//!              a gap: a later change that needs no image goes on, else the page is stale
//! ```
//!
//! Nothing is written, on disk or into the journal. The pages are a [`Medium`] that no step can
//! enter, so the layers above read them by the functions that read live pools.

mod blocks;
mod changes;
mod finding;
mod superblock;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use blocks::FoundJournals;
use changes::{PageChanges, plan};
use everleaf_pmem::door::{copy_in, move_slots, move_words, put};
use everleaf_pmem::dram::outside;
use everleaf_pmem::error::{Error, Result};
use everleaf_pmem::medium::{Change, Medium, Redo};
use everleaf_pmem::page::{Geometry, Page, PageNo, SEQ_WORD, SUM_WORD, Word};
use everleaf_pmem::region::Region;

use crate::data::SLOTS_WANTED;
use crate::extent::extent_range;
use crate::format::{FIRST_PAGE_OFFSET, Verdict, judge, page_offset, u64_at};
use crate::io::{Access, Io, IoFile};
use crate::names::{refused, take_lock};

use superblock::SavedImage;

pub use finding::Finding;

/// What must be known of a pool to read its remains.
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
    region: Region,
    /// Where pages end that a checkpoint has written, if that is known for sure.
    pages_end: Option<PageNo>,
    journal: FoundJournals,
    changes: PageChanges,
    /// Good images in the double-write area.
    saved: BTreeMap<PageNo, SavedImage>,
    whole: fn(u8) -> bool,
    findings: Vec<Finding>,
    /// Whether the pool was closed, so that no crash explains a torn home.
    was_closed: bool,
    /// Pages that are older than they should be, and why.
    stale: Mutex<BTreeMap<PageNo, Finding>>,
    fetched: AtomicUsize,
}

/// What a page is made of before its changes.
#[derive(Default)]
struct Base {
    image: Option<Vec<u8>>,
    /// What is wrong if there is none.
    bad: Option<Error>,
    /// Whether the home is damaged, and the page may have been written after this image.
    is_old: bool,
}

/// What the data file has for a page.
enum Home {
    Good(Vec<u8>),
    Blank,
    Bad(Error),
}

impl DamagedFile {
    /// Opens what is left of the pool at `path`, under a shared lock. Changes nothing.
    ///
    /// # Errors
    /// Foreign, if nothing of a pool is there, or an intact superblock says that it is of another
    /// kind; Locked, if somebody writes to it; I/O errors of opening the data file.
    pub fn open(io: &dyn Io, path: &Path, options: &DamagedFileOptions) -> Result<Self> {
        let data = io.open(path, Access::Read).map_err(|e| refused(path, e))?;
        take_lock(&*data, path, true)?;
        let failed = |e| Error::io(format!("opening {}", path.display()), e);
        let data_bytes = data.len().map_err(failed)?;
        let mut findings = Vec::new();
        let found = superblock::read(&*data, options.layout_hash, &mut findings)?;
        let opened =
            [blocks::open(io, path, 0, &mut findings)?, blocks::open(io, path, 1, &mut findings)?];
        let uuid = found.superblock.as_ref().map(|s| s.uuid).or(blocks::uuid_of(&opened));
        let slots = match &found.superblock {
            Some(s) => Some(s.slots),
            None => superblock::find_slots(&*data, data_bytes),
        };
        if slots.is_none() && uuid.is_none() {
            let what = "neither a superblock nor a page nor a journal of a pool is there";
            return Err(Error::foreign(what));
        }
        let slots = slots.unwrap_or_else(|| {
            let what = format!("nothing says how large pages are: {} slots", options.slots);
            findings.push(Finding::data(40, what));
            options.slots
        });
        let g = Geometry::from_slots(slots).ok_or_else(|| Error::InvalidOption {
            option: "slots",
            what: format!("{slots} slots; {SLOTS_WANTED}"),
        })?;
        let (sb, newest) = (found.superblock.as_ref(), found.is_newest);
        let mut journal = match uuid {
            Some(uuid) => blocks::read(&opened, &uuid, sb, newest, &mut findings)?,
            None => FoundJournals {
                has_gaps: blocks::is_worth_a_uuid(&opened),
                ..FoundJournals::default()
            },
        };
        if uuid.is_none() && journal.has_gaps {
            let what = "without a superblock or a header nothing says whose blocks these are";
            findings.push(Finding { file: "journal 0", offset: 0, what: what.into() });
        }
        if sb.is_some_and(|s| !s.clean) {
            journal.miss(path, &opened, &mut findings);
        }
        let changes = PageChanges::new(&mut journal, &mut findings);
        let saved = latest(superblock::saved_images(&*data, g, &found)?);
        let pages_end = sb.filter(|_| newest).map(|s| s.pages_end as PageNo);
        if let Some(end) = pages_end.filter(|end| data_bytes < page_offset(*end, g)) {
            let what = format!("the file ends here, within its {end} pages");
            findings.push(Finding::data(data_bytes, what));
        }
        let was_closed = sb.is_none_or(|s| s.clean);
        let region = reserve(g, data_bytes, &changes, &saved, &mut findings)?;
        Ok(Self {
            data,
            data_bytes,
            region,
            pages_end,
            journal,
            changes,
            saved,
            whole: options.whole,
            findings,
            was_closed,
            stale: Mutex::default(),
            fetched: AtomicUsize::new(0),
        })
    }

    /// What is wrong with superblock, length and journal.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Whether changes that were durable may be missing, of any page.
    pub fn has_gaps(&self) -> bool {
        self.journal.has_gaps
    }

    /// The length of the data file in bytes.
    pub fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    /// The pages that the data file has room for, a last part of one included.
    pub fn pages(&self) -> PageNo {
        pages_in(self.data_bytes, self.region.geometry()).min(self.region.limit())
    }

    /// The pages behind [`pages`](Self::pages) that the journal or the double-write area knows,
    /// rising.
    pub fn further_pages(&self) -> Vec<PageNo> {
        let from = self.pages();
        let mut pages = self.changes.pages(from);
        pages.extend(self.saved.range(from..).map(|(no, _)| *no));
        pages.retain(|no| *no < self.region.limit());
        pages.sort_unstable();
        pages.dedup();
        pages
    }

    /// Whether a page ought to have a home: a checkpoint has written pages behind it.
    pub fn has_been_home(&self, no: PageNo) -> bool {
        self.pages_end.is_some_and(|end| no < end)
    }

    /// Why a page that has been fetched is older than it should be, if it is.
    pub fn stale(&self, no: PageNo) -> Option<Finding> {
        self.stale.lock().unwrap_or_else(PoisonError::into_inner).get(&no).cloned()
    }

    /// What is wrong with the home of a page, if that is so although its bytes are known: from the
    /// double-write area, and no crash explains it. If they may be too old, [`stale`](Self::stale)
    /// says so.
    pub fn replaced(&self, no: PageNo) -> Option<Finding> {
        let saved = self.saved.get(&no)?;
        match self.home(no) {
            Home::Bad(Error::Corrupt { file, offset, what })
                if self.was_closed && !self.may_be_old(saved) =>
            {
                let what = format!("{what}; its copy in the double-write area is good");
                Some(Finding { file, offset, what })
            }
            _ => None,
        }
    }

    /// Whether the page may have been written home again since this image of it.
    fn may_be_old(&self, saved: &SavedImage) -> bool {
        // The journal keeps all changes from some time on: a page that has one there has all
        // later ones, too.
        saved.may_be_old && (self.journal.has_gaps || !self.changes.has(saved.no))
    }

    /// The pages that have an image in the double-write area, rising.
    pub fn saved_pages(&self) -> Vec<PageNo> {
        self.saved.keys().copied().collect()
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

    /// Reads bytes of an extent.
    ///
    /// # Errors
    /// Corrupt behind the end of the file, Invalid outside the pool, I/O errors.
    pub fn extent_read(&self, first: PageNo, offset: u64, buf: &mut [u8]) -> Result<()> {
        let (g, limit) = (self.region.geometry(), self.region.limit());
        let (at, _) = extent_range(g, limit, first, offset, buf.len() as u64)?;
        let n = self.data.read_at(buf, at).map_err(|e| Error::io("reading a large value", e))?;
        if n < buf.len() {
            return Err(Error::corrupt(at + n as u64, "the file ends within a large value"));
        }
        Ok(())
    }

    /// Whether the home of a page can hold anything of it.
    fn trusts_home(&self, no: PageNo) -> bool {
        self.journal.has_gaps || self.pages_end.is_none_or(|end| no < end)
    }

    fn home(&self, no: PageNo) -> Home {
        let g = self.region.geometry();
        let at = page_offset(no, g);
        if at >= self.data_bytes || !self.trusts_home(no) {
            return Home::Blank;
        }
        let mut image = vec![0; g.page_bytes()];
        match self.data.read_at(&mut image, at) {
            Err(e) => Home::Bad(Error::io(format!("reading page {no}"), e)),
            Ok(n) => match judge(no, &image) {
                Verdict::Good => Home::Good(image),
                Verdict::Blank => Home::Blank,
                Verdict::Bad if n < image.len() => {
                    let what = format!("the file ends within page {no}");
                    Home::Bad(Error::corrupt(self.data_bytes, what))
                }
                Verdict::Bad => {
                    Home::Bad(Error::corrupt(at, format!("page {no} fails its checksum")))
                }
            },
        }
    }

    /// The image to begin with.
    fn base(&self, no: PageNo) -> Base {
        let home = self.home(no);
        let saved = self.saved.get(&no);
        let image = |image: &[u8]| Base { image: Some(image.to_vec()), ..Base::default() };
        match (home, saved) {
            (Home::Good(home), Some(saved)) if seq_of(&saved.bytes) > seq_of(&home) => {
                image(&saved.bytes)
            }
            (Home::Good(home), _) => Base { image: Some(home), ..Base::default() },
            (home, Some(saved)) => {
                // A page that no checkpoint has written has no home that could be damaged.
                let is_damaged = matches!(home, Home::Bad(_)) || self.has_been_home(no);
                let is_old = is_damaged && self.may_be_old(saved);
                Base { is_old, ..image(&saved.bytes) }
            }
            (Home::Blank, None) => Base::default(),
            (Home::Bad(error), None) => Base { bad: Some(error), ..Base::default() },
        }
    }

    fn load(&self, page: Page<'_>, redo: &mut Redo<'_>) -> Result<()> {
        let no = page.no();
        let Base { image, bad, is_old } = self.base(no);
        let base = image.as_deref().map_or(0, seq_of);
        let entries = self.changes.of(&self.journal, no, base as u32);
        // A page whose first change is in the journal needs no home, good or bad.
        let is_new = image.is_none() && entries.first().is_some_and(|entry| entry.seq == 1);
        let has_base = image.is_some() || is_new || bad.is_none() && entries.is_empty();
        let Some(plan) = plan(&entries, base as u32, has_base, self.whole) else {
            return Err(bad.unwrap_or_else(|| match entries.first() {
                Some(e) => gap(no, 0, e).as_error(),
                None => Error::corrupt(page.file_offset(), format!("page {no} is not there")),
            }));
        };
        let image = image.filter(|_| plan.on_home);
        let mut now = image.as_deref().map_or(0, seq_of);
        put_image(page, image.as_deref());
        let mut stale = plan.is_stale.then(|| gap(no, now, &entries[plan.end]));
        if is_old && image.is_some() && stale.is_none() {
            let what = format!(
                "page {no}: its home is damaged; its copy in the double-write area may be older \
                 than the page was"
            );
            stale = Some(Finding::data(page.file_offset(), what));
        }
        for entry in &entries[plan.first..plan.end] {
            if let Err(error) = redo(page, Change { tag: entry.tag, bytes: entry.bytes }) {
                let (file, offset) = (entry.file, entry.offset);
                stale = Some(Finding { file, offset, what: format!("page {no}: {error}") });
                break;
            }
            now = now & !u64::from(u32::MAX) | u64::from(entry.seq);
            put(page.head(SEQ_WORD), now);
        }
        if let Some(finding) = stale {
            self.stale.lock().unwrap_or_else(PoisonError::into_inner).insert(no, finding);
        }
        Ok(())
    }
}

/// How many pages a data file has room for.
fn pages_in(data_bytes: u64, g: Geometry) -> PageNo {
    let bytes = data_bytes.saturating_sub(FIRST_PAGE_OFFSET);
    PageNo::try_from(bytes.div_ceil(g.page_bytes() as u64)).unwrap_or(PageNo::MAX)
}

/// The latest image of each page.
fn latest(images: Vec<SavedImage>) -> BTreeMap<PageNo, SavedImage> {
    let mut latest = BTreeMap::<PageNo, SavedImage>::new();
    for image in images {
        let is_later = |old: &SavedImage| seq_of(&old.bytes) < seq_of(&image.bytes);
        if latest.get(&image.no).is_none_or(is_later) {
            latest.insert(image.no, image);
        }
    }
    latest
}

/// Address space for all pages that anything good names.
fn reserve(
    g: Geometry,
    data_bytes: u64,
    changes: &PageChanges,
    saved: &BTreeMap<PageNo, SavedImage>,
    findings: &mut Vec<Finding>,
) -> Result<Region> {
    let here = pages_in(data_bytes, g).max(2);
    let last = changes.pages(here).last().copied().max(saved.keys().last().copied());
    let wanted = last.map_or(here, |last| last.saturating_add(1).max(here));
    Region::sparse(g, wanted).or_else(|_| {
        let what = format!("there is no room for {wanted} pages: those behind the file are left");
        findings.push(Finding::data(data_bytes, what));
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
    Finding { file: entry.file, offset: entry.offset, what }
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
