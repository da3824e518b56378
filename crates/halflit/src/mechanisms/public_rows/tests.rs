use super::*;
use crate::mechanisms::{MechanismPlan, Statement as AnyStatement};
use crate::plan::{Plans, Request};
use crate::problem::FEATURE_UNIT;
use crate::testing::{Cells, LOSSES, Story};
use halflit_privacy::{Change, Delta, Event, Profile};

fn story(rows: usize) -> Story {
    Story { public_rows: true, ..Story::new(rows) }
}

/// Every unit, both changes, all columns sensitive or one public.
fn stories() -> Vec<Story> {
    let mut stories = Vec::new();
    for by_user in [false, true] {
        for zero_out in [false, true] {
            for public in [vec![], vec!["x"]] {
                stories.push(Story { by_user, zero_out, public, ..story(300) });
            }
        }
    }
    stories
}

/// The same story with every sensitive cell of every private row changed: further than any neighbour.
fn with_other_private_cells(story: &Story) -> Story {
    let mut other = story.clone();
    for row in 0..story.cells.x.len() {
        if story.cells.consent[row] == "yes" {
            continue;
        }
        if !story.public.contains(&"x") {
            other.cells.x[row] = -story.cells.x[row];
        }
        other.cells.u[row] = 1.0 - story.cells.u[row];
        other.cells.c[row] = "d".to_owned();
        other.cells.y[row] = if story.cells.y[row] == "yes" { "no" } else { "yes" }.to_owned();
    }
    other
}

#[test]
fn private_cells_do_not_move_a_single_bit() {
    for story in stories() {
        let (problem, other) = (story.problem(), with_other_private_cells(&story).problem());
        let (plan, other_plan) = (Plan::new(&problem).unwrap(), Plan::new(&other).unwrap());
        assert_eq!(plan.statement(&problem), other_plan.statement(&other));
        assert_eq!(plan.summary(&problem), other_plan.summary(&other));
        let bits = |weights: Vec<f64>| weights.into_iter().map(f64::to_bits).collect::<Vec<_>>();
        assert_eq!(bits(plan.run(&problem).unwrap()), bits(other_plan.run(&other).unwrap()));
    }
    // Power: a public cell does move them.
    let story = story(300);
    let mut other = story.clone();
    let public = story.cells.consent.iter().position(|consent| consent == "yes").unwrap();
    other.cells.x[public] = -story.cells.x[public];
    let run = |story: &Story| Plan::new(&story.problem()).unwrap().run(&story.problem()).unwrap();
    assert_ne!(run(&story), run(&other));
}

#[test]
fn the_weights_minimise_the_penalised_loss_of_the_public_rows() {
    for loss in LOSSES {
        let story = story(400).loss(loss);
        let problem = story.problem();
        let plan = Plan::new(&problem).unwrap();
        let best = plan.run(&problem).unwrap();
        let objective = |weights: &[f64]| {
            let (rows, labels) = problem.public_data();
            let mut total = 0.0;
            for (row, label) in labels.iter().enumerate() {
                let x = rows.dense_row(row).unwrap();
                let score =
                    |w: &[f64]| w.iter().zip(&x).map(|(w, &q)| w * f64::from(q) * FEATURE_UNIT).sum::<f64>();
                let scores: Vec<f64> = weights.chunks(rows.width()).map(score).collect();
                total += problem.loss().value(&scores, *label);
            }
            let squares: f64 = weights.iter().map(|w| w * w).sum();
            total / labels.len() as f64 + 0.5 * plan.regularization * squares
        };
        let lowest = objective(&best);
        for coordinate in 0..best.len() {
            for step in [1e-2, -1e-2] {
                let mut moved = best.clone();
                moved[coordinate] += step;
                // The penalty alone makes the objective this much higher away from the minimizer.
                let higher = 0.4 * plan.regularization * step * step;
                assert!(objective(&moved) > lowest + higher, "{loss}: {coordinate} {step}");
            }
        }
    }
}

