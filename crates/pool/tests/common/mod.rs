//! A toy medium with a journal and extents, and a model of a pool's records.

#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use everleaf_pmem::{Change, Dram, Error, Geometry, Medium, Page, PageNo, Redo, Result, Sim, Word};
use everleaf_pool::kind::{FREE, NODE, pack};
use everleaf_pool::{ExtentIo, Hooks, Pool, RecordRef, Step, Stop, note_free, pair_header};
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

/// A change of a node, as a tree's would be: body word 0 gets a value.
pub const TAG_NODE: u8 = 1;

type Noted = (PageNo, u8, Vec<u8>);

/// Memory with a journal that never ends, and a disk for extents.
pub struct Toy {
    inner: Dram,
    pub journal: Mutex<Vec<Noted>>,
    disk: Mutex<BTreeMap<u64, u8>>,
    /// The pages of extents that were written, until they are forgotten or discarded.
    extents: Mutex<BTreeMap<PageNo, ExtentPage>>,
    /// Events of extents, writes apart.
    pub told: Mutex<Vec<(Told, PageNo, u32)>>,
    /// So many writes of extents are still carried out; the next ones fail.
    pub writes: AtomicU64,
    pub epoch: AtomicU64,
    pub durable: AtomicU64,
}

/// An event of an extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    Adopted,
    Forgotten,
    Discarded,
}

/// The state of a page of an extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExtentPage {
    /// So many bytes of it were written, and no step has adopted it.
    Pending(usize),
    Adopted,
}

impl Toy {
    pub fn new(slots: u32, limit: PageNo) -> Self {
        let inner = Dram::new(Geometry::from_slots(slots).unwrap(), limit).unwrap();
        Self {
            inner,
            journal: Mutex::default(),
            disk: Mutex::default(),
            extents: Mutex::default(),
            told: Mutex::default(),
            writes: u64::MAX.into(),
            epoch: 1.into(),
            durable: 0.into(),
        }
    }
    /// Fresh memory with the same journal and disk: what a reopen after a crash sees.
    pub fn reboot(&self) -> Self {
        let toy = Self::new(self.geometry().slots() as u32, self.limit());
        *toy.journal.lock().unwrap() = self.journal.lock().unwrap().clone();
        *toy.disk.lock().unwrap() = self.disk.lock().unwrap().clone();
        *toy.extents.lock().unwrap() = self.extents.lock().unwrap().clone();
        toy
    }
    /// Writes whole pages, each once until it is given up.
    fn write(&self, first: PageNo, offset: u64, bytes: &[u8]) -> Result<()> {
        let page_bytes = self.geometry().page_bytes();
        let left = self.writes.load(Ordering::SeqCst);
        if left == 0 {
            return Err(Error::io("writing an extent", std::io::Error::other("no more")));
        }
        self.writes.store(left - 1, Ordering::SeqCst);
        assert!(offset.is_multiple_of(page_bytes as u64), "{offset} is within a page");
        assert!(!bytes.is_empty(), "a write of nothing");
        let pages = first + (offset / page_bytes as u64) as PageNo..;
        for (no, bytes) in pages.zip(bytes.chunks(page_bytes)) {
            let page = ExtentPage::Pending(bytes.len());
            let before = self.extents.lock().unwrap().insert(no, page);
            assert_eq!(before, None, "page {no} is written again");
        }
        let at = u64::from(first) * self.geometry().page_bytes() as u64 + offset;
        self.disk.lock().unwrap().extend((at..).zip(bytes.iter().copied()));
        Ok(())
    }
    fn read(&self, first: PageNo, offset: u64, buf: &mut [u8]) -> Result<()> {
        let at = u64::from(first) * self.geometry().page_bytes() as u64 + offset;
        let disk = self.disk.lock().unwrap();
        (at..).zip(buf).for_each(|(at, b)| *b = disk.get(&at).copied().unwrap_or(0));
        Ok(())
    }
    fn tell(&self, told: Told, first: PageNo, pages: u32) {
        assert!(pages > 0 && first + pages <= self.limit());
        self.told.lock().unwrap().push((told, first, pages));
    }
    fn adopt(&self, (): &mut (), first: PageNo, pages: u32) {
        self.tell(Told::Adopted, first, pages);
        let mut extents = self.extents.lock().unwrap();
        for no in first..first + pages {
            match extents.insert(no, ExtentPage::Adopted) {
                Some(ExtentPage::Pending(bytes)) => assert!(
                    bytes == self.geometry().page_bytes() || no + 1 == first + pages,
                    "page {no} in the middle of an extent has {bytes} bytes"
                ),
                other => panic!("page {no} is adopted that was {other:?}"),
            }
        }
    }
    fn forget(&self, (): &mut (), first: PageNo, pages: u32) {
        self.tell(Told::Forgotten, first, pages);
        for no in first..first + pages {
            let before = self.extents.lock().unwrap().remove(&no);
            assert_eq!(before, Some(ExtentPage::Adopted), "page {no} is forgotten");
        }
    }
    fn discard(&self, first: PageNo, pages: u32) {
        self.tell(Told::Discarded, first, pages);
        for no in first..first + pages {
            let before = self.extents.lock().unwrap().remove(&no);
            assert_ne!(before, Some(ExtentPage::Adopted), "page {no} is discarded");
        }
    }
    /// Takes the events of extents since the last call.
    pub fn take_told(&self) -> Vec<(Told, PageNo, u32)> {
        std::mem::take(&mut self.told.lock().unwrap())
    }
    pub fn flip_disk_byte(&self) {
        let mut disk = self.disk.lock().unwrap();
        *disk.values_mut().next().unwrap() ^= 1;
    }
    pub fn hooks() -> Hooks<Toy> {
        Hooks {
            redo,
            extents: Some(ExtentIo {
                write: Toy::write,
                read: Toy::read,
                adopt: Toy::adopt,
                forget: Toy::forget,
                kept: None,
                most: |_| usize::MAX,
                release: |_, _, _| (),
                discard: Toy::discard,
            }),
            durable: |m| m.durable.load(Ordering::SeqCst),
            ..Hooks::default()
        }
    }
}

