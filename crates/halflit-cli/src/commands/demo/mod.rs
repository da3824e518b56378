mod story;

use super::train::{must_be_free, train};
use crate::Failure;
use crate::files::write_folder_atomically;
use halflit::table::{Declaration, Declared, OutOfDomain, Table};
use halflit::{Plans, Problem, Request};
use serde_json::json;
use std::path::PathBuf;

/// Train a private model on a built-in story, end to end, in seconds.
///
/// A web publisher learns which advertisements are clicked. The page is public; the reader's income bracket and the click are not, except for
/// the three per cent of readers who consented; every reader sees several advertisements and is protected as a whole.
#[derive(clap::Args)]
pub struct Args {
    /// The folder to write; it must not exist.
    #[arg(long, value_name = "FOLDER", default_value = "halflit-demo")]
    out: PathBuf,
}

pub fn run(args: Args, json: bool) -> Result<(), Failure> {
    let folder = args.out;
    must_be_free(&folder)?;
    let (table, new) = (story::table(1, story::READERS), story::table(2, story::NEW_READERS));
    let files = [
        ("ads.csv", table.as_bytes()),
        ("new-readers.csv", new.as_bytes()),
        ("privacy.toml", story::DECLARATION.as_bytes()),
    ];
    write_folder_atomically(&folder, &files)
        .map_err(|error| Failure::Failed(format!("{} cannot be written: {error}", folder.display())))?;
    let (data, release) = (folder.join("ads.csv"), folder.join("release"));

    let declaration = Declaration::parse(story::DECLARATION, "privacy.toml").map_err(Failure::failed)?;
    let table = Table::read(&data, &declaration.read_options()).map_err(Failure::failed)?;
    let declared = Declared::bind(declaration, table).map_err(Failure::failed)?;
    if !json {
        println!("Wrote {} and {}.\n", data.display(), folder.join("privacy.toml").display());
        println!("{}\n", declared.relation().sentence());
    }
    let problem = Problem::pose(declared, OutOfDomain::Refuse).map_err(Failure::failed)?;
    let plan = Plans::new(problem, &Request::default()).and_then(Plans::best).map_err(Failure::failed)?;
    let trained = train(plan, &folder.join("ads.ledger"), &release)?;

    let model = &trained.release.model;
    let new = Table::read(&folder.join("new-readers.csv"), &model.encoding().read_options(true))
        .map_err(Failure::failed)?;
    let private = model.evaluate(&new, OutOfDomain::Refuse).map_err(Failure::failed)?;
    let guarantee = trained.release.certificate.guarantee;
    let report = release.join("report.html");
    if json {
        println!(
            "{}",
            json!({ "folder": folder, "report": report, "guarantee": guarantee, "private": private })
        );
        return Ok(());
    }
    println!("Spent epsilon {:.4} at delta {:e}.", guarantee.accountant.upper, guarantee.delta);
    println!("{:?}", private);
    println!(
        "\nThe report is {}: it says who was protected, what was spent, how much noise that took, and which pages, slots and incomes bring clicks.",
        report.display()
    );
    Ok(())
}
