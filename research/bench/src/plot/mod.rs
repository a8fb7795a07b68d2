//! Plots: what of the results a plot shows, and the files that they are written to.

mod axis;
pub mod chart;
pub mod names;
mod svg;

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

pub use chart::{Chart, charts};
pub use svg::{STYLE, alone, inline};

use crate::compare::current;
use crate::experiment::Experiment;
use crate::rows::{self, At};

/// The plots to draw.
#[derive(clap::Args)]
pub struct Args {
    /// Experiments by (parts of) their names, or `all`
    #[arg(required = true)]
    names: Vec<String>,
    #[command(flatten)]
    at: At,
    /// Folder of the files: `OUT/PAPER/FIGURE-1.svg` …
    #[arg(long, default_value = "plots")]
    out: PathBuf,
}

/// Writes each plot to a file of its own.
///
/// # Errors
/// Results cannot be read, or files not written; there is nothing to draw.
pub fn plot(all: &[Experiment], args: &Args) -> Result<()> {
    let mut written = 0;
    for experiment in crate::experiment::matching(all, &args.names)? {
        let cells = experiment.cells(args.at.scale);
        let rows = rows::read(&rows::path(&args.at.results, experiment, args.at.scale))?;
        let rows = current(rows, &cells);
        let charts = experiment
            .plots
            .iter()
            .flat_map(|plot| charts(plot, &cells, &rows, &experiment.claims));
        for (i, chart) in charts.filter(|chart| !chart.is_empty()).enumerate() {
            let path = args.out.join(format!("{}-{}.svg", experiment.name, i + 1));
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder).with_context(|| format!("make {folder:?}"))?;
            }
            std::fs::write(&path, alone(&chart)).with_context(|| format!("write {path:?}"))?;
            println!("{}", path.display());
            written += 1;
        }
    }
    ensure!(
        written > 0,
        "nothing to draw at scale {} in {:?}",
        args.at.scale.name(),
        args.at.results
    );
    Ok(())
}