#[test]
fn a_penalty_too_small_to_certify_anything_with_does_not_stop_the_fit() {
    let problem = story(400).loss("squared").problem();
    let (rows, labels) = problem.public_data();
    let run = |lambda| {
        fit(problem.loss(), rows, labels, problem.row_norm_bound(), lambda, problem.radius()).unwrap()
    };
    let (small, tiny) = (run(1e-6), run(1e-12));
    let distance = small.iter().zip(&tiny).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
    assert!(distance < 1e-3, "{distance}");
    assert!(tiny.iter().any(|w| w.abs() > 0.01), "{tiny:?}");
}

#[test]
fn nothing_is_spent() {
    for story in stories() {
        let problem = story.problem();
        let plan = Plan::new(&problem).unwrap();
        let statement = AnyStatement::PublicRows(plan.statement(&problem));
        assert_eq!(statement.event().unwrap(), Event::Composed(Vec::new()));
        let delta = Delta::new(0.0).unwrap();
        assert_eq!(Profile::of(&statement.event().unwrap()).unwrap().epsilon(delta).upper, 0.0);
        statement.check().unwrap();
        statement.belongs_to(problem.relation()).unwrap();
        assert_eq!(plan.statement(&problem).rows, problem.facts().public_rows);
    }
}

#[test]
fn it_is_a_candidate_where_rows_are_public_and_refused_elsewhere() {
    let names = |story: &Story| -> Vec<String> {
        let plans = Plans::new(story.problem(), &Request::default()).unwrap();
        plans.summaries().map(|summary| summary.mechanism.clone()).collect()
    };
    assert!(names(&story(300)).contains(&NAME.to_owned()));
    assert!(!names(&Story::new(300)).contains(&NAME.to_owned()));
    assert!(matches!(Plan::new(&Story::new(300).problem()), Err(MechanismError::NoPublicRows)));
    // It can be asked for by name, and then it is what runs.
    let request = Request { mechanism: Some(NAME.to_owned()), ..Request::default() };
    let plan = Plans::new(story(300).problem(), &request).unwrap().best().unwrap();
    assert!(matches!(plan.mechanism, MechanismPlan::PublicRows(_)));
}

#[test]
fn statements_that_cannot_be_true_are_refused() {
    let problem = story(300).problem();
    let honest = Plan::new(&problem).unwrap().statement(&problem);
    let changed: [fn(&mut Statement); 6] = [
        |s| s.rows = 0,
        |s| s.regularization = 0.0,
        |s| s.regularization = f64::NAN,
        |s| s.regularization = -1.0,
        |s| s.radius = Some(0.0),
        |s| s.radius = Some(f64::INFINITY),
    ];
    for change in changed {
        let mut statement = honest.clone();
        change(&mut statement);
        assert!(statement.check().is_err(), "{statement:?}");
    }
    // There is nothing to train on under a relation without public rows.
    for change in [Change::Replace, Change::ZeroOut] {
        assert!(honest.belongs_to(&Relation::full(change)).is_err());
    }
}

#[test]
fn fewer_rows_than_weights_still_have_one_minimizer() {
    let mut story = story(60);
    let first = story.cells.consent.iter().position(|consent| consent == "yes").unwrap();
    for (row, consent) in story.cells.consent.iter_mut().enumerate() {
        *consent = if row == first { "yes" } else { "no" }.to_owned();
    }
    let problem = story.problem();
    assert_eq!(problem.facts().public_rows, 1);
    let plan = Plan::new(&problem).unwrap();
    let weights = plan.run(&problem).unwrap();
    // The minimizer lies along the one row: its weights are proportional to the row's coordinates.
    let row = problem.public_data().0.dense_row(0).unwrap();
    let scale = weights.last().unwrap() / f64::from(*row.last().unwrap());
    for (weight, &q) in weights.iter().zip(&row) {
        assert!((weight - scale * f64::from(q)).abs() < 1e-5, "{weights:?} {row:?}");
    }
    assert!(scale != 0.0);
}

