use super::answerer::{Answer, Answerer, Secret};
use super::*;
use crate::ledger::Ledger;
use crate::plan::{Plans, Request};
use crate::testing::{Numbers, Story, seeded};
use halflit_convex::kernel::{PlainQuery, VectorQuery};
use halflit_privacy::{Delta, Epsilon, Event, Profile};

fn budget(epsilon: f64) -> Budget {
    Budget { epsilon: Epsilon::new(epsilon).unwrap(), delta: Delta::new(1e-6).unwrap() }
}

/// A query made of a function of row and value.
struct Query<F> {
    dimension: usize,
    values: usize,
    vector: F,
}

impl<F: Fn(usize, usize) -> Vec<f64> + Sync> VectorQuery for Query<F> {
    fn dimension(&self) -> usize {
        self.dimension
    }

    fn fill(&self, row: usize, values: &mut [f64]) {
        for value in 0..self.values {
            values[value * self.dimension..][..self.dimension].copy_from_slice(&(self.vector)(row, value));
        }
    }
}

fn settings(rate: f64, threshold: f64, max_updates: u64) -> Settings {
    Settings { rate, truncation: 3.0, threshold, size_floor: threshold / 2.0, vector_bound: 1.0, max_updates }
}

fn answerer(settings: Settings, epsilon: f64, mu: f64, secret: &[u16], values: usize, seed: u8) -> Answerer {
    let beliefs = Beliefs::uniform(secret.len(), values);
    let (test, answer) =
        (TestNoise::new(epsilon).unwrap(), AnswerNoise::new(mu, secret.len() as u64).unwrap());
    let stream = seeded(seed).stream().unwrap();
    Answerer::new(settings, test, answer, beliefs, Secret(secret.to_vec()), stream).unwrap()
}

/// Asks and returns how far the answer is from the truth; none on FAIL.
fn error_of<F: Fn(usize, usize) -> Vec<f64> + Sync>(
    answerer: &mut Answerer,
    query: &Query<F>,
    secret: &[u16],
) -> Option<f64> {
    let plain = PlainQuery::new(query, secret.len(), query.values);
    let answer = answerer.ask(&plain).unwrap().mean()?;
    let mut truth = vec![0.0; query.dimension];
    for (row, &value) in secret.iter().enumerate() {
        for (sum, x) in truth.iter_mut().zip((query.vector)(row, usize::from(value))) {
            *sum += x / secret.len() as f64;
        }
    }
    Some(truth.iter().zip(&answer).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt())
}

/// The bound of the proof of Theorem 13: an answer is off by less than tau + chi - nu. With probability 1 - 1e-7 no Laplace variable of T
/// queries and L blocks exceeds its scale times ln((T + L)/1e-7), so that the bound below fails with probability 1e-7 at most.
fn stated_error(settings: &Settings, epsilon: f64, diameter: f64, rows: usize, queries: u64) -> f64 {
    let tail = ((queries + settings.max_updates) as f64 / 1e-7).ln();
    settings.threshold + 6.0 / epsilon * tail * diameter / rows as f64
}

/// Appendix C: row i in group g, value y: the unit vector number (g, y). The hardest queries there are.
#[test]
fn answers_on_the_hard_instance_are_within_the_stated_accuracy() {
    let (groups, copies, k) = (24, 40, 8);
    let rows = groups * copies;
    let mut numbers = Numbers(11);
    let values: Vec<u16> = (0..groups).map(|_| (numbers.next() * k as f64) as u16).collect();
    let secret: Vec<u16> = (0..rows).map(|row| values[row / copies]).collect();
    let vector = |row: usize, value: usize| {
        let mut vector = vec![0.0; groups * k];
        vector[row / copies * k + value] = 1.0;
        vector
    };
    let query = Query { dimension: groups * k, values: k, vector };
    let settings = settings(2.0, 0.08, 60);
    let epsilon = 2.0;
    let mut answerer = answerer(settings, epsilon, 1.0, &secret, k, 1);
    let before = 0.5 * (1.0 / groups as f64).sqrt();
    for _ in 0..5 {
        let error = error_of(&mut answerer, &query, &secret).expect("60 updates are enough");
        assert!(error <= stated_error(&settings, epsilon, 2f64.sqrt(), rows, 5), "{error}");
        assert!(error < before, "{error}");
    }
    assert!(answerer.updates() > 0);
    // Asked again, the beliefs know: no further update.
    let updates = answerer.updates();
    error_of(&mut answerer, &query, &secret).unwrap();
    assert_eq!(answerer.updates(), updates);
}

