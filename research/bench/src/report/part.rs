//! The parts that the report is made of: an experiment, its results and its claims.

use std::path::PathBuf;

use super::claims::Judged;
use crate::cell::Cell;
use crate::cell::fits;
use crate::compare::is_of;
use crate::experiment::Counted;
use crate::experiment::Experiment;
use crate::measure;
use crate::rows::Row;
use crate::summary::{Quote, quote, ratio, rounds};

/// An experiment and its results at a scale.
pub struct Loaded<'a> {
    /// The experiment.
    pub experiment: &'a Experiment,
    /// Rows of its cells, of the newest environment.
    pub rows: Vec<Row>,
    /// The cells that it measures.
    pub cells: Vec<Cell>,
    /// How often, if nobody asked for another number.
    pub rounds: u32,
}

impl Loaded<'_> {
    /// Systems, or settings of an experiment without, of which there is no figure, each with the
    /// reason.
    pub fn skipped(&self) -> Vec<(String, String)> {
        let here = measure::kind::Context { seed: 1, scratch: PathBuf::new(), dax: None };
        let mut skipped: Vec<(String, String)> = Vec::new();
        let is_there = |cell: &&Cell| self.rows.iter().any(|row| is_of(row, cell));
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

/// An experiment with its claims judged.
pub struct JudgedExperiment<'a> {
    /// The experiment and its results.
    pub loaded: &'a Loaded<'a>,
    /// Its claims.
    pub judged: Vec<Judged<'a>>,
}

/// The figure of an experiment's results that a text quotes.
pub fn quoted(loaded: &Loaded, counted: &Counted) -> Option<Quote> {
    let of = |only: &toml::Table, metric: &str| {
        rounds(&loaded.rows, metric, |row| fits(only, |name| row.get(name).map(str::to_string)))
    };
    let own = of(&counted.of, &counted.metric);
    match &counted.over {
        None => quote(&counted.metric, &own),
        Some(over) => {
            let metric = counted.over_metric.as_ref().unwrap_or(&counted.metric);
            ratio(&counted.metric, &own, &of(over, metric))
        }
    }
}

/// The anchor that a link to an experiment points at.
pub fn anchor(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}
