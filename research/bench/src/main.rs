//! Experiments: the papers' figures, and Everleaf beside what programs embed instead.
//!
//! Times on a shared machine are noisy: systems take turns within a round, and each figure is the
//! median over rounds of a ratio taken within a round.

#![forbid(unsafe_code)]

mod bars;
mod cell;
mod clock;
mod compare;
mod experiment;
mod host;
mod keys;
mod kv;
mod measure;
mod medium;
mod memory;
mod metric;
mod plot;
mod report;
mod rows;
mod run;
mod store;
mod summary;
mod system;
mod trace;
mod wear;
mod workload;
mod ycsb;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::{Parser, Subcommand};
use signal_hook::{consts::SIGPIPE, flag};

use crate::experiment::Scale;
use crate::measure::kind::Context;
use crate::rows::At;
use crate::run::RunPlan;

#[derive(Parser)]
#[command(
    name = "everleaf-bench",
    about = "Runs experiments, compares their results and reports them"
)]
struct Args {
    #[command(subcommand)]
    what: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Lists the experiments, or describes one
    List {
        /// A part of a name; all without one
        name: Option<String>,
        /// How large
        #[arg(long, value_enum, default_value = "default")]
        scale: Scale,
    },
    /// Runs experiments; goes on where a run was stopped
    Run(RunArgs),
    /// Shows results: systems side by side, or this run beside another
    Compare(compare::Args),
    /// Shows the bars of experiments: what was asked for, what was measured, met or missed
    Bars(bars::Args),
    /// Writes the plots of results as SVG files
    Plot(plot::Args),
    /// Writes the report: one HTML file of all experiments and their results
    Report(report::Args),
    /// Compares our workloads with those that YCSB's own code drew
    #[command(hide = true)]
    YcsbCheck(ycsb::check::Args),
    /// Overwrites pairs of a store and waits to be killed: a part of some experiments
    Overwrite(measure::store::Child),
    /// Does a phase of a measurement in a process of its own: a part of some experiments
    #[command(hide = true)]
    Part(measure::phase::Part),
}

/// The experiments to run, and how.
#[derive(clap::Args)]
struct RunArgs {
    /// Experiments by (parts of) their names, or `all`
    #[arg(required = true)]
    names: Vec<String>,
    #[command(flatten)]
    at: At,
    /// Only cells with these values of a parameter: NAME=VALUE,VALUE; may be given more than once
    #[arg(long, value_name = "NAME=VALUE")]
    only: Vec<run::Only>,
    /// Rounds of each cell, instead of the experiment's own
    #[arg(long)]
    rounds: Option<u32>,
    /// The seed of random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where files are made that are measured, and removed
    #[arg(long, default_value = ".")]
    scratch: PathBuf,
    /// A folder on persistent memory; emulated in `--scratch` without one
    #[arg(long)]
    dax: Option<PathBuf>,
    /// Which run this is: rounds of a second one are added to those of the first, and intervals say how much
    /// runs differ
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    run: u32,
    /// Throw away results that are there
    #[arg(long)]
    fresh: bool,
}

fn run(args: RunArgs) -> anyhow::Result<()> {
    let all = experiment::all(&experiment::root())?;
    let RunArgs { names, at, only, rounds, seed, scratch, dax, run, fresh } = args;
    let At { scale, results } = at;
    let context = Context { seed, scratch, dax };
    let plan = RunPlan { scale, results, only, rounds, run, fresh, context };
    run::run_all(&experiment::matching(&all, &names)?, &plan)
}

fn list(name: Option<&str>, scale: Scale) -> anyhow::Result<()> {
    let all = experiment::all(&experiment::root())?;
    let found = experiment::matching(&all, &[name.unwrap_or("all").to_string()])?;
    for experiment in &found {
        let (cells, rounds) = (experiment.cells(scale).len(), experiment.rounds(scale));
        println!("{:<28} {:>4} cells × {rounds:<2} {}", experiment.name, cells, experiment.title);
        if found.len() == 1 {
            println!("\n{}\n{}", experiment.source, experiment.about.trim());
            for cell in experiment.cells(scale) {
                println!("  {}", cell.line());
            }
        }
    }
    Ok(())
}

fn main() -> anyhow::Result<()> {
    // A pipe that nobody reads any more ends this, as it ends other commands.
    flag::register_conditional_default(SIGPIPE, Arc::new(AtomicBool::new(true)))?;
    match Args::parse().what {
        Task::List { name, scale } => list(name.as_deref(), scale),
        Task::Run(args) => run(args),
        Task::Compare(args) => compare::compare(&experiment::all(&experiment::root())?, &args),
        Task::Bars(args) => bars::bars(&experiment::all(&experiment::root())?, &args),
        Task::Plot(args) => plot::plot(&experiment::all(&experiment::root())?, &args),
        Task::Report(args) => report::report(&experiment::all(&experiment::root())?, &args),
        Task::YcsbCheck(args) => ycsb::check::run(&args),
        Task::Overwrite(child) => child.run(),
        Task::Part(part) => part.run(),
    }
}
