use super::*;
use crate::Ledger;
use crate::release::{Numerics, VerifyError};
use crate::testing::{Numbers, seeded};
use halflit_table::{Column, OutOfDomain, Protection, Table};

/// Two-sided normal critical value: alpha = 1.2e-7 for each comparison.
const CRITICAL: f64 = 5.3;

/// How a table is declared.
#[derive(Clone, Copy)]
struct Story {
    by_user: bool,
    zero_out: Option<u64>,
    public_rows: bool,
    public_age: bool,
    /// Private cells change sign.
    flip: bool,
}

const ROWS: Story =
    Story { by_user: false, zero_out: None, public_rows: true, public_age: false, flip: false };

impl Story {
    /// Rows of x and y around `centre` (within `spread`, in [-1, 1] units), every fourth of them public; two rows per user.
    fn values(self, rows: usize, centre: f64, spread: f64) -> Values {
        let unit = if self.by_user { "unit = 'user', user = 'user'" } else { "unit = 'row'" };
        let change = self.zero_out.map_or(String::new(), |units| {
            format!(", change = 'zero-out', {} = {units}", if self.by_user { "users" } else { "rows" })
        });
        let selector =
            if self.public_rows { ", public_rows = { column = 'open', equals = 'yes' }" } else { "" };
        let visibility = if self.public_age { ", visibility = 'public'" } else { "" };
        let text = format!(
            "budget = {{ epsilon = 1.0, delta = 1e-6 }}\nprotect = {{ {unit}{change}{selector} }}\n[columns]\n\
             user = {{ visibility = 'public', use = false }}\nopen = {{ visibility = 'public', use = false }}\n\
             x = {{ bounds = [0, 10] }}\ny = {{ bounds = [-1, 1] }}\nage = {{ bounds = [0, 100]{visibility} }}\n"
        );
        let protection = Protection::parse(&text, "privacy.toml").unwrap_or_else(|error| panic!("{error}"));
        let mut numbers = Numbers(5);
        let is_public = |row: usize| (row / 2).is_multiple_of(4);
        let mut cell = |row: usize| {
            let cell = centre + spread * (2.0 * numbers.next() - 1.0);
            if self.flip && !is_public(row) { -cell } else { cell }
        };
        let (x, y): (Vec<f64>, Vec<f64>) = (0..rows).map(|row| (5.0 + 5.0 * cell(row), cell(row))).unzip();
        let texts = |text: &dyn Fn(usize) -> String| Column::Text((0..rows).map(text).collect());
        let table = Table::from_columns(vec![
            ("user".to_owned(), texts(&|row| (row / 2).to_string())),
            ("open".to_owned(), texts(&|row| if is_public(row) { "yes" } else { "no" }.to_owned())),
            ("x".to_owned(), Column::Numbers(x)),
            ("y".to_owned(), Column::Numbers(y)),
            ("age".to_owned(), Column::Numbers((0..rows).map(|row| (row % 101) as f64).collect())),
        ])
        .unwrap();
        let names: &[&str] = if self.public_age { &["x", "y", "age"] } else { &["x", "y"] };
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let chosen = Values::choose(&protection, &names).unwrap();
        Values::bind(protection, chosen, &table, OutOfDomain::Refuse).unwrap()
    }
}

fn request(variant: Variant, noise: NoiseLaw) -> MeanRequest {
    MeanRequest { budget: None, variant: Some(variant), noise: Some(noise) }
}

fn run(plan: MeanPlan, seed: u8) -> MeanOutput {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = Ledger::open_or_create(&folder.path().join("ledger")).unwrap();
    let output = ledger.charge(plan).unwrap().run(&mut seeded(seed)).unwrap();
    assert_eq!(ledger.overview().unwrap().charges.len(), 1);
    output
}

const LAWS: [NoiseLaw; 2] = [NoiseLaw::Gaussian, NoiseLaw::Laplace];
const NOISY: [(Variant, NoiseLaw); 5] = [
    (Variant::Gaussian, NoiseLaw::Gaussian),
    (Variant::Weighted, NoiseLaw::Gaussian),
    (Variant::Weighted, NoiseLaw::Laplace),
    (Variant::CentredWeighted, NoiseLaw::Gaussian),
    (Variant::CentredWeighted, NoiseLaw::Laplace),
];

