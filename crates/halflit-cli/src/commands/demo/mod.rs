mod story;

use super::train::train;
use crate::Failure;
use crate::files::{must_be_new, write_folder_atomically};
use halflit::convex::Rows;
use halflit::mechanisms::public_rows::{default_penalty, fit};
use halflit::release::Evaluation;
use halflit::table::{Declaration, Declared, OutOfDomain, Table};
use halflit::{Model, Plans, Problem, Request};
use serde_json::json;
use std::path::PathBuf;

/// Train a private model on a built-in story, end to end, in seconds.
///
/// A web publisher learns which advertisements are clicked. The page is public; the reader's income bracket and the click are not, except for
/// the two per cent of readers who consented; every reader sees several advertisements and is protected as a whole.
#[derive(clap::Args)]
pub struct Args {
    /// The folder to write; it must not exist.
    #[arg(long, value_name = "FOLDER", default_value = "halflit-demo")]
    out: PathBuf,
}

pub fn run(args: Args, json: bool) -> Result<(), Failure> {
    let folder = args.out;
    must_be_new(&folder, "--out")?;
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
    let read = |options| Table::read(&data, &options).map_err(Failure::failed);
    let declared =
        Declared::bind(declaration.clone(), read(declaration.read_options())?).map_err(Failure::failed)?;
    if !json {
        println!(
            "{} advertisements shown to {} readers: {}",
            table.lines().count() - 1,
            story::READERS,
            data.display()
        );
        println!("what is private, declared: {}\n", folder.join("privacy.toml").display());
        println!("{}\n", declared.relation().sentence());
    }
    let problem = Problem::pose(declared, OutOfDomain::Refuse).map_err(Failure::failed)?;
    let encoding = problem.encoding().clone();
    let (rows, labels) = problem.public_data();
    let public_rows = fitted(&problem, rows, labels)?;
    // The story is made up, so that it may also be trained on without protection, for comparison.
    let open = read(encoding.read_options(true))?;
    let rows = encoding.encode_features(&open, OutOfDomain::Refuse).map_err(Failure::failed)?;
    let labels = encoding.encode_labels(&open, OutOfDomain::Refuse).map_err(Failure::failed)?;
    let unprotected = fitted(&problem, &rows, &labels)?;

    let plan = Plans::new(problem, &Request::default()).and_then(Plans::best).map_err(Failure::failed)?;
    let trained = train(plan, &folder.join("ads.ledger"), &release)?;

    let new = Table::read(&folder.join("new-readers.csv"), &encoding.read_options(true))
        .map_err(Failure::failed)?;
    let tried = |model: &Model| model.evaluate(&new, OutOfDomain::Refuse).map_err(Failure::failed);
    let private = tried(&trained.release.model)?;
    let (unprotected, public_rows) = (tried(&unprotected)?, tried(&public_rows)?);
    let guarantee = trained.release.certificate.guarantee;
    let report = release.join("report.html");
    if json {
        println!(
            "{}",
            json!({
                "folder": folder,
                "report": report,
                "guarantee": guarantee,
                "on_new_readers": { "without_protection": unprotected, "private": private, "public_rows_only": public_rows },
            })
        );
        return Ok(());
    }
    println!(
        "Trained with epsilon {} and delta {} per reader. On {} advertisements shown to new readers:\n",
        guarantee.epsilon,
        halflit::figures::delta(guarantee.delta),
        private.rows
    );
    println!("  {:<32}{:>10}{:>12}", "", "accuracy", "mean loss");
    for (name, evaluation) in [
        ("without protection", &unprotected),
        ("halflit", &private),
        ("consenting readers only", &public_rows),
    ] {
        print_row(name, evaluation);
    }
    println!("\nThe report: {}", report.display());
    println!(
        "It shows who is protected, what that cost, how much noise it took, and which pages, slots and incomes bring clicks."
    );
    Ok(())
}

/// A model of rows that need no protection.
fn fitted(problem: &Problem, rows: &Rows, labels: &[f64]) -> Result<Model, Failure> {
    let loss = problem.loss();
    let penalty = default_penalty(loss, problem.dimension(), rows.len() as f64, None);
    let weights =
        fit(loss, rows, labels, problem.row_norm_bound(), penalty, None).map_err(Failure::failed)?;
    Model::new(loss, problem.encoding().clone(), vec![weights]).map_err(Failure::failed)
}

fn print_row(name: &str, evaluation: &Evaluation) {
    let accuracy = evaluation.accuracy.map_or_else(String::new, |accuracy| format!("{accuracy:.4}"));
    println!("  {name:<32}{accuracy:>10}{:>12.4}", evaluation.mean_loss);
}
