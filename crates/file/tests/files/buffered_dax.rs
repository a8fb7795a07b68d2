//! Buffered durability on a pool in persistent memory: what a handle leaves when it ends.

use std::time::Duration;

use everleaf_file::{Dax, DaxOptions};
use everleaf_pmem::{Buffered, BufferedOptions, Error, Geometry, Medium, PageNo, Result, Sim};

const SLOTS: u32 = 8;
const PAGES: PageNo = 8;

fn on<M: Medium>(inner: M, interval: Duration) -> Buffered<M> {
    Buffered::new(inner, &BufferedOptions { interval, ..BufferedOptions::default() })
        .expect("valid")
}

fn sim() -> Buffered<Sim> {
    let geometry = Geometry::new(SLOTS).expect("a power of two");
    on(Sim::new(geometry, PAGES).expect("memory"), Duration::from_millis(1))
}

fn pool() -> DaxOptions {
    DaxOptions { slots: SLOTS, pages: PAGES, emulate: true, create: true, ..Default::default() }
}

/// One step: stores to body word 0 of a page and defers its line.
fn set<M: Medium>(medium: &Buffered<M>, no: PageNo, value: u64) -> Result<u64> {
    medium.throttle(true)?;
    let page = medium.page(no)?;
    let _held = page.latch().lock();
    let mut op = medium.enter()?;
    medium.store(page.body(0), value);
    medium.defer(&mut op, page, 1);
    Ok(medium.epoch(&op))
}

#[test]
fn a_drop_during_a_batch_of_another_medium_makes_all_durable() {
    let dir = tempfile::tempdir().expect("dir");
    let path = dir.path().join("p");
    let options = pool();
    let open = || on(Dax::open(&path, &options).expect("opens"), Duration::from_secs(10));
    let (medium, other) = (open(), sim());
    medium.start().expect("starts");
    let epoch = set(&medium, 1, 1).expect("open");
    let hold = other.pin_epoch();
    drop(medium);
    drop(hold);
    assert_eq!(open().recovered_epoch(), epoch);
}

#[test]
fn a_dropped_handle_has_made_all_durable() {
    let dir = tempfile::tempdir().expect("dir");
    let path = dir.path().join("p");
    let options = pool();
    let open = |options| on(Dax::open(&path, options).expect("opens"), Duration::from_secs(10));
    let medium = open(&options);
    medium.start().expect("starts");
    let epoch = set(&medium, 1, 42).expect("open");
    drop(medium);
    let medium = open(&options);
    assert_eq!(medium.recovered_epoch(), epoch);
    assert_eq!(medium.page(1).expect("inside").body(0).load(), 42);
    drop(medium);

    // A medium that cannot be written has nothing to make durable.
    let medium = open(&DaxOptions { read_only: true, create: false, ..options });
    medium.start().expect("starts");
    medium.sync().expect("nothing was written");
    assert!(matches!(set(&medium, 1, 43), Err(Error::ReadOnly)));
    assert!(matches!(medium.wait_durable(medium.clock()), Err(Error::ReadOnly)));
    medium.close().expect("nothing was written");
    assert_eq!(medium.persisted_epoch(), medium.recovered_epoch());
}
