//! What leaves the program is the same for neighbours: plans, prices, statements, prints. Only the noisy weights may differ.

use crate::Problem;
use crate::ledger::Ledger;
use crate::mechanisms::MechanismPlan;
use crate::mechanisms::local::{Kind, LocalPlan, Outlook};
use crate::mechanisms::noisy_gradient::parts::Sampling;
use crate::mechanisms::noisy_gradient::{Params, predicted_without_public_rows};
use crate::mechanisms::weighted_mean::{MeanPlans, MeanRequest, NoiseLaw, Variant};
use crate::plan::{Plans, Request};
use crate::testing::Story;
use halflit_noise::{NoiseSource, Probability};
use halflit_privacy::calibrate::Budget;
use halflit_privacy::{Delta, Epsilon};
use halflit_table::{Declaration, Declared, OutOfDomain, Protection, Values};
use std::collections::BTreeSet;

/// The problem of a story whose declaration says that there are this many units, whatever the table has.
fn problem(story: &Story, units: u64) -> Problem {
    problem_with(story, units, "")
}

/// The same with one more line about the task.
fn problem_with(story: &Story, units: u64, task: &str) -> Problem {
    let text = declaration(story, units, task);
    let declaration = Declaration::parse(&text, "privacy.toml").unwrap_or_else(|error| panic!("{error}"));
    let declared = Declared::bind(declaration, story.cells.table_for(story.loss)).unwrap();
    Problem::pose(declared, OutOfDomain::Refuse).unwrap()
}

/// The numeric columns of the same, for means and messages.
fn values(story: &Story, units: u64) -> Values {
    let text = declaration(story, units, "");
    let protection = Protection::parse(&text, "privacy.toml").unwrap_or_else(|error| panic!("{error}"));
    let chosen = Values::choose(&protection, &["x".to_owned(), "u".to_owned()]).unwrap();
    Values::bind(protection, chosen, &story.cells.table_for(story.loss), OutOfDomain::Refuse).unwrap()
}

fn declaration(story: &Story, units: u64, task: &str) -> String {
    let mut text = String::new();
    for line in story.declaration().lines() {
        match line.split_once(" = ") {
            Some((key @ ("rows" | "users"), _)) => text.push_str(&format!("{key} = {units}\n")),
            _ if line == "[task]" => text.push_str(&format!("{line}\n{task}\n")),
            _ => text.push_str(&format!("{line}\n")),
        }
    }
    text
}

/// Everything that planning shows or keeps: facts, candidates, the chosen plan with all its fields, event and statement.
fn seen(story: &Story, sampling_rate: Option<Probability>) -> String {
    let problem = problem(story, 200);
    let facts = serde_json::to_string(problem.facts()).unwrap();
    let sampling = sampling_rate.map(Sampling::Poisson);
    // A few steps of a sampled descent, or everything there is.
    let steps = sampling.map(|_| 6);
    let gradient = Params { sampling, steps, ..Params::default() };
    let request = Request { gradient, ..Request::default() };
    let plans = Plans::new(problem, &request).unwrap();
    let summaries: Vec<String> =
        plans.summaries().map(|summary| serde_json::to_string(summary).unwrap()).collect();
    let plan = plans.best().unwrap();
    let statement = serde_json::to_string(&plan.mechanism.statement(plan.problem())).unwrap();
    format!("{facts}\n{summaries:?}\n{plan:?}\n{statement}")
}

/// A private row of a user with other private rows.
fn some_row(story: &Story) -> usize {
    let cells = &story.cells;
    let rows_of = |user: &String| cells.user.iter().filter(|other| *other == user).count();
    let is_it = |&row: &usize| cells.consent[row] == "no" && rows_of(&cells.user[row]) > 1;
    (10..cells.x.len()).find(is_it).expect("some user has several private rows")
}

fn without_rows(story: &Story, is_gone: impl Fn(usize) -> bool) -> Story {
    fn kept<T: Clone>(cells: &[T], is_gone: &impl Fn(usize) -> bool) -> Vec<T> {
        (0..cells.len()).filter(|&row| !is_gone(row)).map(|row| cells[row].clone()).collect()
    }
    let mut other = story.clone();
    let cells = &story.cells;
    other.cells.x = kept(&cells.x, &is_gone);
    other.cells.u = kept(&cells.u, &is_gone);
    other.cells.c = kept(&cells.c, &is_gone);
    other.cells.y = kept(&cells.y, &is_gone);
    other.cells.user = kept(&cells.user, &is_gone);
    other.cells.consent = kept(&cells.consent, &is_gone);
    other
}

