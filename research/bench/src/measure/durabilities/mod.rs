//! A stream of operations under each durability: how fast it is, what a crash may take by the rules, and how long
//! writes really waited until they were durable.
//!
//! A write is durable when it returns if the tree is strict, or if each write is synced. By epochs it becomes
//! durable later. Each thread notes a write about every millisecond, and the epoch that was running when it had
//! returned; another thread looks which epochs are durable. Writes go on until all that was noted is durable.

#[cfg(test)]
mod crash;

use std::fmt;
use std::str::FromStr;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;

use crate::clock::Times;
use crate::measure::kind::{Context, Figures, Measure, one};
use crate::measure::lag::{DurableAt, Noted, until_durable};
use crate::measure::stream::source::{Stream, StreamSizes, apply, workload};
use crate::medium::MediumName;
use crate::system::{BUFFERED, Readers, Subject, SystemSpec, fill};
use crate::trace::TraceStep;
use crate::workload::OpKind;

/// How often a write of each thread is noted.
const NOTE: Duration = Duration::from_millis(1);

/// Writes between two looks at the clock.
const LOOK_WRITES: u64 = 16;

/// How often somebody looks what is durable.
const LOOK: Duration = Duration::from_micros(200);

/// Length of an epoch where each write is synced, and ends the epoch itself.
const UNUSED: Duration = Duration::from_millis(10);

/// When a write is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
enum Durability {
    /// When it returns, by the order of its own stores.
    Strict,
    /// When it returns, because it ends its epoch and waits.
    Synced,
    /// With its epoch, which has this length.
    Epochs(Duration),
}

impl FromStr for Durability {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let ms = text.strip_prefix("epochs:").map(|ms| ms.parse::<u64>());
        Ok(match (text, ms) {
            ("strict", _) => Self::Strict,
            ("synced", _) => Self::Synced,
            (_, Some(ms)) => Self::Epochs(Duration::from_millis(ms.context("epochs:MS")?)),
            _ => bail!("no durability is called {text:?}: strict, synced, epochs:MS"),
        })
    }
}

impl TryFrom<String> for Durability {
    type Error = anyhow::Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Strict => f.write_str("strict"),
            Self::Synced => f.write_str("synced"),
            Self::Epochs(length) => write!(f, "epochs:{}", length.as_millis()),
        }
    }
}

/// The parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Durabilities {
    system: String,
    medium: MediumName,
    slots: u32,
    durability: Durability,
    /// A name of BD+Tree's Table 2.
    workload: String,
    /// The divisor of its key space.
    #[serde(default = "one")]
    shrink: u64,
    /// Operations that are drawn; they are done again and again.
    ops: u64,
    /// Reads of a hundred operations.
    reads: u32,
    #[serde(default = "one")]
    threads: u64,
    /// How long operations are counted.
    seconds: f64,
}

/// The result of a thread: its operations in a second, and the writes that it has noted.
type ThreadRun = (f64, Vec<Noted>);

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn is_write(step: &TraceStep) -> bool {
    step.kind != OpKind::Get
}

impl Durabilities {
    fn sizes(&self, seed: u64) -> StreamSizes {
        let (shrink, operations, reads) = (self.shrink, self.ops, Some(self.reads));
        StreamSizes { shrink, operations, reads, puts_only: false, seed }
    }

    fn make<'a>(&'a self, context: &'a Context, keys: u64) -> SystemSpec<'a> {
        let length = match self.durability {
            Durability::Epochs(length) => length,
            Durability::Strict | Durability::Synced => UNUSED,
        };
        let medium = match self.medium {
            MediumName::File(_) => MediumName::File(length),
            other => other,
        };
        SystemSpec {
            name: &self.system,
            medium,
            slots: self.slots,
            keys,
            readers: Readers::default(),
            epoch: Some(length),
            epoch_ops: None,
            scratch: &context.scratch,
            dax: context.dax.as_deref(),
        }
    }

    fn is_on_file(&self) -> bool {
        matches!(self.medium, MediumName::File(_))
    }

    /// The longest time whose writes a crash may take by the rules of the medium.
    fn bound(&self, longest_sync: Duration) -> Duration {
        match self.durability {
            Durability::Strict | Durability::Synced => Duration::ZERO,
            Durability::Epochs(length) if self.is_on_file() => length + 2 * longest_sync,
            Durability::Epochs(length) => 2 * length,
        }
    }

