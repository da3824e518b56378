use crate::Failure;
use crate::commands::dataset::{ChosenColumns, Dataset, beside_named, default_ledger, ledger_of};
use crate::commands::options::number;
use crate::commands::outcome::{beyond_declared, charge, must_take_a_release, nothing_released, publish};
use crate::failure::warn;
use crate::files::{must_be_new, write_new};
use crate::progress::Progress;
use clap::{Subcommand, ValueEnum};
use halflit::figures::{count_of, declared};
use halflit::mechanisms::local::{
    Aggregate, Kind, LocalError, LocalPlan, Messages, Outlook, Weights, aggregate,
};
use halflit::noise::NoiseSource;
use halflit::table::{Budget, OutOfDomain, Protection, Table, ValueColumn, Values};
use serde_json::json;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// Randomize rows where they are, and average the messages elsewhere: nobody need be trusted with a row.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  halflit local randomize mine.csv --columns steps,sleep --epsilon 4\n  halflit local aggregate messages.ndjson --public mine.csv"
)]
pub struct Args {
    #[command(subcommand)]
    command: LocalCommand,
}

#[derive(Subcommand)]
enum LocalCommand {
    Randomize(RandomizeArgs),
    Aggregate(AggregateArgs),
}

/// Turn each private row (or user) into one message that may be sent to anyone: the client's side.
///
/// The price is recorded in the ledger first. Every run is a new release about the same rows and costs epsilon again; randomize once and send the same file
/// as often as needed. Rows that the declaration marks as public (public_rows) are not randomized; they are written beside the messages as they are.
/// Columns that the declaration calls public need no randomizing and are refused.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  halflit local randomize mine.csv --columns steps,sleep --epsilon 4 --plan\n  halflit local randomize mine.csv --columns steps,sleep --epsilon 4\n  halflit local randomize mine.csv --columns steps --mechanism duchi --out to-send"
)]
struct RandomizeArgs {
    #[command(flatten)]
    input: ChosenColumns,
    /// What one message may reveal [default: the declared budget's epsilon].
    #[arg(long, allow_negative_numbers = true, value_parser = number)]
    epsilon: Option<f64>,
    /// The randomizer.
    #[arg(long, value_enum, default_value = "privunit")]
    mechanism: KindName,
    /// Only show what the randomizers are predicted to be good for; nothing is spent or written.
    #[arg(long)]
    plan: bool,
    /// The ledger of the dataset [default: NAME.ledger beside the data].
    #[arg(long, value_name = "FILE")]
    ledger: Option<PathBuf>,
    /// The folder to write; it must not exist [default: NAME-messages beside the data].
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum KindName {
    Privunit,
    Duchi,
}

/// Average messages, and public rows if there are any: the server's side. Costs nothing.
///
/// All messages must be of one kind: mechanism, epsilon, dimension, columns and bounds. A message that was altered, that is there twice, that is no number or that belongs elsewhere
/// is refused with its line. Rows of --public count only if they are public: the declaration of that file says which are, or you say that all are.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  halflit local aggregate messages.ndjson\n  halflit local aggregate messages.ndjson --public survey.csv --privacy privacy.toml\n  cat a.ndjson b.ndjson > all.ndjson; halflit local aggregate all.ndjson --public volunteers.csv --all-rows-public --out mean.json"
)]
struct AggregateArgs {
    /// Messages, one line of JSON each.
    messages: PathBuf,
    /// A table with the messages' columns whose public rows are averaged with them.
    #[arg(long, value_name = "FILE")]
    public: Option<PathBuf>,
    /// The declaration that says which rows of --public are public [default: privacy.toml beside that file].
    #[arg(long, value_name = "FILE", requires = "public", conflicts_with = "all_rows_public")]
    privacy: Option<PathBuf>,
    /// Every row of --public may be known to everyone, whatever a declaration says.
    #[arg(long, requires = "public")]
    all_rows_public: bool,
    /// What a public row counts next to a message.
    #[arg(long, value_enum, default_value = "best")]
    weights: WeightsName,
    /// Move cells of public rows outside the messages' bounds to the nearest bound instead of refusing the file.
    #[arg(long)]
    coerce: bool,
    /// Also write the result as JSON to this file; it must not exist.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum WeightsName {
    /// The weights of least expected squared error, from the public rows' spread.
    Best,
    /// The same weight for everyone.
    Equal,
}

pub fn run(args: Args, json: bool) -> Result<(), Failure> {
    match args.command {
        LocalCommand::Randomize(args) => randomize(args, json),
        LocalCommand::Aggregate(args) => average(args, json),
    }
}

