//! Single facts about steps: busy, given up, full, reused, large.

use crate::common;
use std::sync::atomic::Ordering;

use crate::common::{Told, Toy, free_node, make_node, put, read, release, sim};
use everleaf_pmem::{Error, Medium, PageNo, Sim};
use everleaf_pool::kind::{ANCHOR, NODE};
use everleaf_pool::{
    CATALOG_ANCHOR, Hooks, Large, LargeWriter, Pool, RecordRef, Stop, StoredValue, anchor,
    pair_header,
};

#[test]
fn a_busy_page_stops_the_step_and_costs_nothing() {
    let pool = sim(8, 200);
    let r = put(&pool, b"key", b"value").unwrap();
    let before = pool.medium().image();
    {
        let (_page, _latch) = pool.latch(r.page()).unwrap();
        assert!(matches!(pool.step().record(10), Err(Stop::Busy)), "the arena's page is held");
        assert!(matches!(pool.step().release(r), Err(Stop::Busy)));
        assert!(matches!(pool.step().view(r), Err(Stop::Busy)));
    }
    {
        let (_map, _latch) = pool.latch(0).unwrap();
        assert!(matches!(pool.step().new_page(NODE), Err(Stop::Busy)));
        assert!(matches!(pool.step().record(128), Err(Stop::Busy)), "another class, a new page");
    }
    assert_eq!(pool.medium().image(), before);
    assert_eq!(make_node(&pool, 1).unwrap(), 3, "the number came back");
    assert_eq!(put(&pool, b"other", b"").unwrap().page(), r.page());
}

#[test]
fn a_step_that_is_given_up_gives_everything_back() {
    let pool = sim(4, 200);
    let first = put(&pool, b"a", b"b").unwrap();
    let before = pool.medium().image();
    for _ in 0..1000 {
        let mut step = pool.step();
        let refs: Vec<_> = (0..5).map(|_| step.record(30).unwrap()).collect();
        assert!(refs.iter().all(|r| *r != first));
        step.new_page(ANCHOR).unwrap();
        step.release(first).unwrap();
    }
    assert_eq!(pool.medium().image(), before);
    assert_eq!(put(&pool, b"c", b"d").unwrap().page(), first.page());
    assert_eq!(pool.check(), []);
}

#[test]
fn one_step_can_fill_several_pages_and_never_gives_a_place_twice() {
    let pool = sim(4, 200);
    let mut step = pool.step();
    let refs: Vec<_> = (0..9).map(|_| step.record(30).unwrap()).collect();
    for (i, r) in refs.iter().enumerate() {
        step.write_record(&mut (), *r, &[&pair_header(1, 0), &[i as u8]]);
    }
    step.publish_alloc(&mut ());
    drop(step);
    for (i, r) in refs.iter().enumerate() {
        assert_eq!(read(&pool, *r).unwrap().0, [i as u8]);
    }
    assert_eq!(pool.records().count(), 9);
    assert_eq!(pool.stats().unwrap().records, 5);
    let tenth = put(&pool, b"x", b"").unwrap();
    assert_eq!(pool.stats().unwrap().records, 5, "the last page had room: {tenth:?}");
}

#[test]
fn freed_places_and_pages_are_used_again() {
    let pool = sim(8, 200);
    let refs: Vec<_> = (0..40u8).map(|i| put(&pool, &[i], &[]).unwrap()).collect();
    let pages = pool.stats().unwrap().records;
    refs.iter().step_by(2).for_each(|r| release(&pool, *r).unwrap());
    let again: Vec<_> = (0..20u8).map(|i| put(&pool, &[i], &[1]).unwrap()).collect();
    assert_eq!(pool.stats().unwrap().records, pages, "partial pages were filled");
    refs.iter().skip(1).step_by(2).chain(&again).for_each(|r| release(&pool, *r).unwrap());
    assert_eq!(pool.records().count(), 0);
    assert!(pool.stats().unwrap().records <= 1, "empty pages were freed");
    let error = release(&pool, refs[0]).unwrap_err();
    assert!(matches!(error, Error::Corrupt { .. }), "{error}");
}