#[test]
fn random_queries_are_answered_within_the_stated_accuracy() {
    let (rows, k, d) = (600usize, 5usize, 3usize);
    let secret: Vec<u16> = (0..rows).map(|row| ((row * row) % k) as u16).collect();
    let settings = settings(0.3, 0.1, 150);
    let epsilon = 1.5;
    let mut answerer = answerer(settings, epsilon, 0.5, &secret, k, 2);
    let mut answered = 0;
    for t in 0..120usize {
        // unit vectors whose direction depends on row, value and t
        let vector = move |row: usize, value: usize| {
            let mut numbers = Numbers((t * 7 + value * 13 + (row % 4) * 29) as u64 + 1);
            let raw: Vec<f64> = (0..d).map(|_| numbers.next() - 0.3).collect();
            let norm = raw.iter().map(|x| x * x).sum::<f64>().sqrt().max(1e-9);
            raw.iter().map(|x| x / norm).collect()
        };
        let Some(error) = error_of(&mut answerer, &Query { dimension: d, values: k, vector }, &secret) else {
            break;
        };
        answered += 1;
        assert!(error <= stated_error(&settings, epsilon, 2.0, rows, 120), "{error}");
    }
    assert!(answered >= 100 && answerer.updates() > 0, "{answered} {}", answerer.updates());
}

/// Lemma 16 and Theorem 15: with little noise every update lowers the potential by eta^2, so there are fewer than ln k / eta^2.
#[test]
fn updates_lower_the_potential_as_lemma_16_says() {
    let (rows, k) = (400usize, 8usize);
    let secret: Vec<u16> = (0..rows).map(|row| ((row / 7) % k) as u16).collect();
    // tau - 2 eta >= (2 c^2 + 7) eta = 25 eta: Condition 14 (i) up to the test's tiny noise
    let eta = 0.02;
    let settings = Settings { size_floor: eta, ..settings(eta, 27.0 * eta, 20_000) };
    let mut answerer = answerer(settings, 500.0, 40.0, &secret, k, 3);
    let potential = |answerer: &Answerer| -> f64 {
        let own = |row: usize| -answerer.beliefs().probabilities(row)[usize::from(secret[row])].ln();
        (0..rows).map(own).sum::<f64>() / rows as f64
    };
    let (mut before, mut seen) = (potential(&answerer), 0);
    assert!((before - (k as f64).ln()).abs() < 1e-6);
    for t in 0..40usize {
        let vector = move |row: usize, value: usize| {
            let mut vector = vec![0.0; 4];
            vector[(row + t) % 4] = if value == (row / 7 + t / 10) % k { 1.0 } else { -0.3 };
            vector
        };
        let query = Query { dimension: 4, values: k, vector };
        error_of(&mut answerer, &query, &secret).unwrap();
        let after = potential(&answerer);
        let updates = answerer.updates() - seen;
        assert!(
            before - after >= updates as f64 * eta * eta - 1e-6,
            "query {t}: {updates} updates, {before} to {after}"
        );
        (before, seen) = (after, answerer.updates());
    }
    let bound = (k as f64).ln() / (eta * eta);
    assert!(seen > 10 && (seen as f64) < bound, "{seen} {bound}");
}

#[test]
fn fail_is_an_ordinary_outcome() {
    let secret = [3u16; 50];
    let query =
        Query { dimension: 1, values: 4, vector: |_, value| vec![if value == 3 { 1.0 } else { -1.0 }] };
    let mut answerer = answerer(settings(0.01, 0.05, 2), 50.0, 5.0, &secret, 4, 4);
    let plain = PlainQuery::new(&query, 50, 4);
    assert_eq!(answerer.ask(&plain).unwrap(), Answer::Fail);
    assert!(answerer.has_failed() && answerer.updates() == 2 && answerer.answered() == 0);
    let beliefs = answerer.beliefs().clone();
    assert_eq!(answerer.ask(&plain).unwrap(), Answer::Fail);
    assert_eq!((answerer.updates(), answerer.beliefs()), (2, &beliefs));
}

