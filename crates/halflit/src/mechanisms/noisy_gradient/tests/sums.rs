//! What one unit can do to the integer sums.

use super::*;
use crate::mechanisms::noisy_gradient::layout::Layout;
use crate::mechanisms::noisy_gradient::passes::Passes;
use crate::mechanisms::noisy_gradient::sampler::{HiddenBatch, KnownBatch};
use crate::mechanisms::noisy_gradient::spread;
use crate::testing::LOSSES;
use halflit_convex::kernel::LatticeWeights;

/// Every combination that the mechanism supports: losses, units, changes, and what is public.
fn stories(rows: usize) -> Vec<Story> {
    let mut stories = Vec::new();
    for loss in LOSSES {
        for (by_user, zero_out) in [(false, false), (false, true), (true, false), (true, true)] {
            for public in [vec![], vec!["x", "u", "c"], vec!["x"], vec!["x", "y"]] {
                let public_rows = by_user != zero_out;
                stories.push(Story { by_user, public, zero_out, public_rows, ..Story::new(rows).loss(loss) });
            }
        }
    }
    stories
}

/// Every centre that the story allows, with the clip rule of `params`.
fn with_centres(story: &Story, params: &Params) -> Vec<Params> {
    let centres = [Centre::Zero, Centre::Midrange, Centre::Imputed, Centre::PublicMean, Centre::LastRelease];
    let with = |centre| Params { centre: Some(centre), ..params.clone() };
    let problem = story.problem();
    centres.map(with).into_iter().filter(|params| Plan::new(&problem, params, budget(1.0)).is_ok()).collect()
}

/// A common centre for the sums of a plan, far from zero: any public vector would do.
fn some_centre(plan: &Plan, size: usize) -> Option<Vec<i64>> {
    let length = lattice(plan).radius() as i64;
    plan.centre.is_common().then(|| (0..size as i64).map(|index| (index % 3 - 1) * (length / 2)).collect())
}

/// The clamped integer sum over some units of one story at some weights.
fn hidden_sum_of(story: &Story, plan: &Plan, seed: u64, batch: &HiddenBatch) -> Vec<i64> {
    let problem = story.problem();
    let layout = Layout::open(&problem, &key(), plan.split, plan.centre).unwrap();
    let passes = Passes::new(&layout, problem.encoding()).unwrap();
    let clamp = passes.clamp(lattice(plan).radius()).unwrap();
    let weights = LatticeWeights::new(&weights(&problem, seed), problem.loss().outputs()).unwrap();
    let centre = some_centre(plan, problem.dimension());
    passes.hidden(&clamp, &weights, unit_of(plan), centre.as_deref(), batch).unwrap()
}

fn hidden_sum(story: &Story, plan: &Plan, seed: u64) -> Vec<i64> {
    hidden_sum_of(story, plan, seed, &HiddenBatch::all())
}

/// The histogram of norms of one story at some weights, around a common centre if the plan has one.
fn norm_counts(story: &Story, plan: &Plan, whole: u64, centre: &[f64], batch: &HiddenBatch) -> Vec<i64> {
    let problem = story.problem();
    let layout = Layout::open(&problem, &key(), plan.split, plan.centre).unwrap();
    let passes = Passes::new(&layout, problem.encoding()).unwrap();
    let clamp = passes.clamp(lattice(plan).radius()).unwrap();
    let weights = LatticeWeights::new(&weights(&problem, 3), problem.loss().outputs()).unwrap();
    let centre = plan.centre.is_common().then_some(centre);
    passes.spread(&clamp, &weights, centre, batch, whole).unwrap().1
}

fn squared_distance(a: &[i64], b: &[i64]) -> u128 {
    a.iter().zip(b).map(|(a, b)| u128::from(a.abs_diff(*b)).pow(2)).sum()
}

