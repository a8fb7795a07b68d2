//! The explorer's crash points and its short cuts leave out no legal image: on random records it
//! visits exactly what the plain definition gives, taken over all events.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread;

use everleaf_crash_check::{CrashPoint, Explorer, Persistency, Recording, Trace, images};
use everleaf_pmem::sim::Event;
use everleaf_pmem::{Geometry, Medium, Sim};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

fn random_record(rng: &mut Xoshiro256PlusPlus) -> Recording {
    let (geometry, limit) = (Geometry::new(4).unwrap(), 2);
    let words = geometry.page_words() * limit as usize;
    let lines = words as u32 / 8;
    let events = (0..rng.random_range(0..40)).map(|_| match rng.random_range(0..8) {
        0 => Event::Fence { thread: rng.random_range(0..2) },
        1..=3 => Event::Flush { line: rng.random_range(0..lines), thread: rng.random_range(0..2) },
        // Few words and values, so that contents repeat.
        _ => Event::Store {
            word: rng.random_range(0..lines) * 8 + rng.random_range(0..2),
            value: rng.random_range(0..3),
        },
    });
    let events = events.collect();
    let initial = (0..words).map(|_| rng.random_range(0..2)).collect();
    Recording { geometry, limit, initial, events }
}

#[test]
fn the_explorer_visits_the_legal_images_and_no_others() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
    let mut total = 0;
    for mode in [Persistency::X86, Persistency::Eadr] {
        for _ in 0..300 {
            let record = random_record(&mut rng);
            let legal: BTreeSet<Vec<u64>> =
                (0..=record.events.len()).flat_map(|at| images(&record, at, mode)).collect();
            let mut visited = BTreeSet::new();
            let see = |sim: &Arc<Sim>, _: &CrashPoint<'_>| {
                assert!(visited.insert(sim.image()), "an image came twice");
                // Changes that the checker leaves behind must not reach the next image.
                let page = sim.page(1).unwrap();
                sim.store(page.body(1), 99);
                page.latch().lock().set_ready();
                Ok(())
            };
            let stats = Explorer::new().mode(mode).check(&record, see).unwrap();
            assert_eq!(visited, legal);
            assert_eq!(stats.images as usize, legal.len());
            total += legal.len();
        }
    }
    println!("{total} images");
}

#[test]
fn a_medium_that_a_checker_keeps_is_replaced() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(8);
    let record = random_record(&mut rng);
    let mut kept = Vec::new();
    let check = |sim: &Arc<Sim>, _: &CrashPoint<'_>| {
        kept.push((Arc::clone(sim), sim.image()));
        Ok(())
    };
    Explorer::new().check(&record, check).unwrap();
    assert!(kept.len() > 3);
    assert!(kept.iter().all(|(sim, image)| sim.image() == *image));
}

#[test]
fn another_threads_fence_makes_nothing_durable() {
    let lost = |own_fence: bool| {
        let sim = Arc::new(Sim::new(Geometry::new(4).unwrap(), 1).unwrap());
        let trace = Trace::new(&sim);
        let page = sim.page(0).unwrap();
        trace.op(0, || {
            sim.store(page.head(0), 1);
            sim.flush(page, 0);
            if own_fence {
                sim.fence();
            } else {
                thread::scope(|scope| scope.spawn(|| sim.fence()).join()).unwrap();
            }
        });
        let check = |sim: &Arc<Sim>, crash: &CrashPoint<'_>| {
            let there = sim.page(0).unwrap().head(0).load() == 1;
            if there || crash.responded().is_empty() { Ok(()) } else { Err("lost".into()) }
        };
        Explorer::new().check(&trace.finish(), check).is_err()
    };
    assert!(lost(false) && !lost(true));
}