#[test]
fn replace_is_priced_as_twice_the_radius_and_zero_out_as_once() {
    for law in LAWS {
        let multiplier = |zero_out: Option<u64>| {
            let values = Story { zero_out, ..ROWS }.values(400, 0.0, 0.5);
            let plan = MeanPlans::new(values, &request(Variant::Weighted, law)).unwrap().best().unwrap();
            assert!(plan.epsilon().upper <= 1.0 && plan.epsilon().upper > 0.999, "{:?}", plan.epsilon());
            plan.statement().noise.unwrap().noise_multiplier
        };
        let ratio = multiplier(None) / multiplier(Some(300));
        assert!((ratio - 2.0).abs() < 1e-3, "{law:?}: {ratio}");
    }
}

#[test]
fn the_sensitivity_is_what_two_extreme_units_move() {
    // The same design and the same noise on two neighbours: the released sums differ by at most 2C, and opposite corners reach it.
    let width = 2;
    let public: Vec<f64> = (0..20).map(|i| f64::from(i % 5) / 10.0 - 0.2).collect();
    let setting =
        Setting { units: 3, public: &public, width, l2_radius: 2f64.sqrt(), l1_radius: 2.0, variance: None };
    for (variant, law) in NOISY {
        let design = setting.design(variant, law, 0.5).unwrap().unwrap();
        let total = |unit: [f64; 2]| {
            let units = [[0.3, -0.2], [-0.1, 0.9], unit];
            let mut stream = seeded(8).stream().unwrap();
            let estimate = design.estimate(&mut stream, |each| units.iter().for_each(|unit| each(unit)));
            estimate.iter().map(|x| x / design.weight).collect::<Vec<f64>>()
        };
        let distance = |a: [f64; 2], b: [f64; 2]| {
            let differences = total(a).into_iter().zip(total(b)).map(|(a, b)| a - b);
            match law {
                NoiseLaw::Gaussian => differences.map(|x| x * x).sum::<f64>().sqrt(),
                NoiseLaw::Laplace => differences.map(f64::abs).sum(),
            }
        };
        // Beyond the bounds, too: the clamp does not rely on the encoding.
        let far = [
            [9.0, 9.0],
            [-9.0, -9.0],
            [f64::INFINITY, -4.0],
            [f64::NAN, f64::NAN],
            [-1.0, 1.0],
            [1e300, -1e300],
        ];
        let mut largest: f64 = 0.0;
        for a in far {
            for b in far {
                largest = largest.max(distance(a, b));
            }
        }
        let bound = 2.0 * design.clip_norm;
        assert!(largest <= bound * (1.0 + 1e-9), "{variant:?} {law:?}: {largest} {bound}");
        assert!(largest >= 0.99 * bound, "{variant:?} {law:?}: {largest} {bound}");
    }
}

#[test]
fn users_move_a_mean_no_more_than_rows() {
    for zero_out in [None, Some(150)] {
        let story = Story { by_user: true, zero_out, ..ROWS };
        let values = story.values(400, 0.0, 0.5);
        assert_eq!(values.facts().private_units, 150);
        let plan =
            MeanPlans::new(values, &request(Variant::Weighted, NoiseLaw::Gaussian)).unwrap().best().unwrap();
        let by_row = Story { zero_out: zero_out.map(|_| 300), ..ROWS }.values(400, 0.0, 0.5);
        let row_plan =
            MeanPlans::new(by_row, &request(Variant::Weighted, NoiseLaw::Gaussian)).unwrap().best().unwrap();
        assert_eq!(plan.event, row_plan.event, "one unit, one contribution of the same radius");
    }
}