fn randomize(args: RandomizeArgs, json: bool) -> Result<(), Failure> {
    let data = &args.input.dataset.data;
    let out = args.out.clone().unwrap_or_else(|| beside_named(data, "messages"));
    let ledger_path = ledger_of(args.ledger.as_deref(), data)?;
    if args.plan {
        return show_outlook(&args, json);
    }
    must_take_a_release(&out, &ledger_path)?;
    let kind = match args.mechanism {
        KindName::Privunit => Kind::Privunit,
        KindName::Duchi => Kind::Duchi,
    };
    let values = sensitive_values(&args)?;
    let declared_budget = values.protection().budget();
    let plan = LocalPlan::new(values, kind, args.epsilon).map_err(Failure::bad_input)?;
    let spent = Budget { epsilon: args.epsilon.unwrap_or(declared_budget.epsilon), delta: 0.0 };
    let warning = beyond_declared(spent, declared_budget);
    if let Some(warning) = &warning {
        warn(warning, json);
    }

    let mut noise = NoiseSource::from_os().map_err(Failure::failed)?;
    let mut progress = Progress::new("randomizing");
    let (mut ledger, charged) = charge(&ledger_path, plan)?;
    let charge = charged.receipt().charge;
    let output = match charged.run(&mut noise, &mut progress) {
        Ok(output) => output,
        Err(error) => {
            let interrupted = matches!(error, LocalError::Interrupted);
            return Err(nothing_released(&mut ledger, charge, &error, interrupted));
        }
    };
    let release = output.release().map_err(Failure::failed)?;
    let mut files = vec![
        ("messages.ndjson", release.messages.as_bytes()),
        ("certificate.json", release.certificate_json.as_bytes()),
    ];
    files.extend(release.public_csv.as_ref().map(|text| (PUBLIC_ROWS, text.as_bytes())));
    publish(&mut ledger, charge, &out, &files, &release.certificate.model_sha256)?;

    let (certificate, messages) = (&release.certificate, release.messages.lines().count() as u64);
    if json {
        println!(
            "{}",
            json!({
                "folder": out, "ledger": ledger_path, "messages": messages, "guarantee": certificate.guarantee,
                "sentence": certificate.sentence, "charge": certificate.charge, "mechanism": certificate.mechanism,
                "warnings": warning.as_slice(),
            })
        );
        return Ok(());
    }
    println!("{}\n", certificate.sentence);
    println!(
        "{}, each of them {} at epsilon {}; charge {} in {}.",
        count_of(messages, "message"),
        kind.name(),
        declared(certificate.guarantee.epsilon),
        certificate.charge,
        ledger_path.display()
    );
    println!("The promise assumes ideal arithmetic: directions on a sphere are computed in floating point.");
    println!("\nWrote {0}/messages.ndjson and {0}/certificate.json.", out.display());
    if let Some(public) = &release.public_csv {
        let (rows, place) = (public.lines().count() as u64 - 1, out.display());
        let (are, they_are) = if rows == 1 { ("is", "it is") } else { ("are", "they are") };
        let rows = count_of(rows, "public row");
        let beside = format!("The {rows} {are} in {place}/{PUBLIC_ROWS} as {they_are}.");
        println!(
            "{beside} The mean of both: halflit local aggregate {place}/messages.ndjson --public {place}/{PUBLIC_ROWS} --all-rows-public"
        );
    }
    Ok(())
}

/// The public rows beside the messages.
const PUBLIC_ROWS: &str = "public.csv";

/// The chosen columns, each of them a secret: noise on what everyone may know is paid for and protects nobody.
fn sensitive_values(args: &RandomizeArgs) -> Result<Values, Failure> {
    let values = args.input.values()?;
    match values.columns().iter().find(|column| !column.is_sensitive()) {
        None => Ok(values),
        Some(public) => Err(Failure::BadInput(format!(
            "column `{0}` is declared public, so there is nothing to randomize; leave it out of --columns and send it as it is, or remove \
             `visibility = \"public\"` from [columns.{0}] if it is a secret",
            public.name()
        ))),
    }
}

