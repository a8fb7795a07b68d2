//! A subscriber of the crate `tracing` that keeps all it hears, for the tests of this crate and of `everleaf`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

pub type Fields = BTreeMap<&'static str, String>;

#[derive(Debug)]
pub struct Heard {
    pub target: &'static str,
    pub level: Level,
    pub fields: Fields,
}

static HEARD: Mutex<Vec<Heard>> = Mutex::new(Vec::new());

pub struct Ear;

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
        // A subscriber may break now and then.
        assert!(EVENTS.fetch_add(1, Ordering::Relaxed) % 5 != 3, "a subscriber that panics");
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// Takes the events heard since the last call.
pub fn take() -> Vec<Heard> {
    std::mem::take(&mut *HEARD.lock().unwrap_or_else(PoisonError::into_inner))
}

pub fn of<'a>(heard: &'a [Heard], target: &str, message: &str) -> Vec<&'a Heard> {
    let is_it = |h: &&Heard| h.target == target && h.fields["message"] == message;
    heard.iter().filter(is_it).collect()
}

pub fn number(heard: &Heard, field: &str) -> u64 {
    heard.fields[field].parse().expect("a number")
}

/// Keeps what the subscriber's own panics say from the test's output.
pub fn hide_panics_that_are_meant() {
    std::panic::set_hook(Box::new(|info| {
        let is_meant = info.payload().downcast_ref() == Some(&"a subscriber that panics");
        if !is_meant {
            eprintln!("{info}");
        }
    }));
}
