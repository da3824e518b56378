use super::*;
use crate::mechanisms::noisy_gradient;
use crate::testing::{Cells, Story};
use halflit_privacy::calibrate::Budget;
use halflit_privacy::{Delta, Epsilon};

fn stories() -> Vec<Story> {
    let mut stories = vec![
        Story { public: vec!["x", "u", "c"], ..Story::new(400) },
        Story { public: vec!["x", "u", "y"], ..Story::new(400) },
        Story { public: vec!["x", "y"], ..Story::new(400) },
        Story { public: vec!["x", "u", "c"], public_rows: true, ..Story::new(3_000) },
        Story { public: vec!["x", "u", "c"], by_user: true, ..Story::new(400) },
        Story::new(400),
    ];
    for loss in ["softmax", "squared", "poisson", "hinge"] {
        stories.push(Story { public: vec!["x", "u", "c"], ..Story::new(400).loss(loss) });
        stories.push(Story { public: vec!["x", "u"], ..Story::new(400).loss(loss) });
    }
    stories
}

/// The rehearsal is a function of the public side: neighbours, which agree on it, get the same one to the last bit.
#[test]
fn neighbours_get_the_same_rehearsal() {
    for story in stories() {
        let mut neighbour = story.clone();
        if !story.public.contains(&"y") {
            let other = story.cells.y.iter().find(|y| **y != story.cells.y[5]).unwrap().clone();
            neighbour.cells.y[5] = other;
        }
        if !story.public.contains(&"c") {
            neighbour.cells.c[5] = if story.cells.c[5] == "a" { "b" } else { "a" }.to_owned();
        }
        let rehearse = |story: &Story| {
            let problem = story.problem();
            let rehearsal = Rehearsal::new(&problem.public_side().unwrap(), &MadeUp::Model, 200).unwrap();
            (rehearsal.rows.clone(), rehearsal.labels.clone())
        };
        assert!(rehearse(&story) == rehearse(&neighbour), "{} {:?}", story.loss, story.public);
    }
}

#[test]
fn public_cells_are_kept_and_sensitive_ones_are_in_their_domain() {
    for story in stories() {
        let problem = story.problem();
        let side = problem.public_side().unwrap();
        let rehearsal = Rehearsal::new(&side, &MadeUp::Model, usize::MAX).unwrap();
        let is_sensitive = problem.encoding().sensitive_coordinates();
        if let PublicFeatures::Some(rows) = &side.view.features {
            for row in 0..rows.len() {
                let (seen, made_up) = (rows.dense_row(row).unwrap(), rehearsal.rows.dense_row(row).unwrap());
                for (at, (seen, made_up)) in seen.iter().zip(&made_up).enumerate() {
                    assert!(is_sensitive[at] || seen == made_up);
                }
            }
        }
        if let Some(labels) = side.view.labels {
            assert_eq!(labels, rehearsal.labels);
        }
        assert!(rehearsal.labels.iter().all(|&label| problem.loss().label_domain().contains(label)));
        for column in problem.encoding().columns().iter().filter(|column| column.is_sensitive()) {
            for row in 0..rehearsal.rows.len().min(50) {
                let cells = &rehearsal.rows.dense_row(row).unwrap()[column.coordinates()];
                assert!(cells.len() == 1 || cells.iter().filter(|&&cell| cell != 0).count() == 1);
            }
        }
    }
}

/// A mechanism planned for the real problem runs on the made-up one, repeats, and learns the made-up signal.
#[test]
fn any_mechanism_can_be_rehearsed() {
    for story in stories() {
        let problem = story.problem();
        let side = problem.public_side().unwrap();
        let budget = Budget { epsilon: Epsilon::new(20.0).unwrap(), delta: Delta::new(1e-6).unwrap() };
        let plan = noisy_gradient::Plan::new(&problem, &noisy_gradient::Params::default(), budget).unwrap();
        let plan = MechanismPlan::NoisyGradient(plan);
        let train = || {
            let mut rehearsal = Rehearsal::new(&side, &MadeUp::Model, usize::MAX).unwrap();
            let weights = rehearsal.train(&plan).unwrap();
            (
                rehearsal.loss(&weights, 0.0).unwrap(),
                rehearsal.loss(&vec![0.0; weights.len()], 0.0).unwrap(),
                weights,
            )
        };
        let (trained, zero, weights) = train();
        assert!(trained < zero, "{} {:?}: {trained} {zero}", story.loss, story.public);
        assert_eq!(weights, train().2);
    }
}

/// Label privacy: how well the best weights predict made-up labels tells how large the weights were that made them.
#[test]
fn every_number_has_a_table_of_its_own_with_weights_of_its_own_size() {
    let problem = Story { public: vec!["x", "u", "c"], ..Story::new(1_000) }.problem();
    let side = problem.public_side().unwrap();
    let numbered = |number: u64| Rehearsal::numbered(number, &side, &MadeUp::Model, usize::MAX).unwrap();
    assert_eq!(numbered(0).labels, Rehearsal::new(&side, &MadeUp::Model, usize::MAX).unwrap().labels);
    assert_eq!(numbered(2).labels, numbered(2).labels);
    assert!(numbered(0).labels != numbered(3).labels);
    let best = |number: u64| numbered(number).best_loss(0.0).unwrap();
    // directions differ, so that single tables may be out of order: five of each size are compared
    let mean = |size: u64| (0..5).map(|turn| best(size + 3 * turn)).sum::<f64>() / 5.0;
    assert!(mean(0) > 1.1 * mean(1) && mean(1) > 1.1 * mean(2), "{} {} {}", mean(0), mean(1), mean(2));
}

