//! Events of the crate `tracing`: a subscriber hears of all that happens, by the names that the guide lists.

use tracing::Level;

#[path = "ear/events.rs"]
mod events;
mod slow;
mod toy;
mod watched;

use events::{Ear, hide_panics_that_are_meant, number, of, take};

#[test]
fn a_subscriber_hears_of_all_that_happens() {
    tracing::subscriber::set_global_default(Ear).expect("the first one");
    hide_panics_that_are_meant();

    let happened = watched::a_pool_that_is_used();
    let heard = take();
    let hex: String = happened.uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(heard.iter().all(|h| h.fields["pool"].replace('-', "") == hex), "{heard:?}");
    assert_eq!(of(&heard, "everleaf::pool", "opened").len(), 1);
    assert_eq!(of(&heard, "everleaf::pool", "closed").len(), 1);

    let ended = of(&heard, "everleaf::epoch", "epoch ended");
    let epochs: Vec<_> = ended.iter().map(|h| number(h, "epoch")).collect();
    // The close ends one more.
    assert_eq!(epochs, (1..=happened.last_epoch + 1).collect::<Vec<_>>(), "each once, in order");
    assert!(ended.iter().all(|h| h.level == Level::TRACE && number(h, "micros") < 60_000_000));
    let commits = ended.iter().filter(|h| h.fields["is_commit"] == "true");
    assert_eq!(commits.count() as u64, happened.commits);
    assert!(ended.iter().any(|h| number(h, "record_bytes") > 0));
    assert!(ended.iter().any(|h| number(h, "value_bytes") > 8 << 20));

    let checkpoints = of(&heard, "everleaf::checkpoint", "checkpoint ended");
    let pages: u64 = checkpoints.iter().map(|h| number(h, "pages")).sum();
    assert!(checkpoints.len() >= 3 && pages >= happened.pages, "{checkpoints:?}");
    assert!(checkpoints.iter().all(|h| h.level == Level::DEBUG));
    assert!(checkpoints.iter().all(|h| number(h, "bytes") > 0 || number(h, "pages") == 0));
    let cleaned = of(&heard, "everleaf::cleaning", "cleaned");
    assert!(cleaned.iter().any(|h| number(h, "extents") > 0 && number(h, "bytes") > 0));
    let stalls = of(&heard, "everleaf::stall", "writer waited");
    assert!(stalls.iter().all(|h| h.fields["why"] == "spill"), "{stalls:?}");
    assert!(happened.spills > 0 && stalls.len() as u64 >= happened.spills, "{stalls:?}");

    let waits = watched::a_disk_that_stands_still();
    let heard = take();
    let stalls = of(&heard, "everleaf::stall", "writer waited");
    assert_eq!(stalls.len() as u64, waits);
    assert!(stalls.iter().any(|h| h.fields["why"] == "disk" && number(h, "micros") > 10_000));

    watched::a_disk_that_fails();
    let heard = take();
    let stopped = of(&heard, "everleaf::pool", "writes stopped");
    assert!(matches!(stopped[..], [h] if h.level == Level::ERROR), "{stopped:?}");
    let failed = of(&heard, "everleaf::epoch", "commit failed");
    assert!(matches!(failed[..], [h] if h.level == Level::WARN), "{failed:?}");
}
