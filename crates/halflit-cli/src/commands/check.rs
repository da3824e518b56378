use crate::Failure;
use crate::commands::dataset::Dataset;
use halflit::figures::{about, declared, delta};
use halflit::table::{
    BindError, Budget, ColumnDomain, Declared, DeclaredColumn, Findings, Protection, PublicFacts, Role,
    Values, ValuesError, Visibility,
};
use serde_json::json;

/// Read the declaration back in plain English and check every cell against it.
///
/// Prints who is protected, the encoded dimension and the constants that the mechanisms will enforce, and every cell outside its declared domain.
/// The list of cells is for the owner of the data only: do not publish it. Nothing is spent. A declaration without [task] is good for means
/// (halflit mean) and for local randomizing (halflit local randomize); plan, train and refit need one.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  halflit check patients.csv --privacy privacy.toml")]
pub struct Args {
    #[command(flatten)]
    dataset: Dataset,
}

/// What there is to say of a declaration and its table.
struct Checked {
    protection: Protection,
    facts: PublicFacts,
    findings: Findings,
    /// None for a declaration without a task.
    task: Option<Declared>,
}

pub fn run(args: Args, json: bool) -> Result<(), Failure> {
    let protection = args.dataset.protection()?;
    let checked = if protection.has_task() {
        with_task(&args.dataset, protection)?
    } else {
        without_task(&args.dataset, protection)?
    };
    if json {
        println!("{}", checked.as_json());
    } else {
        print!("{}", checked.as_text());
    }
    let findings = &checked.findings;
    if !findings.is_empty() {
        return Err(Failure::BadInput(format!(
            "{findings}\nmend the cells, widen the declaration, or coerce them (--coerce of the command that is to read them)"
        )));
    }
    if !json {
        for remark in checked.remarks() {
            println!("\nNote: {remark}.");
        }
        println!("\nNo problems found. {}", checked.next(&args.dataset));
    }
    Ok(())
}

fn with_task(dataset: &Dataset, protection: Protection) -> Result<Checked, Failure> {
    let declaration = dataset.declaration()?;
    let table = dataset.table(&declaration.read_options())?;
    let declared = Declared::bind(declaration, table).map_err(told_to_the_owner)?;
    let findings = declared.findings().map_err(Failure::bad_input)?;
    Ok(Checked { protection, facts: declared.facts().clone(), findings, task: Some(declared) })
}

fn without_task(dataset: &Dataset, protection: Protection) -> Result<Checked, Failure> {
    let table = dataset.table(&protection.read_options(|column| column.role != Role::Unused))?;
    let (facts, findings) = Values::check_everything(&protection, &table).map_err(|error| match error {
        ValuesError::Bind(error) => told_to_the_owner(error),
        error => Failure::bad_input(error),
    })?;
    Ok(Checked { protection, facts, findings, task: None })
}

/// This command alone may say what is private.
fn told_to_the_owner(error: BindError) -> Failure {
    let more = error.for_the_owner().map(|more| format!(" (for the owner of the data: {more})"));
    Failure::BadInput(format!("{error}{}", more.unwrap_or_default()))
}

impl Checked {
    fn as_text(&self) -> String {
        let Checked { protection, facts, .. } = self;
        let Budget { epsilon, delta: failure } = protection.budget();
        let mut text = format!("{}\n\n", facts.sentence);
        let mut line = |name: &str, value: String| text.push_str(&format!("  {name:<24}{value}\n"));
        line("budget", format!("epsilon {}, delta {}", declared(epsilon), delta(failure)));
        line(
            "task",
            match self.task.as_ref().map(|declared| declared.declaration().task()) {
                Some(task) => format!("predict {} with the {} loss", task.label, task.loss.name()),
                None => "none; good for halflit mean and halflit local randomize".to_owned(),
            },
        );
        line("protected units", facts.private_units.to_string());
        if let Some(rows) = facts.private_rows {
            line("private rows", rows.to_string());
        }
        line("public rows", facts.public_rows.to_string());
        if let Some(most) = facts.rows_per_user {
            line("rows per user", format!("at most {most}"));
        }
        if self.task.is_some() {
            let storage = if facts.sparse { "sparse" } else { "dense" };
            line("features", format!("{} columns, {} coordinates, {storage}", facts.features, facts.width));
            line("row norm bound", format!("{:.4}", facts.row_norm_bound));
        } else {
            line("columns with bounds", names_or_none(&self.numeric_columns()));
        }
        line(
            "sensitive columns",
            self.named(|column| column.visibility == Visibility::Sensitive && column.role != Role::Unused),
        );
        line("public columns", self.named(|column| column.visibility == Visibility::Public));
        if !facts.undeclared_columns.is_empty() {
            line("not declared, not used", facts.undeclared_columns.join(", "));
        }
        text
    }

    fn named(&self, wanted: impl Fn(&DeclaredColumn) -> bool) -> String {
        let columns = self.protection.columns().iter().filter(|column| wanted(column));
        names_or_none(&columns.map(|column| column.name.as_str()).collect::<Vec<_>>())
    }

    /// The columns that have means.
    fn numeric_columns(&self) -> Vec<&str> {
        let is_numeric = |column: &&DeclaredColumn| {
            column.role != Role::Unused && matches!(column.domain, Some(ColumnDomain::Bounds { .. }))
        };
        self.protection.columns().iter().filter(is_numeric).map(|column| column.name.as_str()).collect()
    }

    fn as_json(&self) -> serde_json::Value {
        let Budget { epsilon, delta } = self.protection.budget();
        let declaration = self.task.as_ref().map(Declared::declaration);
        json!({
            "facts": self.facts,
            "budget": { "epsilon": epsilon, "delta": delta },
            "loss": declaration.map(|declaration| declaration.task().loss.name()),
            "label": declaration.map(|declaration| &declaration.task().label),
            "coordinates": self.task.as_ref().map(|declared| declared.encoding().coordinate_names()),
            "findings": self.findings.total(),
            "remarks": self.remarks(),
        })
    }

    /// What the owner should know but need not mend.
    fn remarks(&self) -> Vec<String> {
        let mut remarks = self.findings.remarks().to_vec();
        let (allowed, units) = (self.protection.budget().delta, self.facts.private_units);
        if allowed * units as f64 >= 1.0 {
            remarks.push(format!(
                "delta = {} is not below one in {units}, the number of protected units: a mechanism that published one of them outright would pass; \
                 take a delta far below {}",
                delta(allowed),
                about(1.0 / units as f64, 1)
            ));
        }
        remarks
    }

    /// What the declaration is good for.
    fn next(&self, dataset: &Dataset) -> String {
        if self.task.is_some() {
            return format!("Next: halflit plan {}", dataset.arguments());
        }
        let need = "plan, train and refit need a section [task]";
        match self.numeric_columns()[..] {
            [] => format!("No column has bounds, so there is no mean to release; {need}."),
            ref columns => format!(
                "Next: halflit mean {} --columns {} --plan ({need})",
                dataset.arguments(),
                columns.join(",")
            ),
        }
    }
}

fn names_or_none(names: &[&str]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
