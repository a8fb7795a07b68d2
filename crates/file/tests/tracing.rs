//! Events of the crate `tracing`: a subscriber hears of all that happens, by the names that the guide lists.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

mod slow;
mod toy;
mod watched;

type Fields = BTreeMap<&'static str, String>;

#[derive(Debug)]
struct Heard {
    target: &'static str,
    level: Level,
    fields: Fields,
}

static HEARD: Mutex<Vec<Heard>> = Mutex::new(Vec::new());

struct Ear;

struct Reader(Fields);

impl Visit for Reader {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.into());
    }
}

impl Subscriber for Ear {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("everleaf::")
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut reader = Reader(Fields::new());
        event.record(&mut reader);
        let (target, level) = (event.metadata().target(), *event.metadata().level());
        let mut heard = HEARD.lock().unwrap_or_else(PoisonError::into_inner);
        heard.push(Heard { target, level, fields: reader.0 });
        drop(heard);
        static EVENTS: AtomicU64 = AtomicU64::new(0);
        // Who listens may break now and then.
        assert!(EVENTS.fetch_add(1, Ordering::Relaxed) % 5 != 3, "a subscriber that panics");
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

fn take() -> Vec<Heard> {
    std::mem::take(&mut *HEARD.lock().unwrap_or_else(PoisonError::into_inner))
}

fn of<'a>(heard: &'a [Heard], target: &str, message: &str) -> Vec<&'a Heard> {
    let is_it = |h: &&Heard| h.target == target && h.fields["message"] == message;
    heard.iter().filter(is_it).collect()
}

fn number(heard: &Heard, field: &str) -> u64 {
    heard.fields[field].parse().expect("a number")
}

#[test]
fn a_subscriber_hears_of_all_that_happens() {
    tracing::subscriber::set_global_default(Ear).expect("the first one");
    std::panic::set_hook(Box::new(|info| {
        let is_meant = info.payload_as_str() == Some("a subscriber that panics");
        if !is_meant {
            eprintln!("{info}");
        }
    }));

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