fn show_outlook(args: &RandomizeArgs, json: bool) -> Result<(), Failure> {
    let values = sensitive_values(args)?;
    let outlook = Outlook::new(&values, args.epsilon).map_err(Failure::bad_input)?;
    if json {
        println!("{}", json!({ "outlook": outlook, "facts": values.facts() }));
        return Ok(());
    }
    println!("{}\n", values.facts().sentence);
    println!(
        "{} at epsilon {} each, {}. Best first:\n",
        count_of(outlook.messages, "message"),
        declared(outlook.epsilon),
        count_of(outlook.public_rows, "public row")
    );
    println!(
        "  {:<11} {:>15} {:>15} {:>19} {:>19}",
        "randomizer", "one message", "messages alone", "public rows, equal", "public rows, best"
    );
    let shown = |error: Option<f64>| error.map_or("none".to_owned(), |error| format!("{error:.6}"));
    for row in &outlook.randomizers {
        println!(
            "  {:<11} {:>15.4} {:>15.6} {:>19} {:>19}",
            row.randomizer.name(),
            row.message_squared_error,
            row.messages_alone,
            shown(row.with_public_rows_equal),
            shown(row.with_public_rows_best)
        );
    }
    if let Some(alone) = outlook.public_rows_alone {
        println!("\nThe public rows alone: {alone:.6}.");
    }
    println!(
        "\n`one message` is its expected squared error, columns mapped to [-1, 1]. The others are standard errors of the mean: root mean squares over the columns, as a share of half \
         a column's bounds. Nothing was spent."
    );
    Ok(())
}

fn average(args: AggregateArgs, json: bool) -> Result<(), Failure> {
    let cannot_read = |path: &Path, error: &dyn std::fmt::Display| {
        Failure::BadInput(format!("{} cannot be read: {error}", path.display()))
    };
    if let Some(out) = &args.out {
        must_be_new(out, "--out")?;
    }
    let file = File::open(&args.messages).map_err(|error| cannot_read(&args.messages, &error))?;
    let messages = Messages::read(BufReader::new(file))
        .map_err(|error| Failure::BadInput(format!("{}: {error}", args.messages.display())))?;
    let public = match &args.public {
        None => Vec::new(),
        Some(path) => public_rows(path, &args, &messages)?,
    };
    let weights = match args.weights {
        WeightsName::Best => Weights::Best,
        WeightsName::Equal => Weights::Equal,
    };
    let mean = aggregate(&messages, &public, weights);
    let report = json!({
        "halflit_local_mean": 1, "mechanism": messages.randomizer.kind(), "epsilon": messages.randomizer.epsilon(),
        "weights": weights, "mean": mean,
    });
    if let Some(out) = &args.out {
        let text = format!("{report:#}\n");
        write_new(out, text.as_bytes())
            .map_err(|error| Failure::Failed(format!("{} cannot be written: {error}", out.display())))?;
    }
    if json {
        println!("{report}");
        return Ok(());
    }
    print_mean(&mean);
    Ok(())
}

/// The rows of a file that may be used as they are, encoded: those that its declaration marks, or all of them if the caller says so.
fn public_rows(path: &Path, args: &AggregateArgs, messages: &Messages) -> Result<Vec<f64>, Failure> {
    // The bounds were checked with the first message.
    let columns: Vec<ValueColumn> = messages
        .columns
        .iter()
        .filter_map(|column| ValueColumn::new(&column.name, column.low, column.high))
        .collect();
    let out_of_domain = if args.coerce { OutOfDomain::Coerce } else { OutOfDomain::Refuse };
    let read = |protection: Option<&Protection>| {
        Table::read(path, &ValueColumn::read_options(&columns, protection)).map_err(Failure::bad_input)
    };
    if args.all_rows_public {
        // Whoever charged a file has treated rows of it as private.
        let ledger = default_ledger(path);
        if ledger.exists() {
            return Err(Failure::BadInput(format!(
                "{} has a ledger ({}), so some of its rows are private; name the declaration that says which are not (--privacy FILE)",
                path.display(),
                ledger.display()
            )));
        }
        return ValueColumn::encode_all_as_public(&columns, &read(None)?, out_of_domain)
            .map_err(Failure::bad_input);
    }
    let dataset = Dataset { data: path.to_owned(), privacy: args.privacy.clone() };
    if args.privacy.is_none() && !dataset.privacy_path().is_file() {
        return Err(Failure::BadInput(format!(
            "nothing says which rows of {} are public; name the declaration that does (--privacy FILE), or say that every row is (--all-rows-public)",
            path.display()
        )));
    }
    let protection = dataset.protection()?;
    let table = read(Some(&protection))?;
    ValueColumn::encode_public(&columns, &protection, &table, out_of_domain).map_err(Failure::bad_input)
}

fn print_mean(mean: &Aggregate) {
    println!(
        "{} (weight {:.3e} each), {} (weight {:.3e} each).\n",
        count_of(mean.messages, "message"),
        mean.message_weight,
        count_of(mean.public_rows, "public row"),
        mean.public_row_weight
    );
    let width = mean.columns.iter().map(|column| column.name.chars().count()).max().unwrap_or(0).max(6);
    println!("  {:<width$} {:>14} {:>14}", "column", "mean", "standard error");
    for column in &mean.columns {
        let error = column.standard_error.map_or("unknown".to_owned(), |error| format!("{error:.6}"));
        println!("  {:<width$} {:>14.6} {error:>14}", column.name, column.mean);
    }
}