#[test]
fn partial_pages_are_found_after_a_reopen() {
    let pool = sim(8, 200);
    let refs: Vec<_> = (0..64u8).map(|i| put(&pool, &[i], &[]).unwrap()).collect();
    let pages = pool.stats().unwrap().records;
    refs.iter().step_by(4).for_each(|r| release(&pool, *r).unwrap());
    let m = Sim::from_image(pool.geometry(), 200, &pool.medium().image()).unwrap();
    let pool = Pool::open(m, Hooks::default()).unwrap();
    (0..16u8).for_each(|i| assert_ne!(put(&pool, &[i], &[]).unwrap().page(), 0));
    assert_eq!(pool.stats().unwrap().records, pages);
}

#[test]
fn partial_pages_that_are_busy_are_found_later() {
    let pool = sim(8, 200);
    let refs: Vec<_> = (0..4u8).map(|i| put(&pool, &[i; 8], &[0; 48]).unwrap()).collect();
    release(&pool, refs[0]).unwrap();
    let m = Sim::from_image(pool.geometry(), 200, &pool.medium().image()).unwrap();
    let pool = Pool::open(m, Hooks::default()).unwrap();
    let held = pool.latch(refs[0].page()).unwrap();
    let other = put(&pool, &[1; 8], &[0; 48]).unwrap();
    assert_ne!(other.page(), refs[0].page());
    drop(held);
    let found: Vec<_> = (0..2).map(|_| put(&pool, &[2; 8], &[0; 48]).unwrap()).collect();
    assert!(found.contains(&refs[0]), "{found:?}");
}

#[test]
fn pages_change_kind_and_anchors_hold_roots() {
    let pool = sim(4, 100);
    assert_eq!(pool.anchor(CATALOG_ANCHOR).unwrap(), 0);
    let root = make_node(&pool, 1).unwrap();
    {
        let (page, _held) = pool.latch(CATALOG_ANCHOR).unwrap();
        anchor::set_root(pool.medium(), &mut (), page, root);
    }
    assert_eq!(pool.anchor(CATALOG_ANCHOR).unwrap(), root);
    assert!(pool.anchor(root).is_err());
    assert_eq!(pool.check(), []);
    free_node(&pool, root).unwrap();
    assert_eq!(pool.check().len(), 1, "the root is no node any more");
    let r = put(&pool, b"k", b"v").unwrap();
    assert_eq!(r.page(), root, "the number is used again");
}

#[test]
fn a_full_pool_says_so_and_recovers() {
    let pool = sim(4, 70);
    let nodes: Vec<_> = std::iter::from_fn(|| make_node(&pool, 1).ok()).collect();
    assert_eq!(nodes.len(), 70 - 3, "two map pages and the anchor");
    assert!(matches!(put(&pool, b"", b"").unwrap_err(), Error::Full { bytes: 8960 }));
    assert_eq!(pool.stats().unwrap().free, 0);
    free_node(&pool, nodes[66]).unwrap();
    put(&pool, b"", b"").unwrap();
    assert!(matches!(pool.step().record(65), Err(Stop::Failed(Error::RecordTooLong { .. }))));
}

#[test]
fn groups_come_into_being_in_order() {
    let pool = sim(4, 300);
    let mut first = pool.step();
    for _ in 0..62 {
        make_node(&pool, 1).unwrap();
    }
    let (held_page, _held) = first.new_page(NODE).unwrap();
    assert_eq!(held_page.no(), 65, "the second group is planned and not made");
    assert!(matches!(pool.step().new_page(NODE), Err(Stop::Busy)), "its map page is held");
    drop(first);
    let image = Sim::from_image(pool.geometry(), 300, &pool.medium().image()).unwrap();
    assert_eq!(Pool::open(image, Hooks::default()).unwrap().stats().unwrap().maps, 1);
}

#[test]
fn format_and_open_refuse_what_they_should() {
    let pool = sim(4, 100);
    let image = pool.medium().image();
    let g = pool.geometry();
    let again = Pool::format(Sim::from_image(g, 100, &image).unwrap(), Hooks::default());
    assert!(matches!(again.err(), Some(Error::InUse { .. })));
    let none = Pool::open(Sim::new(g, 100).unwrap(), Hooks::default());
    assert!(matches!(none.err(), Some(Error::Foreign { .. })));
}

