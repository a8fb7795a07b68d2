//! Glances: what is in memory is read there, a copy of the rest is made once, and a copy that is not so any more
//! is none.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use everleaf_pmem::door::put;
use everleaf_pmem::{Change, Dram, Error, Geometry, Medium, Page, PageNo, Redo, Result, Word};
use everleaf_pool::{Glance, Hooks, Pool};

/// Something that another thread does while a copy is made.
type Meanwhile = Box<dyn FnOnce(&Store) + Send>;

/// Pages that are somewhere else until they are fetched.
struct Store {
    memory: Dram,
    home: Dram,
    fetched: Mutex<BTreeSet<PageNo>>,
    copies: AtomicU64,
    /// Only a fetch knows what a page is.
    only_fetches: AtomicBool,
    fails: AtomicBool,
    meanwhile: Mutex<Option<Meanwhile>>,
}

impl Store {
    fn copies(&self) -> u64 {
        self.copies.load(Ordering::Relaxed)
    }

    /// Somebody brings a page to memory, changes it, and leaves.
    fn change(&self, no: PageNo, value: u64) {
        let page = self.memory.page(no).expect("inside");
        let mut held = page.latch().lock();
        held.set_ready();
        put(page.word(20), value);
    }

    /// A page leaves memory as it is.
    fn evict(&self, no: PageNo) {
        let page = self.memory.page(no).expect("inside");
        put(self.home.page(no).expect("inside").word(20), page.word(20).load());
        assert!(page.latch().cool());
        drop(page.latch().try_lock_cold().expect("cold"));
        assert!(self.fetched.lock().expect("sound").remove(&no));
    }
}

impl Medium for Store {
    type Op<'m> = ();
    const ORDERED: bool = false;
    const JOURNALED: bool = false;

    fn geometry(&self) -> Geometry {
        self.memory.geometry()
    }
    fn limit(&self) -> PageNo {
        self.memory.limit()
    }
    fn page(&self, no: PageNo) -> Result<Page<'_>> {
        self.memory.page(no)
    }
    fn fetch(&self, page: Page<'_>, _: &mut Redo<'_>) -> Result<()> {
        assert!(self.fetched.lock().expect("sound").insert(page.no()), "it is there");
        let home = self.home.page(page.no())?;
        (0..page.geometry().page_words()).for_each(|i| put(page.word(i), home.word(i).load()));
        Ok(())
    }
    fn read_aside(&self, no: PageNo, aside: Page<'_>) -> Result<bool> {
        assert!(aside.no() == no && aside.latch().is_held_here());
        self.copies.fetch_add(1, Ordering::Relaxed);
        let home = self.home.page(no)?;
        (0..aside.geometry().page_words()).for_each(|i| put(aside.word(i), home.word(i).load()));
        if let Some(meanwhile) = self.meanwhile.lock().expect("sound").take() {
            meanwhile(self);
        }
        match self.fails.load(Ordering::Relaxed) {
            true => Err(Error::corrupt(0, "it rots")),
            false => Ok(!self.only_fetches.load(Ordering::Relaxed)),
        }
    }
    fn store(&self, word: Word<'_>, value: u64) {
        put(word, value);
    }
    fn flush(&self, _: Page<'_>, _: usize) {}
    fn fence(&self) {}
    fn enter(&self) -> Result<()> {
        Ok(())
    }
    fn note(&self, (): &mut (), _: Page<'_>, _: Change<'_>) {}
    fn epoch(&self, (): &()) -> u64 {
        0
    }
}

/// A pool whose pages from 8 on have their number as word 20, at home.
fn pool() -> Pool<Store> {
    let g = Geometry::whole(512).expect("valid");
    let new = || Dram::new(g, 64).expect("address space");
    let (memory, home) = (new(), new());
    for no in 8..64 {
        put(home.page(no).expect("inside").word(20), u64::from(no));
    }
    let store = Store {
        memory,
        home,
        fetched: Mutex::default(),
        copies: AtomicU64::new(0),
        only_fetches: AtomicBool::new(false),
        fails: AtomicBool::new(false),
        meanwhile: Mutex::default(),
    };
    Pool::format(store, Hooks::default()).expect("room")
}

fn seen(glance: &Glance<'_, Store>, no: PageNo) -> u64 {
    glance.read(no, |page| page.word(20).load()).expect("no fault")
}

#[test]
fn a_page_that_is_absent_is_copied_once_and_stays_absent() {
    let pool = pool();
    let (m, glance) = (pool.medium(), Glance::new(&pool));
    for no in [9, 9, 10, 10, 9] {
        let (page, version) = glance.page(no).expect("no fault");
        assert_eq!((page.no(), page.word(20).load()), (no, u64::from(no)));
        let own = m.page(no).expect("inside");
        assert!(own.latch().validate(version) && !own.latch().is_ready());
    }
    assert_eq!(m.copies(), 3, "the last copy is kept");
    assert!(!m.fetched.lock().expect("sound").contains(&9));
    // From a fetch on the copy is none, and what is in memory counts.
    let (_, version) = glance.page(9).expect("no fault");
    drop(pool.latch(9).expect("no fault"));
    m.change(9, 77);
    assert!(!m.page(9).expect("inside").latch().validate(version));
    assert_eq!((seen(&glance, 9), m.copies()), (77, 3));
    m.evict(9);
    assert_eq!((seen(&glance, 9), m.copies()), (77, 4), "it has changed since it was copied");
    assert!(glance.page(64).is_err(), "there is no such page");
}

#[test]
fn a_copy_of_a_page_that_was_fetched_meanwhile_is_made_for_nothing() {
    let pool = pool();
    let (m, glance) = (pool.medium(), Glance::new(&pool));
    let meanwhile = |no| {
        let change: Meanwhile = Box::new(move |m: &Store| m.change(no, 77));
        *m.meanwhile.lock().expect("sound") = Some(change);
    };
    meanwhile(9);
    assert_eq!((seen(&glance, 9), m.copies()), (77, 1));
    // Nor does an error count then.
    m.fails.store(true, Ordering::Relaxed);
    meanwhile(10);
    assert_eq!((seen(&glance, 10), m.copies()), (77, 2));
    m.fails.store(false, Ordering::Relaxed);
    assert_eq!(seen(&glance, 12), 12);
    m.fails.store(true, Ordering::Relaxed);
    let error = glance.page(11).map(drop).expect_err("it rots");
    assert!(error.to_string().contains("it rots"), "{error}");
    m.fails.store(false, Ordering::Relaxed);
    assert_eq!(seen(&glance, 12), 12, "what failed has written over its copy");
    assert_eq!(seen(&glance, 11), 11, "the next glance tries again");
}

#[test]
fn a_page_that_only_a_fetch_knows_is_fetched() {
    let pool = pool();
    let (m, glance) = (pool.medium(), Glance::new(&pool));
    m.only_fetches.store(true, Ordering::Relaxed);
    assert_eq!((seen(&glance, 9), seen(&glance, 9), m.copies()), (9, 9, 1));
    assert!(m.fetched.lock().expect("sound").contains(&9));
}