#[test]
fn a_query_that_ignores_the_secret_is_answered_exactly_and_costs_nothing() {
    let secret: Vec<u16> = (0..30).map(|row| row % 3).collect();
    let query = Query { dimension: 2, values: 3, vector: |row, _| vec![row as f64 / 64.0, -0.25] };
    // A threshold of nearly zero: any test would fail this.
    let mut answerer = answerer(settings(1.0, 1e-9, 1), 1e-3, 0.1, &secret, 3, 5);
    for _ in 0..50 {
        let error = error_of(&mut answerer, &query, &secret).unwrap();
        assert!(error < 1e-9, "{error}");
    }
    assert_eq!((answerer.updates(), answerer.answered()), (0, 50));
}

/// The published statements: PLD below our zCDP below the paper's, at the same noise.
#[test]
fn the_accountant_is_below_the_papers_price() {
    for (epsilon, blocks) in [(0.5, 1), (1.0, 10), (4.0, 100)] {
        let (test, answer) = choose::online_noise(budget(epsilon), blocks, 10_000).unwrap();
        let delta = Delta::new(1e-6).unwrap();
        let of = |event: &Event| Profile::of(event).unwrap().epsilon(delta).upper;
        let event = noise::block_event(&test, &answer, blocks).unwrap();
        let zcdp = of(&Event::Zcdp { rho: zcdp_rho(&test, &answer, blocks).unwrap() });
        let paper = of(&Event::Zcdp { rho: paper_rho(&test, &answer, blocks).unwrap() });
        let own = of(&event);
        assert!(own <= epsilon && own > 0.99 * epsilon, "{own}");
        assert!(own < zcdp && zcdp < paper, "{own} {zcdp} {paper}");
        // the paper's conversion (Lemma 9 ii) is looser still
        let rho = paper_rho(&test, &answer, blocks).unwrap().get();
        assert!(paper < rho + 2.0 * (rho * (1e6f64).ln()).sqrt());
        // Charged block by block: half the blocks cost less.
        if blocks > 1 {
            assert!(of(&noise::block_event(&test, &answer, blocks / 2).unwrap()) < 0.8 * own);
        }
    }
}

#[test]
fn the_papers_parameters_are_the_papers() {
    let settings = choose::paper_settings(1_000_000_000_000, 10, 1_000, 0.05, 1e-3, 1.0);
    let (n, log_k) = (1e12f64, 10f64.ln());
    let eta = settings.rate;
    let bound =
        1000.0 * (log_k / 0.05).powf(0.25) * (n * 1e3 * log_k / (0.05 * 1e-3 * eta)).ln().sqrt() / n.sqrt();
    assert!(eta > bound && eta < bound * (1.0 + 1e-9), "{eta} {bound}");
    assert!(eta < 0.1, "not vacuous at n = 1e12");
    assert_eq!((settings.threshold, settings.truncation), (16.0 * eta.next_down(), 3.0));
    assert_eq!(settings.max_updates, 1 + (log_k / (eta * eta)).floor() as u64);
    // Vacuous at any real n, and still a valid plan.
    assert!(choose::paper_settings(100_000, 10, 1_000, 0.05, 1e-3, 1.0).rate > 10.0);
    let story = Story { public: vec!["x", "u", "c"], ..Story::new(200) };
    let params = Params { variant: Variant::Online, choice: Choice::Paper { failure: 0.01 } };
    let plan = Plan::new(&story.problem(), &params, budget(1.0)).unwrap();
    assert_eq!(plan.settings().unwrap().max_updates, 1);
    plan.statement(&story.problem()).check().unwrap();
}

// ---- the audit ----

