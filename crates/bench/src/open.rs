//! Time to open a pool: after a kill with a full journal, and after a clean close.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use everleaf_pmem::file::{File, Options};
use everleaf_tree::blink::Only;
use everleaf_tree::{CircTree, FilePool, INDEX_ANCHOR};

use crate::keys::key;
use crate::table::Table;

/// Sizes of a run.
#[derive(clap::Args)]
pub struct Args {
    /// Number of pairs
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
    /// Fill this pool and wait to be killed (used by the run itself)
    #[arg(long, hide = true)]
    child: Option<std::path::PathBuf>,
}

fn options(args: &Args) -> Options {
    Options {
        slots: args.slots,
        journal_bytes: args.journal << 20,
        create: true,
        ..Options::default()
    }
}

fn fill(args: &Args, path: &std::path::Path) -> anyhow::Result<(FilePool, CircTree<File>)> {
    let pool = FilePool::open(path, &options(args))?;
    let tree = CircTree::open(Arc::clone(pool.pool()), INDEX_ANCHOR)?;
    for i in 0..args.keys {
        tree.put(&key(i), &i, Only::Ever)?;
    }
    // Overwrite until the journal is nearly as full as it gets before a checkpoint cuts it.
    let full = args.journal << 20;
    let mut i = 0;
    while tree.pool().medium().stats().journal_replay_bytes < full * 45 / 100 {
        for _ in 0..100_000 {
            tree.put(&key(i % args.keys), &(i % args.keys), Only::Ever)?;
            i += 7919;
        }
    }
    tree.pool().medium().sync()?;
    Ok((pool, tree))
}

/// Opens, reads one key, and returns the milliseconds until then.
fn open_once(args: &Args, path: &std::path::Path) -> anyhow::Result<(f64, FilePool)> {
    let start = Instant::now();
    let pool = FilePool::open(path, &options(args))?;
    let tree: CircTree<File> = CircTree::open(Arc::clone(pool.pool()), INDEX_ANCHOR)?;
    assert_eq!(tree.get(&key(args.keys / 2))?, Some(args.keys / 2));
    Ok((start.elapsed().as_secs_f64() * 1e3, pool))
}

/// Kills a child that has filled a pool, opens it, closes it cleanly, opens it again.
pub fn measure(args: &Args) -> anyhow::Result<()> {
    if let Some(path) = &args.child {
        let (_pool, _tree) = fill(args, path)?;
        println!("full");
        std::thread::sleep(std::time::Duration::from_secs(3600));
        return Ok(());
    }
    let mut table = Table::new("ms");
    for round in 0..args.rounds {
        eprintln!("round {}", round + 1);
        let dir = tempfile::tempdir_in(".")?;
        let path = dir.path().join("open.ever");
        let mut child = Command::new(std::env::current_exe()?)
            .args(["open", "--keys", &args.keys.to_string(), "--slots", &args.slots.to_string()])
            .args(["--journal", &args.journal.to_string(), "--child"])
            .arg(&path)
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        let out = child.stdout.take().ok_or_else(|| anyhow::anyhow!("no pipe"))?;
        std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line)?;
        child.kill()?;
        child.wait()?;
        let (killed, mut pool) = open_once(args, &path)?;
        let stats = pool.pool().medium().stats();
        eprintln!("  journal to replay: {} MiB", stats.journal_replay_bytes >> 20);
        table.add("after kill -9", killed);
        let start = Instant::now();
        pool.close()?;
        eprintln!("  clean close took {:?}", start.elapsed());
        drop(pool);
        let (clean, pool) = open_once(args, &path)?;
        table.add("after a clean close", clean);
        drop(pool);
    }
    table.print(&format!("open and read one of {} pairs", args.keys));
    Ok(())
}
