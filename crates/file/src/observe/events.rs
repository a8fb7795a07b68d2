//! Events of the crate `tracing`: all names are here, and in `docs/guide/operating.md`.

use std::time::Duration;

use everleaf_pmem::error::Error;
use tracing::{debug, error, info, trace, warn};

use super::{Checkpoint, Cleaning, EpochEnd, Name, PoolState, Stall, Uuid, Versions};

const POOL: &str = "everleaf::pool";
const EPOCH: &str = "everleaf::epoch";
const CHECKPOINT: &str = "everleaf::checkpoint";
const CLEANING: &str = "everleaf::cleaning";
const STALL: &str = "everleaf::stall";
const TRANSACTION: &str = "everleaf::transaction";
const SNAPSHOT: &str = "everleaf::snapshot";

fn micros(took: Duration) -> u64 {
    u64::try_from(took.as_micros()).unwrap_or(u64::MAX)
}

pub(super) fn opened(pool: &Uuid, state: &PoolState) {
    let PoolState { journal_bytes, file_bytes, .. } = *state;
    info!(target: POOL, pool = %Name(pool), journal_bytes, file_bytes, "opened");
}

pub(super) fn closed(pool: &Uuid) {
    info!(target: POOL, pool = %Name(pool), "closed");
}

pub(super) fn stopped(pool: &Uuid, error: &Error) {
    error!(target: POOL, pool = %Name(pool), %error, "writes stopped");
}

pub(super) fn epoch_ended(pool: &Uuid, end: &EpochEnd) {
    let EpochEnd { epoch, record_bytes, value_bytes, is_commit, took, .. } = *end;
    let micros = micros(took);
    trace!(
        target: EPOCH, pool = %Name(pool), epoch, record_bytes, value_bytes, is_commit, micros,
        "epoch ended"
    );
}

pub(super) fn commit_failed(pool: &Uuid, error: &Error) {
    warn!(target: EPOCH, pool = %Name(pool), %error, "commit failed");
}

pub(super) fn checkpoint_ended(pool: &Uuid, checkpoint: &Checkpoint) {
    let Checkpoint { pages, bytes, took } = *checkpoint;
    let micros = micros(took);
    debug!(target: CHECKPOINT, pool = %Name(pool), pages, bytes, micros, "checkpoint ended");
}

pub(super) fn checkpoint_failed(pool: &Uuid, error: &Error) {
    warn!(target: CHECKPOINT, pool = %Name(pool), %error, "checkpoint failed");
}

pub(super) fn cleaned(pool: &Uuid, cleaning: &Cleaning) {
    let Cleaning { extents, bytes, took } = *cleaning;
    debug!(target: CLEANING, pool = %Name(pool), extents, bytes, micros = micros(took), "cleaned");
}

pub(super) fn stalled(pool: &Uuid, why: Stall, took: Duration) {
    let (why, micros) = (why.name(), micros(took));
    debug!(target: STALL, pool = %Name(pool), why, micros, "writer waited");
}

pub(super) fn transaction_committed(pool: &Uuid) {
    trace!(target: TRANSACTION, pool = %Name(pool), "committed");
}

pub(super) fn transaction_conflicted(pool: &Uuid, tree: &str) {
    debug!(target: TRANSACTION, pool = %Name(pool), tree, "conflict");
}

pub(super) fn versions_changed(pool: &Uuid, versions: &Versions) {
    let Versions { snapshots, values, bytes } = *versions;
    trace!(target: SNAPSHOT, pool = %Name(pool), snapshots, values, bytes, "old values");
}

pub(super) fn snapshot_given_up(pool: &Uuid, bytes_max: u64) {
    debug!(target: SNAPSHOT, pool = %Name(pool), bytes_max, "given up");
}
