//! Scripts that BD+Trees are made to run before they crash.

use everleaf_crash_check::{Act, MapWrite};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

pub fn insert(key: u64, value: u64) -> Act {
    Act::Write(MapWrite::Insert(key, value))
}

pub fn remove(key: u64) -> Act {
    Act::Write(MapWrite::Remove(key))
}

/// Inserts in the order of the keys.
pub fn fill(keys: impl IntoIterator<Item = u64>) -> Vec<Act> {
    keys.into_iter().map(|key| insert(key, 1000 + key)).collect()
}

fn with_ticks(acts: impl IntoIterator<Item = Act>, each: usize) -> Vec<Act> {
    let ticked = |(i, act): (usize, Act)| {
        let tick = (i + 1).is_multiple_of(each).then_some(Act::Tick);
        [act].into_iter().chain(tick)
    };
    acts.into_iter().enumerate().flat_map(ticked).collect()
}

/// A script, what has been done before it and is durable, and what it is for.
pub struct Scene {
    pub what: &'static str,
    pub before: Vec<Act>,
    pub acts: Vec<Act>,
}

fn scene(what: &'static str, before: Vec<Act>, acts: Vec<Act>) -> Scene {
    Scene { what, before, acts }
}

/// Updates in place and out of place: each key gets a version in each of some epochs.
fn updates(keys: &[u64], epochs: u64) -> Vec<Act> {
    let mut acts = Vec::new();
    for epoch in 0..epochs {
        for &key in keys {
            acts.extend([insert(key, 10 * epoch + 1), insert(key, 10 * epoch + 2)]);
        }
        acts.push(Act::Tick);
    }
    acts
}

/// One of each thing that can happen to a few leaves of `n` slots.
pub fn scenes(n: u64) -> Vec<Scene> {
    let mut all = growing(n);
    all.extend(shrinking(n));
    all.extend(by_epochs());
    all
}

/// Inserts, updates and splits.
fn growing(n: u64) -> Vec<Scene> {
    vec![
        scene("inserts, then updates in and out of place", vec![], updates(&[5], 5)),
        scene("versions of several keys", fill([5, 6]), updates(&[5, 6], 3)),
        scene(
            "a split in the epoch of the inserts",
            vec![],
            with_ticks(fill(0..n + 2), n as usize),
        ),
        scene("a split of old entries", fill(0..n), [fill([n, n + 1]), vec![Act::Tick]].concat()),
        scene(
            "a split with versions of three epochs",
            fill(0..n - 2),
            [
                vec![insert(0, 1), Act::Tick, insert(0, 2)],
                fill([n, n + 1]),
                vec![insert(n, 3), insert(0, 4), Act::Tick],
            ]
            .concat(),
        ),
        scene(
            "an update in place of what a split has moved",
            fill(1..n),
            vec![insert(n, 1), insert(0, 2), insert(n, 3), Act::Tick],
        ),
        scene(
            "an update that splits",
            fill(0..n),
            vec![insert(n - 1, 7), insert(0, 8), Act::Tick, insert(n - 1, 9), Act::Tick],
        ),
    ]
}

/// Removes, and leaves that they empty.
fn shrinking(n: u64) -> Vec<Scene> {
    let removals: Vec<Act> = (n / 2..n + 2).map(remove).collect();
    vec![
        scene(
            "removes, and the same keys again",
            fill(0..3),
            vec![
                remove(1),
                insert(1, 5),
                Act::Tick,
                remove(1),
                remove(0),
                Act::Tick,
                insert(1, 6),
                insert(0, 6),
                Act::Tick,
                remove(9),
            ],
        ),
        scene(
            "leaves that are emptied, freed and used again",
            fill(0..n + 2),
            [
                removals.clone(),
                vec![Act::Reclaim, Act::Tick, Act::Reclaim, Act::Tick, Act::Tick, Act::Reclaim],
                fill(100..100 + n),
                vec![Act::Tick],
            ]
            .concat(),
        ),
        scene(
            "an emptied leaf that is used again before it is freed",
            fill(0..n + 2),
            [removals, vec![Act::Tick, insert(n, 5), Act::Tick, Act::Tick, Act::Reclaim]].concat(),
        ),
    ]
}

