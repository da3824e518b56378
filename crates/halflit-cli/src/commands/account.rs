use crate::Failure;

#[derive(clap::Args)]
pub struct Args {}

pub fn run(_args: Args, _json: bool) -> Result<(), Failure> {
    Err(Failure::failed("not built yet"))
}
