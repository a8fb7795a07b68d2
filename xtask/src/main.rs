//! Tasks of the repository that need more than a line of shell: `cargo xtask tidy`.

#![forbid(unsafe_code)]

mod layering;
mod links;
mod ratchet;
mod sizes;
mod source;
mod tree;
mod unsafety;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => tidy(),
        _ => {
            eprintln!("usage: cargo xtask tidy");
            ExitCode::from(2)
        }
    }
}

/// Prints each finding as `path:line: what`; fails if there is one.
fn tidy() -> ExitCode {
    let files = match tree::read(&root()) {
        Ok(files) => files,
        Err(error) => {
            eprintln!("tidy: {error}");
            return ExitCode::from(4);
        }
    };
    let mut findings = Vec::new();
    sizes::check(&files, &mut findings);
    layering::check(&files, &mut findings);
    unsafety::check(&files, &mut findings);
    links::check(&files, &mut findings);
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

/// The top of the repository: the parent of this package.
fn root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().expect("xtask is in the repository").to_owned()
}