#[test]
fn estimates_are_unbiased_and_as_noisy_as_predicted() {
    // Hypotheses: the released mean of x has the mean of the exact weighted mean, and noise of the stated deviation. 4,000 releases, |z| < 5.3.
    const RELEASES: usize = 4000;
    let public: Vec<f64> = (0..60).map(|i| f64::from(i % 7) / 14.0).collect();
    let units: Vec<[f64; 2]> =
        (0..50).map(|i| [f64::from(i) / 100.0, 0.25 - f64::from(i % 5) / 50.0]).collect();
    let setting = Setting {
        units: 50,
        public: &public,
        width: 2,
        l2_radius: 2f64.sqrt(),
        l1_radius: 2.0,
        variance: None,
    };
    for (seed, (variant, law)) in (40u8..).zip(NOISY) {
        let design = setting.design(variant, law, 3.0).unwrap().unwrap();
        let mut stream = seeded(seed).stream().unwrap();
        let clipped = |unit: &[f64; 2]| {
            let y: Vec<f64> = unit.iter().zip(&design.centre).map(|(x, c)| x - c).collect();
            let length = match law {
                NoiseLaw::Gaussian => y.iter().map(|x| x * x).sum::<f64>().sqrt(),
                NoiseLaw::Laplace => y.iter().map(|x| x.abs()).sum(),
            };
            y[0] * (design.clip_norm / length).min(1.0) + design.centre[0]
        };
        let private: f64 = units.iter().map(clipped).sum();
        let exact = design.weight * private + design.public_row_weight * 30.0 * design.moments.mean[0];
        let errors: Vec<f64> = (0..RELEASES)
            .map(|_| design.estimate(&mut stream, |each| units.iter().for_each(|unit| each(unit)))[0] - exact)
            .collect();
        let n = RELEASES as f64;
        let z = errors.iter().sum::<f64>() / n / (design.noise_deviation() / n.sqrt());
        assert!(z.abs() < CRITICAL, "{variant:?} {law:?}: bias {z}");
        // The mean square has relative deviation sqrt((kurtosis - 1)/n): kurtosis 3 (normal) or 6 (Laplace).
        let kurtosis = if law == NoiseLaw::Gaussian { 3.0f64 } else { 6.0 };
        let score = |scale: f64| {
            let square =
                errors.iter().map(|e| e * e).sum::<f64>() / n / (scale * design.noise_deviation()).powi(2);
            (square - 1.0) / ((kurtosis - 1.0) / n).sqrt()
        };
        assert!(score(1.0).abs() < CRITICAL, "{variant:?} {law:?}: {}", score(1.0));
        // Power: noise 15 % larger than stated would be seen.
        assert!(score(1.15).abs() > CRITICAL && score(1.0 / 1.15).abs() > CRITICAL, "{variant:?} {law:?}");
    }
}

#[test]
fn the_paper_s_factor_is_1_98() {
    // n = 10,000, d = 100, B = 25 V, rho = 0.1, n_pub = 80: Lowy et al. 2024 after Proposition 8.
    let public = vec![0.0; 80 * 100];
    let setting = Setting {
        units: 9920,
        public: &public,
        width: 100,
        l2_radius: 25.0,
        l1_radius: 250.0,
        variance: Some(1.0),
    };
    // rho = (2B)^2 / (2 s^2), so the noise is sqrt(2/rho) radii.
    let error = |variant| {
        setting
            .design(variant, NoiseLaw::Gaussian, (2.0f64 / 0.1).sqrt())
            .unwrap()
            .unwrap()
            .predicted_squared_error
    };
    let naive = error(Variant::PublicOnly).min(error(Variant::Gaussian));
    let factor = naive / error(Variant::Weighted);
    assert!((factor - 1.98).abs() < 0.005, "{factor}");
    assert!((error(Variant::PublicOnly) - 1.0 / 80.0).abs() < 1e-15);
    assert!((error(Variant::Gaussian) - (2.0 * 100.0 * 625.0 / 0.1 / 1e8 + 1.0 / 1e4)).abs() < 1e-12);
}

#[test]
fn centring_wins_where_rows_lie_close_together() {
    let values = || ROWS.values(4000, 0.3, 0.02);
    let plans = MeanPlans::new(values(), &MeanRequest::default()).unwrap();
    let best = &plans.summaries()[0];
    assert_eq!(best.variant, Variant::CentredWeighted);
    let weighted =
        plans.summaries().into_iter().find(|summary| summary.variant == Variant::Weighted).unwrap();
    assert!(weighted.predicted_squared_error > 1.5 * best.predicted_squared_error);
    assert!(best.clip_norm.unwrap() < 0.05 && best.weight > weighted.weight);
    // Where rows fill their bounds it is the other way round, or nearly so.
    let wide = MeanPlans::new(ROWS.values(4000, 0.0, 1.0), &MeanRequest::default()).unwrap().summaries();
    assert!(wide[0].predicted_squared_error <= wide.last().unwrap().predicted_squared_error);
}

