//! Trees whose roots are split where no page is left for a new root.

use std::path::Path;
use std::sync::Arc;

use everleaf::{Db, Error, Options, Tree};
use everleaf_file::io::SimIo;
use everleaf_testing::{Rng, seed_or, times};

/// A key of which an inner node keeps a part only.
fn key(rng: &mut Rng) -> Vec<u8> {
    let mut key = vec![b'k'; 150];
    key.extend(&rng.below(1 << 16).to_be_bytes()[6..]);
    key
}

/// Puts pairs until one finds no room. Says how many it has put.
fn put_until_full(tree: &Tree, rng: &mut Rng, most: u64) -> u64 {
    for n in 0..most {
        match tree.put(key(rng), [7; 20]) {
            Ok(()) => {}
            Err(Error::Full { .. }) => return n,
            Err(error) => panic!("{error}"),
        }
    }
    most
}

/// Fills the pool, and takes a few pairs out again.
fn give_room(ballast: &Tree, trees: &[Tree], rng: &mut Rng) {
    put_until_full(ballast, rng, u64::MAX);
    for _ in 0..rng.below(8) {
        if ballast.pop_first().expect("sound").is_none() {
            // The others have all the room.
            for tree in trees {
                while tree.pop_last().expect("sound").is_some() {}
            }
        }
    }
}

/// On a disk in memory: a pool without room syncs again and again.
fn pool() -> Db {
    let options = Options::new().page_bytes(512).max_bytes(60_000).background(false);
    options.open_on(Arc::new(SimIo::new(1)), Path::new("p.ever")).expect("a new pool")
}

/// The right half of such a root may be split itself before there is a root above the two: the write that splits it
/// makes that one, and holds the half meanwhile.
#[test]
fn the_half_of_a_root_is_split_before_there_is_a_root_above_it() {
    let seed = seed_or(1);
    let mut rng = Rng(seed);
    let db = pool();
    let ballast = db.tree("ballast").expect("room");
    let trees = ["a", "b", "c"].map(|name| db.tree(name).expect("room"));
    let (mut put, mut refused) = (0, 0);
    for round in 0..times(40) {
        give_room(&ballast, &trees, &mut rng);
        db.sync().expect("no fault");
        for tree in &trees {
            let most = rng.below(6);
            let n = put_until_full(tree, &mut rng, most);
            (put, refused) = (put + n, refused + u64::from(n < most));
        }
        if rng.one_in(4) {
            let tree = &trees[rng.below(3) as usize];
            while tree.pop_last().expect("sound").is_some() {}
        }
        assert_eq!(db.check().expect("readable"), [], "EVERLEAF_SEED={seed}, round {round}");
    }
    assert!(put > 100 && refused > 10, "{put} puts, {refused} refused");
}

/// The same by threads: one completes the left half while another one splits the right half.
#[test]
fn threads_that_split_halves_of_a_root_do_not_wait_for_each_other() {
    let seed = seed_or(1);
    let db = pool();
    let ballast = db.tree("ballast").expect("room");
    let trees = ["a", "b"].map(|name| db.tree(name).expect("room"));
    for round in 0..times(40) {
        let mut rng = Rng(seed + round);
        give_room(&ballast, &trees, &mut rng);
        db.sync().expect("no fault");
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (trees, mut rng) = (&trees, Rng(((seed + round) << 8) | thread));
                scope.spawn(move || {
                    for _ in 0..4 {
                        let tree = &trees[rng.below(2) as usize];
                        put_until_full(tree, &mut rng, 3);
                        let key = key(&mut rng);
                        tree.get(&key).expect("sound");
                    }
                });
            }
        });
        if rng.one_in(4) {
            let tree = &trees[rng.below(2) as usize];
            while tree.pop_last().expect("sound").is_some() {}
        }
        assert_eq!(db.check().expect("readable"), [], "EVERLEAF_SEED={seed}, round {round}");
    }
}