/// The neighbours of a story under its own relation: one unit with other sensitive cells; where that is a secret, with one
/// row less; where it may vanish, without the unit.
fn neighbours(story: &Story) -> Vec<Story> {
    let (cells, changed) = (&story.cells, some_row(story));
    let is_unit =
        |row: usize| if story.by_user { cells.user[row] == cells.user[changed] } else { row == changed };
    let mut replaced = story.clone();
    let is_sensitive = |column: &str| !story.public.contains(&column);
    for row in (0..cells.x.len()).filter(|&row| is_unit(row)) {
        if is_sensitive("x") {
            replaced.cells.x[row] = 3.0;
        }
        if is_sensitive("u") {
            replaced.cells.u[row] = 0.0;
        }
        if is_sensitive("c") {
            replaced.cells.c[row] = if cells.c[row] == "a" { "b" } else { "a" }.to_owned();
        }
        if is_sensitive("y") {
            let other = cells.y.iter().find(|y| **y != cells.y[row]);
            replaced.cells.y[row].clone_from(other.expect("labels differ"));
        }
    }
    let mut neighbours = vec![replaced];
    let everything_is_sensitive = story.public.is_empty();
    if everything_is_sensitive && story.by_user {
        neighbours.push(without_rows(story, |row| row == changed));
    }
    if everything_is_sensitive && story.zero_out {
        neighbours.push(without_rows(story, is_unit));
    }
    neighbours
}

fn stories() -> Vec<Story> {
    let mut stories = Vec::new();
    for public in [vec![], vec!["x"], vec!["x", "u", "c"], vec!["y"]] {
        for by_user in [false, true] {
            for zero_out in [false, true] {
                for public_rows in [false, true] {
                    let public = public.clone();
                    stories.push(Story { by_user, zero_out, public_rows, public, ..Story::new(120) });
                }
            }
        }
    }
    stories
}

#[test]
fn plans_of_neighbours_are_the_same_to_the_last_bit() {
    let mut compared = 0;
    for story in stories() {
        // Calibrating sampled steps takes a while: where the most is secret.
        let sampled = story.public.is_empty().then(|| Some(Probability::new(1, 8).unwrap()));
        for rate in [None].into_iter().chain(sampled) {
            let reference = seen(&story, rate);
            for neighbour in neighbours(&story) {
                assert_eq!(seen(&neighbour, rate), reference, "{:?}", story.public);
                compared += 1;
            }
        }
    }
    assert!(compared > 50, "{compared}");
    // Power: under replace the number of rows is public, and it shows.
    let story = Story::new(120);
    let changed = some_row(&story);
    assert_ne!(seen(&without_rows(&story, |row| row == changed), None), seen(&story, None));
}

/// Every mechanism that plans, chosen or not, and every refusal: two losses, sensitive categories beside public columns, rows as they are and shortened.
#[test]
fn candidates_of_neighbours_are_the_same_to_the_last_bit() {
    let target = Budget { epsilon: Epsilon::new(1.0).unwrap(), delta: Delta::new(1e-6).unwrap() };
    let mut names = BTreeSet::new();
    let mut planned = |problem: &Problem| -> Vec<String> {
        let candidates = MechanismPlan::candidates(problem, None, &Params::default(), target);
        let mut planned: Vec<String> = candidates
            .into_iter()
            .map(|plan| match plan {
                Ok(plan) => {
                    names.insert(plan.summary(problem).mechanism);
                    format!("{:?}{:?}{plan:?}", plan.summary(problem), plan.statement(problem))
                }
                Err(refusal) => refusal.to_string(),
            })
            .collect();
        if problem.facts().public_rows > 0 {
            planned.push(format!("{:?}", predicted_without_public_rows(problem, target)));
        }
        planned
    };
    for story in stories().into_iter().chain(with_sensitive_categories()) {
        for loss in ["logistic", "squared"] {
            let story = story.clone().loss(loss);
            for row_norm in ["", "row_norm = 1.3"] {
                let reference = planned(&problem_with(&story, 200, row_norm));
                for neighbour in neighbours(&story) {
                    let same = planned(&problem_with(&neighbour, 200, row_norm)) == reference;
                    assert!(same, "{loss} {:?} {row_norm}", story.public);
                }
            }
        }
    }
    assert_eq!(names.len(), 8, "{names:?}");
}

fn with_sensitive_categories() -> Vec<Story> {
    let kinds = [(false, false, false), (false, true, true), (true, false, true), (true, true, false)];
    let story = |(by_user, zero_out, public_rows)| Story {
        by_user,
        zero_out,
        public_rows,
        public: vec!["x", "u", "y"],
        ..Story::new(120)
    };
    kinds.map(story).into()
}

/// Everything that planning a mean or messages shows or keeps: candidates, refusals, every plan with all its fields, price and statement.
fn seen_of_means(story: &Story) -> Vec<String> {
    let bound = || values(story, 200);
    let mut seen = vec![serde_json::to_string(bound().facts()).unwrap()];
    for delta in [1e-6, 0.0] {
        let budget = Some(halflit_table::Budget { epsilon: 1.0, delta });
        for variant in [Variant::PublicOnly, Variant::Gaussian, Variant::Weighted, Variant::CentredWeighted] {
            for noise in [NoiseLaw::Gaussian, NoiseLaw::Laplace] {
                let request = MeanRequest { budget, variant: Some(variant), noise: Some(noise) };
                let planned = MeanPlans::new(bound(), &request).and_then(|plans| {
                    let summaries = plans.summaries();
                    plans.best().map(|plan| (summaries, plan))
                });
                seen.push(match planned {
                    Ok((summaries, plan)) => format!("{summaries:?}{plan:?}{:?}", plan.statement()),
                    Err(refusal) => refusal.to_string(),
                });
            }
        }
    }
    seen.push(format!("{:?}", Outlook::new(&bound(), None)));
    for kind in [Kind::Privunit, Kind::Duchi] {
        let plan = LocalPlan::new(bound(), kind, None).unwrap();
        seen.push(format!("{plan:?}{:?}", plan.statement()));
    }
    seen
}

