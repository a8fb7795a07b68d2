//! Everything that nobody names is found, of whatever kind, and given back; nothing else is.

use crate::common;
use std::cell::RefCell;
use std::collections::HashSet;

use everleaf_pmem::{Counted, Dram, Error, Geometry, Medium, PageNo};
use everleaf_pool::kind::{ANCHOR, EXTENT_HEAD, EXTENT_TAIL, NODE, RECORD};
use everleaf_pool::{ExtentIo, Hooks, Leaks, PageRun, Pool, RecordRef, anchor};

type Plain = Counted<Dram>;

const LIMIT: PageNo = 300;

thread_local! {
    /// The extents that the medium was told to forget.
    static FORGOTTEN: RefCell<Vec<PageRun>> = const { RefCell::new(Vec::new()) };
}

fn forget(_: &Plain, _: &mut (), first: PageNo, pages: u32) {
    FORGOTTEN.with_borrow_mut(|forgotten| forgotten.push(PageRun { first, pages }));
}

/// Extents whose bytes do not matter.
const EXTENTS: ExtentIo<Plain> =
    ExtentIo { forget, ..ExtentIo::in_place(|_, _, _, _| Ok(()), |_, _, _, _| Ok(())) };

fn hooks() -> Hooks<Plain> {
    Hooks { extents: Some(EXTENTS), ..Hooks::default() }
}

/// A pool of groups of 128 pages.
fn pool() -> Pool<Plain> {
    let m = Dram::new(Geometry::new(8).unwrap(), LIMIT).unwrap();
    Pool::format(Counted::new(m), hooks()).unwrap()
}

fn put_large(pool: &Pool<Plain>, pages: usize) -> RecordRef {
    let value = vec![0; pages * pool.geometry().page_bytes()];
    let large = pool.write_large(b"key", &value).unwrap();
    common::retry(pool, |mut step| {
        let r = step.large_record(&large)?;
        step.publish_alloc(&mut ());
        step.write_record(&mut (), r, &[large.record_bytes()]);
        Ok(r)
    })
    .unwrap()
}

fn leaks(pool: &Pool<Plain>, nodes: &[PageNo], records: &[RecordRef]) -> Leaks {
    let records: HashSet<_> = records.iter().copied().collect();
    pool.leaks(|kind, no| kind == NODE && nodes.contains(&no), &records).unwrap()
}

/// Sets a byte of the map.
fn own(pool: &Pool<Plain>, no: PageNo, owner: u8) {
    let per_group = 16 * pool.geometry().slots() as u32;
    let map = pool.page(no / per_group * per_group).unwrap();
    let (word, shift) = (map.body((no % per_group) as usize / 8), 8 * (no % 8));
    let value = word.load() & !(0xff << shift) | u64::from(owner) << shift;
    pool.medium().store(word, value);
}

#[test]
fn everything_that_nobody_names_is_given_back() {
    let pool = pool();
    let nodes: Vec<_> = (0..4).map(|i| common::make_node(&pool, i).unwrap()).collect();
    let records: Vec<_> = (0..20).map(|_| common::put(&pool, b"some", b"pair").unwrap()).collect();
    let large: Vec<_> = (1..4).map(|pages| put_large(&pool, pages)).collect();
    let mut step = pool.step();
    let (page, held) = step.new_page(ANCHOR).unwrap();
    anchor::init(pool.medium(), &mut (), page, nodes[0]);
    step.publish_alloc(&mut ());
    let anchor = page.no();
    drop((step, held));
    // A page whose map byte became durable before its bytes did.
    let unbuilt = common::make_node(&pool, 9).unwrap();
    pool.medium().store(pool.page(unbuilt).unwrap().head(5), 0);

    let kept: Vec<_> = records.iter().step_by(3).chain(&large[1..2]).copied().collect();
    let found = leaks(&pool, &nodes[1..], &kept);
    assert_eq!((&found.anchors, &found.nodes), (&vec![anchor], &vec![nodes[0], unbuilt]));
    assert_eq!(found.records.len(), records.len() + large.len() - kept.len());
    assert_eq!(found.extents.iter().map(|run| run.pages).sum::<u32>(), 1 + 3);

    let before = pool.stats().unwrap();
    pool.reclaim(&found).unwrap();
    assert_eq!(FORGOTTEN.take(), found.extents);
    assert_eq!(leaks(&pool, &nodes[1..], &kept), Leaks::default());
    assert_eq!(pool.check(), []);
    let after = pool.stats().unwrap();
    let returned = 1 + found.nodes.len() + found.record_pages.len() + 1 + 3;
    assert_eq!((after.free - before.free) as usize, returned);
    for r in &kept {
        assert_eq!(common::read(&pool, *r).unwrap().0.len(), if large.contains(r) { 3 } else { 4 });
    }
    let counts = pool.medium().counts();
    pool.reclaim(&leaks(&pool, &nodes[1..], &kept)).unwrap();
    assert_eq!(pool.medium().counts() - counts, Default::default(), "there is nothing to do");

    // The numbers are free in memory, too: extents fill their group, nodes all the rest.
    for _ in 0..128 - 1 - after.extents {
        put_large(&pool, 1);
    }
    let before = pool.stats().unwrap();
    assert_eq!((before.maps, before.extents), (2, 127));
    let made = std::iter::from_fn(|| common::make_node(&pool, 0).ok()).count();
    assert_eq!(made as u32, before.free - 1, "one more group needs a map page");
}