pub fn redo<M: Medium>(m: &M, page: Page<'_>, change: Change<'_>) -> Result<()> {
    if change.tag == TAG_NODE {
        m.store(page.head(5), pack(NODE, 0, 0, 0));
        m.store(page.body_word(0), u64::from_le_bytes(change.bytes.try_into().unwrap()));
        return Ok(());
    }
    everleaf_pool::redo(m, page, change)
}

impl Medium for Toy {
    type Op<'m> = ();
    const JOURNALED: bool = true;
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }
    fn limit(&self) -> PageNo {
        self.inner.limit()
    }
    fn page(&self, no: PageNo) -> Result<Page<'_>> {
        self.inner.page(no)
    }
    fn fetch(&self, page: Page<'_>, redo: &mut Redo<'_>) -> Result<()> {
        let journal = self.journal.lock().unwrap();
        for (_, tag, bytes) in journal.iter().filter(|(no, ..)| *no == page.no()) {
            redo(page, Change { tag: *tag, bytes })?;
        }
        Ok(())
    }
    fn store(&self, word: Word<'_>, value: u64) {
        self.inner.store(word, value);
    }
    fn flush(&self, _: Page<'_>, _: usize) {
        panic!("a journal needs no flushes");
    }
    fn fence(&self) {
        panic!("a journal needs no fences");
    }
    fn enter(&self) -> Result<()> {
        Ok(())
    }
    fn note(&self, (): &mut (), page: Page<'_>, change: Change<'_>) {
        let change = (page.no(), change.tag, change.bytes.to_vec());
        self.journal.lock().unwrap().push(change);
    }
    fn epoch(&self, (): &()) -> u64 {
        self.epoch.load(Ordering::SeqCst)
    }
}

pub fn rng(seed: u64) -> Xoshiro256PlusPlus {
    rand::SeedableRng::seed_from_u64(seed)
}

pub fn bytes(rng: &mut Xoshiro256PlusPlus, len: usize) -> Vec<u8> {
    (0..len).map(|_| rng.random()).collect()
}

/// Runs a step until it is not busy.
pub fn retry<'p, M: Medium, T>(
    pool: &'p Pool<M>,
    mut plan: impl FnMut(Step<'p, M>) -> std::result::Result<T, Stop>,
) -> Result<T> {
    loop {
        match plan(pool.step()) {
            Ok(done) => return Ok(done),
            Err(Stop::Busy) => std::thread::yield_now(),
            Err(Stop::Failed(e)) => return Err(e),
        }
    }
}

/// Puts a pair in a step of its own.
pub fn put<M>(pool: &Pool<M>, key: &[u8], value: &[u8]) -> Result<RecordRef>
where
    M: for<'m> Medium<Op<'m> = ()>,
{
    retry(pool, |mut step| {
        let head = pair_header(key.len(), value.len());
        let r = step.record(8 + key.len() + value.len())?;
        step.enter()?;
        step.write_record(&mut (), r, &[&head, key, value]);
        step.publish_alloc(&mut ());
        Ok(r)
    })
}

/// Frees a record in a step of its own.
pub fn release<M>(pool: &Pool<M>, r: RecordRef) -> Result<()>
where
    M: for<'m> Medium<Op<'m> = ()>,
{
    retry(pool, |mut step| {
        step.release(r)?;
        step.enter()?;
        step.publish_free(&mut ());
        Ok(())
    })
}