    /// Does one operation, until it is durable if each write is synced.
    fn step(&self, subject: &dyn Subject, step: &TraceStep) -> Result<()> {
        apply(subject.index(), *step)?;
        if self.durability == Durability::Synced && is_write(step) {
            subject.sync()?;
        }
        Ok(())
    }

    /// One thread, for as long as operations are counted. At least one of its steps is a write.
    fn work(&self, subject: &dyn Subject, steps: &[TraceStep]) -> Result<ThreadRun> {
        let (mut done, mut writes, mut noted) = (0_u64, 0_u64, Vec::new());
        let start = Instant::now();
        let end = start + Duration::from_secs_f64(self.seconds);
        let is_by_epochs = matches!(self.durability, Durability::Epochs(_));
        let mut due = start;
        for step in steps.iter().cycle() {
            self.step(subject, step)?;
            done += 1;
            if !is_write(step) {
                continue;
            }
            writes += 1;
            if !writes.is_multiple_of(LOOK_WRITES) {
                continue;
            }
            let now = Instant::now();
            if is_by_epochs && now >= due {
                noted.extend(subject.epoch().map(|epoch| (now, epoch)));
                due = now + NOTE;
            }
            if now >= end {
                return Ok((done as f64 / (now - start).as_secs_f64(), noted));
            }
        }
        bail!("no operations")
    }

    /// All threads, and then writes until what they have noted is durable.
    fn spread(&self, subject: &dyn Subject, dealt: &[Vec<TraceStep>]) -> Result<Vec<ThreadRun>> {
        let barrier = Barrier::new(dealt.len());
        let runs = std::thread::scope(|scope| {
            let run = |steps| {
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    self.work(subject, steps)
                })
            };
            let threads: Vec<_> = dealt.iter().map(|steps| run(&steps[..])).collect();
            let joined = threads.into_iter().map(|thread| thread.join().expect("no panic"));
            joined.collect::<Result<Vec<ThreadRun>>>()
        })?;
        let last = runs.iter().flat_map(|(_, noted)| noted).map(|(_, epoch)| *epoch).max();
        for step in dealt[0].iter().cycle() {
            // There is no last one where writes were durable when they returned.
            if subject.durable_epoch() >= last {
                break;
            }
            self.step(subject, step)?;
        }
        Ok(runs)
    }

    /// How long the writes that were noted took to be durable.
    fn lags(runs: &[ThreadRun], durable: &DurableAt) -> Result<Times> {
        let mut times = Times::default();
        for noted in runs.iter().flat_map(|(_, noted)| noted) {
            let lag = until_durable(durable, *noted).context("an epoch was never durable")?;
            times.add(lag.as_nanos() as u64);
        }
        Ok(times)
    }
}

/// When epochs were durable, until work has ended.
fn watch(subject: &dyn Subject, has_ended: &AtomicBool) -> DurableAt {
    let mut times = DurableAt::new();
    loop {
        let is_last = has_ended.load(Ordering::SeqCst);
        if let Some(epoch) = subject.durable_epoch() {
            times.entry(epoch).or_insert_with(Instant::now);
        }
        if is_last {
            return times;
        }
        std::thread::sleep(LOOK);
    }
}

impl Measure for Durabilities {
    fn check(&self) -> Result<()> {
        ensure!(self.shrink > 0 && self.ops > 0 && self.threads > 0, "nothing to do");
        ensure!(self.reads < 100, "{} % of reads: no writes that a crash could take", self.reads);
        ensure!(self.seconds > 0.0 && self.seconds < 3600.0, "seconds: more than 0, below 3600");
        let has_epochs = self.is_on_file() || [BUFFERED, "Montage"].contains(&&*self.system);
        ensure!(
            has_epochs == (self.durability != Durability::Strict),
            "{} on this medium is not durable by {}",
            self.system,
            self.durability
        );
        if let Durability::Epochs(length) = self.durability {
            let is_allowed = (1..=10_000).contains(&length.as_millis());
            ensure!(is_allowed, "an epoch of {length:?}: 1 ms to 10 s");
        }
        let is_kept = matches!(self.medium, MediumName::Dax(..) | MediumName::File(_));
        ensure!(is_kept, "nothing outlives a crash on this medium: dax, file");
        let keys = workload(&self.workload, self.sizes(0))?.items;
        self.make(&Context::default(), keys).check()
    }

