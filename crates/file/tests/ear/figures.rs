//! A recorder of the crate `metrics` that keeps all it gets, for the tests of this crate and of `everleaf`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};

/// Values by name and labels: sums of counters, the last of gauges, all of histograms.
pub type Values = BTreeMap<String, Vec<f64>>;

static VALUES: Mutex<Values> = Mutex::new(Values::new());
pub static DESCRIBED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// All that was measured so far.
pub fn values() -> MutexGuard<'static, Values> {
    VALUES.lock().unwrap_or_else(PoisonError::into_inner)
}

pub struct Ear;

struct Cell(String);

impl Cell {
    fn of(key: &Key) -> Arc<Cell> {
        let labels: Vec<_> = key.labels().map(|l| format!("{}={}", l.key(), l.value())).collect();
        let name = key.name();
        Arc::new(Cell(if labels.is_empty() {
            name.into()
        } else {
            format!("{name} {}", labels.join(" "))
        }))
    }
    fn change(&self, change: impl FnOnce(&mut Vec<f64>)) {
        change(values().entry(self.0.clone()).or_default());
    }
}

impl CounterFn for Cell {
    fn increment(&self, n: u64) {
        self.change(|values| *values = vec![values.first().unwrap_or(&0.0) + n as f64]);
    }
    fn absolute(&self, n: u64) {
        self.change(|values| *values = vec![n as f64]);
    }
}

impl GaugeFn for Cell {
    fn increment(&self, _: f64) {
        unreachable!("gauges are set");
    }
    fn decrement(&self, _: f64) {
        unreachable!("gauges are set");
    }
    fn set(&self, n: f64) {
        self.change(|values| *values = vec![n]);
    }
}

impl HistogramFn for Cell {
    fn record(&self, n: f64) {
        self.change(|values| values.push(n));
    }
}

impl Recorder for Ear {
    fn describe_counter(&self, key: KeyName, _: Option<Unit>, _: SharedString) {
        DESCRIBED.lock().expect("no panic").push(key.as_str().into());
    }
    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, what: SharedString) {
        self.describe_counter(key, unit, what);
    }
    fn describe_histogram(&self, key: KeyName, unit: Option<Unit>, what: SharedString) {
        self.describe_counter(key, unit, what);
    }
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(Cell::of(key))
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(Cell::of(key))
    }
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(Cell::of(key))
    }
}

/// A counter, or a gauge.
pub fn one(name: &str) -> f64 {
    match values().get(name).map(Vec::as_slice) {
        Some([value]) => *value,
        other => panic!("{name}: {other:?}"),
    }
}

/// Of a histogram.
pub fn all(name: &str) -> Vec<f64> {
    values().get(name).cloned().unwrap_or_default()
}
