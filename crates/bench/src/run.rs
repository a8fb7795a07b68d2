//! Runs experiments: systems take turns within each round, so that a machine that gets slower or
//! faster meanwhile does so for all of them.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result};
use indicatif::{ProgressBar, ProgressStyle};

use crate::experiment::{Cell, Experiment, Scale};
use crate::host::Host;
use crate::measure::{self, Context};
use crate::rows::{self, Writer};

/// How to run.
pub struct Plan {
    /// How large.
    pub scale: Scale,
    /// Where results go.
    pub results: PathBuf,
    /// Rounds of each cell; the experiment's own if `None`.
    pub rounds: Option<u32>,
    /// Whether results that are there are thrown away.
    pub fresh: bool,
    /// What measurements need.
    pub context: Context,
}

/// Cells that differ in their system only, which are to be compared.
fn groups(cells: Vec<Cell>) -> Vec<Vec<Cell>> {
    let mut groups: Vec<(Cell, Vec<Cell>)> = Vec::new();
    for cell in cells {
        let mut common = cell.clone();
        common.0.remove("system");
        match groups.iter_mut().find(|(own, _)| *own == common) {
            Some((_, group)) => group.push(cell),
            None => groups.push((common, vec![cell])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// The order of a group in a round: each round another one begins.
fn turns(group: &[Cell], round: u32) -> impl Iterator<Item = &Cell> {
    let start = round as usize % group.len();
    group[start..].iter().chain(&group[..start])
}

fn bar(steps: u64, name: &str) -> ProgressBar {
    let bar = ProgressBar::new(steps);
    let style = "{prefix} [{bar:30}] {pos}/{len} {elapsed} ({eta} left) {wide_msg}";
    if let Ok(style) = ProgressStyle::with_template(style) {
        bar.set_style(style);
    }
    bar.set_prefix(name.to_string());
    bar
}

/// What became of the cells of a run.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Done {
    /// Rounds of cells that were measured.
    pub measured: u64,
    /// Rounds that were there already.
    pub kept: u64,
    /// What could not be measured here, with the reason, each once.
    pub skipped: Vec<String>,
}

/// Runs one experiment.
///
/// # Errors
/// A measurement fails, or its result cannot be written. What was measured before stays.
pub fn run(experiment: &Experiment, plan: &Plan) -> Result<Done> {
    let path = rows::path(&plan.results, experiment, plan.scale);
    if plan.fresh && path.exists() {
        std::fs::remove_file(&path)?;
    }
    let host = Host::here();
    let parameters = experiment.parameters(plan.scale);
    let mut writer = Writer::open(&path, parameters, host, plan.context.seed)?;
    let rounds = plan.rounds.unwrap_or_else(|| experiment.rounds(plan.scale));
    let mut done = Done::default();
    let mut groups = groups(experiment.cells(plan.scale));
    for group in &mut groups {
        group.retain(|cell| match measure::lacks(&experiment.measure, cell, &plan.context) {
            Ok(None) => true,
            lacks => {
                let why = lacks.ok().flatten().unwrap_or_default();
                let line = format!("{}: {why}", cell.system());
                if !done.skipped.contains(&line) {
                    done.skipped.push(line);
                }
                false
            }
        });
    }
    groups.retain(|group| !group.is_empty());
    let steps = groups.iter().map(Vec::len).sum::<usize>() as u64 * u64::from(rounds);
    let bar = bar(steps, &experiment.name);
    for round in 1..=rounds {
        for group in &groups {
            for cell in turns(group, round) {
                bar.set_message(format!("round {round}: {}", cell.line()));
                if writer.has(cell, round) {
                    done.kept += 1;
                } else {
                    let figures = measure::run(&experiment.measure, cell, &plan.context, round)
                        .with_context(|| format!("{}: {}", experiment.name, cell.line()))?;
                    writer.add(cell, round, &figures)?;
                    done.measured += 1;
                }
                bar.inc(1);
            }
        }
    }
    bar.finish_and_clear();
    Ok(done)
}

/// Runs experiments one after the other and says what became of each.
///
/// # Errors
/// As [`run`]; the others are run all the same.
pub fn run_all(experiments: &[&Experiment], plan: &Plan) -> Result<()> {
    let host = Host::here();
    println!("{}; {}; {}; commit {}", host.host, host.kernel, host.rustc, host.commit);
    println!(
        "scale {}, seed {}, results in {}",
        plan.scale.name(),
        plan.context.seed,
        show(&plan.results)
    );
    let mut failed = Vec::new();
    for experiment in experiments {
        let start = Instant::now();
        match run(experiment, plan) {
            Ok(done) => {
                println!(
                    "{:<28} {} measured, {} kept, {:.1} s",
                    experiment.name,
                    done.measured,
                    done.kept,
                    start.elapsed().as_secs_f64()
                );
                for line in &done.skipped {
                    println!("{:<28} skipped {line}", "");
                }
            }
            Err(error) => {
                eprintln!("{:<28} failed: {error:#}", experiment.name);
                failed.push(experiment.name.clone());
            }
        }
    }
    anyhow::ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

fn show(path: &Path) -> String {
    path.display().to_string()
}
