//! A pool of an older format is refused by its version, and nothing of it changes.

use std::path::Path;
use std::sync::Arc;

use everleaf::{Error, Options};
use everleaf_file::io::SimIo;
use everleaf_fuzz::format::{self, BLOCK};
use everleaf_fuzz::parts::{POOL, Parts};

/// A version; slots and layout if they were others than now.
type Older = (u32, Option<u32>, Option<u64>);

/// Format 1 had 128 slots and circular nodes; formats 2 and 3 the nodes of today.
const OLDER: [Older; 3] =
    [(1, Some(128), Some(0x6369_7263_0010_0001)), (2, None, None), (3, None, None)];

/// A pool whose superblocks say what those of an older format said: its version, its slots, its layout.
fn old_pool(closed: bool, (version, slots, layout): Older) -> SimIo {
    let disk = SimIo::new(1);
    let db = Options::new().background(false).open_on(Arc::new(disk.clone()), POOL).expect("new");
    db.tree("a").and_then(|tree| tree.insert("key", "value")).expect("room");
    db.sync().expect("no fault");
    let left = if closed { None } else { Some(disk.power_cut(0)) };
    drop(db);
    let disk = left.unwrap_or(disk);
    let mut parts = Parts::take(&disk);
    for copy in parts.supers.chunks_exact_mut(BLOCK) {
        format::put(copy, 8, &version.to_le_bytes());
        if let Some((slots, layout)) = slots.zip(layout) {
            format::put(copy, 40, &slots.to_le_bytes());
            format::put(copy, 48, &layout.to_le_bytes());
        }
        format::seal_super(copy);
    }
    disk.poke(Path::new(POOL), 0, &parts.supers);
    disk
}

fn files(disk: &SimIo) -> Vec<Option<Vec<u8>>> {
    let names = ["", "-new", "-j0", "-j1"].map(|suffix| format!("{POOL}{suffix}"));
    names.iter().map(|name| disk.peek(Path::new(name))).collect()
}

#[test]
fn a_pool_of_an_older_format_is_refused_by_its_version_and_stays_as_it_was() {
    for older in OLDER {
        for closed in [true, false] {
            let disk = old_pool(closed, older);
            // The first two formats had journals beside the pool.
            disk.poke(Path::new(&format!("{POOL}-j0")), 0, b"EVERJRNL and so on");
            let before = files(&disk);
            for read_only in [true, false] {
                let options = Options::new().background(false).read_only(read_only);
                let refused = options.open_on(Arc::new(disk.clone()), POOL).map(drop);
                let error = refused.expect_err("its pages are elsewhere");
                let wanted = format!("format version {}; this build has 4", older.0);
                assert!(
                    matches!(&error, Error::Foreign { what, .. } if *what == wanted),
                    "{error:?}"
                );
                assert!(files(&disk) == before, "read-only {read_only}");
            }
        }
    }
}
