//! Tables of results: systems side by side, or one run beside another.

use std::path::PathBuf;

use anyhow::{Result, ensure};

use crate::cell::Cell;
use crate::experiment::Experiment;
use crate::metric;
use crate::rows::{self, At, Row};
use crate::summary::{Quote, Rounds, quote, ratio, rounds};

/// The arguments of a comparison.
#[derive(clap::Args)]
pub struct Args {
    /// Experiments by (parts of) their names, or `all`
    #[arg(required = true)]
    names: Vec<String>,
    #[command(flatten)]
    at: At,
    /// The system that others are divided by; the first one of the experiment if not given
    #[arg(long)]
    base: Option<String>,
    /// Results of another run, such as of the build before: each cell is divided by its own there
    #[arg(long, conflicts_with = "base")]
    with: Option<PathBuf>,
    /// Only metrics whose names contain this
    #[arg(long, default_value = "")]
    metric: String,
}

/// Whether a row is of a cell.
pub fn is_of(row: &Row, cell: &Cell) -> bool {
    row.parameters.iter().all(|(name, value)| cell.get(name).unwrap_or_default() == *value)
}

/// The part of results that is used: rows of cells that the experiment still has, of the newest
/// environment of those. Else a figure of a size that was given up would stand for another.
pub fn current(mut rows: Vec<Row>, cells: &[Cell]) -> Vec<Row> {
    rows.retain(|row| cells.iter().any(|cell| is_of(row, cell)));
    rows::newest(rows)
}

/// Parameters that are not the same in all cells.
pub fn varied(cells: &[Cell]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in cells.iter().flat_map(|cell| cell.0.keys()) {
        let first = cells[0].get(name);
        if !names.contains(name) && cells.iter().any(|cell| cell.get(name) != first) {
            names.push(name.clone());
        }
    }
    names
}

/// A number with four significant digits, or a dash.
pub fn number(value: Option<f64>) -> String {
    match value {
        None => "–".into(),
        Some(0.0) => "0".into(),
        Some(v) => {
            let digits = (3 - v.abs().log10().floor() as i32).clamp(0, 6) as usize;
            format!("{v:.digits$}")
        }
    }
}

/// The metrics of rows, each once, in the order of their first appearance.
pub fn metrics(rows: &[Row]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for row in rows {
        if !names.contains(&row.metric) {
            names.push(row.metric.clone());
        }
    }
    names
}

/// Prints the tables.
///
/// # Errors
/// Results cannot be read; there are none.
pub fn compare(all: &[Experiment], args: &Args) -> Result<()> {
    let mut found = 0;
    for experiment in crate::experiment::matching(all, &args.names)? {
        let read = |results: &PathBuf| rows::read(&rows::path(results, experiment, args.at.scale));
        let own = rows::newest(read(&args.at.results)?);
        let other = args.with.as_ref().map(read).transpose()?.map(rows::newest);
        if own.is_empty() {
            continue;
        }
        found += 1;
        println!("\n{}: {}", experiment.name, experiment.title);
        for name in metrics(&own).iter().filter(|name| name.contains(&args.metric)) {
            table(experiment, args, name, &own, other.as_deref())?;
        }
    }
    ensure!(found > 0, "no results at scale {} in {:?}", args.at.scale.name(), args.at.results);
    Ok(())
}

fn table(
    experiment: &Experiment,
    args: &Args,
    name: &str,
    own: &[Row],
    other: Option<&[Row]>,
) -> Result<()> {
    println!("  {}, {}", metric::words(name), metric::unit(name)?);
    let cells = experiment.cells(args.at.scale);
    let varied = varied(&cells);
    for cell in &cells {
        let of = rounds(own, name, |row| is_of(row, cell));
        if of.is_empty() {
            continue;
        }
        let mut base = cell.clone();
        let system = args.base.clone().unwrap_or_else(|| cells[0].system());
        if !system.is_empty() {
            base.0.insert("system".into(), system.into());
        }
        let (over, beside): (Rounds, String) = match other {
            Some(rows) => (rounds(rows, name, |row| is_of(row, cell)), "before".into()),
            None => (rounds(own, name, |row| is_of(row, &base)), base.system()),
        };
        // Rounds of different runs are not pairs: medians are divided.
        let quoted = match other {
            Some(_) => quote(name, &of).zip(quote(name, &over)).map(|(a, b)| a.median / b.median),
            None => ratio(name, &of, &over).map(|ratio| ratio.median),
        };
        println!(
            "    {:<70} {:>10} {:>9} × {beside}",
            varied.iter().filter_map(|name| cell.get(name)).collect::<Vec<_>>().join(", "),
            number(quote(name, &of).map(|quote: Quote| quote.median)),
            number(quoted)
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_four_digits() {
        let shown = [Some(0.0), Some(8319.4), Some(1.23456), Some(0.012345), Some(123.45), None];
        assert_eq!(shown.map(number), ["0", "8319", "1.235", "0.01235", "123.5", "–"]);
    }
}