#[test]
fn the_declared_ball_holds_and_the_default_penalty_is_its_formula() {
    let problem = story(300).problem();
    let (rows, labels) = problem.public_data();
    let free = fit(problem.loss(), rows, labels, problem.row_norm_bound(), 1e-3, None).unwrap();
    let norm = |weights: &[f64]| weights.iter().map(|w| w * w).sum::<f64>().sqrt();
    assert!(norm(&free) > 0.2);
    let held = fit(problem.loss(), rows, labels, problem.row_norm_bound(), 1e-3, Some(0.1)).unwrap();
    assert!(norm(&held) <= 0.1 * (1.0 + 1e-12) && norm(&held) > 0.099, "{}", norm(&held));
    // lambda = d / (n R^2) with R = min(0.75 sqrt(d), 8, radius): d = 6, n = 50.
    let loss = problem.loss();
    assert!((default_penalty(loss, 6, 50.0, None) - 6.0 / (50.0 * 0.5625 * 6.0)).abs() < 1e-15);
    assert!((default_penalty(loss, 6, 50.0, Some(0.5)) - 6.0 / (50.0 * 0.25)).abs() < 1e-15);
    assert!((default_penalty(loss, 1000, 50.0, None) - 1000.0 / (50.0 * 64.0)).abs() < 1e-12);
}

/// Labels that follow x without exception ask for weights larger than the guess, coin flips for smaller ones; the held-out rows are predicted better
/// for it, and a few rows or a declared ball leave the guess alone.
#[test]
fn the_public_rows_say_how_large_weights_are() {
    let labelled = |mut story: Story, label: &dyn Fn(usize, f64) -> bool| {
        for row in 0..story.cells.x.len() {
            story.cells.y[row] = if label(row, story.cells.x[row]) { "yes" } else { "no" }.to_owned();
        }
        story
    };
    let steep = |story: Story| labelled(story, &|_, x| x > 0.0);
    let coins = |story: Story| labelled(story, &|row, _| (row / 7 * 0x9e37_79b9) >> 13 & 1 == 0);
    let over_guess = |problem: &Problem| {
        weights_norm(problem).unwrap() / prior_radius(problem.loss(), problem.dimension(), problem.radius())
    };

    let problem = steep(story(2000)).problem();
    let factor = over_guess(&problem);
    assert!((4.0..=64.0).contains(&factor) && factor.log2().fract() == 0.0, "{factor}");
    assert!(over_guess(&coins(story(2000)).problem()) <= 1.0);

    let few = steep(story(60)).problem();
    assert!(few.facts().public_rows < 40);
    assert_eq!(over_guess(&few), 1.0);
    let in_ball = steep(story(2000)).problem_in_ball(1.0);
    assert!(over_guess(&in_ball) <= 1.0);

    // What it is for: the same fit with the guess's penalty predicts new rows worse.
    let mut fresh = steep(story(4000));
    let Cells { x, u, c, y, user, consent } = &mut fresh.cells;
    x.drain(..2000);
    u.drain(..2000);
    for column in [c, y, user, consent] {
        column.drain(..2000);
    }
    let fresh = fresh.problem();
    let plan = Plan::new(&problem).unwrap();
    let loss_on_fresh = |weights: &[f64]| {
        let (rows, labels) = fresh.public_data();
        let own = |row: usize| problem.loss().value(&crate::problem::scores(rows, row, weights), labels[row]);
        (0..rows.len()).map(own).sum::<f64>() / rows.len() as f64
    };
    let (rows, labels) = problem.public_data();
    let penalty = default_penalty(problem.loss(), problem.dimension(), rows.len() as f64, None);
    let guessed = fit(problem.loss(), rows, labels, problem.row_norm_bound(), penalty, None).unwrap();
    assert!(loss_on_fresh(&plan.run(&problem).unwrap()) < 0.8 * loss_on_fresh(&guessed));
}