#[test]
fn a_mean_becomes_a_release_that_verifies() {
    for (seed, (variant, law)) in (60u8..).zip(NOISY) {
        let relations = [(false, None), (false, Some(3100)), (true, None), (true, Some(1600))];
        // Every relation once per law, every variant once.
        let tried = if variant == Variant::Weighted { 4 } else { 1 };
        for (by_user, zero_out) in relations.into_iter().take(tried) {
            let story = Story { by_user, zero_out, public_age: true, ..ROWS };
            let plan =
                MeanPlans::new(story.values(4000, 0.2, 0.3), &request(variant, law)).unwrap().best().unwrap();
            let release = run(plan, seed).release(&[]).unwrap();
            let certificate = &release.certificate;
            // Everything but the fixed seed holds.
            assert!(matches!(certificate.verify(), Err(VerifyError::Seeded)), "{:?}", certificate.verify());
            assert_eq!(certificate.numerics, Numerics::ExactLattice);
            assert!(certificate.is_for_model(release.mean_json.as_bytes()));
            assert_eq!(serde_json::from_str::<MeanFile>(&release.mean_json).unwrap(), release.mean);
            let [x, _, age] = &release.mean.columns[..] else { panic!("three columns") };
            // 1,000 public and 3,000 private rows around 6; absent units of zero-out pull towards the centre by at most 7 %.
            let slack = CRITICAL * x.standard_error.unwrap() + if zero_out.is_some() { 0.1 } else { 0.0 };
            assert!((x.mean - 6.0).abs() < slack, "{variant:?} {law:?}: {x:?}");
            assert_eq!((age.noise_deviation, age.standard_error), (0.0, None));
            let exact: f64 = (0..4000).map(|row| f64::from(row % 101)).sum::<f64>() / 4000.0;
            assert!(by_user || (age.mean - exact).abs() < 1e-9, "a public column is exact: {age:?}");
            assert!(release.report_html.contains("standard error") && release.chart_svg.starts_with("<svg"));
            assert!(
                release.report_html.contains(">exact<") && !release.report_html.contains("much less noise")
            );
            // The axis shows both bounds, wherever the means are.
            assert!(release.chart_svg.contains(">1</text>"));
        }
    }
}

/// delta = 0: Laplace noise or none, a certificate of pure differential privacy, and a ledger that adds epsilons up.
#[test]
fn a_budget_without_delta_gets_laplace_noise_and_a_pure_certificate() {
    let pure =
        |epsilon| MeanRequest { budget: Some(Budget { epsilon, delta: 0.0 }), ..MeanRequest::default() };
    for zero_out in [None, Some(300)] {
        let values = || Story { zero_out, ..ROWS }.values(400, 0.2, 0.3);
        let plans = MeanPlans::new(values(), &pure(1.0)).unwrap();
        let offered: Vec<(Variant, Option<NoiseLaw>)> =
            plans.summaries().iter().map(|summary| (summary.variant, summary.noise)).collect();
        assert_eq!(offered.len(), 3, "{offered:?}");
        assert!(offered.iter().all(|(_, noise)| *noise != Some(NoiseLaw::Gaussian)), "{offered:?}");
        for variant in [Variant::Weighted, Variant::CentredWeighted] {
            let request = MeanRequest { variant: Some(variant), ..pure(1.0) };
            let plan = MeanPlans::new(values(), &request).unwrap().best().unwrap();
            assert!(plan.epsilon().upper <= 1.0 && plan.epsilon().upper > 0.999, "{:?}", plan.epsilon());
            let release = run(plan, 9).release(&[]).unwrap();
            let guarantee = release.certificate.guarantee;
            assert_eq!((guarantee.epsilon, guarantee.delta), (1.0, 0.0));
            assert!(matches!(release.certificate.verify(), Err(VerifyError::Seeded)));
            assert!(release.report_html.contains("pure differential privacy"));
            assert!(release.report_html.contains("an exact rounded Laplace variable"));
            assert!(!release.report_html.contains("NaN") && !release.report_html.contains("0e0"));
        }
        // Laplace noise uses nothing of a delta that it may use: the certificate claims none.
        let request =
            MeanRequest { noise: Some(NoiseLaw::Laplace), variant: Some(Variant::Weighted), budget: None };
        let plan = MeanPlans::new(values(), &request).unwrap().best().unwrap();
        assert_eq!(run(plan, 9).release(&[]).unwrap().certificate.guarantee.delta, 0.0);
    }
}

