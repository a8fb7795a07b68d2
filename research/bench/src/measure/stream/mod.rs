//! Streams of gets, puts and removals over a tree of which half of the keys are there: the
//! experiments of the BD+Tree paper (§1, §4).
//!
//! Counts are taken on one thread, with epochs of a number of operations that end between
//! two of them, so that they are the same in each run. Times are taken with epochs that a thread ends, or, as the tree
//! counts, the operation that finds its epoch full.

pub mod counts;
pub mod skew;
pub mod source;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde::Deserialize;

use self::source::{Stream, StreamSizes, apply, workload};
use crate::measure::kind::{Context, Figures, Measure, one};
use crate::medium::MediumName;
use crate::system::{BUFFERED, Readers, Subject, SystemSpec};
use crate::trace::TraceStep;
use crate::workload::OpKind;

/// The quantity that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// Operations a second.
    Rate,
    /// Lines that are written back, for each write.
    Lines,
    /// Lines of puts each of which has an epoch of its own.
    Plain,
    /// Memory that the tree takes.
    Space,
    /// Versions of keys that the leaves hold at the end of an epoch.
    Versions,
}

/// The parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Streams {
    what: What,
    system: String,
    medium: MediumName,
    slots: u32,
    /// A name of Table 2 or Table 1.
    workload: Option<String>,
    /// A file instead.
    trace: Option<PathBuf>,
    /// The divisor of key spaces, operations and epochs.
    #[serde(default = "one")]
    shrink: u64,
    /// Operations.
    ops: u64,
    /// Reads of a hundred operations.
    reads: Option<u32>,
    /// Whether all writes are puts; else half of them are removals.
    #[serde(default)]
    puts_only: bool,
    #[serde(default = "one")]
    threads: u64,
    /// Length of an epoch in microseconds, for rates.
    epoch_us: Option<u64>,
    /// Length of an epoch in operations, for all else; and for rates of writes alone, by the tree's own count.
    epoch_ops: Option<u64>,
}

/// The longest epoch that there is: one whose operations end it has no other end.
const EPOCH_LONGEST: Duration = Duration::from_secs(10);

/// The paper's length of an epoch on one socket (§4.1.1).
const EPOCH_US: u64 = 50_000;

impl Streams {
    fn operations(&self) -> u64 {
        (self.ops / self.shrink).max(1)
    }

    /// Operations of an epoch; all of them if there is none.
    fn epoch(&self) -> u64 {
        self.epoch_ops.map_or(u64::MAX, |ops| (ops / self.shrink).max(1))
    }

    fn sizes(&self, seed: u64) -> StreamSizes {
        let Self { shrink, reads, puts_only, .. } = *self;
        StreamSizes { shrink, operations: self.operations(), reads, puts_only, seed }
    }

    fn stream(&self, seed: u64) -> Result<Stream> {
        match (&self.workload, &self.trace) {
            (Some(name), _) => Stream::drawn(&workload(name, self.sizes(seed))?, self.operations()),
            (None, Some(path)) => Stream::read(path, self.operations()),
            (None, None) => anyhow::bail!("no workload and no trace"),
        }
    }

    fn make<'a>(&'a self, context: &'a Context, keys: u64) -> SystemSpec<'a> {
        let by_ops = self.epoch_ops.map_or(Duration::from_micros(EPOCH_US), |_| EPOCH_LONGEST);
        let interval = self.epoch_us.map_or(by_ops, Duration::from_micros);
        let is_rate = self.what == What::Rate;
        SystemSpec {
            name: &self.system,
            medium: self.medium,
            slots: self.slots,
            keys,
            readers: Readers::default(),
            epoch: is_rate.then_some(interval),
            epoch_ops: self.epoch_ops.filter(|_| is_rate).map(|_| self.epoch()),
            scratch: &context.scratch,
            dax: context.dax.as_deref(),
        }
    }
}

/// Runs `work(t)` on so many threads and returns how long all of them took.
fn spread(threads: u64, work: impl Fn(usize) -> Result<()> + Sync) -> Result<Duration> {
    let start = Instant::now();
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..threads as usize).map(|t| scope.spawn(move || work(t))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    Ok(start.elapsed())
}

/// Runs the operations in turns on so many threads. Two threads put the first keys, which is not
/// timed.
fn rate(subject: &dyn Subject, stream: &Stream, threads: u64) -> Result<Figures> {
    let index = subject.index();
    spread(2, |t| {
        let mut first = stream.first.iter().skip(t).step_by(2);
        first.try_for_each(|&key| apply(index, TraceStep { key, kind: OpKind::Put }))
    })?;
    subject.sync()?;
    let dealt: Vec<Vec<TraceStep>> = (0..threads as usize)
        .map(|t| stream.steps.iter().skip(t).step_by(threads as usize).copied().collect())
        .collect();
    let start = Instant::now();
    let done = spread(threads, |t| dealt[t].iter().try_for_each(|step| apply(index, *step)))?;
    subject.sync()?;
    let durable = start.elapsed();
    let mops = |took: Duration| stream.steps.len() as f64 / took.as_secs_f64() / 1e6;
    Ok(vec![("mixed_mops".into(), mops(done)), ("mixed_durable_mops".into(), mops(durable))])
}