    fn run(&self, context: &Context, _round: u32) -> Result<Figures> {
        let stream = Stream::drawn(&workload(&self.workload, self.sizes(context.seed))?, self.ops)?;
        let threads = self.threads as usize;
        let dealt: Vec<Vec<TraceStep>> = (0..threads)
            .map(|t| stream.steps.iter().skip(t).step_by(threads).copied().collect())
            .collect();
        let all_write = dealt.iter().all(|steps| steps.iter().any(is_write));
        ensure!(all_write, "{} operations: a thread has no write among its own", self.ops);
        let subject = self.make(context, stream.items).make()?;
        fill(subject.index(), stream.first.iter().copied())?;
        subject.sync()?;
        subject.longest_sync();
        let has_ended = AtomicBool::new(false);
        let (runs, durable) = std::thread::scope(|scope| {
            let watcher = scope.spawn(|| watch(&*subject, &has_ended));
            let runs = self.spread(&*subject, &dealt);
            has_ended.store(true, Ordering::SeqCst);
            (runs, watcher.join().expect("no panic"))
        });
        let runs = runs?;
        let sync = subject.longest_sync();
        let mut figures = vec![
            ("mixed_kops".into(), runs.iter().map(|(rate, _)| rate / 1e3).sum()),
            ("bound_ms".into(), ms(self.bound(sync))),
        ];
        if self.is_on_file() {
            figures.push(("sync_max_ms".into(), ms(sync)));
        }
        match self.durability {
            Durability::Epochs(_) => {
                for (name, ns) in Self::lags(&runs, &durable)?.figures("lag") {
                    if let Some(name @ ("lag_p50" | "lag_max")) = name.strip_suffix("_ns") {
                        figures.push((format!("{name}_ms"), ns / 1e6));
                    }
                }
            }
            // It was durable when it returned.
            Durability::Strict | Durability::Synced => {
                figures.extend(["lag_p50_ms", "lag_max_ms"].map(|name| (name.into(), 0.0)));
            }
        }
        Ok(figures)
    }
}

#[cfg(test)]
mod tests {
    use crate::measure::tests::{cell, of, run};

    fn text(system: &str, medium: &str, durability: &str, threads: u64) -> String {
        format!(
            "system = '{system}'\nmedium = '{medium}'\nslots = 32\ndurability = '{durability}'\n\
             workload = 'U1'\nshrink = 100\nops = 5_000\nreads = 20\nthreads = {threads}\n\
             seconds = 0.1"
        )
    }

    #[test]
    fn each_durability_has_a_rate_a_bound_and_lags() {
        for (system, medium, durability, bound) in [
            ("CircTree", "dax:none", "strict", 0.0),
            ("BdTree", "dax:none", "synced", 0.0),
            ("BdTree", "dax:none", "epochs:5", 10.0),
            ("Montage", "dax:none", "epochs:5", 10.0),
            ("CircTree", "file", "synced", 0.0),
            ("CircTree", "file", "epochs:5", 5.0),
        ] {
            for threads in [1, 2] {
                let figures = run("durabilities", &text(system, medium, durability, threads));
                assert!(of(&figures, "mixed_kops") > 0.0);
                let [least, most] = ["lag_p50_ms", "lag_max_ms"].map(|name| of(&figures, name));
                assert!(least <= most);
                assert_eq!(most > 0.0, durability == "epochs:5", "{system}, {durability}: {most}");
                let syncs = match (medium, bound > 0.0) {
                    ("file", true) => 2.0 * of(&figures, "sync_max_ms"),
                    _ => 0.0,
                };
                let found = of(&figures, "bound_ms");
                assert!((found - bound - syncs).abs() < 1e-6, "{system}, {durability}: {found}");
            }
        }
    }

    #[test]
    fn what_a_system_cannot_promise_is_refused() {
        let refuses = |text: String| crate::measure::check("durabilities", &cell(&text)).is_err();
        let good = text("BdTree", "dax", "epochs:50", 1);
        assert!(!refuses(good.clone()));
        assert!(refuses(text("BdTree", "dax", "strict", 1)));
        assert!(refuses(text("CircTree", "dax", "epochs:50", 1)));
        assert!(refuses(text("CircTree", "dax", "synced", 1)));
        assert!(refuses(text("CircTree", "file", "strict", 1)));
        assert!(refuses(text("BdTree", "dram", "synced", 1)));
        for wrong in ["epochs", "epochs:", "epochs:0", "epochs:10001", "epochs:x", "often"] {
            assert!(refuses(text("BdTree", "dax", wrong, 1)), "{wrong}");
        }
        for (from, to) in [("seconds = 0.1", "seconds = 0"), ("reads = 20", "reads = 100")] {
            assert!(refuses(good.replace(from, to)), "{to}");
        }
    }
}
