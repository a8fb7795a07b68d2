//! `everleaf completions`: what a shell must know to complete commands.

use clap_complete::Shell;

use crate::failure::Result;
use crate::output::print;

/// Print a script that completes commands and options in a shell
///
/// For bash: everleaf completions bash > ~/.local/share/bash-completion/completions/everleaf
#[derive(clap::Args)]
pub struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Runs the command; `cli` is what is to be completed.
pub fn run(args: &Args, mut cli: clap::Command) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut cli, "everleaf", &mut script);
    print(script)
}
