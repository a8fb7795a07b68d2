//! Runs experiments: systems take turns within each round, so that a machine that gets slower or
//! faster meanwhile does so for all of them.

use std::fmt::{self, Display};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use indicatif::{ProgressBar, ProgressStyle};

use crate::bars;
use crate::cell::Cell;
use crate::clock;
use crate::experiment::{Experiment, Scale};
use crate::host::Host;
use crate::measure::{self, kind::Context};
use crate::rows::{self, RowWriter};
use crate::summary::RUN;

/// How to run.
pub struct RunPlan {
    /// How large.
    pub scale: Scale,
    /// Where results go.
    pub results: PathBuf,
    /// Cells that have one of the values of each of these parameters.
    pub only: Vec<Only>,
    /// Rounds of each cell; the experiment's own if `None`.
    pub rounds: Option<u32>,
    /// Which run of the same this is, from 1: rounds of different runs are told apart.
    pub run: u32,
    /// Whether results that are there are thrown away.
    pub fresh: bool,
    /// The context that measurements need.
    pub context: Context,
}

/// A parameter and the values that are asked for: `NAME=VALUE,VALUE`.
#[derive(Debug, Clone, PartialEq)]
pub struct Only {
    name: String,
    values: Vec<String>,
}

impl FromStr for Only {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, values) = text.split_once('=').context("NAME=VALUE is needed")?;
        Ok(Self { name: name.into(), values: values.split(',').map(str::to_string).collect() })
    }
}

impl Display for Only {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.values.join(","))
    }
}

impl Only {
    fn has(&self, cell: &Cell) -> bool {
        cell.get(&self.name).is_some_and(|value| self.values.contains(&value))
    }
}