impl Measure for Streams {
    fn check(&self) -> Result<()> {
        ensure!(self.shrink > 0 && self.ops > 0 && self.threads > 0, "nothing to do");
        ensure!(self.workload.is_some() != self.trace.is_some(), "a workload or a trace");
        let keys = match &self.workload {
            Some(name) => workload(name, self.sizes(0))?.items,
            None => self.operations(),
        };
        let context = Context::default();
        self.make(&context, keys).check()?;
        if self.what == What::Rate {
            let counts = self.system == BUFFERED && self.reads == Some(0);
            ensure!(self.epoch_ops.is_none() || counts, "{BUFFERED} counts, and not its reads");
        } else {
            ensure!(self.epoch_us.is_none(), "only epochs of a number of operations are exact");
            ensure!(self.threads == 1, "only one thread counts exactly");
            let has_epochs = self.epoch_ops.is_some() || self.what == What::Plain;
            ensure!(has_epochs || self.system != BUFFERED, "when do epochs of {BUFFERED} end?");
        }
        if matches!(self.what, What::Lines | What::Plain) {
            ensure!(self.medium == MediumName::Counted, "lines are counted on the medium counted");
        }
        let has_versions = self.system == BUFFERED && self.medium == MediumName::Dram;
        ensure!(self.what != What::Versions || has_versions, "versions are of {BUFFERED} in dram");
        Ok(())
    }

    fn lacks(&self, _context: &Context) -> Option<String> {
        let trace = self.trace.as_ref().filter(|path| !path.exists());
        trace.map(|path| format!("there is no trace {path:?}"))
    }

    fn run(&self, context: &Context, _round: u32) -> Result<Figures> {
        let stream = self.stream(context.seed)?;
        let subject = self.make(context, stream.items).make()?;
        if self.what == What::Rate {
            return rate(&*subject, &stream, self.threads);
        }
        counts::prefill(&*subject, &stream)?;
        match self.what {
            What::Plain => counts::plain(&*subject, &stream),
            What::Space => counts::space(&*subject, &stream, self.epoch()),
            What::Versions => counts::versions(&*subject, &stream, self.epoch()),
            What::Lines | What::Rate => counts::lines(&*subject, &stream, self.epoch()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn streams(text: &str) -> Result<Streams> {
        let streams: Streams = toml::from_str(text)?;
        streams.check()?;
        Ok(streams)
    }

    fn context() -> Context {
        Context { seed: 3, scratch: std::env::temp_dir(), dax: None }
    }

    /// Runs and returns figures by name.
    pub fn figures(text: &str) -> impl Fn(&str) -> f64 + use<> {
        let found = streams(text).expect("valid").run(&context(), 1).expect("room");
        move |name: &str| {
            let of = found.iter().find(|(own, _)| own == name);
            of.unwrap_or_else(|| panic!("no {name}")).1
        }
    }

    const U1: &str = "slots = 32\nworkload = 'U1'\nreads = 20\nshrink = 50\nops = 1_000_000\n";

    #[test]
    fn rates_are_of_all_operations_on_any_number_of_threads() {
        for system in ["BdTree", "CircTree"] {
            let text = format!(
                "{U1}system = '{system}'\nwhat = 'rate'\nmedium = 'latency:10'\nthreads = 2"
            );
            let of = figures(&text);
            assert!(of("mixed_mops") > 0.0 && of("mixed_durable_mops") <= of("mixed_mops"));
        }
    }

    #[test]
    fn epochs_of_rates_end_by_time_or_by_the_count_of_the_tree() {
        let text = format!("{U1}system = 'BdTree'\nwhat = 'rate'\nmedium = 'dram'\n");
        let text = text.replace("reads = 20", "reads = 0");
        for epochs in ["epoch_ops = 50_000", "epoch_us = 500\nepoch_ops = 50_000", ""] {
            assert!(figures(&format!("{text}threads = 2\n{epochs}"))("mixed_mops") > 0.0);
        }
    }

    #[test]
    fn a_trace_that_is_not_there_is_lacking() {
        let text = "slots = 32\nops = 10\nsystem = 'BdTree'\nwhat = 'rate'\nmedium = 'dram'\n";
        let here = streams(&format!("{text}trace = 'no/such/trace'")).expect("valid");
        assert!(here.lacks(&context()).is_some_and(|why| why.contains("no/such/trace")));
        assert!(streams(text).is_err(), "neither a workload nor a trace");
    }

    #[test]
    fn what_would_not_be_exact_is_refused() {
        let lines = format!("{U1}system = 'BdTree'\nwhat = 'lines'\n");
        assert!(streams(&format!("{lines}medium = 'counted'\nepoch_ops = 1000")).is_ok());
        for wrong in [
            "medium = 'counted'\nepoch_us = 1000",
            "medium = 'counted'\nepoch_ops = 1000\nthreads = 2",
            "medium = 'counted'",
            "medium = 'dram'\nepoch_ops = 1000",
        ] {
            assert!(streams(&format!("{lines}{wrong}")).is_err(), "{wrong}");
        }
        let rate = |system, reads| {
            let u1 = U1.replace("reads = 20", reads);
            let text = format!("{u1}system = '{system}'\nwhat = 'rate'\nmedium = 'dram'\n");
            streams(&format!("{text}epoch_ops = 1000"))
        };
        assert!(rate("BdTree", "reads = 0").is_ok());
        assert!(rate("BdTree", "reads = 20").is_err() && rate("Montage", "reads = 0").is_err());
        let versions = format!("{U1}system = 'CircTree'\nwhat = 'versions'\nmedium = 'dram'\n");
        assert!(streams(&format!("{versions}epoch_ops = 1000")).is_err());
    }
}
