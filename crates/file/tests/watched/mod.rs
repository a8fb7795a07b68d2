//! Everything that a program can hear of happens to a pool, one thing after the other.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use everleaf_file::FileOptions;
use everleaf_file::io::{Fault, SimIo};

use crate::slow::Slow;
use crate::toy::{self, Toy};

const MIB: usize = 1 << 20;
/// Pages of a value of 3 MiB, and where the values begin.
const VALUE_PAGES: u32 = 3 * 256;
const VALUES: u32 = 1024;

fn options() -> FileOptions {
    FileOptions { slots: 252, max_pages: 1 << 14, spill_bytes: 64 << 10, ..toy::options() }
}

/// Events, as the pool itself has counted them.
pub struct Happened {
    pub uuid: [u8; 16],
    pub commits: u64,
    pub spills: u64,
    pub pages: u64,
    pub last_epoch: u64,
}

/// Epochs, spills, checkpoints and cleaning, in a pool without threads, which is closed at the end.
pub fn a_pool_that_is_used() -> Happened {
    let io = SimIo::new(1);
    let toy = Toy::open_with(&io, &toy::path(), &options()).expect("new");
    toy.file.sync().expect("no fault");
    // Enough for a spill.
    for n in 0..4000 {
        toy.set(&[(1 + n % 8, 1, n.into())]).expect("room");
    }
    toy.file.sync().expect("no fault");
    // An epoch in which nothing happens.
    toy.file.sync().expect("no fault");
    for n in 0..8 {
        let first = VALUES + n * VALUE_PAGES;
        toy.file.extent_write(first, 0, &vec![7; 3 * MIB]).expect("room");
        toy.adopt(first, VALUE_PAGES).expect("room");
    }
    toy.checkpoint().expect("no fault");
    for n in 0..7 {
        let first = VALUES + n * VALUE_PAGES;
        toy.forget(first, VALUE_PAGES).expect("it is there");
        toy.file.sync().expect("no fault");
        toy.file.extent_release(first, VALUE_PAGES);
    }
    toy.file.compact(&mut |_| ()).expect("no fault");
    let stats = toy.file.stats();
    toy.close().expect("no fault");
    Happened {
        uuid: stats.uuid,
        commits: stats.commits,
        spills: stats.spills,
        pages: stats.pages_written,
        last_epoch: stats.durable_epoch,
    }
}

/// Writers that wait for a disk which stands still; says how often they did.
pub fn a_disk_that_stands_still() -> u64 {
    let slow = Slow::new(Arc::new(SimIo::new(2)));
    slow.set_slow(false);
    let options = FileOptions { pending_bytes: 64 << 10, background: true, ..toy::options() };
    let toy = Toy::open_with(&slow, &toy::path(), &options).expect("new");
    toy.file.sync().expect("no fault");
    slow.set_slow(true);
    slow.hold();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let changes: Vec<_> = (1..51).map(|no| (no, 0, 7)).collect();
                for _ in 0..300 {
                    toy.set(&changes).expect("the disk works");
                }
            });
        }
        while toy.file.stats().waits == 0 {
            thread::sleep(Duration::from_millis(1));
        }
        // So that whoever waits does so for more than 10 ms.
        thread::sleep(Duration::from_millis(20));
        slow.release();
    });
    let waits = toy.file.stats().waits;
    toy.close().expect("no fault");
    assert!(waits > 0, "nobody waited");
    waits
}

/// A disk that is full for a while, and then one that fails.
pub fn a_disk_that_fails() {
    let io = SimIo::new(3);
    let toy = Toy::open_with(&io, &toy::path(), &toy::options()).expect("new");
    toy.file.sync().expect("no fault");
    toy.set(&[(1, 0, 7)]).expect("room");
    io.fail_at(io.calls(), Fault::Io);
    assert!(toy.file.sync().is_err());
    assert!(toy.file.checkpoint().is_err());
    toy.abandon();
}
