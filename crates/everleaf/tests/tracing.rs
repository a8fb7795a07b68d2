//! Events of snapshots and transactions by the crate `tracing`.

use events::{Ear, hide_panics_that_are_meant, number, of, take};
use everleaf::Options;
use tracing::Level;

#[path = "../../file/tests/ear/events.rs"]
mod events;
mod watched;

/// Figures are told again when old values take so many bytes more.
const TELL_BYTES: u64 = 64 << 10;

#[test]
fn a_subscriber_hears_what_snapshots_and_transactions_do() {
    tracing::subscriber::set_global_default(Ear).expect("the first one");
    hide_panics_that_are_meant();
    let watched::Happened { during, after } = watched::a_pool_with_transactions(&Options::new());
    let heard = take();
    let committed = of(&heard, "everleaf::transaction", "committed");
    assert!(matches!(committed[..], [h] if h.level == Level::TRACE), "{committed:?}");
    let conflicts = of(&heard, "everleaf::transaction", "conflict");
    assert!(matches!(conflicts[..], [h] if h.fields["tree"] == "t"), "{conflicts:?}");
    let given_up = of(&heard, "everleaf::snapshot", "given up");
    assert_eq!(given_up.len() as u64, after.snapshots_given_up);
    assert!(given_up.iter().all(|h| number(h, "bytes_max") == watched::KEPT_BYTES));

    // While writers replace values, the figures follow; at the end nothing is left.
    let told = of(&heard, "everleaf::snapshot", "old values");
    let bytes = told.iter().map(|h| number(h, "bytes"));
    assert!(bytes.clone().any(|bytes| bytes.abs_diff(during.snapshot_bytes) < TELL_BYTES));
    assert!(bytes.clone().any(|bytes| (TELL_BYTES..2 * TELL_BYTES).contains(&bytes)));
    assert!(told.iter().any(|h| number(h, "snapshots") == 2 && number(h, "values") == 600));
    let last = told.last().expect("figures");
    assert!(["snapshots", "values", "bytes"].iter().all(|field| number(last, field) == 0));
}