/// Upper and lower bounds on a probability from hits in n trials, each wrong with probability at most alpha: the Chernoff bound
/// n KL(hits/n, p) = ln(1/alpha).
fn probability_bounds(hits: u64, trials: u64, alpha: f64) -> (f64, f64) {
    let (seen, n) = (hits as f64 / trials as f64, trials as f64);
    let term = |a: f64, b: f64| if a == 0.0 { 0.0 } else { a * (a / b).ln() };
    let excess = |p: f64| n * (term(seen, p) + term(1.0 - seen, 1.0 - p)) > (1.0 / alpha).ln();
    let search = |mut inside: f64, mut outside: f64| {
        for _ in 0..60 {
            let middle = 0.5 * (inside + outside);
            if excess(middle) { outside = middle } else { inside = middle }
        }
        outside
    };
    (search(seen, 0.0), search(seen, 1.0))
}

/// The largest epsilon that the runs prove, at the given delta: over both directions and a fixed list of half-lines.
fn proven_epsilon(one: &[f64], other: &[f64], delta: f64) -> f64 {
    let thresholds: Vec<f64> = (-40..=40).map(|i| f64::from(i) / 4.0).collect();
    // 81 half-lines, 2 sides, 2 directions, 2 bounds each: together wrong with probability 1e-6
    let alpha = 1e-6 / (81.0 * 8.0);
    let mut best = 0.0f64;
    for threshold in thresholds {
        for above in [true, false] {
            let count =
                |values: &[f64]| values.iter().filter(|&&value| (value > threshold) == above).count() as u64;
            let (a, b) = (count(one), count(other));
            for (likely, unlikely) in [(a, b), (b, a)] {
                let low = probability_bounds(likely, one.len() as u64, alpha).0 - delta;
                let high = probability_bounds(unlikely, one.len() as u64, alpha).1;
                if low > 0.0 {
                    best = best.max((low / high).ln());
                }
            }
        }
    }
    best
}

/// Many runs on two tables that differ in one sensitive cell; what is seen of a run is a number: the changed row's belief, and how
/// many updates there were.
fn audit(test: TestNoise, answer: AnswerNoise, runs: u64, of_updates: bool) -> (Vec<f64>, Vec<f64>) {
    let settings = Settings {
        rate: 1.0,
        truncation: 8.0,
        threshold: 0.6,
        size_floor: 0.1,
        vector_bound: 1.0,
        max_updates: 2,
    };
    let query =
        Query { dimension: 1, values: 2, vector: |_, value| vec![if value == 0 { 1.0 } else { -1.0 }] };
    let plain = PlainQuery::new(&query, 2, 2);
    let mut source = NoiseSource::seeded_for_tests([9; 32]);
    let mut run = |secret: [u16; 2]| {
        let beliefs = Beliefs::uniform(2, 2);
        let mut answerer =
            Answerer::new(settings, test, answer, beliefs, Secret(secret.to_vec()), source.stream().unwrap())
                .unwrap();
        for _ in 0..3 {
            answerer.ask(&plain).unwrap();
        }
        if of_updates {
            return answerer.updates() as f64 - 0.5;
        }
        let belief = answerer.beliefs().probabilities(0);
        (belief[0] / belief[1]).ln() + if answerer.updates() == 0 { 0.1 } else { 0.0 }
    };
    (0..runs).map(|_| (run([0, 0]), run([1, 0]))).unzip()
}

#[test]
fn many_runs_never_prove_more_than_was_charged() {
    let (runs, delta) = (8_000, 1e-3);
    let (test, answer) = (TestNoise::new(0.4).unwrap(), AnswerNoise::new(0.4, 2).unwrap());
    let event = noise::block_event(&test, &answer, 2).unwrap();
    let claimed = Profile::of(&event).unwrap().epsilon(Delta::new(delta).unwrap()).upper;
    for of_updates in [false, true] {
        let (one, other) = audit(test, answer, runs, of_updates);
        let proven = proven_epsilon(&one, &other, delta);
        assert!(proven <= claimed, "{proven} is proven, {claimed} was charged");
    }
    // Power: noise eight times too small, priced as before, is caught; so is a test without its share of noise.
    let broken = AnswerNoise { radius: 8 * answer.radius, ..answer };
    let (one, other) = audit(test, broken, runs, false);
    let proven = proven_epsilon(&one, &other, delta);
    assert!(proven > claimed, "{proven} {claimed}");
    let broken = TestNoise { threshold_steps: 100 * test.threshold_steps, ..test };
    let (one, other) = audit(broken, answer, runs, true);
    let proven = proven_epsilon(&one, &other, delta);
    assert!(proven > claimed, "{proven} {claimed}");
}

