//! `everleaf completions`: what a shell must know to complete commands.

use std::io::{self, Write};

use clap::CommandFactory;
use clap_complete::Shell;

use crate::Cli;
use crate::failure::{Failure, Result};

/// Print a script that completes commands and options in a shell
///
/// For bash: everleaf completions bash > ~/.local/share/bash-completion/completions/everleaf
#[derive(clap::Args)]
pub struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "everleaf", &mut script);
    let mut out = io::stdout().lock();
    out.write_all(&script).and_then(|()| out.flush()).map_err(Failure::stdout)
}
