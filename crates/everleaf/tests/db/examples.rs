//! Runs the programs of `examples/`, each twice in the same pool: as a new one, and as one that is there.

#![allow(dead_code)] // Their `main` functions.

use std::fmt::Display;
use std::path::Path;

#[path = "../../examples/blob_store.rs"]
mod blob_store;
#[path = "../../examples/inverted_index.rs"]
mod inverted_index;
#[path = "../../examples/job_queue.rs"]
mod job_queue;
#[path = "../../examples/ledger.rs"]
mod ledger;
#[path = "../../examples/session_cache.rs"]
mod session_cache;
#[path = "../../examples/time_series.rs"]
mod time_series;

fn twice<E: Display>(run: impl Fn(&Path) -> Result<(), E>) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("p.ever");
    for time in ["first", "second"] {
        if let Err(error) = run(&path) {
            panic!("the {time} time: {error}");
        }
    }
    let db = everleaf::Db::open(&path).expect("it opens");
    assert_eq!(db.check().expect("readable"), []);
}

#[test]
fn the_job_queue_loses_no_job() {
    twice(job_queue::run);
}

#[test]
fn the_time_series_keeps_what_is_not_old() {
    twice(time_series::run);
}

#[test]
fn the_session_cache_ends_sessions_on_time() {
    twice(session_cache::run);
}

#[test]
fn the_inverted_index_agrees_with_its_documents() {
    twice(inverted_index::run);
}

#[test]
fn the_ledger_keeps_its_sum() {
    twice(ledger::run);
}

#[test]
fn the_blob_store_keeps_blobs_and_collects_garbage() {
    twice(blob_store::run);
}