// ---- plans and runs ----

fn stories(rows: usize) -> Vec<Story> {
    vec![
        Story { public: vec!["x", "u", "c"], epsilon: 8.0, ..Story::new(rows) },
        Story { public: vec!["x", "u", "y"], epsilon: 8.0, ..Story::new(rows) },
        Story { public: vec!["x", "u"], epsilon: 8.0, public_rows: true, ..Story::new(rows) },
        Story { public: vec!["x", "u", "c"], epsilon: 8.0, ..Story::new(rows).loss("softmax") },
        Story { public: vec!["x", "u", "y"], epsilon: 8.0, ..Story::new(rows).loss("squared") },
        Story { public: vec!["x", "u", "c"], epsilon: 8.0, ..Story::new(rows).loss("hinge") },
    ]
}

/// The mean loss of weights on the story's own cells: for the test's eyes only.
#[expect(clippy::disallowed_methods, reason = "tests measure the loss that no release may show")]
fn true_loss(problem: &Problem, weights: &[f64]) -> f64 {
    let key = Unsealed::charge_was_recorded();
    let rows = problem.encoded().private_rows().open(&key);
    let labels = problem.encoded().private_labels().open(&key);
    let width = rows.width();
    let own = |row: usize| {
        let cells = rows.dense_row(row).unwrap();
        let score = |w: &[f64]| w.iter().zip(&cells).map(|(w, &q)| w * f64::from(q) / 16384.0).sum::<f64>();
        let scores: Vec<f64> = weights.chunks(width).map(score).collect();
        problem.loss().value(&scores, labels[row])
    };
    (0..rows.len()).map(own).sum::<f64>() / rows.len() as f64
}

#[test]
fn both_variants_plan_run_learn_and_verify() {
    for story in stories(1_500) {
        for name in [NAME, CENTRED_NAME] {
            let request = Request { mechanism: Some(name.to_owned()), ..Request::default() };
            let plan = Plans::new(story.problem(), &request).unwrap().best().unwrap();
            assert_eq!(plan.mechanism_name(), name);
            assert!(plan.epsilon().upper <= story.epsilon && plan.epsilon().upper > 0.98 * story.epsilon);
            let folder = tempfile::tempdir().unwrap();
            let mut ledger = Ledger::open_or_create(&folder.path().join("ledger")).unwrap();
            let output = ledger.charge(plan).unwrap().run(&mut seeded(6), &mut ()).unwrap();
            let weights = output.fitted.weights.clone();
            let problem = story.problem();
            let (trained, zero) =
                (true_loss(&problem, &weights), true_loss(&problem, &vec![0.0; weights.len()]));
            assert!(trained < zero, "{name} {} {:?}: {trained} {zero}", story.loss, story.public);
            let release = output.release(&ledger.overview().unwrap().accounts).unwrap();
            let read: crate::Certificate = serde_json::from_str(&release.certificate_json).unwrap();
            assert_eq!(read, release.certificate);
            assert_eq!(read.event, read.mechanism.event().unwrap());
            read.mechanism.check().unwrap();
            assert!(read.hyperparameters.contains("rehearsal"));
        }
    }
}

