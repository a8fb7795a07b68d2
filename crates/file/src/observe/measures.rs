//! Counters, gauges and histograms of the crate `metrics`: all names are here, and in `docs/guide/operating.md`.
//!
//! Counters and histograms add up all pools of the process. Gauges are of one pool, so they say of which.

use std::time::Duration;

use everleaf_pmem::error::Error;
use metrics::{
    Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

use super::{Checkpoint, Cleaning, EpochEnd, Name, PoolState, Stall, Uuid, Versions};

const EPOCHS: &str = "everleaf_epochs_total";
const COMMITS: &str = "everleaf_commits_total";
const COMMIT_FAILURES: &str = "everleaf_commit_failures_total";
const COMMIT_BYTES: &str = "everleaf_commit_bytes";
const COMMIT_SECONDS: &str = "everleaf_commit_seconds";
const CHECKPOINTS: &str = "everleaf_checkpoints_total";
const CHECKPOINT_FAILURES: &str = "everleaf_checkpoint_failures_total";
const CHECKPOINT_PAGES: &str = "everleaf_checkpoint_pages_total";
const CHECKPOINT_BYTES: &str = "everleaf_checkpoint_bytes_total";
const CHECKPOINT_SECONDS: &str = "everleaf_checkpoint_seconds";
const CLEANED_EXTENTS: &str = "everleaf_cleaned_extents_total";
const CLEANED_BYTES: &str = "everleaf_cleaned_bytes_total";
const CLEANING_SECONDS: &str = "everleaf_cleaning_seconds";
const STALLS: &str = "everleaf_stalls_total";
const STALL_SECONDS: &str = "everleaf_stall_seconds";
const STOPS: &str = "everleaf_writes_stopped_total";
const JOURNAL_BYTES: &str = "everleaf_journal_bytes";
const FILE_BYTES: &str = "everleaf_file_bytes";
const CHANGED_PAGES: &str = "everleaf_changed_pages";
const TRANSACTIONS: &str = "everleaf_transactions_total";
const CONFLICTS: &str = "everleaf_transaction_conflicts_total";
const GIVEN_UP: &str = "everleaf_snapshots_given_up_total";
const SNAPSHOTS: &str = "everleaf_snapshots";
const SNAPSHOT_VALUES: &str = "everleaf_snapshot_values";
const SNAPSHOT_BYTES: &str = "everleaf_snapshot_bytes";

/// The label of stalls, and that of gauges.
const WHY: &str = "why";
const POOL: &str = "pool";

fn describe() {
    use Unit::{Bytes, Count, Seconds};
    describe_counter!(EPOCHS, Count, "epochs that became durable, empty ones too");
    describe_counter!(COMMITS, Count, "epochs that were written and synced");
    describe_counter!(COMMIT_FAILURES, Count, "epochs that could not be made durable just then");
    describe_histogram!(COMMIT_BYTES, Bytes, "records and large values of an epoch");
    describe_histogram!(COMMIT_SECONDS, Seconds, "from the end of an epoch until it is durable");
    describe_counter!(CHECKPOINTS, Count, "checkpoints that were completed");
    describe_counter!(CHECKPOINT_FAILURES, Count, "checkpoints that failed");
    describe_counter!(CHECKPOINT_PAGES, Count, "pages that checkpoints wrote");
    describe_counter!(CHECKPOINT_BYTES, Bytes, "what checkpoints wrote");
    describe_histogram!(CHECKPOINT_SECONDS, Seconds, "how long checkpoints took");
    describe_counter!(CLEANED_EXTENTS, Count, "extents that cleaning has emptied");
    describe_counter!(CLEANED_BYTES, Bytes, "what cleaning has moved");
    describe_histogram!(CLEANING_SECONDS, Seconds, "how long cleaning took within a checkpoint");
    describe_counter!(STALLS, Count, "how often a writer waited");
    describe_histogram!(STALL_SECONDS, Seconds, "how long a writer waited");
    describe_counter!(STOPS, Count, "pools whose writes have stopped after a failure");
    describe_gauge!(JOURNAL_BYTES, Bytes, "journal that a crash now would read");
    describe_gauge!(FILE_BYTES, Bytes, "length of the file");
    describe_gauge!(CHANGED_PAGES, Count, "pages that were changed and not written");
    describe_counter!(TRANSACTIONS, Count, "transactions that were committed and had writes");
    describe_counter!(CONFLICTS, Count, "transactions that failed for what others had changed");
    describe_counter!(GIVEN_UP, Count, "snapshots that were given up as too old");
    describe_gauge!(SNAPSHOTS, Count, "snapshots and transactions that read now");
    describe_gauge!(SNAPSHOT_VALUES, Count, "old values that are kept for them");
    describe_gauge!(SNAPSHOT_BYTES, Bytes, "memory that those take");
}

fn show(pool: &Uuid, state: &PoolState) {
    let name = Name(pool).to_string();
    gauge!(JOURNAL_BYTES, POOL => name.clone()).set(state.journal_bytes as f64);
    gauge!(FILE_BYTES, POOL => name.clone()).set(state.file_bytes as f64);
    gauge!(CHANGED_PAGES, POOL => name).set(state.changed_pages as f64);
}

pub(super) fn opened(pool: &Uuid, state: &PoolState) {
    describe();
    show(pool, state);
}

pub(super) fn closed(pool: &Uuid) {
    show(pool, &PoolState::default());
}

pub(super) fn stopped(_: &Uuid, _: &Error) {
    counter!(STOPS).increment(1);
}

pub(super) fn epoch_ended(pool: &Uuid, end: &EpochEnd) {
    counter!(EPOCHS).increment(1);
    if end.is_commit {
        counter!(COMMITS).increment(1);
        histogram!(COMMIT_BYTES).record((end.record_bytes + end.value_bytes) as f64);
        histogram!(COMMIT_SECONDS).record(end.took);
    }
    show(pool, &end.pool);
}

pub(super) fn commit_failed(_: &Uuid, _: &Error) {
    counter!(COMMIT_FAILURES).increment(1);
}

pub(super) fn checkpoint_ended(_: &Uuid, checkpoint: &Checkpoint) {
    counter!(CHECKPOINTS).increment(1);
    counter!(CHECKPOINT_PAGES).increment(checkpoint.pages);
    counter!(CHECKPOINT_BYTES).increment(checkpoint.bytes);
    histogram!(CHECKPOINT_SECONDS).record(checkpoint.took);
}

pub(super) fn checkpoint_failed(_: &Uuid, _: &Error) {
    counter!(CHECKPOINT_FAILURES).increment(1);
}

pub(super) fn cleaned(_: &Uuid, cleaning: &Cleaning) {
    counter!(CLEANED_EXTENTS).increment(cleaning.extents);
    counter!(CLEANED_BYTES).increment(cleaning.bytes);
    histogram!(CLEANING_SECONDS).record(cleaning.took);
}

pub(super) fn stalled(_: &Uuid, why: Stall, took: Duration) {
    counter!(STALLS, WHY => why.name()).increment(1);
    histogram!(STALL_SECONDS, WHY => why.name()).record(took);
}

pub(super) fn transaction_committed(_: &Uuid) {
    counter!(TRANSACTIONS).increment(1);
}

pub(super) fn transaction_conflicted(_: &Uuid, _: &str) {
    counter!(CONFLICTS).increment(1);
}

pub(super) fn versions_changed(pool: &Uuid, versions: &Versions) {
    let name = Name(pool).to_string();
    gauge!(SNAPSHOTS, POOL => name.clone()).set(versions.snapshots as f64);
    gauge!(SNAPSHOT_VALUES, POOL => name.clone()).set(versions.values as f64);
    gauge!(SNAPSHOT_BYTES, POOL => name).set(versions.bytes as f64);
}

pub(super) fn snapshot_given_up(_: &Uuid, _: u64) {
    counter!(GIVEN_UP).increment(1);
}
