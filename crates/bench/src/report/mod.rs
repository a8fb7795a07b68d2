//! The report: one HTML file that needs nothing else, made of the experiments and their results.

mod claims;
pub mod page;
mod peers;
mod section;

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::experiment::{Cell, Experiment, Scale};
use crate::measure;
use crate::rows::{self, Row};

/// What to write.
#[derive(clap::Args)]
pub struct Args {
    /// How large
    #[arg(long, value_enum, default_value = "default")]
    scale: Scale,
    /// Folder of results
    #[arg(long, default_value = "results")]
    results: PathBuf,
    /// The file
    #[arg(long, default_value = "report.html")]
    out: PathBuf,
}

/// An experiment and its results at a scale.
pub struct Loaded<'a> {
    /// The experiment.
    pub experiment: &'a Experiment,
    /// Rows of the newest environment.
    pub rows: Vec<Row>,
    /// What it measures.
    pub cells: Vec<Cell>,
    /// How often, if nobody asked for another number.
    pub rounds: u32,
}

impl Loaded<'_> {
    /// Systems, or settings of an experiment without, of which there is no figure, each with the
    /// reason.
    fn skipped(&self) -> Vec<(String, String)> {
        let here = measure::Context { seed: 1, scratch: PathBuf::new(), dax: None };
        let mut skipped: Vec<(String, String)> = Vec::new();
        let is_there = |cell: &&Cell| self.rows.iter().any(|row| crate::compare::is_of(row, cell));
        for cell in self.cells.iter().filter(|cell| !is_there(cell)) {
            let lacks = measure::lacks(&self.experiment.measure, cell, &here).ok().flatten();
            let why = lacks.unwrap_or_else(|| "not run".into());
            let name = if cell.system().is_empty() { cell.line() } else { cell.system() };
            if !skipped.contains(&(name.clone(), why.clone())) {
                skipped.push((name, why));
            }
        }
        skipped
    }
}

/// Whether a system is ours among peers.
pub fn is_ours(system: &str) -> bool {
    system.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("everleaf"))
}

/// Writes the report.
///
/// # Errors
/// Results cannot be read, or the file not written.
pub fn report(all: &[Experiment], args: &Args) -> Result<()> {
    let mut loaded = Vec::new();
    for experiment in all {
        let rows = rows::read(&rows::path(&args.results, experiment, args.scale))?;
        loaded.push(Loaded {
            experiment,
            rows: rows::newest(rows),
            cells: experiment.cells(args.scale),
            rounds: experiment.rounds(args.scale),
        });
    }
    let html = page::page(&loaded, args.scale).into_string();
    if let Some(folder) = args.out.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("make {folder:?}"))?;
    }
    std::fs::write(&args.out, html).with_context(|| format!("write {:?}", args.out))?;
    println!("{}", args.out.display());
    Ok(())
}