#[test]
fn what_cannot_be_had_is_refused_with_what_can() {
    let refusal = |public_rows: bool, variant, noise, delta| {
        let values = Story { public_rows, ..ROWS }.values(40, 0.0, 0.3);
        let request = MeanRequest { budget: Some(Budget { epsilon: 1.0, delta }), variant, noise };
        MeanPlans::new(values, &request).unwrap_err().to_string()
    };
    let (gaussian, laplace) = (Some(NoiseLaw::Gaussian), Some(NoiseLaw::Laplace));
    for (refused, says) in [
        (
            refusal(true, Some(Variant::Gaussian), laplace, 1e-6),
            "take the variant weighted with Laplace noise",
        ),
        (refusal(true, Some(Variant::Gaussian), None, 0.0), "no finite epsilon at delta = 0"),
        (refusal(true, Some(Variant::Weighted), gaussian, 0.0), "no finite epsilon at delta = 0"),
        (refusal(true, None, gaussian, 0.0), "declare a delta above 0"),
        (refusal(false, Some(Variant::PublicOnly), None, 1e-6), "public rows: declare public_rows"),
        (refusal(false, Some(Variant::CentredWeighted), None, 0.0), "at least 10 public rows"),
        (refusal(true, Some(Variant::Exact), None, 1e-6), "columns that are all public"),
    ] {
        assert!(refused.contains(says), "{refused}");
    }
}

#[test]
fn public_rows_or_columns_alone_cost_nothing() {
    let only = MeanRequest { variant: Some(Variant::PublicOnly), ..MeanRequest::default() };
    let plan = MeanPlans::new(ROWS.values(400, 0.2, 0.3), &only).unwrap().best().unwrap();
    assert_eq!(plan.event, Event::Composed(Vec::new()));
    let release = run(plan, 1).release(&[]).unwrap();
    assert_eq!(release.certificate.numerics, Numerics::NoNoiseNeeded);
    assert_eq!(release.certificate.guarantee.epsilon, 0.0);

    // Only a public column: exact.
    let protection = "budget = { epsilon = 1.0, delta = 1e-6 }\nprotect = { unit = 'row' }\n[columns]\na = { bounds = [0, 4], visibility = 'public' }\nb = { bounds = [0, 1] }";
    let protection = Protection::parse(protection, "p").unwrap();
    let table = Table::from_columns(vec![
        ("a".to_owned(), Column::Numbers(vec![1.0, 2.0, 4.0])),
        ("b".to_owned(), Column::Numbers(vec![0.0; 3])),
    ])
    .unwrap();
    let chosen = Values::choose(&protection, &["a".to_owned()]).unwrap();
    let values = Values::bind(protection, chosen, &table, OutOfDomain::Refuse).unwrap();
    let release = run(MeanPlans::new(values, &MeanRequest::default()).unwrap().best().unwrap(), 1)
        .release(&[])
        .unwrap();
    assert_eq!(release.mean.variant, Variant::Exact);
    assert!((release.mean.columns[0].mean - 7.0 / 3.0).abs() < 1e-12);
    assert!(matches!(release.certificate.verify(), Err(VerifyError::Seeded)));
}