#[test]
fn damage_is_found_where_it_is() {
    let pool = sim(8, 100);
    let r = put(&pool, b"key", b"value").unwrap();
    let clean = pool.medium().image();
    let words = pool.geometry().page_words();
    let page = r.page() as usize * words;
    let cases = [(page, r.page(), 0), (page + 1, r.page(), 8), (page + 5, r.page(), 40)];
    for (word, no, offset) in cases.into_iter().chain([(page + 8, r.page(), 64), (9, 0, 72)]) {
        let mut image = clean.clone();
        image[word] ^= 0x0505_0505_0505_0505;
        let m = Sim::from_image(pool.geometry(), 100, &image).unwrap();
        let opened = Pool::open(m, Hooks::default()).unwrap();
        let damage = opened.check();
        assert!(
            damage.iter().any(|d| d.page == no && d.offset_bytes_in_page == offset),
            "{word}: {damage:?}"
        );
        let _ = opened.step().release(r);
        let _ = opened.step().record(9);
        assert!(opened.records().count() < 10);
    }
}

fn put_large(pool: &Pool<Toy>, key: &[u8], value: &[u8]) -> RecordRef {
    take_large(pool, &pool.write_large(key, value).unwrap())
}

/// Puts the next piece of a value where it goes; says how many bytes that were.
fn feed(writer: &mut LargeWriter<'_, Toy>, value: &[u8]) -> Option<usize> {
    let space = writer.space()?;
    space.copy_from_slice(&value[..space.len()]);
    let len = space.len();
    writer.write().unwrap();
    Some(len)
}

/// As [`put_large`], piece by piece.
fn put_in_pieces(pool: &Pool<Toy>, key: &[u8], value: &[u8]) -> RecordRef {
    let mut writer = pool.begin_large(key, value.len() as u64).unwrap();
    let mut done = 0;
    while let Some(len) = feed(&mut writer, &value[done..]) {
        done += len;
    }
    assert_eq!(done, value.len());
    take_large(pool, &writer.finish().unwrap())
}

fn take_large(pool: &Pool<Toy>, large: &Large<'_, Toy>) -> RecordRef {
    common::retry(pool, |mut step| {
        let r = step.large_record(large)?;
        step.enter()?;
        step.write_record(&mut (), r, &[large.record_bytes()]);
        step.publish_alloc(&mut ());
        Ok(r)
    })
    .unwrap()
}

#[test]
fn extents_that_cannot_be_a_records_are_refused() {
    let (pool, value) = (Pool::format(Toy::new(28, 2000), Toy::hooks()).unwrap(), vec![5; 70_000]);
    let r = put_large(&pool, b"key", &value);
    let record = pool.record(r).unwrap();
    let (run, m) = (record.word(2), pool.medium());
    let page = record.page();
    let body = 0..m.geometry().page_bytes() / 8;
    let word = body.map(|i| page.body_word(i)).find(|word| word.load() == run).expect("the run");
    let (first, pages) = (run as u32, (run >> 32) as u32);
    let wrong = [
        (first, pages - 1),
        (first, pages + 1),
        (first, 0),
        (0, pages),
        (m.limit() - 1, pages),
        (m.limit(), pages),
        (u32::MAX, pages),
        (first, u32::MAX),
    ];
    for (first, pages) in wrong {
        m.store(word, u64::from(first) | u64::from(pages) << 32);
        let refused = read(&pool, r);
        assert!(matches!(refused, Err(Error::Corrupt { .. })), "{pages} from {first}");
    }
    m.store(word, run);
    assert_eq!(read(&pool, r).unwrap(), (b"key".to_vec(), value));
}

#[test]
fn large_pairs_live_in_extents_until_their_epoch_is_durable() {
    large_pairs_wait(16, 65 + 257);
    // The second group, of 448 pages, is that of the extents, and the first has 196 of them.
    large_pairs_wait(28, 449 + 196);
}

