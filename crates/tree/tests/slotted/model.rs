//! Long random runs of everything, against a model, each change redone elsewhere.

use everleaf_testing::{Rng, seed_or, times};

use super::keys::{STYLES, Style, key, value};
use super::world::World;

const NODES_MAX: usize = 30;

/// A run in leaves, or in inner nodes.
fn run(seed: u64, page_bytes: usize, level: u8, style: Style, steps: usize) -> World {
    println!("seed {seed}, pages of {page_bytes}, level {level}, {style:?}, {steps} steps");
    let mut rng = Rng(seed);
    let mut world = World::new(page_bytes, level, &mut rng);
    let mut child = 100u32;
    for step in 0..steps {
        let some = if rng.one_in(3) { known(&world, &mut rng) } else { None };
        let key = some.unwrap_or_else(|| key(&mut rng, style, page_bytes));
        let grows = world.nodes.len() < NODES_MAX && (step / (steps / 12)) % 4 != 3;
        match rng.below(24) {
            0..20 if grows => {
                let value = match level {
                    0 => value(&mut rng, page_bytes),
                    _ => match world.model.get(&key) {
                        Some(child) => child.clone(),
                        None => {
                            child += 1;
                            child.to_le_bytes().to_vec()
                        }
                    },
                };
                world.put(&key, &value);
            }
            20 => world.compact(rng.below(world.nodes.len() as u64) as usize),
            21 | 22 if world.nodes.len() > 1 => {
                world.merge(rng.below(world.nodes.len() as u64 - 1) as usize);
            }
            _ => {
                let key = known(&world, &mut rng).unwrap_or(key);
                world.remove(&key);
            }
        }
        if step % 64 == 0 || step + 1 == steps {
            let probes: Vec<_> =
                (0..8).map(|_| super::keys::key(&mut rng, style, page_bytes)).collect();
            world.compare_all(&probes);
        }
    }
    println!("  {:?}", world.done);
    world
}

/// A key that is there.
fn known(world: &World, rng: &mut Rng) -> Option<Vec<u8>> {
    let n = world.model.len() as u64;
    (n > 0).then(|| world.model.keys().nth(rng.below(n) as usize).cloned()).flatten()
}

fn runs(page_bytes: usize, steps: usize) {
    let (seed, times) = (seed_or(1), times(1));
    let times = if cfg!(feature = "heavy") { 10 * times } else { times };
    let mut done = std::collections::BTreeMap::new();
    for (i, style) in (0..times).flat_map(|i| STYLES.map(|style| (i, style))) {
        for level in [0, 1] {
            let world = run(seed + i, page_bytes, level, style, steps);
            for (what, n) in world.done {
                *done.entry(what).or_insert(0) += n;
            }
        }
    }
    println!("{done:?}");
    for what in ["insert", "update", "remove", "compact", "split", "merge", "compacted for it"] {
        assert!(done.contains_key(what), "never: {what}");
    }
    for what in ["even to the left", "even to the right"] {
        assert!(done.contains_key(what), "never: {what}");
    }
}

#[test]
fn pages_of_512_bytes_follow_the_model() {
    runs(512, 1600);
}

#[test]
fn pages_of_1024_bytes_follow_the_model() {
    runs(1024, 1200);
}

#[test]
fn pages_of_4096_bytes_follow_the_model() {
    runs(4096, 2000);
}

#[test]
fn pages_of_32768_bytes_follow_the_model() {
    runs(32768, 3000);
}