/// The story with the sensitive cells of one unit changed.
fn neighbour(story: &Story) -> Story {
    let mut neighbour = story.clone();
    // A row whose owner did not consent: public rows are not protected.
    let chosen = (20..).find(|&row| story.cells.consent[row] != "yes").unwrap();
    let user = story.cells.user[chosen].clone();
    for row in 0..story.cells.user.len() {
        let changes = if story.by_user { story.cells.user[row] == user } else { row == chosen };
        if !changes {
            continue;
        }
        let is_sensitive = |column: &str| !story.public.contains(&column);
        if is_sensitive("x") {
            neighbour.cells.x[row] = -neighbour.cells.x[row];
        }
        if is_sensitive("u") {
            neighbour.cells.u[row] = 1.0 - neighbour.cells.u[row];
        }
        if is_sensitive("c") {
            neighbour.cells.c[row] = "d".to_owned();
        }
        if is_sensitive("y") {
            let other = story.cells.y.iter().find(|y| **y != story.cells.y[row]).unwrap();
            neighbour.cells.y[row] = other.clone();
        }
    }
    neighbour
}

#[test]
fn replacing_one_unit_moves_the_integer_sum_by_at_most_twice_the_radius() {
    for story in stories(60) {
        let neighbour = neighbour(&story);
        // A clip norm far below the gradients, so that the clamp is what keeps the bound.
        for params in [Params::default(), clipped_at(0.05)] {
            for params in with_centres(&story, &params) {
                let plan = plan(&story, &params);
                for seed in 1..3 {
                    let (one, other) = (hidden_sum(&story, &plan, seed), hidden_sum(&neighbour, &plan, seed));
                    let bound = 2 * u128::from(lattice(&plan).radius());
                    let distance = squared_distance(&one, &other);
                    assert!(distance <= bound * bound, "{} {:?} {:?}", story.loss, story.public, plan.centre);
                }
            }
        }
    }
}

#[test]
fn one_unit_alone_is_inside_the_radius() {
    // Zero-out: the sum with a unit minus the sum without it is that unit's contribution.
    for story in stories(40) {
        for params in [Params::default(), clipped_at(0.05)] {
            for params in with_centres(&story, &params) {
                let plan = plan(&story, &params);
                for unit in 0..8 {
                    let alone = hidden_sum_of(&story, &plan, 5, &HiddenBatch::only(vec![unit]));
                    let radius = u128::from(lattice(&plan).radius());
                    let length = squared_distance(&alone, &vec![0; alone.len()]);
                    assert!(length <= radius * radius, "{} {:?}", story.loss, plan.centre);
                }
            }
        }
    }
}

#[test]
fn one_unit_adds_one_to_one_bin_of_the_histogram_of_norms() {
    let whole = 1_000_003;
    let measured = Params { clip: Some(Clip::Quantile { level: 0.5 }), ..Params::default() };
    for story in stories(40) {
        let neighbour = neighbour(&story);
        for params in with_centres(&story, &measured) {
            let plan = plan(&story, &params);
            let centre = vec![0.3; story.problem().dimension()];
            let counts = |story: &Story, batch| norm_counts(story, &plan, whole, &centre, &batch);
            let mut one_by_one = vec![0; spread::BINS];
            for unit in 0..4 {
                let mut alone = counts(&story, HiddenBatch::only(vec![unit]));
                one_by_one.iter_mut().zip(&alone).for_each(|(sum, count)| *sum += count);
                alone.sort_unstable();
                let (most, others) = alone.split_last().unwrap();
                assert!(*most == whole as i64 && others.iter().all(|&count| count == 0), "{alone:?}");
            }
            assert_eq!(one_by_one, counts(&story, HiddenBatch::only((0..4).collect())));
            let (one, other) = (counts(&story, HiddenBatch::all()), counts(&neighbour, HiddenBatch::all()));
            let distance = squared_distance(&one, &other);
            assert!(distance <= 2 * u128::from(whole).pow(2), "{} {:?}", story.loss, plan.centre);
        }
    }
}

