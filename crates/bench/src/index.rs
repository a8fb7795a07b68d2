//! The u64 index beside std's `BTreeMap`.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use everleaf_pmem::file::{File, Options};
use everleaf_pmem::{Dram, Geometry, Medium};
use everleaf_tree::{CircTree, FilePool, INDEX_ANCHOR};

use crate::keys::{key, lookup};
use crate::table::{Table, mops, spread, time};

/// Sizes of a run.
#[derive(clap::Args)]
pub struct Args {
    /// Number of keys
    #[arg(long, default_value_t = 10_000_000)]
    keys: u64,
    /// Rounds; figures are medians
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Slots of a node (16 bytes each)
    #[arg(long, default_value_t = 256)]
    slots: u32,
    /// Journal bound in MiB
    #[arg(long, default_value_t = 256)]
    journal: u64,
}

/// Pages that surely hold `keys` pairs.
fn pages_for(keys: u64, slots: u32) -> u32 {
    (keys * 3 / u64::from(slots) + 1024) as u32
}

fn dram(keys: u64, slots: u32) -> anyhow::Result<CircTree<Dram>> {
    let geometry = Geometry::new(slots).ok_or_else(|| anyhow::anyhow!("bad slots"))?;
    let pool = everleaf_tree::format(Dram::new(geometry, pages_for(keys, slots))?)?;
    Ok(CircTree::create(Arc::new(pool), INDEX_ANCHOR)?)
}

struct OnFile {
    tree: CircTree<File>,
    _pool: FilePool,
    _dir: tempfile::TempDir,
}

fn file(args: &Args) -> anyhow::Result<OnFile> {
    let dir = tempfile::tempdir_in(".")?;
    let options = Options {
        slots: args.slots,
        journal_bytes: args.journal << 20,
        max_pages: pages_for(args.keys, args.slots),
        create: true,
        ..Options::default()
    };
    let pool = FilePool::open(&dir.path().join("bench.ever"), &options)?;
    let tree = CircTree::create(Arc::clone(pool.pool()), INDEX_ANCHOR)?;
    Ok(OnFile { tree, _pool: pool, _dir: dir })
}

fn fill<M: Medium>(tree: &CircTree<M>, keys: impl Iterator<Item = u64>) -> Duration {
    time(|| {
        for k in keys {
            tree.put(&k, &!k, everleaf_tree::blink::Only::Ever).expect("space and no fault");
        }
    })
}

fn probe<M: Medium>(tree: &CircTree<M>, keys: impl Iterator<Item = u64>) -> Duration {
    time(|| {
        for k in keys {
            assert_eq!(black_box(tree.get(&k).expect("no fault")), Some(!k));
        }
    })
}

/// BTreeMap, Dram and File side by side on one thread.
pub fn compare(args: &Args) -> anyhow::Result<()> {
    let n = args.keys;
    let (mut insert, mut get) = (Table::new("Mop/s"), Table::new("Mop/s"));
    let mut bytes_per_insert = Vec::new();
    for round in 0..args.rounds {
        eprintln!("round {}", round + 1);
        let mut map = BTreeMap::new();
        insert.add(
            "BTreeMap",
            mops(n, time(|| (0..n).for_each(|i| assert!(map.insert(key(i), !key(i)).is_none())))),
        );
        let took = time(|| {
            for i in 0..n {
                assert!(black_box(map.get(&lookup(i, n))).is_some());
            }
        });
        get.add("BTreeMap", mops(n, took));
        drop(map);
        let tree = dram(n, args.slots)?;
        insert.add("CircTree on Dram", mops(n, fill(&tree, (0..n).map(key))));
        get.add("CircTree on Dram", mops(n, probe(&tree, (0..n).map(|i| lookup(i, n)))));
        drop(tree);
        let on = file(args)?;
        insert.add("CircTree on File", mops(n, fill(&on.tree, (0..n).map(key))));
        on.tree.pool().medium().sync()?;
        let stats = on.tree.pool().medium().stats();
        bytes_per_insert.push(stats.journal_bytes_written as f64 / n as f64);
        get.add("CircTree on File", mops(n, probe(&on.tree, (0..n).map(|i| lookup(i, n)))));
    }
    println!("{n} keys, nodes of {} slots, File with 10 ms epochs", args.slots);
    insert.print("insert, one thread");
    get.print("get, one thread");
    println!("\njournal bytes per insert: {:.1}", crate::table::median(&bytes_per_insert));
    Ok(())
}

fn rates<M: Medium>(
    name: &str,
    tree: &CircTree<M>,
    n: u64,
    from: u64,
    threads: usize,
    out: [&mut Table; 2],
) {
    let [insert, get] = out;
    let label = format!("{name}, {threads} thread{}", if threads == 1 { "" } else { "s" });
    let took = spread(threads, |t| {
        fill(tree, (from..from + n).skip(t).step_by(threads).map(key));
    });
    insert.add(&label, mops(n, took));
    let took = spread(threads, |t| {
        probe(tree, (0..n).skip(t).step_by(threads).map(|i| lookup(i, from + n)));
    });
    get.add(&label, mops(n, took));
}

/// One thread and two, on trees of the same size.
pub fn threads(args: &Args) -> anyhow::Result<()> {
    let n = args.keys;
    let (mut insert, mut get) = (Table::new("Mop/s"), Table::new("Mop/s"));
    let (mut insert_file, mut get_file) = (Table::new("Mop/s"), Table::new("Mop/s"));
    for round in 0..args.rounds {
        eprintln!("round {}", round + 1);
        for threads in [1, 2] {
            let tree = dram(2 * n, args.slots)?;
            fill(&tree, (0..n).map(key));
            rates("Dram", &tree, n, n, threads, [&mut insert, &mut get]);
            drop(tree);
            let on = file(&Args { keys: 2 * n, ..*args })?;
            fill(&on.tree, (0..n).map(key));
            rates("File", &on.tree, n, n, threads, [&mut insert_file, &mut get_file]);
        }
    }
    println!("{n} more keys into trees of {n}");
    insert.print("insert");
    insert_file.print("insert");
    get.print("get");
    get_file.print("get");
    Ok(())
}
