//! The report: one HTML file that needs nothing else, made of the experiments and their results.

mod claims;
pub mod page;
mod peers;
mod section;

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::compare::is_of;
use crate::experiment::{Cell, Experiment};
use crate::measure;
use crate::rows::{self, At, Row};

/// What to write.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    at: At,
    /// The file
    #[arg(long, default_value = "report.html")]
    out: PathBuf,
}

/// An experiment and its results at a scale.
pub struct Loaded<'a> {
    /// The experiment.
    pub experiment: &'a Experiment,
    /// Rows of its cells, of the newest environment.
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

/// Whether a system is ours among peers.
pub fn is_ours(system: &str) -> bool {
    system.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("everleaf"))
}

/// What of results is used: rows of cells that the experiment still has, of the newest environment of
/// those. Else a figure of a size that was given up would stand for another.
pub fn current(mut rows: Vec<Row>, cells: &[Cell]) -> Vec<Row> {
    rows.retain(|row| cells.iter().any(|cell| is_of(row, cell)));
    rows::newest(rows)
}

/// Writes the report.
///
/// # Errors
/// Results cannot be read, or the file not written.
pub fn report(all: &[Experiment], args: &Args) -> Result<()> {
    let mut loaded = Vec::new();
    for experiment in all {
        let rows = rows::read(&rows::path(&args.at.results, experiment, args.at.scale))?;
        let cells = experiment.cells(args.at.scale);
        let rows = current(rows, &cells);
        loaded.push(Loaded { experiment, rows, cells, rounds: experiment.rounds(args.at.scale) });
    }
    let html = page::page(&loaded, args.at.scale).into_string();
    if let Some(folder) = args.out.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("make {folder:?}"))?;
    }
    std::fs::write(&args.out, html).with_context(|| format!("write {:?}", args.out))?;
    println!("{}", args.out.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::charts;
    use crate::plot::tests::{of, row};

    #[test]
    fn rows_of_cells_that_are_no_more_are_not_used() {
        let cell = |system: &str| {
            let text = format!("system = '{system}'\nslots = 32\nkeys = 2000\n");
            Cell(text.parse().expect("a table"))
        };
        let cells = [cell("A"), cell("B")];
        let row = |system: &str, keys: &str, commit: &str, value: f64| -> Vec<Row> {
            let of = [("system", system), ("slots", "32"), ("keys", keys)];
            let one = |round| {
                let mut row = row(&of, round, "get_mean_ns", value);
                row.host.commit = commit.into();
                row
            };
            [one(1), one(2)].into()
        };
        let all = [
            row("A", "2000", "old", 1.0),
            row("A", "2000", "new", 6.0),
            row("B", "2000", "new", 2.0),
            row("A", "1000", "new", 50.0),
            row("A", "1000", "newer", 70.0),
        ]
        .concat();
        let rows = current(all.clone(), &cells);
        assert_eq!(rows.len(), 4, "{rows:?}");
        let text = "what = 'w'\npublished = 3\nmetric = 'get_mean_ns'\nof = { system = 'A' }\nover = { system = 'B' }";
        let claim = toml::from_str(text).expect("a claim");
        let median = |rows: &[Row]| claims::judge(&claim, rows).ours.map(|quote| quote.median);
        assert_eq!((median(&rows), median(&all)), (Some(3.0), Some(35.0)));
        let chart = &charts(&of(None), &cells, &rows)[0];
        let medians = chart.lines.iter().map(|line| line.points[0].map(|quote| quote.median));
        assert_eq!(medians.collect::<Vec<_>>(), [Some(6.0), Some(2.0)]);
        assert_eq!(current(all, &[]), []);
    }
}
