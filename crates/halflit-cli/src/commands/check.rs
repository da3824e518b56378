use crate::Failure;
use crate::commands::dataset::Dataset;
use halflit::figures::delta;
use halflit::table::{Declared, Findings};
use serde_json::json;

/// Read the declaration back in plain English and check every cell against it.
///
/// Prints who is protected, the encoded dimension and the constants that the mechanisms will enforce, and every cell outside its declared domain.
/// The list of cells is for the owner of the data only: do not publish it. Nothing is spent.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  halflit check patients.csv --privacy privacy.toml")]
pub struct Args {
    #[command(flatten)]
    dataset: Dataset,
}

pub fn run(args: Args, json: bool) -> Result<(), Failure> {
    let declared = args.dataset.declared()?;
    let findings = declared.findings().map_err(Failure::bad_input)?;
    if json {
        println!("{}", as_json(&declared, &findings));
    } else {
        print!("{}", as_text(&declared));
    }
    if findings.is_empty() {
        if !json {
            println!("\nNo problems found. Next: halflit plan {}", args.dataset.arguments());
        }
        return Ok(());
    }
    Err(Failure::BadInput(format!(
        "{findings}\nmend the cells, widen the declaration, or coerce them (train --coerce)"
    )))
}

fn as_text(declared: &Declared) -> String {
    let facts = declared.facts();
    let budget = declared.declaration().budget();
    let task = declared.declaration().task();
    let mut text = format!("{}\n\n", facts.sentence);
    let mut line = |name: &str, value: String| text.push_str(&format!("  {name:<24}{value}\n"));
    line("budget", format!("epsilon {}, delta {}", budget.epsilon, delta(budget.delta)));
    line("task", format!("predict {} with the {} loss", task.label, task.loss.name()));
    line("protected units", facts.private_units.to_string());
    if let Some(rows) = facts.private_rows {
        line("private rows", rows.to_string());
    }
    line("public rows", facts.public_rows.to_string());
    if let Some(most) = facts.rows_per_user {
        line("rows per user", format!("at most {most}"));
    }
    let storage = if facts.sparse { "sparse" } else { "dense" };
    line("features", format!("{} columns, {} coordinates, {storage}", facts.features, facts.width));
    line("row norm bound", format!("{:.4}", facts.row_norm_bound));
    let columns = declared.declaration().columns();
    let named = |wanted: &dyn Fn(&halflit::table::DeclaredColumn) -> bool| {
        let names: Vec<&str> =
            columns.iter().filter(|column| wanted(column)).map(|column| column.name.as_str()).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    };
    use halflit::table::{Role, Visibility};
    line(
        "sensitive columns",
        named(&|column| column.visibility == Visibility::Sensitive && column.role != Role::Unused),
    );
    line("public columns", named(&|column| column.visibility == Visibility::Public));
    if !facts.undeclared_columns.is_empty() {
        line("not declared, not used", facts.undeclared_columns.join(", "));
    }
    text
}

fn as_json(declared: &Declared, findings: &Findings) -> serde_json::Value {
    let budget = declared.declaration().budget();
    json!({
        "facts": declared.facts(),
        "budget": { "epsilon": budget.epsilon, "delta": budget.delta },
        "loss": declared.declaration().task().loss.name(),
        "label": declared.declaration().task().label,
        "coordinates": declared.encoding().coordinate_names(),
        "findings": findings.total(),
    })
}
