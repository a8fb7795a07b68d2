//! Random steps against a model, on every kind of medium; reopening; threads.

use crate::common;
use std::collections::HashSet;
use std::sync::atomic::Ordering;

use crate::common::{Model, Toy, put, read, release, rng, sim};
use everleaf_pmem::{Dram, Error, Geometry, Medium, Sim};
use everleaf_pool::{Hooks, Pool};

fn run<M>(pool: &Pool<M>, seed: u64, steps: usize) -> Model
where
    M: for<'m> Medium<Op<'m> = ()>,
{
    let (mut model, mut rng) = (Model::default(), rng(seed));
    for _ in 0..steps {
        model.step(pool, &mut rng);
    }
    model.compare(pool);
    model
}

#[test]
fn random_steps_match_a_model_in_every_geometry() {
    for slots in [4, 8, 16, 64, 256, 28, 60, 124, 252, 508, 1020, 2044] {
        for seed in 0..4 {
            let m = Dram::new(Geometry::from_slots(slots).unwrap(), 300).unwrap();
            run(&Pool::format(m, Hooks::default()).unwrap(), seed, 2000);
        }
    }
}

#[test]
fn a_reopened_pool_holds_the_same_and_goes_on() {
    for seed in 0..12 {
        let slots = [4, 8, 16, 32, 4, 8, 16, 32, 28, 60, 252, 28][seed as usize];
        let mut pool = sim(slots, 400);
        let (mut model, mut rng) = (Model::default(), rng(seed));
        for _ in 0..5 {
            for _ in 0..300 {
                model.step(&pool, &mut rng);
            }
            let image = pool.medium().image();
            let m = Sim::from_image(pool.geometry(), 400, &image).unwrap();
            pool = Pool::open(m, Hooks::default()).unwrap();
            model.compare(&pool);
        }
    }
}

#[test]
fn the_journal_redoes_every_page_word_for_word() {
    for seed in 0..12 {
        let slots = [4, 8, 16, 32, 4, 8, 16, 32, 28, 60, 252, 28][seed as usize];
        let toy = Toy::new(slots, 400);
        let pool = Pool::format(toy, Toy::hooks()).unwrap();
        let model = run(&pool, seed, 1500);
        let again = Pool::open(pool.medium().reboot(), Toy::hooks()).unwrap();
        model.compare(&again);
        for no in 0..400 {
            let (old, _held) = pool.latch(no).unwrap();
            let (new, _held) = again.latch(no).unwrap();
            for i in 0..pool.geometry().page_words() {
                assert_eq!(old.word(i).load(), new.word(i).load(), "page {no} word {i}");
            }
        }
    }
}

#[test]
fn threads_share_a_pool() {
    let m = Dram::new(Geometry::new(16).unwrap(), 20_000).unwrap();
    let pool = Pool::format(m, Hooks::default()).unwrap();
    let kept: Vec<_> = std::thread::scope(|scope| {
        let work = |seed: u64| {
            let pool = &pool;
            move || {
                let (mut mine, mut rng) = (Vec::new(), rng(seed));
                for i in 0..20_000u64 {
                    let key = (seed << 32 | i).to_be_bytes();
                    let value = common::bytes(&mut rng, (i % 90) as usize);
                    let r = put(pool, &key, &value).unwrap();
                    mine.push((r, (key.to_vec(), value)));
                    if i % 3 != 0 {
                        let (r, pair) = mine.swap_remove((i * 7919) as usize % mine.len());
                        assert_eq!(read(pool, r).unwrap(), pair);
                        release(pool, r).unwrap();
                    }
                }
                mine
            }
        };
        let threads: Vec<_> = (0..3).map(|seed| scope.spawn(work(seed))).collect();
        threads.into_iter().flat_map(|t| t.join().unwrap()).collect()
    });
    let model = Model { records: kept.iter().cloned().collect(), ..Model::default() };
    assert_eq!(model.records.len(), kept.len(), "no record was given out twice");
    model.compare(&pool);
}

#[test]
fn racing_readers_get_garbage_at_worst() {
    racing_readers(Geometry::new(8).unwrap(), 30_000);
    racing_readers(Geometry::whole(512).unwrap(), 10_000);
}

fn racing_readers(geometry: Geometry, steps: usize) {
    let m = Dram::new(geometry, 64).unwrap();
    let pool = Pool::format(m, Hooks::default()).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (pool, stop) = (&pool, &stop);
        let stopper = scopeguard::guard(stop, |stop| stop.store(true, Ordering::Relaxed));
        let seen = scope.spawn(move || {
            let (mut i, mut read) = (0u64, HashSet::new());
            while !stop.load(Ordering::Relaxed) {
                i += 1;
                let bits = i.wrapping_mul(0x9E37_79B9_7F4A_7C15);
                let page = bits >> 32 & 63;
                let r = everleaf_pool::RecordRef::from_bits(page << 16 | bits & 15);
                // A page that a writer holds and that is no record page is not waited for.
                let record = match pool.record(r) {
                    Err(Error::Corrupt { .. }) => continue,
                    record => record.unwrap(),
                };
                let (mut key, mut value) = (Vec::new(), Vec::new());
                let _ = pool.compare_key(&record, i as usize % 20, b"some key");
                let _ = (pool.key(&record, &mut key), pool.value(&record, &mut value));
                read.insert(key.len());
            }
            read.len()
        });
        let mut model = Model::default();
        let mut rng = rng(5);
        for _ in 0..steps {
            model.step(pool, &mut rng);
        }
        drop(stopper);
        assert!(seen.join().unwrap() > 1);
        model.compare(pool);
    });
}
