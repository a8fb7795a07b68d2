//! The report: one HTML file that needs nothing else, made of the experiments and their results.

pub mod claims;
mod findings;
mod losses;
pub mod page;
mod part;
mod peers;
mod prose;
mod section;
pub mod verdict;

use std::path::PathBuf;

use anyhow::{Context, Result};

use self::part::Loaded;
use crate::compare::current;
use crate::experiment::Experiment;
use crate::rows::{self, At};

/// The report to write.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    at: At,
    /// The file
    #[arg(long, default_value = "report.html")]
    out: PathBuf,
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
    use crate::cell::Cell;
    use crate::plot::chart::tests::{of, row};
    use crate::plot::charts;
    use crate::rows::Row;

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
        let chart = &charts(&of(None), &cells, &rows, &[])[0];
        let medians = chart.lines.iter().map(|line| line.points[0].map(|quote| quote.median));
        assert_eq!(medians.collect::<Vec<_>>(), [Some(6.0), Some(2.0)]);
        assert_eq!(current(all, &[]), []);
    }
}