/// The label follows the secret in seven rows of eight: 0.38 of mean loss with the secret, 0.66 without it. A rehearsal in which secrets happen to matter little
/// must not lead to parameters that cannot learn this.
#[test]
fn a_secret_that_matters_more_than_expected_is_learned() {
    for rows in [3_000, 3_001, 3_002] {
        let mut story = Story { public: vec!["x", "u", "y"], epsilon: 2.0, ..Story::new(rows) };
        for row in 0..rows {
            let follows = !row.is_multiple_of(8);
            let is_yes = (story.cells.c[row] == "a") == follows;
            story.cells.y[row] = if is_yes { "yes" } else { "no" }.to_owned();
        }
        for name in [NAME, CENTRED_NAME] {
            let request = Request { mechanism: Some(name.to_owned()), ..Request::default() };
            let plan = Plans::new(story.problem(), &request).unwrap().best().unwrap();
            let folder = tempfile::tempdir().unwrap();
            let mut ledger = Ledger::open_or_create(&folder.path().join("ledger")).unwrap();
            let output = ledger.charge(plan).unwrap().run(&mut seeded(8), &mut ()).unwrap();
            let loss = true_loss(&story.problem(), &output.fitted.weights);
            assert!(loss < 0.45, "{name} {rows}: {loss}");
        }
    }
}

#[test]
fn certificates_verify_and_forged_noise_does_not() {
    let story = Story { public: vec!["x", "u", "c"], ..Story::new(80) };
    for name in [NAME, CENTRED_NAME] {
        let request = Request { mechanism: Some(name.to_owned()), ..Request::default() };
        let plan = Plans::new(story.problem(), &request).unwrap().best().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::open_or_create(&folder.path().join("ledger")).unwrap();
        let output = ledger.charge(plan).unwrap().run(&mut NoiseSource::from_os().unwrap(), &mut ()).unwrap();
        let release = output.release(&ledger.overview().unwrap().accounts).unwrap();
        let read: crate::Certificate = serde_json::from_str(&release.certificate_json).unwrap();
        read.verify().unwrap();
        let crate::mechanisms::Statement::BeliefUpdates(honest) = &read.mechanism else { panic!("{name}") };
        let forgeries: [fn(&mut Statement); 6] = [
            |s| s.rows = 1 << 50,
            |s| s.answer.radius = 0,
            |s| s.answer.bits = 60,
            |s| s.change = Change::ZeroOut,
            |s| s.values = 1,
            |s| match &mut s.releases {
                Releases::Online { zcdp_rho, .. } => *zcdp_rho *= 0.9,
                Releases::Centred { centring } => centring.trust = 2.0,
            },
        ];
        for forge in forgeries {
            let mut forged = honest.clone();
            forge(&mut forged);
            assert!(forged.check().is_err(), "{forged:?}");
        }
        // Less noise is another event.
        let mut forged = honest.clone();
        forged.answer.radius *= 2;
        assert_ne!(forged.event().unwrap(), read.event);
    }
}

#[test]
fn neighbours_get_the_same_plan() {
    let story = Story { public: vec!["x", "u", "y"], ..Story::new(300) };
    let mut neighbour = story.clone();
    neighbour.cells.c[7] = if story.cells.c[7] == "a" { "b" } else { "a" }.to_owned();
    for variant in [Variant::Online, Variant::Centred] {
        let params = Params { variant, choice: Choice::Rehearsed };
        let plan = |story: &Story| {
            let problem = story.problem();
            Plan::new(&problem, &params, budget(1.0)).unwrap().statement(&problem)
        };
        assert_eq!(plan(&story), plan(&neighbour));
    }
}

