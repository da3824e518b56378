use crate::Failure;
use crate::commands::dataset::Dataset;
use crate::files::{must_be_writable, write_atomically};
use halflit::figures::count_of;
use halflit::table::{ReadOptions, Table, skeleton};
use serde_json::json;

/// Write a privacy.toml to fill in, from the header and column types of a data file.
///
/// Bounds and values are left for you: they must come from what the columns mean (an age lies between 0 and 120), not from the data, because
/// the smallest and largest cell of a private column are themselves private. Columns are sensitive unless you declare them public.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  halflit init patients.csv\n  $EDITOR privacy.toml\n  halflit check patients.csv"
)]
pub struct Args {
    #[command(flatten)]
    dataset: Dataset,
    /// Fill in bounds and values measured on the data. THEY ARE NOT PRIVATE: use this for public or test data only.
    #[arg(long)]
    measure: bool,
    /// Overwrite an existing declaration.
    #[arg(long)]
    force: bool,
}

pub fn run(args: Args, json: bool) -> Result<(), Failure> {
    let path = args.dataset.privacy_path();
    args.dataset.privacy_is_not_the_data()?;
    if path.exists() && !args.force {
        return Err(Failure::BadInput(format!(
            "{} exists already; --force overwrites it, --privacy FILE writes elsewhere",
            path.display()
        )));
    }
    must_be_writable(&path, "--privacy")?;
    let table = Table::read(&args.dataset.data, &ReadOptions::default()).map_err(Failure::bad_input)?;
    let text = skeleton(&table, args.measure);
    write_atomically(&path, text.as_bytes())
        .map_err(|error| Failure::Failed(format!("{} cannot be written: {error}", path.display())))?;
    if json {
        let columns: Vec<_> = table.names().collect();
        println!("{}", json!({ "declaration": path, "columns": columns, "measured": args.measure }));
        return Ok(());
    }
    if args.measure {
        eprintln!(
            "warning: bounds and values were measured on the data, so they are NOT private; replace them before you rely on a guarantee"
        );
    }
    println!(
        "Wrote {} for the {} of {}.",
        path.display(),
        count_of(table.width() as u64, "column"),
        args.dataset.data.display()
    );
    println!(
        "Fill in the label, the loss, bounds and values, declare what is public, then: halflit check {}",
        args.dataset.data.display()
    );
    Ok(())
}