/// The bins are those of the vectors that are clamped: of whole users, reduced by the centre.
#[test]
fn histograms_are_of_what_will_be_clamped() {
    for (public, by_user) in
        [(vec![], false), (vec![], true), (vec!["x", "u", "c"], false), (vec!["x"], false), (vec!["x"], true)]
    {
        let story = Story { by_user, public, ..Story::new(60) };
        let problem = story.problem();
        for params in with_centres(&story, &clipped_at(1000.0)) {
            let plan = plan(&story, &params);
            let integers = some_centre(&plan, problem.dimension()).unwrap_or_default();
            let centre: Vec<f64> = integers.iter().map(|&c| c as f64 * unit_of(&plan)).collect();
            let weights = weights(&problem, 3);
            let size = |vector: &[f64]| vector.iter().map(|v| v * v).sum::<f64>().sqrt();
            let most = problem.loss().derivative_bound(size(&weights) * problem.row_norm_bound())
                * problem.row_norm_bound();
            let window = spread::Window::up_to(most + size(&centre));
            for unit in 0..8 {
                let batch = HiddenBatch::only(vec![unit]);
                let bin =
                    norm_counts(&story, &plan, 1, &centre, &batch).iter().position(|&c| c == 1).unwrap();
                let alone = hidden_sum_of(&story, &plan, 3, &batch);
                let squares: f64 = alone.iter().map(|&sum| (sum as f64 * unit_of(&plan)).powi(2)).sum();
                let expected = window.bin(squares);
                assert!(bin.abs_diff(expected) <= 1, "{:?} {unit}: {bin} {expected}", plan.centre);
            }
        }
    }
}

#[test]
fn hidden_and_known_parts_add_up_to_the_gradient() {
    // A clip norm that clips nothing.
    let params = |story: &Story| with_centres(story, &clipped_at(200.0));
    for (story, params) in
        stories(50).iter().flat_map(|story| params(story).into_iter().map(move |p| (story, p)))
    {
        let plan = plan(story, &params);
        if plan.centre.is_common() {
            // Its multiple of the number of units is added back in the run; see `every_centre_finds_the_same_minimizer`.
            continue;
        }
        let problem = story.problem();
        let layout = Layout::open(&problem, &key(), plan.split, plan.centre).unwrap();
        let passes = Passes::new(&layout, problem.encoding()).unwrap();
        let outputs = problem.loss().outputs();
        let lattice_weights = LatticeWeights::new(&weights(&problem, 9), outputs).unwrap();
        let clamp = passes.clamp(lattice(&plan).radius()).unwrap();
        let hidden =
            passes.hidden(&clamp, &lattice_weights, unit_of(&plan), None, &HiddenBatch::all()).unwrap();
        let known = passes.known(&lattice_weights, &KnownBatch::all()).unwrap();
        let expected = gradient(&problem, &lattice_weights.rounded());
        // Every coefficient is rounded by at most half a step, times a feature of at most 2^14 units.
        let rounding = layout.hidden.rows.len() as f64 * 0.5 * unit_of(&plan) / FEATURE_UNIT;
        for (index, expected) in expected.iter().enumerate() {
            let found = hidden[index] as f64 * unit_of(&plan) + known[index];
            let is_near = (found - expected).abs() < rounding + 1e-9;
            assert!(is_near, "{} {:?}: {found} {expected}", story.loss, story.public);
        }
    }
}

/// What is added back without noise.
#[test]
fn known_parts_do_not_see_sensitive_cells() {
    let known = |story: &Story, plan: &Plan| {
        let problem = story.problem();
        let layout = Layout::open(&problem, &key(), plan.split, plan.centre).unwrap();
        let passes = Passes::new(&layout, problem.encoding()).unwrap();
        let weights = LatticeWeights::new(&weights(&problem, 3), problem.loss().outputs()).unwrap();
        passes.known(&weights, &KnownBatch::all()).unwrap()
    };
    for story in stories(60) {
        let neighbour = neighbour(&story);
        for params in with_centres(&story, &Params::default()) {
            let plan = plan(&story, &params);
            let (one, other) = (known(&story, &plan), known(&neighbour, &plan));
            assert_eq!(one, other, "{} {:?} {:?}", story.loss, story.public, plan.centre);
        }
    }
}

#[test]
fn sums_do_not_depend_on_the_number_of_threads() {
    for story in [Story::new(3000), Story { by_user: true, public: vec!["x"], ..Story::new(3000) }] {
        let plan = plan(&story, &Params::default());
        let on = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| hidden_sum(&story, &plan, 3))
        };
        let one = on(1);
        assert_eq!(one, on(2));
        assert_eq!(one, on(7));
    }
}
