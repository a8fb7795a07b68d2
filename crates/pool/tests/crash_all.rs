//! Strict media, every legal image: as `crash.rs` with the images of the crash checker, all of them
//! at most crash points, and with the giving back of what leaked crashed at each point of its own.
//!
//! `EVERLEAF_SCALE` multiplies the random histories.

mod common;

use std::collections::HashSet;
use std::sync::Arc;

use common::{Model, read, rng};
use everleaf_crash_check::{Coverage, CrashPoint, Explorer, Recording, SharedMedium, Trace};
use everleaf_pmem::{Geometry, Sim};
use everleaf_pool::kind::NODE;
use everleaf_pool::{Hooks, Leaks, Pool};

type M = SharedMedium<Sim>;

/// One image in so many also has its leaks given back, if it has any, with crashes on the way.
const GIVEN_BACK: u64 = 64;

fn scale() -> u64 {
    everleaf_testing::times(1)
}

fn sound(sim: &Arc<Sim>) -> Result<Pool<M>, String> {
    let pool = Pool::open(SharedMedium::new(sim), Hooks::default()).map_err(|e| e.to_string())?;
    let damages = pool.check();
    if damages.is_empty() { Ok(pool) } else { Err(format!("{damages:?}")) }
}

/// Records and nodes named during the step between two models: a new one is linked after it is whole,
/// and an old one was unlinked before it is freed.
fn in_both(before: &Model, after: &Model) -> Model {
    let mut both = before.clone();
    both.records.retain(|r, _| after.records.contains_key(r));
    both.nodes.retain(|no, _| after.nodes.contains_key(no));
    both
}

/// Whether a pool holds what is in both models, and nothing that is in neither.
fn verify(pool: &Pool<M>, before: &Model, after: &Model) -> Result<(), String> {
    let held: Result<HashSet<_>, _> = pool.records().collect();
    let held = held.map_err(|e| e.to_string())?;
    let both = in_both(before, after);
    for (r, pair) in &both.records {
        if !held.contains(r) || &read(pool, *r).map_err(|e| e.to_string())? != pair {
            return Err(format!("{r:?} is lost"));
        }
    }
    for r in held {
        read(pool, r).map_err(|e| format!("{r:?}: {e}"))?;
        if !before.records.contains_key(&r) && !after.records.contains_key(&r) {
            return Err(format!("{r:?} was never written"));
        }
    }
    let map = pool.map_bytes().map_err(|e| e.to_string())?;
    let lost = both.nodes.keys().find(|no| map[**no as usize] != NODE);
    lost.map_or(Ok(()), |no| Err(format!("node {no} is lost")))
}

fn leaks(pool: &Pool<M>, model: &Model) -> Result<Leaks, String> {
    let records: HashSet<_> = model.records.keys().copied().collect();
    let is_named = |kind, no| kind == NODE && model.nodes.contains_key(&no);
    pool.leaks(is_named, &records).map_err(|e| e.to_string())
}

fn give_back(sim: &Arc<Sim>, model: &Model) -> Result<Pool<M>, String> {
    let pool = sound(sim)?;
    pool.reclaim(&leaks(&pool, model)?).map_err(|e| e.to_string())?;
    Ok(pool)
}

/// Gives back what an image leaks, with crashes at each point of that, and again within those.
fn crash_giving_back(sim: &Sim, model: &Model, seed: u64) -> Result<Coverage, String> {
    let (geometry, limit) =
        (everleaf_pmem::Medium::geometry(sim), everleaf_pmem::Medium::limit(sim));
    let record = Recording { geometry, limit, initial: sim.image(), events: Vec::new() };
    let verify = |pool: Pool<M>, _: &Arc<Sim>, _: &CrashPoint<'_>| {
        let left = leaks(&pool, model)?;
        if left != Leaks::default() || !pool.check().is_empty() {
            return Err(format!("{left:?}, {:?}", pool.check()));
        }
        verify(&pool, model, model)
    };
    let explorer = Explorer::new().seed(seed).samples(256).deep_samples(2);
    explorer.explore(&record, |sim| give_back(sim, model), verify).map_err(|f| f.to_string())
}

fn history(seed: u64, geometry: Geometry, limit: u32) -> Coverage {
    let sim = Arc::new(Sim::new(geometry, limit).unwrap());
    let pool = Pool::format(SharedMedium::new(&sim), Hooks::default()).unwrap();
    let (mut model, mut random) = (Model::default(), rng(seed));
    // So many nodes that the second group comes into being on the way.
    for i in 0..everleaf_pool::max_record(geometry) as u64 - 20 {
        model.nodes.insert(common::make_node(&pool, i).unwrap(), i);
    }
    let trace = Trace::new(&sim);
    let mut models = vec![model.clone()];
    for step in 0..120 {
        if step % 16 == 9 {
            // A place that is reserved and never written leaves no trace but its page.
            let mut given_up = pool.step();
            given_up.record(geometry.slots() * 16).unwrap();
            given_up.publish_alloc(&mut ());
        }
        trace.op(step, || model.step(&pool, &mut random));
        models.push(model.clone());
    }
    let (mut seen, mut given_back) = (0, Coverage::default());
    let verify = |pool: Pool<M>, sim: &Arc<Sim>, crash: &CrashPoint<'_>| {
        let (before, after) = (&models[crash.responded().len()], &models[crash.invoked().len()]);
        verify(&pool, before, after)?;
        seen += 1;
        let both = in_both(before, after);
        if seen % GIVEN_BACK == 0 && leaks(&pool, &both)? != Leaks::default() {
            given_back += crash_giving_back(sim, &both, seed)?;
        }
        common::put(&pool, b"more", b"").map_err(|e| e.to_string())?;
        let damages = pool.check();
        if damages.is_empty() { Ok(()) } else { Err(format!("after a put, {damages:?}")) }
    };
    // A few crash points have tens of thousands of images: in full where there is more time.
    let all = if scale() > 1 { 1 << 16 } else { 1 << 11 };
    let explorer = Explorer::new().seed(seed).exhaustive(all).samples(512);
    let stats = explorer.explore(&trace.finish(), sound, verify);
    let mut stats = stats.unwrap_or_else(|failure| panic!("history {seed}: {failure}"));
    stats += given_back;
    stats
}

/// Two tests, for two processors.
fn histories(first: u64) {
    let mut stats = Coverage::default();
    for seed in (0..2 * scale()).map(|seed| 2 * seed + first) {
        stats += history(seed, Geometry::new(4 << (seed % 3)).unwrap(), 400);
    }
    println!("{stats}");
    assert!(stats.images > 5_000 && stats.nested > 50, "{stats}");
}

#[test]
fn every_crash_of_even_histories() {
    histories(0);
}

#[test]
fn every_crash_of_odd_histories() {
    histories(1);
}

#[test]
fn every_crash_of_a_history_on_whole_pages() {
    let mut stats = Coverage::default();
    for seed in 0..scale() {
        // Groups of 448 pages.
        stats += history(seed, Geometry::whole(512).unwrap(), 600);
    }
    println!("{stats}");
    assert!(stats.images > 1_000 && stats.nested > 10, "{stats}");
}
