//! The command of a process that was started for one phase of a measurement.

use std::fs;
use std::path::PathBuf;

use anyhow::Result;

use super::child;
use super::kind::Context;
use crate::cell::Cell;

/// A phase of a measurement, as a command.
#[derive(clap::Args)]
pub struct Part {
    kind: String,
    /// The parameters, in TOML
    cell: String,
    phase: String,
    dir: PathBuf,
    #[arg(long)]
    seed: u64,
    /// The control group that it enters
    #[arg(long)]
    group: Option<PathBuf>,
}

impl Part {
    /// Does it.
    ///
    /// # Errors
    /// The phase failed.
    pub fn run(&self) -> Result<()> {
        if let Some(group) = &self.group {
            fs::write(group.join("cgroup.procs"), std::process::id().to_string())?;
        }
        let cell = Cell(self.cell.parse()?);
        let context = Context { seed: self.seed, scratch: self.dir.clone(), dax: None };
        child::say(&super::part(&self.kind, &cell, &self.phase, &context)?)
    }
}