#[test]
fn what_is_left_of_an_extent_is_no_damage_and_is_given_back() {
    let pool = pool();
    let kept = put_large(&pool, 3);
    let first = pool.map_bytes().unwrap().iter().position(|b| *b == EXTENT_HEAD).unwrap() as u32;
    // A head without its tails, tails without their head, one in the next line of the map.
    own(&pool, first + 5, EXTENT_HEAD);
    (first + 8..first + 11).for_each(|no| own(&pool, no, EXTENT_TAIL));
    own(&pool, first + 70, EXTENT_HEAD);
    own(&pool, first + 71, EXTENT_TAIL);
    let pool = Pool::open(Counted::new(copy(&pool)), hooks()).unwrap();
    assert_eq!(pool.check(), []);
    let found = leaks(&pool, &[], &[kept]);
    let run = |first, pages| PageRun { first, pages };
    assert_eq!(found.extents, [run(first + 5, 1), run(first + 8, 3), run(first + 70, 2)]);
    pool.reclaim(&found).unwrap();
    assert_eq!(FORGOTTEN.take(), found.extents);
    assert_eq!(leaks(&pool, &[], &[kept]), Leaks::default());
    assert_eq!(pool.stats().unwrap().extents, 3);
    assert_eq!(common::read(&pool, kept).unwrap().0, b"key");
}

/// The same bytes on another medium.
fn copy(pool: &Pool<Plain>) -> Dram {
    let m = Dram::new(pool.geometry(), LIMIT).unwrap();
    for no in 0..LIMIT {
        for word in 0..pool.geometry().page_words() {
            let value = pool.page(no).unwrap().word(word).load();
            m.store(m.page(no).unwrap().word(word), value);
        }
    }
    m
}

#[test]
fn pages_that_are_being_filled_are_not_lost() {
    let pool = pool();
    let r = common::put(&pool, b"some", b"pair").unwrap();
    common::release(&pool, r).unwrap();
    assert_eq!(leaks(&pool, &[], &[]), Leaks::default());
    let pool = Pool::open(Counted::new(copy(&pool)), hooks()).unwrap();
    let found = leaks(&pool, &[], &[]);
    assert_eq!(found, Leaks { record_pages: vec![r.page()], ..Leaks::default() });
    pool.reclaim(&found).unwrap();
    assert_eq!(pool.stats().unwrap().records, 0);
    let again = common::put(&pool, b"some", b"pair").unwrap();
    assert_eq!(common::read(&pool, again).unwrap().0, b"some");
}

#[test]
fn damage_is_refused() {
    let pool = pool();
    let corrupt = |answer: everleaf_pmem::Result<()>| {
        assert!(matches!(answer, Err(Error::Corrupt { .. })), "{answer:?}");
    };
    let (node, r) = (common::make_node(&pool, 1).unwrap(), put_large(&pool, 2));
    corrupt(pool.free_page(node, ANCHOR));
    corrupt(pool.free_page(LIMIT, NODE));
    corrupt(pool.free_page(200, NODE));
    let counts = pool.medium().counts();
    corrupt(pool.reclaim(&Leaks { record_pages: vec![r.page()], ..Leaks::default() }));
    let extents = vec![PageRun { first: 0, pages: 2 }];
    corrupt(pool.reclaim(&Leaks { extents, ..Leaks::default() }));
    corrupt(pool.reclaim(&Leaks { records: vec![RecordRef::from_bits(7)], ..Leaks::default() }));
    assert_eq!(pool.medium().counts() - counts, Default::default(), "nothing was changed");
    // A record page without a header, and a record whose extents are another's.
    own(&pool, node, RECORD);
    corrupt(pool.leaks(|_, _| true, &HashSet::new()).map(drop));
    own(&pool, node, NODE);
    let record = pool.page(r.page()).unwrap();
    let run = record.body(2 * usize::from(r.unit()) + 2);
    pool.medium().store(run, 5 | 3 << 32);
    corrupt(pool.leaks(|_, _| true, &HashSet::from([r])).map(drop));
}