/// The first extent that is freed ends before page `end`.
fn large_pairs_wait(slots: u32, end: u32) {
    let pool = Pool::format(Toy::new(slots, 2000), Toy::hooks()).unwrap();
    let value: Vec<u8> = (0..100_000u32).map(|i| (i % 251) as u8).collect();
    let long_key = vec![7; 5000];
    let kept = put_large(&pool, b"short key", &value);
    let moved = put_large(&pool, &long_key, &value[..10]);
    assert_eq!(read(&pool, kept).unwrap(), (b"short key".to_vec(), value.clone()));
    assert_eq!(read(&pool, moved).unwrap(), (long_key.clone(), value[..10].to_vec()));
    let record = pool.record(moved).unwrap();
    assert!(pool.compare_key(&record, 10, &long_key[10..]).unwrap().is_eq());
    let mut part = Vec::new();
    pool.value_part(&pool.record(kept).unwrap(), 70_000, 64_000, &mut part).unwrap();
    assert_eq!(part, value[70_000..]);
    assert_eq!(pool.check(), []);

    let again = Pool::open(pool.medium().reboot(), Toy::hooks()).unwrap();
    assert_eq!(read(&again, kept).unwrap().1, value);
    assert_eq!(again.check(), []);
    again.medium().flip_disk_byte();
    assert!(matches!(read(&again, kept).unwrap_err(), Error::Corrupt { .. }));

    let extents = pool.stats().unwrap().extents;
    pool.medium().epoch.store(9, Ordering::SeqCst);
    release(&pool, kept).unwrap();
    assert!(pool.stats().unwrap().extents < extents);
    let early = put_large(&pool, b"", &value);
    let first = |r| pool.record(r).unwrap().word(2) as u32;
    assert!(first(early) > end, "the freed extents wait: {}", first(early));
    pool.medium().durable.store(9, Ordering::SeqCst);
    let late = put_large(&pool, b"", &value[..20_000]);
    assert!(first(late) < first(early), "and are used again");
    drop(pool.write_large(b"", &value).unwrap());
    assert_eq!(pool.check(), []);
}

/// The pages that a medium was told of, in order; all for the same reason.
fn pages(told: &[(Told, PageNo, u32)], why: Told) -> Vec<PageNo> {
    assert!(told.iter().all(|(told, ..)| *told == why), "{told:?}");
    told.iter().flat_map(|(_, first, pages)| *first..first + pages).collect()
}

/// The medium checks that each page is written once and whole, and adopted only then.
#[test]
fn a_medium_hears_of_each_extent_what_becomes_of_it() {
    for slots in [8, 16, 28] {
        let pool = Pool::format(Toy::new(slots, 6000), Toy::hooks()).unwrap();
        let page = pool.geometry().page_bytes();
        let keys = [0, 1, page - 1, page, page + 1, 3 * page - 1, 3 * page, 3 * page + 7];
        let values = [0, 1, page - 1, page, page + 1, 5 * page - 3, 2000 * page / 3];
        let mut lens: Vec<_> =
            keys.iter().flat_map(|key| values.iter().map(move |value| (*key, *value))).collect();
        if slots == 8 {
            // So many extents that another one lists them.
            lens.push((page + 1, 1900 * page));
        }
        for (key, value) in lens {
            let mut rng = common::rng((key * value) as u64);
            let (key, value) = (common::bytes(&mut rng, key), common::bytes(&mut rng, value));
            let r = put_large(&pool, &key, &value);
            let adopted = pages(&pool.medium().take_told(), Told::Adopted);
            assert_eq!(read(&pool, r).unwrap(), (key.clone(), value.clone()));
            assert_eq!(adopted.len(), pool.stats().unwrap().extents as usize);

            // One that nobody takes, and one whose step is given up.
            drop(pool.write_large(&key, &value).unwrap());
            let discarded = pages(&pool.medium().take_told(), Told::Discarded);
            let large = pool.write_large(&key, &value).unwrap();
            pool.step().large_record(&large).unwrap();
            assert_eq!(pool.medium().take_told(), []);
            drop(large);
            assert_eq!(pages(&pool.medium().take_told(), Told::Discarded), discarded);
            assert!(
                discarded.len() == adopted.len()
                    && discarded.iter().all(|no| !adopted.contains(no))
            );

            pool.step().release(r).unwrap();
            assert_eq!(pool.medium().take_told(), [], "that step was given up, too");
            release(&pool, r).unwrap();
            assert_eq!(pages(&pool.medium().take_told(), Told::Forgotten), adopted);
            pool.medium().durable.fetch_add(1, Ordering::SeqCst);

            let r = put_in_pieces(&pool, &key, &value);
            let adopted = pages(&pool.medium().take_told(), Told::Adopted);
            assert_eq!(read(&pool, r).unwrap(), (key.clone(), value.clone()));
            assert_eq!(adopted.len(), pool.stats().unwrap().extents as usize);
            release(&pool, r).unwrap();
            assert_eq!(pages(&pool.medium().take_told(), Told::Forgotten), adopted);
            pool.medium().durable.fetch_add(1, Ordering::SeqCst);
        }
        assert_eq!(pool.stats().unwrap().extents, 0);
    }
}

