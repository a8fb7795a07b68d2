//! A toy layer above the file medium: pages are arrays of words, a change sets one word.

#![allow(dead_code, missing_docs)]

pub use everleaf_testing::Rng;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use everleaf_file::io::{Io, SimIo};
use everleaf_file::{File, FileOp, FileOptions};
use everleaf_pmem::{Change, Error, FEW_CHANGES, LatchGuard, Medium, Page, PageNo, Result, Stay};

pub const SET: u8 = 1;

pub struct Toy {
    pub file: File,
}

pub fn path() -> PathBuf {
    PathBuf::from("/pool/p.ever")
}

pub fn options() -> FileOptions {
    FileOptions {
        slots: 4,
        max_pages: 64,
        journal_bytes: 96 << 10,
        create: true,
        background: false,
        ..FileOptions::default()
    }
}

impl Toy {
    pub fn open(io: &(impl Io + Clone + 'static)) -> Result<Toy> {
        Self::open_of(io, 4)
    }

    /// A new one gets pages of so many slots.
    pub fn open_of(io: &(impl Io + Clone + 'static), slots: u32) -> Result<Toy> {
        Self::open_with(io, &path(), &FileOptions { slots, ..options() })
    }

    /// Opens it for the run of a seed; if that is odd, pages leave memory all the time.
    pub fn open_for(io: &(impl Io + Clone + 'static), seed: u64) -> Result<Toy> {
        let (slots, spill_bytes) = (slots_of(seed), spill_of(seed));
        let manual_epochs = is_manual(seed);
        let mut options = FileOptions { slots, spill_bytes, manual_epochs, ..options() };
        if !seed.is_multiple_of(2) {
            (options.memory_bytes, options.evicts_small) = (1, true);
            options.stay = |_| Stay::Rounds;
            options.frame_stays = |_| false;
        }
        Self::open_with(io, &path(), &options)
    }

    pub fn open_with(
        io: &(impl Io + Clone + 'static),
        path: &Path,
        options: &FileOptions,
    ) -> Result<Toy> {
        let toy = Toy { file: File::open(Arc::new(io.clone()), path, options)? };
        if toy.file.is_fresh() && !options.read_only {
            // A page that was never changed is nobody's, and the file may refuse to fetch it.
            toy.set(&std::array::from_fn::<_, PAGES, _>(|no| (no as PageNo, 0, 0)))?;
        }
        Ok(toy)
    }

    fn redo(&self, page: Page<'_>, change: Change<'_>) -> Result<()> {
        let (Ok(j), Ok(v)) = (change.bytes[..2].try_into(), change.bytes[2..].try_into()) else {
            return Err(Error::corrupt(0, "change of a wrong length"));
        };
        self.file.store(page.body_word(usize::from(u16::from_le_bytes(j))), u64::from_le_bytes(v));
        Ok(())
    }

    pub fn latch(&self, no: PageNo) -> Result<(Page<'_>, LatchGuard<'_>)> {
        let page = self.file.page(no)?;
        let mut held = page.latch().lock();
        if !held.is_ready() {
            self.file.fetch(page, &mut |page, change| self.redo(page, change))?;
            held.set_ready();
        }
        Ok((page, held))
    }

    pub fn get(&self, no: PageNo, j: u16) -> Result<u64> {
        let (page, held) = self.latch(no)?;
        let value = page.body_word(usize::from(j)).load();
        held.unlock_unchanged();
        Ok(value)
    }

    /// One step over several pages, which are given in rising order. Returns its epoch.
    pub fn set(&self, changes: &[(PageNo, u16, u64)]) -> Result<u64> {
        self.step(changes, 0, |_, _| ())
    }

    /// As [`set`](Self::set), and whatever else is to happen in the same step, which may adopt so many
    /// pages of large values.
    pub fn step(
        &self,
        changes: &[(PageNo, u16, u64)],
        pages: usize,
        more: impl FnOnce(&File, &mut FileOp<'_>),
    ) -> Result<u64> {
        self.file.throttle(true)?;
        let mut latched = Vec::new();
        for &(no, ..) in changes {
            latched.push(self.latch(no)?);
        }
        let mut op = self.file.enter_for(changes.len().saturating_sub(FEW_CHANGES) + pages)?;
        more(&self.file, &mut op);
        for (&(_, j, v), (page, _)) in changes.iter().zip(&latched) {
            let mut bytes = [0; 10];
            bytes[..2].copy_from_slice(&j.to_le_bytes());
            bytes[2..].copy_from_slice(&v.to_le_bytes());
            self.file.store(page.body_word(usize::from(j)), v);
            self.file.note(&mut op, *page, Change { tag: SET, bytes: &bytes });
        }
        Ok(self.file.epoch(&op))
    }

    /// A step that makes a run of pages which was written part of the pool. Returns its epoch.
    pub fn adopt(&self, first: PageNo, pages: u32) -> Result<u64> {
        self.step(&[], pages as usize, |file, op| file.extent_adopt(op, first, pages))
    }

    /// A step that frees such a run. Returns its epoch.
    pub fn forget(&self, first: PageNo, pages: u32) -> Result<u64> {
        self.step(&[], 0, |file, op| file.extent_forget(op, first, pages))
    }

    pub fn drain(&self) -> Result<()> {
        while let Some(no) = self.file.pending() {
            drop(self.latch(no)?);
        }
        Ok(())
    }

    pub fn checkpoint(&self) -> Result<()> {
        self.drain()?;
        self.file.checkpoint()
    }

    pub fn close(self) -> Result<()> {
        self.drain()?;
        self.file.close()
    }

    pub fn abandon(self) {
        self.file.abandon();
    }
}

/// The slots of a page in the run of a seed: the upper half of the seed says which, so that a seed says
/// all that a run needs.
pub fn slots_of(seed: u64) -> u32 {
    [4, 28, 252, 4, 252, 4, 252][(seed >> 32) as usize]
}
/// The seeds before the first one of runs on whole pages of 512 bytes, and of 4 KiB.
pub const WHOLE: [u64; 2] = [1 << 32, 2 << 32];
/// The seeds before the first one of runs in which nearly every epoch is spilled.
pub const SPILLED: [u64; 2] = [3 << 32, 4 << 32];

/// The seeds before the first one of runs in which the program alone ends epochs, many of which are spilled.
pub const MANUAL: [u64; 2] = [5 << 32, 6 << 32];

pub fn is_manual(seed: u64) -> bool {
    seed >= MANUAL[0]
}

/// The bytes that the running epoch may hold in memory in the run of a seed.
pub fn spill_of(seed: u64) -> u64 {
    if seed < SPILLED[0] {
        FileOptions::default().spill_bytes
    } else {
        [1, 50, 150, FileOptions::default().spill_bytes]
            [seed as usize % (3 + usize::from(is_manual(seed)))]
    }
}

/// The content that a pool of the toy should have at the end of each epoch: so many pages, of so many words.
pub const PAGES: usize = 6;
pub const WORDS: usize = 8;
pub type State = [[u64; WORDS]; PAGES];

#[derive(Clone)]
pub struct Model {
    pub now: State,
    pub ends: Vec<(u64, State)>,
}

impl Model {
    pub fn new() -> Self {
        Self { now: [[0; WORDS]; PAGES], ends: vec![(0, [[0; WORDS]; PAGES])] }
    }

    pub fn set(&mut self, epoch: u64, changes: &[(PageNo, u16, u64)]) {
        for &(no, j, v) in changes {
            self.now[no as usize][usize::from(j)] = v;
        }
        match self.ends.last_mut() {
            Some((last, state)) if *last == epoch => *state = self.now,
            _ => self.ends.push((epoch, self.now)),
        }
    }

    /// The last epoch up to `epoch` in which something happened, and the state at its end.
    pub fn at(&self, epoch: u64) -> (u64, State) {
        *self.ends.iter().rev().find(|(e, _)| *e <= epoch).expect("epoch 0 is always there")
    }

    /// Forgets what a crash has taken back.
    pub fn cut(&mut self, epoch: u64) {
        self.ends.retain(|(e, _)| *e <= epoch);
        self.now = self.at(epoch).1;
    }

    pub fn transfer(&self, rng: &mut Rng) -> Vec<(PageNo, u16, u64)> {
        let a = rng.below(PAGES as u64 - 1);
        let b = a + 1 + rng.below(PAGES as u64 - 1 - a);
        let (i, j) = (rng.below(WORDS as u64), rng.below(WORDS as u64));
        let amount = rng.next();
        let from = self.now[a as usize][i as usize].wrapping_sub(amount);
        let to = self.now[b as usize][j as usize].wrapping_add(amount);
        vec![(a as u32, i as u16, from), (b as u32, j as u16, to)]
    }
}

pub fn read_all(toy: &Toy) -> Result<State> {
    let mut state = [[0; WORDS]; PAGES];
    for (no, words) in state.iter_mut().enumerate() {
        for (j, word) in words.iter_mut().enumerate() {
            *word = toy.get(no as u32, j as u16)?;
        }
    }
    Ok(state)
}

/// Checks a reopened pool: exactly the end of an epoch, at least the acknowledged one and at most
/// the running one. Returns the epoch.
pub fn check(toy: &Toy, model: &Model, acknowledged: u64, running: u64, what: &str) -> u64 {
    let epoch = toy.file.durable_epoch();
    let (needed, _) = model.at(acknowledged);
    assert!(epoch >= needed, "{what}: epoch {needed} was acknowledged, {epoch} recovered");
    assert!(epoch <= running, "{what}: epoch {epoch} recovered, {running} was running");
    let found = read_all(toy).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert_eq!(found, model.at(epoch).1, "{what}: not the end of epoch {epoch}");
    epoch
}

/// After a failed write or sync nothing more is written, and everybody is told why.
pub fn poisoned_refuses_to_write(toy: &Toy, error: &Error, io: &SimIo) {
    assert!(matches!(error, Error::Poisoned { .. }), "{error}");
    let calls = io.calls();
    let poisoned = |result: Result<()>| matches!(result, Err(Error::Poisoned { .. }));
    assert!(poisoned(toy.file.enter().map(drop)));
    assert!(poisoned(toy.file.sync()) && poisoned(toy.file.tick()));
    if toy.file.pending().is_none() {
        assert!(poisoned(toy.file.checkpoint()));
    }
    assert!(poisoned(toy.file.extent_write(40, 0, &[1])));
    assert_eq!(io.calls(), calls, "a poisoned pool went on to call the system");
}
