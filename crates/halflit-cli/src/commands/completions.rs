use crate::Failure;
use clap::CommandFactory;
use clap_complete::Shell;

/// Print a completion script for your shell.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  halflit completions bash > ~/.local/share/bash-completion/completions/halflit"
)]
pub struct Args {
    /// Which shell.
    shell: Shell,
}

pub fn run(args: Args) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::Cli::command(), "halflit", &mut script);
    print!("{}", String::from_utf8_lossy(&script));
    Ok(())
}
