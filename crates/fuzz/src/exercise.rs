//! Uses everything of a pool that may be damaged in any way. Any typed answer may come back; there must
//! be no panic, no walk without an end, and no error that blames the disk.

use std::path::Path;
use std::time::Duration;

use everleaf::{Db, Error, Options, Result, Tree};
use everleaf_file::io::{Access, Io, SimIo};

use crate::format;
use crate::parts::POOL;
use crate::script;

/// More trees than this are not looked at: an input may name thousands.
const TREES_MAX: usize = 8;

/// Opens the pool read-only and for writing, and uses all of it, twice. `roomy`: as large as pools
/// may become by default, so that numbers of pages that are far away pass for possible.
///
/// # Panics
/// If an error is not one that damage may cause, or a walk does not end.
pub fn exercise(disk: &SimIo, roomy: bool) {
    let mut options = script::options(512).create(false);
    if roomy {
        options = options.max_bytes(256 << 30);
    }
    let bound = pairs_bound(disk);
    for read_only in [true, false, true, false] {
        // Twice: an open for writing may have changed what it found.
        use_once(disk, &options.clone().read_only(read_only), bound);
    }
}

/// No walk gives more pairs than there are slots of 8 bytes in images of pages, or in the journal; each
/// pair is another slot, since keys rise.
fn pairs_bound(disk: &SimIo) -> usize {
    let file = disk.open(Path::new(POOL), Access::Read).ok();
    file.map_or(0, |file| file.len().expect("no fault") as usize) / 8 + 1000
}

fn use_once(disk: &SimIo, options: &Options, bound: usize) {
    let Some(db) = typed(script::open(disk, options)) else { return };
    let _ = read_all(&db, bound);
    typed(db.stats());
    typed(db.count());
    typed(db.check());
    let _ = write_some(&db);
    let _ = read_all(&db, bound);
    typed(db.sync());
    typed(db.checkpoint());
    typed(db.check());
    typed(db.close());
}

/// The value, or none for an error that may come of damage; everything else is a violation.
///
/// # Panics
/// On an error of another kind.
pub fn typed<T>(result: Result<T>) -> Option<T> {
    let error = match result {
        Ok(value) => return Some(value),
        Err(error) => error,
    };
    let expected = matches!(
        error,
        Error::Corrupt { .. }
            | Error::Foreign { .. }
            | Error::Full { .. }
            | Error::InTheWay { .. }
            // Pages that say both that a pool is new and that it is not.
            | Error::InUse { .. }
            // Of a clock that has no epoch left.
            | Error::Interrupted { .. }
            | Error::Invalid { .. }
            | Error::InvalidOption { .. }
            | Error::NoTree
            | Error::Poisoned { .. }
            | Error::ReadOnly
            | Error::RecordTooLong { .. }
            // Of a value that says that it is longer than what snapshots may keep, and was replaced.
            | Error::SnapshotTooOld { .. }
            | Error::Unrecovered { .. }
            | Error::Unsupported { .. }
    );
    // A file that is not there at all is not damage.
    let missing = matches!(&error, Error::Io { source, .. }
        if source.kind() == std::io::ErrorKind::NotFound);
    assert!(expected || missing, "no damage causes this: {error:?}");
    assert!(!error.to_string().is_empty());
    None
}

fn trees(db: &Db) -> Vec<Tree> {
    let names = typed(db.tree_names()).unwrap_or_default();
    let found = names.iter().take(TREES_MAX).map(|name| db.open_tree(name));
    found.filter_map(|tree| typed(tree).flatten()).collect()
}

fn read_all(db: &Db, bound: usize) -> Option<()> {
    for tree in trees(db) {
        let mut keys = Vec::new();
        for (n, pair) in tree.iter().enumerate() {
            assert!(n <= bound, "an iteration without an end");
            let Some((key, value)) = typed(pair) else { break };
            assert!(value.len() <= 1 << 24, "a value larger than the pool");
            keys.push(key);
        }
        for (n, pair) in tree.iter().rev().enumerate() {
            assert!(n <= bound, "a reverse iteration without an end");
            if typed(pair).is_none() {
                break;
            }
        }
        for key in keys.iter().step_by(3) {
            typed(tree.get(key));
        }
        for key in [&b""[..], b"a", &[1, 7], &[0xff; 40], b"a common prefix of some length 0"] {
            typed(tree.get(key));
            typed(tree.contains(key));
            typed(tree.range(key..).next().transpose());
            typed(tree.range(..key).next_back().transpose());
        }
        typed(tree.first());
        typed(tree.last());
    }
    Some(())
}

fn write_some(db: &Db) -> Option<()> {
    let mut trees = trees(db);
    trees.extend(typed(db.tree("made now")));
    for tree in trees {
        let some: Vec<Vec<u8>> =
            tree.iter().take(12).map_while(|pair| typed(pair).map(|(key, _)| key.into())).collect();
        for (i, key) in some.iter().enumerate() {
            match i % 3 {
                0 => typed(tree.remove(key)),
                1 => typed(tree.insert(key, [7; 90])),
                _ => typed(tree.insert([key, &b"x"[..]].concat(), b"")),
            };
        }
        for i in 0..20u8 {
            typed(tree.insert([i.wrapping_mul(13), i], [i; 9]));
        }
        typed(tree.insert(b"large", vec![1; 3000]));
        typed(tree.remove(b"large"));
        for i in 0..20u8 {
            typed(tree.remove([i.wrapping_mul(13), i]));
        }
        typed(db.sync());
    }
    Some(())
}

/// How long one input may take before it counts as one without an end, by the clock: the last
/// resort behind all bounds by counting, for loops that neither read a file nor give pairs.
pub const TIME_MAX: Duration = Duration::from_secs(20);

/// Bytes that one input may have allocated at a time, of a pool of so many bytes. The buffers of an
/// open have fixed sizes (windows of the journal, a half of the double-write area); all else is as
/// large as what is really there, or as its pages are in memory.
pub fn memory_bound(bytes: usize) -> usize {
    (48 << 20) + 64 * bytes.max(format::BLOCK)
}
