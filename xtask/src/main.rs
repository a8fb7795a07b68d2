//! Tasks of the repository that need more than a line of shell: `cargo xtask tidy`,
//! `mutants`, `images`, `heavy` and `way`.

#![forbid(unsafe_code)]

mod circles;
mod heavy;
mod images;
mod layering;
mod links;
mod mutants;
mod prose;
mod ratchet;
mod sizes;
mod source;
mod tree;
mod unsafety;
mod way;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::{consts::SIGPIPE, flag};

fn main() -> ExitCode {
    // A pipe that nobody reads any more ends this, as it ends other commands.
    if let Err(error) = flag::register_conditional_default(SIGPIPE, Arc::new(AtomicBool::new(true)))
    {
        eprintln!("{error}");
    }
    let args: Vec<_> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => read_files().map_or_else(|code| code, |files| tidy(&files)),
        ["mutants", ref words @ ..] => mutants(words),
        ["images", path] => images(path, [0; 2]),
        ["images", path, all, nested] => match [all.parse(), nested.parse()] {
            [Ok(all), Ok(nested)] => images(path, [all, nested]),
            _ => usage(),
        },
        ["heavy", path] => heavy(path),
        ["way", ref words @ ..] => way::run(&root(), words),
        _ => usage(),
    }
}

fn usage() -> ExitCode {
    eprintln!(
        "usage: cargo xtask tidy | mutants [WORD ...] | images FILE [IMAGES IN_RECOVERY] \
         | heavy LIST | way [--renew | --route OPERATION]"
    );
    ExitCode::from(2)
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
fn heavy(path: &str) -> ExitCode {
    match std::fs::read_to_string(path) {
        Ok(list) => heavy::run(&list),
        Err(error) => {
            eprintln!("heavy: {path}: {error}");
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

fn mutants(words: &[&str]) -> ExitCode {
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