/// Several pieces, of which the first begins with a key; and a value that stops coming after each piece.
#[test]
fn a_value_comes_in_pieces_or_leaves_nothing() {
    let pool = Pool::format(Toy::new(28, 14_000), Toy::hooks()).unwrap();
    let free = pool.stats().unwrap().free;
    let mut rng = common::rng(5);
    let (key, value) = (common::bytes(&mut rng, 5000), common::bytes(&mut rng, (2 << 20) + 77_777));
    let pieces = (0..).find(|pieces| {
        let mut writer = pool.begin_large(&key, value.len() as u64).unwrap();
        let mut done = 0;
        let fed = (0..*pieces).all(|_| {
            let len = feed(&mut writer, &value[done..]);
            done += len.unwrap_or(0);
            len.is_some()
        });
        if fed && done < value.len() {
            let refused = writer.finish().err();
            assert!(matches!(refused, Some(Error::Invalid { .. })), "{refused:?}");
        } else {
            drop(writer);
        }
        let discarded = pages(&pool.medium().take_told(), Told::Discarded);
        assert!(!discarded.is_empty());
        assert_eq!(pool.stats().unwrap().free, free);
        !fed
    });
    assert_eq!(pieces, Some(4), "the pieces are neither all of it nor tiny");
    let r = put_in_pieces(&pool, &key, &value);
    assert_eq!(read(&pool, r).unwrap(), (key, value.clone()));
    let mut part = [0; 3000];
    for from in [0, 1, (1 << 20) - 1500, value.len() as u64 - 3000] {
        let Ok(StoredValue::External(far)) = pool.find_value(&pool.record(r).unwrap()) else {
            panic!("a value of 2 MiB in a page");
        };
        assert_eq!(far.read_at(from, &mut part).unwrap(), 3000);
        assert_eq!(part, value[from as usize..][..3000]);
    }
    release(&pool, r).unwrap();
    // There is no room for so much, and that is known before the first byte.
    assert!(matches!(pool.begin_large(b"", 8 << 20).err(), Some(Error::Full { .. })));
    assert!(matches!(pool.begin_large(b"", 1 << 32).err(), Some(Error::ValueTooLong { .. })));
    assert_eq!(pool.check(), []);
}

/// Extents that were reserved and not written are discarded, too.
#[test]
fn an_extent_that_cannot_be_written_is_discarded() {
    let pool = Pool::format(Toy::new(8, 600), Toy::hooks()).unwrap();
    let page = pool.geometry().page_bytes();
    let (key, value) = (vec![1; 2 * page + 5], vec![2; 300 * page]);
    let free = pool.stats().unwrap().free;
    let written = pool.write_large(&key, &value).map(|_| ()).map(|()| pool.medium().take_told());
    let all = pages(&written.unwrap(), Told::Discarded);
    let writes = (0..).find(|writes| {
        pool.medium().writes.store(*writes, Ordering::SeqCst);
        let large = pool.write_large(&key, &value);
        assert!(matches!(&large, Ok(_) | Err(Error::Io { .. })));
        let is_written = large.is_ok();
        drop(large);
        let told = pages(&pool.medium().take_told(), Told::Discarded);
        assert!(is_written && told == all || !is_written && told.iter().all(|no| all.contains(no)));
        assert!(!told.is_empty());
        is_written
    });
    assert!(writes.unwrap() > 4, "the key, both, the value in several extents");
    pool.medium().writes.store(u64::MAX, Ordering::SeqCst);
    // There is no room for so much.
    assert!(matches!(
        pool.write_large(&key, &[value.clone(), value].concat()),
        Err(Error::Full { .. })
    ));
    assert!(!pages(&pool.medium().take_told(), Told::Discarded).is_empty());
    let now = pool.stats().unwrap().free;
    assert!(now == free && pool.check().is_empty(), "{now} of {free} pages are free");
}

