//! A pool of an older format is refused by its version, and nothing of it changes.

use std::path::Path;
use std::sync::Arc;

use everleaf::{Error, Options};
use everleaf_file::io::SimIo;
use everleaf_fuzz::format::{self, BLOCK};
use everleaf_fuzz::parts::{JOURNALS, POOL, Parts};

/// A pool whose superblocks say what those of format 1 said: its version, 128 slots, circular nodes.
fn old_pool(closed: bool) -> SimIo {
    let disk = SimIo::new(1);
    let db = Options::new().background(false).open_on(Arc::new(disk.clone()), POOL).expect("new");
    db.tree("a").and_then(|tree| tree.insert("key", "value")).expect("room");
    db.sync().expect("no fault");
    let left = if closed { None } else { Some(disk.power_cut(0)) };
    drop(db);
    let disk = left.unwrap_or(disk);
    let mut parts = Parts::take(&disk);
    for copy in parts.supers.chunks_exact_mut(BLOCK) {
        format::put(copy, 8, &1_u32.to_le_bytes());
        format::put(copy, 40, &128_u32.to_le_bytes());
        format::put(copy, 48, &0x6369_7263_0010_0001_u64.to_le_bytes());
        format::seal_super(copy);
    }
    disk.poke(Path::new(POOL), 0, &parts.supers);
    disk
}

fn files(disk: &SimIo) -> Vec<Option<Vec<u8>>> {
    let new = ["-new", "-j0-new", "-j1-new"].map(|suffix| format!("{POOL}{suffix}"));
    let names = [POOL, JOURNALS[0], JOURNALS[1]].into_iter().map(str::to_owned).chain(new);
    names.map(|name| disk.peek(Path::new(&name))).collect()
}

#[test]
fn a_pool_of_format_1_is_refused_by_its_version_and_stays_as_it_was() {
    for closed in [true, false] {
        let disk = old_pool(closed);
        let before = files(&disk);
        for read_only in [true, false] {
            let options = Options::new().background(false).read_only(read_only);
            let refused = options.open_on(Arc::new(disk.clone()), POOL).map(drop);
            let error = refused.expect_err("its nodes are others");
            assert!(
                matches!(&error, Error::Foreign { what, .. } if what == "format version 1; this build has 2"),
                "{error:?}"
            );
            assert!(files(&disk) == before, "read-only {read_only}");
        }
    }
}