#[test]
fn without_public_rows_every_unit_counts_the_same() {
    let values = Story { public_rows: false, ..ROWS }.values(400, 0.2, 0.3);
    let plans = MeanPlans::new(values, &MeanRequest::default()).unwrap();
    let variants: Vec<Variant> = plans.summaries().iter().map(|summary| summary.variant).collect();
    assert!(!variants.contains(&Variant::PublicOnly) && !variants.contains(&Variant::CentredWeighted));
    assert!(plans.summaries().iter().all(|summary| (summary.weight * 400.0 - 1.0).abs() < 1e-12));
    let release = run(plans.best().unwrap(), 2).release(&[]).unwrap();
    assert_eq!(release.mean.columns[0].standard_error, None, "nothing public tells the spread");
    assert!(release.mean.columns[0].noise_deviation > 0.0);
    let centred = MeanRequest { variant: Some(Variant::CentredWeighted), ..MeanRequest::default() };
    let refused = MeanPlans::new(Story { public_rows: false, ..ROWS }.values(40, 0.0, 0.1), &centred);
    assert!(refused.unwrap_err().to_string().contains("centred-weighted"));
}

#[test]
fn a_false_statement_is_found() {
    let plan =
        MeanPlans::new(ROWS.values(400, 0.2, 0.3), &request(Variant::Weighted, NoiseLaw::Gaussian)).unwrap();
    let honest = plan.best().unwrap().statement();
    assert_eq!(honest.check(), Ok(()));
    let noise = honest.noise.clone().unwrap();
    let with = |noise: NoiseStatement| Statement { noise: Some(noise), ..honest.clone() }.check();
    assert!(
        with(NoiseStatement { noise_multiplier: 1.001 * noise.noise_multiplier, ..noise.clone() }).is_err()
    );
    assert!(with(NoiseStatement { noise_multiplier: f64::NAN, ..noise.clone() }).is_err());
    assert!(with(NoiseStatement { lattice_bits: 63, ..noise.clone() }).is_err());
    let crowd = Statement {
        units: 1 << 50,
        weight: honest.weight * honest.units as f64 / 2f64.powi(50),
        ..honest.clone()
    };
    assert_eq!(crowd.check().unwrap_err().field, "units");
    assert!(with(NoiseStatement { noise_scale: 2.0 * noise.noise_scale, ..noise.clone() }).is_err());
    assert!(with(NoiseStatement { clip_norm: 0.5 * noise.clip_norm, ..noise }).is_err());
    assert!(Statement { noise: None, ..honest.clone() }.check().is_err());
    assert_eq!(
        (&honest.sensitive_columns[..], &honest.public_columns[..]),
        (&["x".to_owned(), "y".to_owned()][..], &[][..])
    );
    let named = |sensitive: &[&str], public: &[&str]| {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        Statement { sensitive_columns: owned(sensitive), public_columns: owned(public), ..honest.clone() }
            .check()
    };
    assert_eq!(named(&["x", "y"], &["age"]), Ok(()));
    for (sensitive, public) in
        [(&["x"][..], &["y"][..]), (&[], &["x", "y"]), (&["x", "y"], &["y"]), (&["x", "x"], &[])]
    {
        assert!(named(sensitive, public).is_err(), "{sensitive:?} {public:?}");
    }
    assert!(Statement { weight: 2.0 * honest.weight, ..honest.clone() }.check().is_err());
    assert!(Statement { variant: Variant::PublicOnly, ..honest }.check().is_err());
}

#[test]
fn plans_do_not_depend_on_private_cells() {
    let summaries = |flip| {
        MeanPlans::new(Story { flip, ..ROWS }.values(400, 0.2, 0.3), &MeanRequest::default())
            .unwrap()
            .summaries()
    };
    assert_eq!(summaries(false), summaries(true));
    let means = |flip| {
        let values = Story { flip, ..ROWS }.values(400, 0.2, 0.3);
        run(MeanPlans::new(values, &MeanRequest::default()).unwrap().best().unwrap(), 3).means
    };
    assert_ne!(means(false), means(true), "the private cells did differ");
}

#[test]
fn the_numbers_of_a_rehearsal_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = Ledger::open_or_create(&folder.path().join("ledger")).unwrap();
    let plan =
        MeanPlans::new(ROWS.values(400, 0.2, 0.3), &request(Variant::Weighted, NoiseLaw::Gaussian)).unwrap();
    let mut known = halflit_noise::RehearsalSource::from_public_digest([1; 32]);
    let refused = ledger.charge(plan.best().unwrap()).unwrap().run(known.lend());
    assert!(matches!(refused, Err(MechanismError::RehearsalNoise)));
    assert_eq!(ledger.overview().unwrap().charges.len(), 1, "the charge stays");
}