/// Cells that differ in their system only, or in how many phases that goes through: they are to be
/// compared.
fn groups(cells: Vec<Cell>) -> Vec<Vec<Cell>> {
    let mut groups: Vec<(Cell, Vec<Cell>)> = Vec::new();
    for cell in cells {
        let mut common = cell.clone();
        common.0.remove("system");
        common.0.remove("phases");
        match groups.iter_mut().find(|(own, _)| *own == common) {
            Some((_, group)) => group.push(cell),
            None => groups.push((common, vec![cell])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// The order of a group in a round. Each round another one begins, and every other round goes backwards:
/// what a system leaves behind, in caches or on the disk, does not always meet the same one.
fn turns(group: &[Cell], round: u32) -> Vec<&Cell> {
    let start = (round - 1) as usize % group.len();
    let mut order: Vec<&Cell> = group[start..].iter().chain(&group[..start]).collect();
    if round.is_multiple_of(2) {
        order.reverse();
    }
    order
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

/// The outcome of the cells of a run.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Done {
    /// Rounds of cells that were measured.
    pub measured: u64,
    /// Rounds that were there already.
    pub kept: u64,
    /// Measurements that could not be made here, with the reason, each once.
    pub skipped: Vec<String>,
    /// Cells that failed, with the reason. They are left out of the rounds that follow.
    pub failed: Vec<String>,
}

fn has_all(only: &[Only], cell: &Cell) -> bool {
    only.iter().all(|only| only.has(cell))
}

/// Refuses a choice that leaves no cell of any experiment, such as a name that is misspelt.
fn expect_cells(experiments: &[&Experiment], scale: Scale, only: &[Only]) -> Result<()> {
    let has_one =
        |experiment: &&Experiment| experiment.cells(scale).iter().any(|cell| has_all(only, cell));
    let choice = || only.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ");
    ensure!(experiments.iter().any(has_one), "no cell of these experiments has {}", choice());
    Ok(())
}

/// The cells of an experiment that this program and this machine can measure, in groups.
fn measurable(experiment: &Experiment, plan: &RunPlan, done: &mut Done) -> Result<Vec<Vec<Cell>>> {
    let mut cells = experiment.cells(plan.scale);
    let mut left = Vec::new();
    for cell in cells.drain(..).filter(|cell| has_all(&plan.only, cell)) {
        match measure::lacks(&experiment.measure, &cell, &plan.context)? {
            None => left.push(cell),
            Some(why) => {
                let line = format!("{}: {why}", cell.system());
                if !done.skipped.contains(&line) {
                    done.skipped.push(line);
                }
            }
        }
    }
    Ok(groups(left))
}

/// Runs one experiment.
///
/// # Errors
/// A cell cannot be read, or a result not written. Results that were measured before stay.
pub fn run(experiment: &Experiment, plan: &RunPlan) -> Result<Done> {
    let path = rows::path(&plan.results, experiment, plan.scale);
    if plan.fresh && path.exists() {
        std::fs::remove_file(&path)?;
    }
    let host = Host::here();
    let parameters = experiment.parameters(plan.scale);
    let mut writer = RowWriter::open(&path, parameters, host, plan.context.seed)?;
    let rounds = plan.rounds.unwrap_or_else(|| experiment.rounds(plan.scale));
    let mut done = Done::default();
    let groups = measurable(experiment, plan, &mut done)?;
    let steps = groups.iter().map(Vec::len).sum::<usize>() as u64 * u64::from(rounds);
    let bar = bar(steps, &experiment.name);
    let mut failed: Vec<&Cell> = Vec::new();
    let before = (plan.run - 1) * RUN;
    for round in before + 1..=before + rounds {
        for group in &groups {
            for cell in turns(group, round) {
                bar.set_message(format!("round {round}: {}", cell.line()));
                bar.inc(1);
                if writer.has(cell, round) {
                    done.kept += 1;
                    continue;
                }
                if failed.contains(&cell) {
                    continue;
                }
                match measure::run(&experiment.measure, cell, &plan.context, round) {
                    Ok(figures) => {
                        writer.add(cell, round, &figures)?;
                        done.measured += 1;
                    }
                    Err(error) => {
                        done.failed.push(format!("round {round}: {}: {error:#}", cell.line()));
                        failed.push(cell);
                    }
                }
            }
        }
    }
    bar.finish_and_clear();
    Ok(done)
}

/// Runs experiments one after the other and says what became of each.
///
/// # Errors
/// No cell is chosen: nothing is thrown away then. As [`run`]; the others are run all the same.
pub fn run_all(experiments: &[&Experiment], plan: &RunPlan) -> Result<()> {
    ensure!(
        plan.scale == Scale::Smoke || !cfg!(debug_assertions),
        "built without --release: only the scale smoke makes sense"
    );
    expect_cells(experiments, plan.scale, &plan.only)?;
    let host = Host::here();
    println!("{}; {}; {}; commit {}", host.host, host.kernel, host.rustc, host.commit);
    println!(
        "reading the clock and noting a time takes {:.0} ns, which is in the time of each operation",
        clock::overhead_ns()
    );
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
                for line in &done.failed {
                    eprintln!("{:<28} failed: {line}", experiment.name);
                }
                if !done.failed.is_empty() {
                    failed.push(experiment.name.clone());
                }
            }
            Err(error) => {
                eprintln!("{:<28} failed: {error:#}", experiment.name);
                failed.push(experiment.name.clone());
            }
        }
    }
    bars::after(experiments, (plan.scale, &plan.results), plan.only.is_empty())?;
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

fn show(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(system: &str, keys: i64) -> Cell {
        let mut table = toml::Table::new();
        table.insert("system".into(), system.into());
        table.insert("keys".into(), keys.into());
        Cell(table)
    }

    #[test]
    fn systems_of_one_setting_take_turns() {
        let cells = ["a", "b", "c"].into_iter().flat_map(|s| [cell(s, 1), cell(s, 2)]).collect();
        let groups = groups(cells);
        assert_eq!(groups.len(), 2);
        let order = |round| turns(&groups[0], round).iter().map(|c| c.system()).collect::<String>();
        assert_eq!([1, 2, 3, 4].map(order), ["abc", "acb", "cab", "cba"]);
    }

    #[test]
    fn cells_are_chosen_by_their_parameters() {
        let only: Only = "system=a,c".parse().expect("it is one");
        let has = |system| only.has(&cell(system, 1));
        assert!(has("a") && has("c") && !has("b"));
        let keys: Only = "keys=2".parse().expect("it is one");
        assert!(keys.has(&cell("a", 2)) && !keys.has(&cell("a", 1)));
        let other: Only = "threads=1".parse().expect("it is one");
        assert!(!other.has(&cell("a", 1)), "it has none");
        assert!("system".parse::<Only>().is_err());
    }

    #[test]
    fn a_choice_of_no_cell_is_refused() {
        let all = crate::experiment::all(&crate::experiment::root()).expect("they are read");
        let figure =
            crate::experiment::matching(&all, &["fast-fair/fig-8".into()]).expect("it is there");
        let chosen = |text: &str| {
            let only: Vec<Only> = text.split(' ').map(|one| one.parse().expect("one")).collect();
            expect_cells(&figure, Scale::Smoke, &only).map_err(|e| e.to_string())
        };
        assert_eq!(chosen("system=BLink,other"), Ok(()));
        let refused = "no cell of these experiments has system=BLink and thread=1";
        assert_eq!(chosen("system=BLink thread=1"), Err(refused.into()));
    }
}
