//! One warm operation between two marks, for `cargo xtask way`, which traces its instructions: `way OPERATION`.
//! Nothing runs beside it. The tree has 3,000 pairs of 8 + 8 bytes, scattered, on two levels.

use std::hint::black_box;
use std::io::{Write, stdout};
use std::process::ExitCode;

use everleaf::{Db, Options, Tree};

#[inline(never)]
extern "C" fn mark_begin() {
    black_box(1);
}

#[inline(never)]
extern "C" fn mark_end() {
    black_box(2);
}

fn marked<T>(operation: impl FnOnce() -> T) -> T {
    mark_begin();
    let answer = operation();
    mark_end();
    answer
}

/// Scattered, each once.
fn key(i: u64) -> [u8; 8] {
    i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

/// Transactions that read one key and write `writes` keys; what is marked is the commit.
fn commit(db: &Db, tree: &Tree, writes: u64) -> everleaf::Result<()> {
    let tx = db.begin();
    tx.get(tree, key(1500))?;
    for i in 0..writes {
        tx.put(tree, key(1500 + i), [1; 8])?;
    }
    marked(|| tx.commit().map(drop))
}

/// Whether there is such an operation.
fn run(db: &Db, tree: &Tree, operation: &str) -> everleaf::Result<bool> {
    match operation {
        "put" => marked(|| tree.put(key(3001), [7; 8]))?,
        "update" => marked(|| tree.put(key(1500), [7; 8]))?,
        "get" => drop(marked(|| tree.get(key(1500)))?),
        "delete" => marked(|| tree.delete(key(1500)))?,
        "seek" => {
            let mut cursor = tree.cursor();
            marked(|| cursor.seek(key(1500)))?;
        }
        "next" => {
            let mut cursor = tree.cursor();
            cursor.seek(key(1500))?;
            for _ in 0..3 {
                cursor.next()?;
            }
            marked(|| cursor.next().map(drop))?;
        }
        "commit" => commit(db, tree, 1)?,
        "commit2" => commit(db, tree, 2)?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    writeln!(
        stdout(),
        "marks {:x} {:x}",
        mark_begin as *const () as usize,
        mark_end as *const () as usize
    )?;
    let db = Options::new().background(false).open(dir.path().join("pool"))?;
    let tree = db.tree("way")?;
    for i in 0..3000 {
        tree.put(key(i), i.to_le_bytes())?;
    }
    db.sync()?;
    // The extra work of the first writes after a checkpoint is not the way of an operation.
    for i in 3100..3105 {
        tree.put(key(i), i.to_le_bytes())?;
    }
    tree.get(key(1500))?;
    let operation = std::env::args().nth(1).unwrap_or_default();
    match run(&db, &tree, &operation)? {
        true => Ok(ExitCode::SUCCESS),
        false => {
            eprintln!("usage: way put|update|get|delete|seek|next|commit|commit2");
            Ok(ExitCode::from(2))
        }
    }
}
