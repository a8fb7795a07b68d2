//! Trees that lose their pairs give their nodes back, in whatever order these go: at every point their
//! leaves are two fifths full of bytes in the mean, but for two of them.

use everleaf_file::io::SimIo;
use everleaf_testing::Rng;
use everleaf_tree::blink::Condition;

use super::watched::{open, tidy};

/// Keys with a prefix, of several lengths.
fn key(i: u64) -> Vec<u8> {
    format!("key {i:012}{}", &"xxxxxxxxxxxx"[(i % 12) as usize..]).into_bytes()
}

fn value(i: u64) -> Vec<u8> {
    vec![7; (i % 5 * 11) as usize]
}

fn shuffled(n: u64, seed: u64) -> Vec<u64> {
    let (mut rng, mut all) = (Rng(seed), (0..n).collect::<Vec<_>>());
    (1..all.len()).for_each(|i| all.swap(i, rng.below(i as u64 + 1) as usize));
    all
}

/// Puts (true) and removals (false); looks at the nodes now and then, and answers the fill of the worst
/// moment, without two leaves.
fn worst_fill(page_bytes: u32, every: usize, writes: impl Iterator<Item = (bool, u64)>) -> f64 {
    let tree = open(&SimIo::new(1), page_bytes);
    let (mut worst, mut live) = (1.0_f64, 0_u64);
    for (n, (comes, i)) in writes.enumerate() {
        if comes {
            tree.set(&key(i), &value(i), Condition::Absent).expect("room");
            live += 1;
        } else {
            assert!(tree.delete(&key(i)).expect("memory").epoch.is_some());
            live -= 1;
        }
        if n % every == 0 {
            let report = tree.check().expect("readable");
            assert_eq!((report.damages.as_slice(), report.entries), (&[][..], live));
            let leaves = report.nodes_by_level[0] as f64;
            if leaves > 2.0 {
                worst = worst.min(report.fill * leaves / (leaves - 2.0));
            }
        }
        if n % 200 == 0 {
            tidy(&tree);
        }
    }
    if live == 0 {
        assert_eq!(
            tree.check().expect("readable").nodes_by_level,
            [1],
            "an empty tree is one leaf"
        );
    }
    worst
}

fn both(what: &str, writes: impl Fn(u64) -> Vec<(bool, u64)>) {
    for (page_bytes, n, every) in [(512, 300, 1), (4096, 3000, 151)] {
        let worst = worst_fill(page_bytes, every, writes(n).into_iter());
        println!("{what}, pages of {page_bytes}: {worst:.3} full at worst");
        assert!(worst >= 0.4, "{what}, pages of {page_bytes}: {worst}");
    }
}

#[test]
fn a_queue_and_pairs_that_expire_give_their_leaves_back() {
    let fifo = |n: u64, key: fn(u64) -> u64| -> Vec<(bool, u64)> {
        let turn = |i: u64| [Some((true, key(i))), i.checked_sub(n / 3).map(|i| (false, key(i)))];
        (0..2 * n).flat_map(turn).flatten().collect()
    };
    both("a queue", |n| fifo(n, |i| i));
    both("pairs that expire", |n| fifo(n, |i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24));
}

#[test]
fn drains_give_their_leaves_back() {
    let drain = |come: Vec<u64>, go: Vec<u64>| -> Vec<(bool, u64)> {
        come.into_iter().map(|i| (true, i)).chain(go.into_iter().map(|i| (false, i))).collect()
    };
    both("ascending", |n| drain((0..n).collect(), (0..n).collect()));
    both("descending", |n| drain(shuffled(n, 1), (0..n).rev().collect()));
    both("random", |n| drain(shuffled(n, 2), shuffled(n, 3)));
}