#[test]
fn one_charge_solves_many_problems_and_answers_queries() {
    let story = Story { public: vec!["x", "u", "c"], epsilon: 6.0, ..Story::new(2_000) };
    let charged = |folder: &tempfile::TempDir, mechanism: &str| {
        let request = Request { mechanism: Some(mechanism.to_owned()), ..Request::default() };
        let plan = Plans::new(story.problem(), &request).unwrap().best().unwrap();
        Ledger::open_or_create(&folder.path().join("ledger")).unwrap().charge(plan).unwrap()
    };
    let folder = tempfile::tempdir().unwrap();
    let mut online = charged(&folder, NAME).online(&mut seeded(8)).unwrap();
    let problem = story.problem();
    let optimizer = Optimizer::Momentum { steps: 40, step_size: 0.3, momentum: 0.5 };
    let task = |regularization: f64| Task { loss: problem.loss(), regularization, radius: None, optimizer };
    let solutions = online.solve_many(&[task(0.0), task(0.01), task(0.1)], &mut ()).unwrap();
    assert_eq!(solutions.len(), 3);
    let zero = true_loss(&problem, &vec![0.0; problem.dimension()]);
    for solution in &solutions {
        assert!(solution.status != Status::Finished || true_loss(&problem, &solution.weights) < zero);
    }
    let norm = |weights: &[f64]| weights.iter().map(|w| w * w).sum::<f64>();
    assert!(norm(&solutions[0].weights) > norm(&solutions[2].weights));
    let constant = Query { dimension: 1, values: online.domain().len(), vector: |_, _| vec![0.5] };
    match online.ask(&constant).unwrap() {
        Answer::Mean(mean) => assert!((mean[0] - 0.5).abs() < 1e-9),
        Answer::Fail => assert!(online.has_failed()),
    }
    // The other variant has no answerer, and a rehearsal's numbers are refused.
    let folder = tempfile::tempdir().unwrap();
    let error = charged(&folder, CENTRED_NAME).online(&mut seeded(8)).unwrap_err();
    assert!(matches!(error, MechanismError::NotOnline { .. }));
    let folder = tempfile::tempdir().unwrap();
    let mut rehearsed = halflit_noise::RehearsalSource::from_public_digest([1; 32]);
    let error = charged(&folder, NAME).online(rehearsed.lend()).unwrap_err();
    assert!(matches!(error, MechanismError::RehearsalNoise));
}

#[test]
fn what_beliefs_cannot_hold_is_refused_by_name() {
    let refused = |story: Story| domain_of(&story.problem()).unwrap_err();
    let number = refused(Story { public: vec!["x", "y"], ..Story::new(50) });
    assert!(matches!(&number, MechanismError::SensitiveNumber { column } if column == "u"), "{number}");
    assert!(number.to_string().contains("u is a number"));
    let label = refused(Story { public: vec!["x", "u", "c"], ..Story::new(50).loss("squared") });
    assert!(matches!(&label, MechanismError::SensitiveNumber { column } if column == "y"), "{label}");
    assert!(matches!(refused(Story::new(50)), MechanismError::NoPublicFeature));
    let users = Story { by_user: true, public: vec!["x", "u", "c"], ..Story::new(50) };
    assert!(matches!(refused(users), MechanismError::BeliefRelation));
    let zero_out = Story { zero_out: true, public: vec!["x", "u", "c"], ..Story::new(50) };
    assert!(matches!(refused(zero_out), MechanismError::BeliefRelation));
    // Asked for by name, the reason is told; otherwise the mechanism stays silent.
    let story = || Story { public: vec!["x", "y"], ..Story::new(50) };
    let request = Request { mechanism: Some(NAME.to_owned()), ..Request::default() };
    assert!(Plans::new(story().problem(), &Request::default()).is_ok());
    assert!(Plans::new(story().problem(), &request).is_err());
}

/// The values found in the data are the values that the domain lists: decoding inverts encoding.
#[test]
#[expect(clippy::disallowed_methods, reason = "tests look at the values themselves")]
fn every_row_has_the_value_that_fills_its_coordinates() {
    for story in stories(200) {
        let problem = story.problem();
        let domain = SensitiveDomain::of(&problem).unwrap();
        let key = Unsealed::charge_was_recorded();
        let secret = Secret(domain.private_positions(&problem, &key).unwrap());
        let rows = problem.encoded().private_rows().open(&key);
        let labels = problem.encoded().private_labels().open(&key);
        let is_sensitive = problem.encoding().sensitive_coordinates();
        for (row, &value) in secret.0.iter().enumerate() {
            let mut expected = vec![0i16; rows.width()];
            domain.values().shift(usize::from(value)).iter().for_each(|&(at, q)| expected[at as usize] = q);
            for (at, cell) in rows.dense_row(row).unwrap().into_iter().enumerate() {
                assert_eq!(if is_sensitive[at] { cell } else { 0 }, expected[at]);
            }
            if let Some(values) = domain.values().labels() {
                assert_eq!(values[usize::from(value)], labels[row]);
            }
        }
    }
}