/// Leaves of `n` slots that a tree which merges puts together, each scene at least two.
pub fn merging(n: u64) -> Vec<Scene> {
    let all = fill(0..2 * n);
    let removals = |kept: &[u64]| -> Vec<Act> {
        (0..2 * n).filter(|key| !kept.contains(key)).map(remove).collect()
    };
    let sparse = [all.clone(), removals(&[0, n, 2 * n - 1])].concat();
    let ended = vec![Act::Tick, Act::Tick, Act::Reclaim];
    let again = [fill(n..2 * n), vec![Act::Tick]].concat();
    vec![
        scene(
            "leaves that shrink, merge when their old versions are gone, and fill again",
            all.clone(),
            [removals(&[1, 2 * n - 1]), ended.clone(), vec![Act::Tick], again.clone()].concat(),
        ),
        scene(
            "entries with versions of three epochs that move",
            sparse.clone(),
            vec![
                insert(2 * n - 1, 1),
                Act::Tick,
                insert(2 * n - 1, 2),
                remove(0),
                Act::Reclaim,
                insert(2 * n - 1, 3),
                insert(n, 3),
                Act::Tick,
                Act::Reclaim,
                Act::Tick,
                Act::Reclaim,
                insert(n, 4),
            ],
        ),
        scene(
            "entries of the running epoch that move, and a page that is used again in it",
            sparse.clone(),
            [
                vec![insert(2 * n - 2, 5), remove(2 * n - 2), Act::Reclaim, insert(2 * n - 1, 6)],
                again,
                vec![remove(n), Act::Reclaim],
            ]
            .concat(),
        ),
        scene(
            "a first leaf that is emptied",
            all,
            [removals(&[2 * n - 2, 2 * n - 1]), ended, vec![insert(0, 1), Act::Tick]].concat(),
        ),
        scene(
            "a merge and what it leaves in one epoch, which is lost",
            sparse,
            vec![remove(0), Act::Reclaim, remove(n), insert(n, 9), insert(3, 9), Act::Reclaim],
        ),
    ]
}

/// Scripts that begin and end epochs.
fn by_epochs() -> Vec<Scene> {
    vec![
        scene(
            "batches",
            fill(0..2),
            vec![
                Act::Batch(vec![
                    MapWrite::Insert(1, 5),
                    MapWrite::Insert(3, 5),
                    MapWrite::Remove(0),
                ]),
                Act::Batch(vec![MapWrite::Insert(1, 6), MapWrite::Insert(0, 6)]),
                Act::Tick,
                Act::Batch(vec![
                    MapWrite::Remove(1),
                    MapWrite::Insert(4, 7),
                    MapWrite::Insert(5, 7),
                ]),
                Act::Sync,
            ],
        ),
        scene(
            "syncs",
            vec![],
            vec![insert(1, 1), Act::Sync, Act::Sync, insert(1, 2), insert(2, 2), Act::Sync],
        ),
        scene(
            "a leaf that nobody has changed for four epochs, as many as its ring has",
            vec![],
            [insert(0, 5), insert(1, 5), insert(2, 5)]
                .into_iter()
                .chain(std::iter::repeat_n(Act::Tick, 4))
                .chain([remove(0)])
                .chain(std::iter::repeat_n(Act::Tick, 4))
                .chain([insert(1, 6), insert(3, 6), Act::Tick, remove(2)])
                .collect(),
        ),
        scene(
            "ends of epochs in which nothing happens",
            fill(0..2),
            vec![insert(0, 5), Act::Tick, Act::Tick, Act::Tick, remove(0), Act::Tick, insert(0, 6)],
        ),
    ]
}

fn random_step(rng: &mut Xoshiro256PlusPlus, keys: u64, inserts: f64) -> MapWrite {
    let key = match rng.random_range(0..24) {
        0 => u64::MAX,
        1 => 1 << 63,
        _ => rng.random_range(0..keys),
    };
    if rng.random_bool(inserts) {
        MapWrite::Insert(key, rng.random_range(1..1000))
    } else {
        MapWrite::Remove(key)
    }
}

/// So many acts of all kinds on so many keys: first more inserts, then more removes.
pub fn random(seed: u64, n: usize, keys: u64) -> Vec<Act> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let act = |i: usize| {
        let inserts = if i < n * 2 / 3 { 0.75 } else { 0.2 };
        match rng.random_range(0..100) {
            0..16 => Act::Tick,
            16..20 => Act::Sync,
            20..26 => Act::Reclaim,
            26..32 => {
                let steps = rng.random_range(1..=5);
                Act::Batch((0..steps).map(|_| random_step(&mut rng, keys, inserts)).collect())
            }
            _ => Act::Write(random_step(&mut rng, keys, inserts)),
        }
    };
    (0..n).map(act).collect()
}
