//! Tasks of the repository: `cargo xtask` prints the menu.

#![forbid(unsafe_code)]

mod api;
mod capi;
mod circles;
mod dist;
mod heavy;
mod images;
mod install;
mod layering;
mod links;
mod mutants;
mod prose;
mod ratchet;
mod release;
mod sizes;
mod source;
mod steps;
mod tree;
mod unsafety;
mod way;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::{Parser, Subcommand};
use signal_hook::{consts::SIGPIPE, flag};

use steps::Step;

/// Tasks of the repository. README.md has the command of the tests, CONTRIBUTING.md says what to run when.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Format, lints, tidy and unit tests: before each commit, two minutes if little has changed
    Check,
    /// Format and lints, mended where a tool can
    Fix,
    /// All that must pass before a change goes in: `.ci/run` calls this
    Ci,
    /// The tests that take minutes, built for release, three at a time; EVERLEAF_SCALE says how much they do
    Heavy {
        /// Which: lines of PACKAGE TEST
        #[arg(default_value = "ci/heavy.txt")]
        list: PathBuf,
    },
    /// The heavy tests at a larger scale, sanitizers and fuzzing: hours
    Nightly,
    /// Rules of the repository: lengths, layers, links, words, numbers in documents
    Tidy,
    /// The names of the crate everleaf that a program can use, against ci/public-api/everleaf.txt
    Api {
        /// Write the list anew
        #[arg(long)]
        renew: bool,
    },
    /// The headers of the C libraries, made of their sources
    Header {
        /// Compare them with those that are there, and write nothing
        #[arg(long)]
        check: bool,
    },
    /// The C library that was built: its symbols, and its programs under tools that look at memory
    Capi {
        #[command(subcommand)]
        task: capi::Task,
    },
    /// The same of the C library of the trees by name
    Index {
        #[command(subcommand)]
        task: capi::Task,
    },
    /// The benchmark, with its own arguments
    Bench {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Instructions of each operation against those of ci/instructions.txt; needs valgrind
    Instructions {
        /// Write the list anew
        #[arg(long)]
        renew: bool,
    },
    /// Files and hand-overs that one warm operation passes, against those of ci/way.txt; needs valgrind
    Way {
        /// Write the list anew
        #[arg(long, conflicts_with = "route")]
        renew: bool,
        /// Print the files of one operation instead, in their order
        #[arg(long, value_name = "OPERATION")]
        route: Option<String>,
    },
    /// Plant the defects of ci/mutants one after the other, and see that tests notice
    Mutants {
        /// Only defects of which these are words: of their name, their file or their list
        words: Vec<String>,
    },
    /// The C library, what finds it, and the command, as a system has them
    Install {
        /// Below which bin, include, lib and share are
        #[arg(long, default_value = "/usr/local")]
        prefix: PathBuf,
        /// Put in front of it: where packages are made
        #[arg(long)]
        destdir: Option<PathBuf>,
        /// Features of the library beside those that it always has: `dax`
        #[arg(long, value_name = "LIST")]
        features: Option<String>,
        /// The C library of the trees by name instead, with its wrapper for PiBench
        #[arg(long, conflicts_with = "features")]
        index: bool,
    },
    /// All of a release but the publishing; tells what is left to do
    Release {
        /// Nothing is published: docs/RELEASING.md says how that is done
        #[arg(long, required = true)]
        dry_run: bool,
    },
    /// Add up the crash images that tests have looked at
    Images {
        /// The file that EVERLEAF_TALLY named
        file: String,
        /// How many there must be
        #[arg(default_value_t = 0)]
        images: u64,
        /// How many of them in recovery
        #[arg(default_value_t = 0)]
        in_recovery: u64,
    },
}

fn main() -> ExitCode {
    // A pipe that nobody reads any more ends this, as it ends other commands.
    if let Err(error) = flag::register_conditional_default(SIGPIPE, Arc::new(AtomicBool::new(true)))
    {
        eprintln!("{error}");
    }
    let run = |list: Vec<Step>| steps::run(&root(), &list);
    match Cli::parse().task {
        Task::Check => run(steps::check()),
        Task::Fix => run(steps::fix()),
        Task::Ci => run(steps::ci(&root())),
        Task::Heavy { list } => heavy(&list),
        Task::Nightly => run(steps::nightly(&root())),
        Task::Tidy => read_files().map_or_else(|code| code, |files| tidy(&files)),
        Task::Api { renew } => api::run(&root(), renew),
        Task::Header { check } => capi::header(&root(), check),
        Task::Capi { task } => capi::run(&root(), &capi::CAPI, task),
        Task::Index { task } => capi::run(&root(), &capi::INDEX, task),
        Task::Bench { args } => run(steps::bench(args)),
        Task::Instructions { renew } => run(steps::instructions(renew)),
        Task::Way { renew, route } => way::run(&root(), renew, route.as_deref()),
        Task::Mutants { words } => mutants(&words),
        Task::Install { prefix, destdir, features, index } => {
            let what = match index {
                true => install::What::Index,
                false => install::What::Db(features.as_deref()),
            };
            install::run(&root(), &prefix, destdir.as_deref(), &what)
        }
        Task::Release { dry_run: _ } => release::dry_run(&root()),
        Task::Images { file, images: all, in_recovery } => images(&file, [all, in_recovery]),
    }
}

/// Prints how many crash images were looked at; fails if that is not enough.
fn images(path: &str, wanted: [u64; 2]) -> ExitCode {
    let text = std::fs::read_to_string(path).map_err(|e| e.to_string());
    match text.and_then(|text| images::report(&text, wanted)) {
        Ok((line, enough)) => {
            println!("{line}");
            if enough { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("images: {path}: {error}");
            ExitCode::from(4)
        }
    }
}

/// Runs the tests of a list.
fn heavy(path: &Path) -> ExitCode {
    match std::fs::read_to_string(root().join(path)) {
        Ok(list) => heavy::run(&list),
        Err(error) => {
            eprintln!("heavy: {}: {error}", path.display());
            ExitCode::from(4)
        }
    }
}

fn read_files() -> Result<tree::Files, ExitCode> {
    tree::read(&root()).map_err(|error| {
        eprintln!("xtask: {error}");
        ExitCode::from(4)
    })
}

fn mutants(words: &[String]) -> ExitCode {
    read_files().map_or_else(|code| code, |files| mutants::run(&root(), &files, words))
}

/// Prints each finding as `path:line: what`; fails if there is one.
fn tidy(files: &tree::Files) -> ExitCode {
    let mut findings = Vec::new();
    sizes::check(files, &mut findings);
    layering::check(files, &mut findings);
    circles::check(files, &mut findings);
    unsafety::check(files, &mut findings);
    links::check(files, &mut findings);
    mutants::check(files, &mut findings);
    prose::check(files, &mut findings);
    findings.sort();
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => println!("tidy: {} files are in order", files.len()),
        count => println!("tidy: {count} findings"),
    }
    if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The top of the repository: the parent of this package. Cargo says where that is now; when this was built it may
/// have been elsewhere.
fn root() -> PathBuf {
    let now = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let package = now.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    package.parent().expect("xtask is in the repository").to_owned()
}
