//! `everleaf man`: manual pages.

use std::fs;
use std::path::PathBuf;

use crate::failure::{CommandError, Result};
use crate::output::print;

/// Print the manual page, or write the pages of all commands to a directory
///
/// For example: everleaf man ~/.local/share/man/man1
#[derive(clap::Args)]
pub struct Args {
    /// Where everleaf.1, everleaf-put.1 and all others are written; made if missing
    dir: Option<PathBuf>,
}

/// Runs the command; `cli` is what the pages are about.
pub fn run(args: &Args, cli: clap::Command) -> Result<()> {
    let Some(dir) = &args.dir else {
        let mut page = Vec::new();
        let rendered = clap_mangen::Man::new(cli).render(&mut page);
        rendered.expect("a vector takes all");
        return print(page);
    };
    let written = fs::create_dir_all(dir)
        .and_then(|()| clap_mangen::generate_to(cli.disable_help_subcommand(true), dir));
    written.map_err(|error| {
        CommandError::Blocked(format!("cannot write the pages to {}: {error}", dir.display()))
    })
}
