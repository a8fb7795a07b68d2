//! Pools that share memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use everleaf::io::SimIo;
use everleaf::{Budget, Bytes, Db, Error, Options, Tree};
use everleaf_testing::{Rng, seed_or};

fn open(budget: &Budget, number: u64) -> (Db, Tree) {
    let io = Arc::new(SimIo::new(number));
    let db = Options::new().budget(budget).open_on(io, "/pool/p.ever").expect("new");
    let tree = db.tree("t").expect("new");
    (db, tree)
}

fn key(i: u64) -> [u8; 8] {
    i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

#[test]
fn pools_share_the_memory_of_the_process_unless_they_have_their_own() {
    let shared = Budget::of_process();
    // Other tests open pools, too.
    let [db, own] = [Db::in_memory(), Options::new().memory(1 << 20).in_memory()];
    let [db, own] = [db.expect("new"), own.expect("new")];
    let most = |db: &Db| db.stats().expect("sound").memory.most_bytes;
    assert_eq!(most(&db), shared.bytes() - shared.bytes() / 32);
    assert_eq!(most(&own), (1 << 20) - (1 << 15));
    assert!(shared.pools() >= 1);
    // The last call counts.
    let budget = Budget::new(2 << 20);
    let last = Options::new().memory(5).budget(&budget).in_memory().expect("new");
    assert_eq!((budget.pools(), most(&last)), (1, (2 << 20) - (1 << 16)));
    let own = Options::new().budget(&budget).memory(1 << 20).in_memory().expect("new");
    assert_eq!((budget.pools(), most(&own)), (1, (1 << 20) - (1 << 15)));
    last.close().expect("no fault");
    assert_eq!((budget.pools(), budget.used()), (0, 0));
}

/// Each pool behaves like a map, whatever leaves memory because of others.
#[test]
fn three_pools_in_little_memory_are_three_maps() {
    let budget = Budget::new(512 << 10);
    let pools: [(Db, Tree); 3] = std::array::from_fn(|i| open(&budget, i as u64));
    let mut models: [BTreeMap<u64, Vec<u8>>; 3] = Default::default();
    let seed = seed_or(11);
    let mut rng = Rng(seed);
    for step in 0..30_000_u64 {
        // One pool at a time is busy.
        let at = if rng.below(10) == 0 { rng.below(3) } else { step / 3000 % 3 } as usize;
        let ((_, tree), model) = (&pools[at], &mut models[at]);
        let i = rng.below(4000);
        let length = if rng.below(50) == 0 { 3000 } else { 100 };
        match rng.below(10) {
            0..5 => {
                let value = vec![step as u8; length];
                tree.put(key(i), &value).expect("space");
                model.insert(i, value);
            }
            5 => {
                tree.delete(key(i)).expect("sound");
                model.remove(&i);
            }
            _ => {
                let found = tree.get(key(i)).expect("sound").map(Bytes::into_vec);
                assert_eq!(found.as_ref(), model.get(&i), "seed {seed}, step {step}");
            }
        }
    }
    for ((db, tree), model) in pools.iter().zip(&models) {
        let evictions = db.stats().expect("sound").memory.evictions;
        assert!(evictions > 100, "{evictions} pages have left");
        assert_eq!(tree.len().expect("sound"), model.len() as u64);
        for (i, value) in model {
            assert_eq!(
                tree.get(key(*i)).expect("sound").map(Bytes::into_vec).as_ref(),
                Some(value)
            );
        }
    }
    // Pages leave as they are written.
    for _ in 0..1000 {
        if budget.used() <= budget.bytes() {
            break;
        }
        pools.iter().for_each(|(db, _)| db.checkpoint().expect("no fault"));
    }
    assert!(budget.used() <= budget.bytes(), "{budget:?}");
    for (db, _) in &pools {
        assert_eq!(db.check().expect("read"), []);
    }
}

/// Old values of all pools have one bound. A pool that takes more than its part loses its snapshots, and no other does.
#[test]
fn old_values_of_many_pools_have_one_bound() {
    // A quarter is for old values.
    let budget = Budget::new(32 << 20);
    let pools: Vec<_> = (0..4).map(|number| open(&budget, number)).collect();
    for (_, tree) in &pools {
        (0..20_000_u64).for_each(|i| tree.put(key(i), [1; 400]).expect("space"));
    }
    let snapshots: Vec<_> = pools.iter().map(|(db, _)| db.snapshot().expect("sound")).collect();
    let change = |at: usize, pairs: std::ops::Range<u64>| {
        pairs.for_each(|i| pools[at].1.put(key(i), [2; 400]).expect("space"));
    };
    let sees = |at: usize, i: u64| {
        let found = snapshots[at].tree("t")?.expect("there").get(key(i))?;
        assert_eq!(found.map(Bytes::into_vec), Some(vec![1; 400]));
        Ok::<_, Error>(())
    };
    (1..4).for_each(|at| change(at, 0..1000));
    (1..4).for_each(|at| sees(at, 7).expect("half a megabyte each"));
    // Alone this pool may have all that the others leave, and no more.
    change(0, 0..10_000);
    sees(0, 7).expect("five megabytes of six that are left");
    change(0, 10_000..20_000);
    assert!(matches!(sees(0, 7), Err(Error::SnapshotTooOld { .. })));
    (1..4).for_each(|at| sees(at, 7).expect("its own part"));
    // The others find room again.
    change(1, 1000..9000);
    sees(1, 7).expect("the first pool keeps nothing any more");
}
