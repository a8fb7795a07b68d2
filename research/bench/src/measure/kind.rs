//! The interface of a kind of measurement.

use std::path::PathBuf;

use anyhow::{Result, bail};
use serde::de::DeserializeOwned;

/// The result of a measurement: metrics and their values.
pub type Figures = Vec<(String, f64)>;

/// The inputs of measurements beside their parameters. The default is enough for a check, which makes nothing.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// The seed of random choices.
    pub seed: u64,
    /// Where files are made; they go away again.
    pub scratch: PathBuf,
    /// A folder on persistent memory; emulated in `scratch` without one.
    pub dax: Option<PathBuf>,
}

/// A kind of measurement: its parameters.
pub trait Measure: DeserializeOwned {
    /// Whether the parameters make sense; called for all cells of all experiments before any runs.
    ///
    /// # Errors
    /// The parameters make no sense.
    fn check(&self) -> Result<()>;

    /// Names what this program or machine lacks to do it, if anything: a feature, a medium.
    fn lacks(&self, _context: &Context) -> Option<String> {
        None
    }

    /// Measures once. Rounds of a cell do the same work: same keys, same order.
    ///
    /// # Errors
    /// The measurement failed; no figure counts then.
    fn run(&self, context: &Context, round: u32) -> Result<Figures>;

    /// Does a phase in the process that [`run`](Self::run) has started for it. Files are in the scratch
    /// folder and stay.
    ///
    /// # Errors
    /// The phase failed, or no phase of this kind needs a process.
    fn part(&self, phase: &str, _context: &Context) -> Result<Figures> {
        bail!("no phase is called {phase:?}")
    }
}

/// The value of parameters that are left out.
pub fn one() -> u64 {
    1
}