/// Pages that are given back twice would be given to two owners.
#[test]
fn a_damaged_record_frees_no_extent_twice() {
    let pool = Pool::format(Toy::new(16, 2000), Toy::hooks()).unwrap();
    let free = pool.stats().unwrap().free;
    // Its first words are a list of one extent: the very page that they lie in.
    let first = 257_u32;
    let value = (u64::from(first) | 1 << 32).to_le_bytes();
    let large = put_large(&pool, b"key", &[&value[..], &[0; 250]].concat());
    let record = pool.record(large).unwrap();
    assert_eq!(record.word(2), u64::from(first) | 1 << 32, "the extent is where it is expected");
    let (page, held) = pool.latch(large.page()).unwrap();
    let head = page.body(2 * usize::from(large.unit()));
    pool.medium().store(head, head.load() | 1 << 29);
    drop(held);
    assert!(matches!(release(&pool, large).unwrap_err(), Error::Corrupt { .. }));
    assert!(!pool.check().is_empty());

    let other = put_large(&pool, b"key", &[1; 100]);
    assert_eq!(other.page(), large.page());
    let (page, held) = pool.latch(large.page()).unwrap();
    pool.medium().store(head, head.load() & !(1 << 29));
    let word = |r: RecordRef, i| page.body(2 * usize::from(r.unit()) + i);
    pool.medium().store(word(other, 2), word(large, 2).load());
    drop(held);
    let mut step = pool.step();
    step.release(large).unwrap();
    assert!(matches!(step.release(other), Err(Stop::Failed(Error::Corrupt { .. }))));
    drop(step);
    release(&pool, large).unwrap();
    assert!(matches!(release(&pool, other).unwrap_err(), Error::Corrupt { .. }), "free already");
    assert!(pool.stats().unwrap().free < free);
}

#[test]
fn media_without_extents_refuse_large_pairs() {
    let pool = sim(4, 100);
    assert!(pool.fits_record(20, 36) && !pool.fits_record(20, 37));
    assert!(matches!(pool.write_large(b"", &[0; 100]).err(), Some(Error::RecordTooLong { .. })));
}

/// A listed record page is freed, and its number is given to a node. The list still names it.
#[test]
fn a_step_does_not_wait_for_a_page_that_it_has_made() {
    let pool = sim(8, 200);
    let refs: Vec<_> = (0..6u8).map(|i| put(&pool, &[i; 8], &[0; 48]).unwrap()).collect();
    assert_eq!(refs[0].page(), refs[1].page(), "two on a page");
    refs[..2].iter().for_each(|r| release(&pool, *r).unwrap());
    let mut step = pool.step();
    let (node, _latch) = step.new_page(NODE).unwrap();
    assert_eq!(node.no(), refs[0].page());
    assert_ne!(step.record(64).unwrap().page(), node.no());
}

#[test]
fn nodes_that_do_not_fit_the_pages_are_refused() {
    let round = || Hooks { fits: |g| !g.is_whole(), ..Hooks::default() };
    let pool = sim(28, 100);
    let made = Sim::from_image(pool.geometry(), 100, &pool.medium().image()).unwrap();
    assert!(matches!(Pool::open(made, round()), Err(Error::Corrupt { offset: 40, .. })));
    let new = || Sim::new(pool.geometry(), 100).unwrap();
    assert!(matches!(Pool::unformatted(new(), round()), Err(Error::Corrupt { .. })));
    let refused = Pool::format(new(), round()).map(drop);
    assert!(matches!(refused, Err(Error::InvalidOption { option: "slots", .. })));
    let other = Sim::new(sim(16, 100).geometry(), 100).unwrap();
    assert!(Pool::format(other, round()).is_ok());
}