/// Makes a node that holds `value`.
pub fn make_node<M>(pool: &Pool<M>, value: u64) -> Result<PageNo>
where
    M: for<'m> Medium<Op<'m> = ()>,
{
    retry(pool, |mut step| {
        let m = pool.medium();
        let (page, held) = step.new_page(NODE)?;
        assert!(held.is_ready());
        step.enter()?;
        let bytes = value.to_le_bytes();
        redo(m, page, Change { tag: TAG_NODE, bytes: &bytes })?;
        if !M::JOURNALED {
            m.flush(page, 0);
            m.flush(page, page.body_word(0).line());
            m.fence();
        }
        m.note(&mut (), page, Change { tag: TAG_NODE, bytes: &bytes });
        step.publish_alloc(&mut ());
        drop(held);
        Ok(page.no())
    })
}

/// Frees a node.
pub fn free_node<M>(pool: &Pool<M>, no: PageNo) -> Result<()>
where
    M: for<'m> Medium<Op<'m> = ()>,
{
    retry(pool, |mut step| {
        let (page, held) = pool.latch(no)?;
        step.free_page(no)?;
        step.enter()?;
        step.publish_free(&mut ());
        note_free(pool.medium(), &mut (), page);
        drop(step);
        drop(held);
        Ok(())
    })
}

pub fn read<M: Medium>(pool: &Pool<M>, r: RecordRef) -> Result<(Vec<u8>, Vec<u8>)> {
    let record = pool.record(r)?;
    let (mut key, mut value) = (Vec::new(), Vec::new());
    pool.key(&record, &mut key)?;
    pool.value(&record, &mut value)?;
    assert!(record.is_current());
    Ok((key, value))
}

/// The content that the pool should have.
#[derive(Default, Clone)]
pub struct Model {
    pub records: BTreeMap<RecordRef, (Vec<u8>, Vec<u8>)>,
    pub nodes: BTreeMap<PageNo, u64>,
}

impl Model {
    /// One random step on both.
    pub fn step<M>(&mut self, pool: &Pool<M>, rng: &mut Xoshiro256PlusPlus)
    where
        M: for<'m> Medium<Op<'m> = ()>,
    {
        let most = everleaf_pool::max_record(pool.geometry()) - 8;
        match rng.random_range(0..10) {
            0..5 => {
                let len = rng.random_range(0..=most);
                let key_bytes = rng.random_range(0..=len);
                let key = bytes(rng, key_bytes);
                let value = bytes(rng, len - key.len());
                match put(pool, &key, &value) {
                    Ok(r) => assert!(self.records.insert(r, (key, value)).is_none(), "{r:?}"),
                    Err(e) => assert!(matches!(e, Error::Full { .. }), "{e}"),
                }
            }
            5..8 => {
                let at = rng.random_range(0..=self.records.len());
                if let Some(r) = self.records.keys().nth(at).copied() {
                    release(pool, r).unwrap();
                    self.records.remove(&r);
                }
            }
            8 => {
                let value = rng.random();
                match make_node(pool, value) {
                    Ok(no) => assert!(self.nodes.insert(no, value).is_none(), "page {no}"),
                    Err(e) => assert!(matches!(e, Error::Full { .. }), "{e}"),
                }
            }
            _ => {
                if let Some((no, _)) = self.nodes.pop_last() {
                    free_node(pool, no).unwrap();
                }
            }
        }
    }

    pub fn compare<M: Medium>(&self, pool: &Pool<M>) {
        assert_eq!(pool.check(), []);
        for (r, pair) in &self.records {
            assert_eq!(&read(pool, *r).unwrap(), pair);
        }
        for (no, value) in &self.nodes {
            let (page, _held) = pool.latch(*no).unwrap();
            assert_eq!(page.body_word(0).load(), *value);
        }
        let held: Vec<_> = pool.records().map(|r| r.unwrap()).collect();
        assert_eq!(held, self.records.keys().copied().collect::<Vec<_>>());
        let stats = pool.stats().unwrap();
        assert_eq!(stats.nodes as usize, self.nodes.len());
        let map = pool.map_bytes().unwrap();
        assert_eq!(map.iter().filter(|b| **b != FREE).count() as u32 + stats.free, {
            pool.medium().limit()
        });
    }
}

/// A pool on simulated memory of `slots` and `limit`.
pub fn sim(slots: u32, limit: PageNo) -> Pool<Sim> {
    let m = Sim::new(Geometry::from_slots(slots).unwrap(), limit).unwrap();
    Pool::format(m, Hooks::default()).unwrap()
}
