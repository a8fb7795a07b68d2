//! What a kind of measurement is.

use std::path::PathBuf;

use anyhow::{Result, bail};
use serde::de::DeserializeOwned;

/// What a measurement has measured: metrics and their values.
pub type Figures = Vec<(String, f64)>;

/// What measurements need beside their parameters. The default does for a check, which makes nothing.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// What random choices begin with.
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
    /// What does not.
    fn check(&self) -> Result<()>;

    /// What this program or machine lacks to do it, if anything: a feature, a medium.
    fn lacks(&self, _context: &Context) -> Option<String> {
        None
    }

    /// Measures once. Rounds of a cell do the same work: same keys, same order.
    ///
    /// # Errors
    /// What went wrong; no figure counts then.
    fn run(&self, context: &Context, round: u32) -> Result<Figures>;

    /// Does a phase in the process that [`run`](Self::run) has started for it. Files are in the scratch
    /// folder and stay.
    ///
    /// # Errors
    /// What went wrong; there are no phases that need one.
    fn part(&self, phase: &str, _context: &Context) -> Result<Figures> {
        bail!("no phase is called {phase:?}")
    }
}

/// What parameters are that are left out.
pub fn one() -> u64 {
    1
}
