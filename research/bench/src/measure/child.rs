//! A phase of a measurement in a process of its own: one whose memory and writes are counted alone, that
//! may be in a control group, and that may be killed.
//!
//! The process says its figures by lines on its standard output. If it has come to where it is to be
//! killed, it says so and waits.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde::Serialize;

use super::kind::Figures;

/// The line by which a process says that it is to be killed.
const READY: &str = "ready";

/// How often the memory of a process is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// Says figures.
///
/// # Errors
/// Nobody listens.
pub fn say(figures: &Figures) -> Result<()> {
    let mut out = std::io::stdout().lock();
    for (name, value) in figures {
        writeln!(out, "{name} {value}")?;
    }
    Ok(out.flush()?)
}

/// Says figures and waits to be killed.
///
/// # Errors
/// Nobody listens, or nobody kills.
pub fn wait_for_the_end(figures: &Figures) -> Result<()> {
    say(figures)?;
    println!("{READY}");
    // Until it is killed, or whoever should do that has gone.
    std::io::stdin().lines().for_each(drop);
    bail!("nobody has killed this process")
}

/// The most memory that a process took.
#[derive(Debug, Clone, Copy, Default)]
pub struct Peak {
    /// Bytes that are no file's.
    pub anon: u64,
    /// All that was mapped, files among it.
    pub all: u64,
}

impl Peak {
    /// The larger ones.
    pub fn max(self, other: Self) -> Self {
        Self { anon: self.anon.max(other.anon), all: self.all.max(other.all) }
    }

    fn look(&mut self, process: u32) {
        let text = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        self.anon = self.anon.max(status_bytes(&text, "RssAnon:"));
        self.all = self.all.max(status_bytes(&text, "VmHWM:"));
    }
}

fn status_bytes(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

/// Bytes of this process that are in memory and no file's.
pub fn anon_bytes() -> u64 {
    status_bytes(&fs::read_to_string("/proc/self/status").unwrap_or_default(), "RssAnon:")
}

/// The time that this process has spent of all processors, to a hundredth of a second; 0 where the system does not say.
pub fn processor_time() -> Duration {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program, in parentheses, may have spaces. User's and system's time are fields 14 and 15.
    let fields = text.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|n| n.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

/// Bytes that this process has handed to the system to be written, and bytes of pages of files that it
/// has made dirty, by calls and through maps. A page counts once until it is written to the disk.
#[derive(Debug, Clone, Copy, Default)]
pub struct Written {
    /// Handed over by calls.
    pub calls: u64,
    /// Made dirty.
    pub disk: u64,
}

impl Written {
    /// Until now.
    pub fn now() -> Self {
        let text = fs::read_to_string("/proc/self/io").unwrap_or_default();
        let of = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|n| n.trim().parse().ok()).unwrap_or(0)
        };
        Self { calls: of("wchar:"), disk: of("write_bytes:") }
    }
}

fn start(part: &[&str], dir: &Path, seed: u64, group: Option<&Path>) -> Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("part").args(part).arg(dir).args(["--seed", &seed.to_string()]);
    if let Some(group) = group {
        command.arg("--group").arg(group);
    }
    Ok(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?)
}

/// The figures that a process said, and whether it is to be killed.
fn listen(child: &mut Child) -> Result<(Figures, bool)> {
    let out = child.stdout.take().context("no pipe")?;
    let mut figures = Figures::new();
    for line in BufReader::new(out).lines() {
        let line = line?;
        if line == READY {
            return Ok((figures, true));
        }
        let (name, value) = line.split_once(' ').context("a line without a figure")?;
        figures.push((name.into(), value.parse()?));
    }
    Ok((figures, false))
}

/// Does a phase of a measurement in a process, and kills it if it asks for that.
///
/// # Errors
/// It failed, or was killed by somebody else: by the system, for want of memory.
pub fn run(
    kind: &str,
    cell: &impl Serialize,
    phase: &str,
    (dir, seed, group): (&Path, u64, Option<&Path>),
) -> Result<(Figures, Peak)> {
    let cell = toml::to_string(cell)?;
    let mut child = start(&[kind, &cell, phase], dir, seed, group)?;
    let (id, has_ended) = (child.id(), AtomicBool::new(false));
    let (said, peak) = std::thread::scope(|scope| {
        let looks = scope.spawn(|| {
            let mut peak = Peak::default();
            while !has_ended.load(Ordering::Relaxed) {
                peak.look(id);
                std::thread::sleep(LOOK);
            }
            peak
        });
        let said = listen(&mut child);
        has_ended.store(true, Ordering::Relaxed);
        (said, looks.join().expect("no panic"))
    });
    let is_to_die = said.as_ref().is_ok_and(|(_, is_to_die)| *is_to_die);
    if is_to_die || said.is_err() {
        child.kill()?;
    }
    let status = child.wait()?;
    let (figures, _) = said?;
    ensure!(is_to_die || status.success(), "the process of {phase} ended: {status}");
    Ok((figures, peak))
}
