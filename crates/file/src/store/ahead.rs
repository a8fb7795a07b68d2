//! Images that no root may name yet: [checkpoints](crate::checkpoint::ahead) write them in the midst of an epoch that the
//! program ends.

use std::collections::HashMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use everleaf_pmem::error::Result;
use everleaf_pmem::fallible;
use everleaf_pmem::locks::Mutex;
use everleaf_pmem::page::PageNo;
use everleaf_pmem::sync::lock_plain as lock;

use crate::journal::JournalMark;
use crate::store::image::Placed;
use crate::workers::Waker;

/// Names this memory in errors.
const AHEAD: &str = "images of an epoch that has not ended";
/// A place in the table of images: an eighth of them is empty, and a byte says what each is.
const PLACE_BYTES: u64 = (size_of::<(PageNo, AheadImage)>() as u64 + 1) * 8 / 7 + 1;

/// An image of which no root knows yet.
#[derive(Debug, Clone, Copy)]
struct AheadImage {
    placed: Placed,
    /// The epoch of its last change.
    epoch: u64,
    /// Bytes of blocks before the place in the journal from which on the image needs it that the table names.
    needs: u64,
}

#[derive(Debug, Default)]
struct Images {
    pages: HashMap<PageNo, AheadImage>,
    /// Where the journal was when runs began, by rising bytes of blocks before: as many as images need, and the last
    /// run that has written all pages.
    runs: Vec<JournalMark>,
}

/// State that is ahead of the last durable epoch.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    /// The program ends epochs.
    pub is_manual: bool,
    /// The last epoch that the open has found.
    pub recovered: u64,
    /// Wakes the task that makes ended epochs durable, if there is one.
    pub syncs: OnceLock<Waker>,
    /// Bytes of large values of the epoch that has ended and is not durable yet.
    pub ended_large: AtomicU64,
    images: Mutex<Images>,
    /// How many images there are.
    count: AtomicU64,
    /// The epoch that ran when the last run ended and kept some of the journal for it; 0 if there is none.
    stuck: AtomicU64,
}

/// How an image that was written is kept.
pub(crate) struct Kept {
    /// No root may name it yet.
    pub is_ahead: bool,
    /// The one in whose place it is.
    pub before: Option<Placed>,
}

impl Ahead {
    pub fn new(is_manual: bool) -> Self {
        Self { is_manual, ..Self::default() }
    }

    /// Whether a checkpoint in this epoch frees no more of the journal than the last one.
    pub fn is_stuck(&self, epoch: u64) -> bool {
        self.stuck.load(Ordering::Relaxed) == epoch
    }

    /// The epoch for which a run has kept some of the journal; 0 if it has not.
    pub fn set_stuck(&self, epoch: u64) {
        self.stuck.store(epoch, Ordering::Relaxed);
    }

    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    fn count(&self, images: &Images) {
        self.count.store(images.pages.len() as u64, Ordering::Release);
    }

    /// Whether there is anything of which a durable root could know.
    pub fn has_ended(&self, durable: u64) -> bool {
        !self.is_empty() && lock(&self.images).pages.values().any(|image| image.epoch <= durable)
    }

    /// Bytes of memory that it takes, about.
    pub fn bytes(&self) -> u64 {
        self.count.load(Ordering::Relaxed) * PLACE_BYTES
    }

    /// The image of a page that is ahead, if there is one.
    pub fn image(&self, no: PageNo) -> Option<Placed> {
        if self.is_empty() {
            return None;
        }
        lock(&self.images).pages.get(&no).map(|image| image.placed)
    }

    /// A run begins. If it is the first one, the images that the table names need the journal from `begun` on.
    ///
    /// # Errors
    /// [`Error::NoMemory`](everleaf_pmem::Error::NoMemory), here and below: nothing has changed.
    pub fn begin_run(&self, begun: JournalMark) -> Result<()> {
        let mut images = lock(&self.images);
        if images.runs.is_empty() {
            fallible::push(&mut images.runs, begun, AHEAD)?;
        }
        Ok(())
    }

    /// All pages have been written that had changed before `mark`.
    pub fn note_written(&self, mark: JournalMark) -> Result<()> {
        let mut images = lock(&self.images);
        if images.runs.last().is_none_or(|last| last.written < mark.written) {
            fallible::push(&mut images.runs, mark, AHEAD)?;
        }
        Ok(())
    }

    /// An image was written of a page that was changed last in `epoch`.
    pub fn keep(&self, no: PageNo, placed: Placed, epoch: u64, durable: u64) -> Result<Kept> {
        let mut images = lock(&self.images);
        let is_ahead = epoch > durable;
        let before = if is_ahead {
            fallible::more_keys(&mut images.pages, 1, AHEAD)?;
            let before = images.pages.get(&no).copied();
            let last = images.runs.last().expect("a run has begun").written;
            let needs = before.map_or(last, |before| before.needs);
            images.pages.insert(no, AheadImage { placed, epoch, needs });
            before
        } else {
            images.pages.remove(&no)
        };
        self.count(&images);
        Ok(Kept { is_ahead, before: before.map(|before| before.placed) })
    }

    /// The images whose epoch is durable by now, by rising numbers.
    pub fn ended(&self, durable: u64) -> Result<Vec<(PageNo, Placed)>> {
        let mut ended = Vec::new();
        let images = lock(&self.images);
        let all = images.pages.iter().filter(|(_, image)| image.epoch <= durable);
        let all = all.map(|(no, image)| (*no, image.placed));
        fallible::more(&mut ended, all.clone().count(), AHEAD)?;
        ended.extend(all);
        drop(images);
        ended.sort_unstable_by_key(|(no, _)| *no);
        Ok(ended)
    }

    /// The table names the image of a page.
    pub fn remove(&self, no: PageNo) {
        let mut images = lock(&self.images);
        images.pages.remove(&no);
        self.count(&images);
    }

    /// Where a root has its journal begin whose run began at `mark`.
    pub fn needs(&self, mark: JournalMark) -> JournalMark {
        let images = lock(&self.images);
        let least = images.pages.values().map(|image| image.needs).min();
        let run = |least: u64| images.runs.iter().find(|run| run.written == least).copied();
        least.map_or(mark, |least| run(least).expect("it is kept for the image"))
    }

    /// A root is durable whose journal begins there: what comes before nobody needs.
    pub fn forget_runs(&self, mark: Option<JournalMark>) {
        let mut images = lock(&self.images);
        match mark {
            Some(mark) => images.runs.retain(|run| run.written >= mark.written),
            None => images.runs.clear(),
        }
    }

    /// The journal goes on elsewhere from there on, where it had no block yet.
    pub fn move_mark(&self, to: JournalMark) {
        let mut images = lock(&self.images);
        let same = images.runs.iter_mut().filter(|mark| mark.written == to.written);
        same.for_each(|mark| *mark = to);
    }
}
