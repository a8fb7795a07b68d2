//! How long a strict tree takes to open, lazily and by the eager walk (FAST+FAIR §4.3, *instant
//! recovery*; Circ-Tree §6.5 and Table 1).
//!
//! *Lazy* is the open, the first get included: every node is recovered when it is touched, so the
//! gets that follow pay for it; how much is shown beside. *Eager* walks over all nodes and enters what
//! parents lack. *Leaks* compares the whole pool with what the tree names and gives back the rest.

use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

use everleaf_pmem::{Dax, DaxOptions, Geometry};
use everleaf_tree::blink::Blink;
use everleaf_tree::keys::Words;
use everleaf_tree::node::{Circular, Layout, Linear, Probe, Scan, Sentinel};
use everleaf_tree::{INDEX_ANCHOR, Index, open_dax, reclaim};

use crate::keys::{key, lookup};
use crate::table::{median, time};

/// Sizes of a run.
#[derive(clap::Args)]
pub struct Args {
    /// Number of keys
    #[arg(long, default_value_t = 10_000_000)]
    keys: u64,
    /// Rounds; figures are medians
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Slots of a node (16 bytes each)
    #[arg(long, value_delimiter = ',', default_values_t = [32, 64, 128, 256])]
    slots: Vec<u32>,
    /// Where the pool is made; persistent memory is emulated there
    #[arg(long, default_value = ".")]
    dir: std::path::PathBuf,
}

type Tree<L, P> = Blink<Dax, L, P, Words>;

fn open<L: Layout, P: Probe>(path: &Path, options: &DaxOptions) -> anyhow::Result<Tree<L, P>> {
    Ok(Tree::open(open_dax::<L, P>(path, options)?.into(), INDEX_ANCHOR)?)
}

/// Gets of a sample of the keys, nanoseconds each.
fn gets(tree: &impl Index, keys: u64) -> f64 {
    const SAMPLE: u64 = 100_000;
    let took = time(|| {
        for i in 0..SAMPLE {
            let k = lookup(i * (keys / SAMPLE).max(1), keys);
            assert_eq!(black_box(tree.get(k).expect("no fault")), Some(!k));
        }
    });
    took.as_nanos() as f64 / SAMPLE as f64
}

fn ms(took: Duration) -> f64 {
    took.as_secs_f64() * 1e3
}

fn measure<L: Layout, P: Probe>(name: &str, args: &Args, slots: u32) -> anyhow::Result<()> {
    let dir = tempfile::tempdir_in(&args.dir)?;
    let path = dir.path().join("pool");
    let geometry = Geometry::new(slots).ok_or_else(|| anyhow::anyhow!("bad slots"))?;
    let pages = (args.keys * 2 / geometry.slots() as u64 + 1024) as u32;
    let options = DaxOptions { slots, pages, create: true, emulate: true, ..Default::default() };
    let tree = open::<L, P>(&path, &options)?;
    for k in (0..args.keys).map(key) {
        tree.insert(k, !k)?;
    }
    drop(tree);
    let mut figures: [Vec<f64>; 5] = Default::default();
    let mut nodes = 0;
    for _ in 0..args.rounds {
        let mut opened = None;
        let lazy = time(|| {
            let tree = open::<L, P>(&path, &options).expect("opens");
            assert!(tree.get(&key(0)).expect("no fault").is_some());
            opened = Some(tree);
        });
        let tree = opened.expect("just opened");
        let cold = gets(&tree, args.keys);
        drop(tree);
        let tree = open::<L, P>(&path, &options)?;
        let eager = time(|| {
            let walked = tree.recover_all(|_| {}).expect("a sound tree");
            nodes = walked.nodes_by_level.iter().sum();
        });
        let warm = gets(&tree, args.keys);
        let leaks = time(|| {
            let report = tree.check().expect("no fault");
            assert!(reclaim(tree.pool(), &[report]).expect("sound").is_empty());
        });
        for (all, one) in figures.iter_mut().zip([ms(lazy), cold, ms(eager), warm, ms(leaks)]) {
            all.push(one);
        }
    }
    let [lazy, cold, eager, warm, leaks] = figures.map(|all| median(&all));
    println!(
        "  {name:<10} {:>6} B {nodes:>9} {lazy:>10.2} {cold:>10.0} {eager:>10.1} {warm:>10.0} {leaks:>10.0}",
        slots * 16
    );
    Ok(())
}

/// Both layouts at each size.
pub fn compare(args: &Args) -> anyhow::Result<()> {
    println!("{} keys, medians of {} rounds, emulated persistent memory", args.keys, args.rounds);
    println!(
        "  {:<10} {:>8} {:>9} {:>10} {:>10} {:>10} {:>10} {:>10}",
        "tree", "node", "nodes", "lazy ms", "get ns", "eager ms", "get ns", "leaks ms"
    );
    for &slots in &args.slots {
        measure::<Linear, Scan>("FastFair", args, slots)?;
        measure::<Circular, Sentinel>("CircTree", args, slots)?;
    }
    Ok(())
}