#[test]
fn means_and_messages_of_neighbours_are_planned_the_same_to_the_last_bit() {
    let mut compared = 0;
    for story in stories() {
        let reference = seen_of_means(&story);
        for neighbour in neighbours(&story) {
            assert_eq!(seen_of_means(&neighbour), reference, "{:?}", story.public);
            compared += 1;
        }
    }
    assert!(compared > 30, "{compared}");
    // Power: a public row shows, as it may.
    let story = Story { public_rows: true, ..Story::new(120) };
    let public = story.cells.consent.iter().position(|consent| consent == "yes").unwrap();
    let mut other = story.clone();
    other.cells.x[public] = 3.0;
    assert_ne!(seen_of_means(&other), seen_of_means(&story));
}

/// The files of a mean and of messages, without what noise went into: the same for neighbours.
fn files_of_means(story: &Story, request: &MeanRequest) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = Ledger::open_or_create(&folder.path().join("ledger")).unwrap();
    let mut source = NoiseSource::from_os().unwrap();
    let half =
        MeanRequest { budget: Some(halflit_table::Budget { epsilon: 0.5, delta: 1e-7 }), ..request.clone() };
    let plan = MeanPlans::new(values(story, 200), &half).unwrap().best().unwrap();
    let mut mean = ledger.charge(plan).unwrap().run(&mut source).unwrap().release(&[]).unwrap();
    mean.certificate.verify().unwrap();
    for column in mean.mean.columns.iter_mut().filter(|column| column.noise_deviation > 0.0) {
        column.mean = 0.0;
    }
    let plan = LocalPlan::new(values(story, 200), Kind::Privunit, Some(0.25)).unwrap();
    let local = ledger.charge(plan).unwrap().run(&mut source, &mut ()).unwrap().release().unwrap();
    local.certificate.verify().unwrap();
    let lengths = local.messages.lines().map(|line| {
        let message: crate::mechanisms::local::Message = serde_json::from_str(line).unwrap();
        format!("{} {}", message.id.len(), message.value.len())
    });
    let shape: Vec<String> = lengths.collect();
    let said = |certificate: &super::Certificate| {
        format!("{:?} {:?} {:?}", certificate.guarantee, certificate.mechanism, certificate.profile)
    };
    vec![
        serde_json::to_string(&mean.mean).unwrap(),
        said(&mean.certificate),
        said(&local.certificate),
        format!("{:?} {shape:?}", local.public_csv),
    ]
}

#[test]
fn files_of_means_and_messages_differ_in_their_noisy_numbers_only() {
    let noisy = MeanRequest { variant: Some(Variant::Weighted), ..MeanRequest::default() };
    for story in stories() {
        let reference = files_of_means(&story, &noisy);
        for neighbour in neighbours(&story) {
            assert_eq!(files_of_means(&neighbour, &noisy), reference, "{:?}", story.public);
        }
    }
    // With no private unit in the file at all the certificates are those of any other table.
    for by_user in [false, true] {
        let full = Story { by_user, zero_out: true, public_rows: true, ..Story::new(120) };
        let empty = without_rows(&full, |row| full.cells.consent[row] == "no");
        assert_eq!(files_of_means(&empty, &noisy), files_of_means(&full, &noisy));
    }
}

/// Zero-out of all columns: with no private unit in the file at all the run goes through and the certificate is the one of any other table.
#[test]
fn nobody_at_home_looks_like_everybody_at_home() {
    for by_user in [false, true] {
        for sampling_rate in [None, Some(Probability::new(1, 8).unwrap())] {
            let full = Story { by_user, zero_out: true, public_rows: true, ..Story::new(120) };
            let empty = without_rows(&full, |row| full.cells.consent[row] == "no");
            assert!(!empty.cells.x.is_empty() && empty.cells.consent.iter().all(|consent| consent == "yes"));
            let released = |story: &Story| {
                let folder = tempfile::tempdir().unwrap();
                let mut ledger = Ledger::open_or_create(&folder.path().join("ledger")).unwrap();
                let sampling = sampling_rate.map(Sampling::Poisson);
                let gradient = Params { sampling, steps: Some(4), ..Params::default() };
                let request = Request { gradient, ..Request::default() };
                let plan = Plans::new(problem(story, 200), &request).unwrap().best().unwrap();
                let charged = ledger.charge(plan).unwrap();
                let output = charged.run(&mut NoiseSource::from_os().unwrap(), &mut ()).unwrap();
                let release = output.release(&[]).unwrap();
                release.certificate.verify().unwrap();
                serde_json::to_string(&release.certificate.mechanism).unwrap()
            };
            assert_eq!(released(&full), released(&empty));
        }
    }
}