/// Secrets go with public columns as they do in the public rows, where x below 0 means c = a and x above 0 means c = b or d.
#[test]
fn made_up_secrets_look_like_those_of_similar_public_rows() {
    let mut story = Story { public: vec!["x", "u", "y"], public_rows: true, ..Story::new(4_000) };
    let Cells { x, c, .. } = &mut story.cells;
    for (row, (x, c)) in x.iter().zip(c).enumerate() {
        *c = if *x < 0.0 { "a" } else { ["b", "d"][row % 2] }.to_owned();
    }
    let problem = story.problem();
    let rehearsal = Rehearsal::new(&problem.public_side().unwrap(), &MadeUp::Model, usize::MAX).unwrap();
    let start = |name: &str| {
        let columns = problem.encoding().columns();
        columns.iter().find(|column| column.name() == name).unwrap().coordinates().start
    };
    let (x, a) = (start("x"), start("c"));
    let agrees = |row: &usize| {
        let cells = rehearsal.rows.dense_row(*row).unwrap();
        (cells[x] < 0) == (cells[a] != 0)
    };
    let rows = rehearsal.rows.len();
    let share = (0..rows).filter(agrees).count() as f64 / rows as f64;
    // Rows near x = 0 have neighbours on both sides. Cells by lot would agree in half of the rows.
    assert!(share > 0.85, "{share}");
}

/// The truth behind made-up cells is about as far from the public rows' fit as a real one would be: d / (2 n) in the mean loss, n public rows.
#[test]
fn the_public_fit_is_not_the_truth_of_a_rehearsal() {
    for public in [vec!["x", "u", "y"], vec!["x", "u"]] {
        let story = Story { public, public_rows: true, ..Story::new(6_000) };
        let problem = story.problem();
        let side = problem.public_side().unwrap();
        let fitted = public_rows::fitted(&problem).unwrap();
        // One table is far by chance: the mean over eight.
        let excess = |number: u64| {
            let made_up = Rehearsal::numbered(number, &side, &MadeUp::Model, usize::MAX).unwrap();
            made_up.excess(&fitted, made_up.best_loss(0.0).unwrap()).unwrap()
        };
        let mean = (0..8).map(excess).sum::<f64>() / 8.0;
        let expected = 0.5 * (fitted.len() - 1) as f64 / problem.facts().public_rows as f64;
        assert!((0.4..4.0).contains(&(mean / expected)), "{:?}: {mean} {expected}", story.public);
    }
}

/// A sensitive class goes with any cells, so that all classes occur, about as often as the model says.
#[test]
fn every_class_is_made_up() {
    let story = Story { public: vec!["x", "u"], public_rows: true, ..Story::new(3_000).loss("softmax") };
    let problem = story.problem();
    let rehearsal = Rehearsal::new(&problem.public_side().unwrap(), &MadeUp::Model, usize::MAX).unwrap();
    let share = |labels: &[f64], class: f64| {
        labels.iter().filter(|&&label| label == class).count() as f64 / labels.len() as f64
    };
    for class in [0.0, 1.0, 2.0] {
        let (made_up, seen) = (share(&rehearsal.labels, class), share(problem.public_data().1, class));
        assert!((made_up - seen).abs() < 0.1, "{class}: {made_up} {seen}");
    }
}

#[test]
fn a_prior_is_followed() {
    let story = Story { public: vec!["x", "u", "y"], ..Story::new(2_000) };
    let problem = story.problem();
    let side = problem.public_side().unwrap();
    let share_of_first = |made_up: &MadeUp| {
        let rehearsal = Rehearsal::new(&side, made_up, usize::MAX).unwrap();
        let column = problem
            .encoding()
            .columns()
            .iter()
            .find(|column| column.name() == "c")
            .unwrap()
            .coordinates()
            .start;
        let first = (0..2_000).filter(|&row| rehearsal.rows.dense_row(row).unwrap()[column] != 0).count();
        first as f64 / 2_000.0
    };
    // Uniform: 2,000 draws of probability 1/3, standard deviation 0.0105; 6 of them is alpha below 1e-8.
    assert!((share_of_first(&MadeUp::Uniform) - 1.0 / 3.0).abs() < 0.064);
    assert!(share_of_first(&MadeUp::Prior(vec![0.9, 0.05, 0.05])) > 0.75);
    assert!(Rehearsal::new(&side, &MadeUp::Prior(vec![0.5, 0.5]), 100).is_err());
}

#[test]
fn a_release_refuses_the_numbers_of_a_rehearsal() {
    let mut source = RehearsalSource::from_public_digest([1; 32]);
    assert!(matches!(crate::run::refuse_rehearsal(source.lend()), Err(MechanismError::RehearsalNoise)));
    assert!(crate::run::refuse_rehearsal(&crate::testing::seeded(1)).is_ok());
}
