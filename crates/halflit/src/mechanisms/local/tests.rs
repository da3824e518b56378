use super::cap::{CapLaw, cap_mass, cap_moment};
use super::*;
use crate::Ledger;
use crate::testing::{Numbers, seeded};
use halflit_noise::Stream;
use halflit_table::{Column, OutOfDomain, Protection, Table};

fn stream(seed: u8) -> Stream {
    seeded(seed).stream().unwrap()
}

/// Vectors per statistical test.
const DRAWS: usize = 40_000;
/// Two-sided normal critical value: alpha = 1.2e-7 for each comparison.
const CRITICAL: f64 = 5.3;

/// (mean - expected) in standard errors.
fn z_score(samples: &[f64], expected: f64) -> f64 {
    let n = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / n;
    let variance = samples.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean - expected) / (variance / n).sqrt()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

/// mpmath, 40 digits: I_{(1-gamma)/2}((d-1)/2, (d-1)/2).
const MASSES: [(usize, f64, f64); 18] = [
    (2, 0.5, 1.0 / 3.0),
    (3, 0.25, 0.375),
    (5, 0.5, 0.15625),
    (10, 0.5, 0.058_653_401_507_119_08),
    (100, 0.25, 0.005_844_965_850_939_076),
    (1000, 0.125, 0.000_036_629_713_487_378_082),
    (10_000, 0.031_25, 0.000_887_428_115_287_319_3),
    (100_000, 0.007_812_5, 0.006_745_299_490_102_323),
    (1_000_000, 0.001_953_125, 0.025_402_369_083_291_67),
    (1_000_000, 0.003_906_25, 0.000_046_867_444_163_324_34),
    (1_000_000, 9.313_225_746_154_785e-10, 0.499_999_628_456_326_95),
    // Thin caps, as large epsilons want them.
    (2, 1.0 - 1.0 / (1u64 << 40) as f64, 4.293_042_736_802_932e-7),
    (2, 1.0 - 1.0 / (1u64 << 52) as f64, 6.707_879_276_254_073e-9),
    (7, 1.0 - 1.0 / (1u64 << 20) as f64, 1.084_201_397_003_828e-18),
    (7, 1.0 - 1.0 / (1u64 << 45) as f64, 2.869_859_254_937_164e-41),
    (7, 1.0 - 1.0 / (1u64 << 52) as f64, 1.368_455_531_567_204e-47),
    (20, 1.0 - 1.0 / (1u64 << 12) as f64, 3.146_148_512_728_245e-33),
    (100, 0.9375, 1.753_717_328_236_137_7e-47),
];

#[test]
fn cap_masses_agree_with_forty_digits_far_inside_the_slack() {
    for (dimension, gamma, mass) in MASSES {
        let error = (cap_mass(dimension, gamma) / mass - 1.0).abs();
        // The privacy loss allows for 1e-11.
        assert!(error < 1e-12, "d = {dimension}, gamma = {gamma}: {error:e}");
    }
}

/// scipy: the radius 1/m minimised over gamma, without the identity gamma = m; and Duchi's.
const RADII: [(usize, f64, f64, f64); 6] = [
    (2, 1.0, 3.243_729_312_698_786_5, 3.399_130_073_655_953_8),
    (5, 2.0, 2.803_055_330_875_389_4, 3.501_427_427_998_216_5),
    (100, 0.5, 50.059_247_442_834_08, 51.044_898_136_067_08),
    (100, 4.0, 6.619_526_197_781_147_5, 12.968_351_147_210_855),
    (1000, 4.0, 20.871_112_003_966_935, 41.101_900_730_653_746),
    (1000, 1.0, 79.544_814_520_891_78, 85.743_117_898_551_74),
];

#[test]
fn the_variance_is_the_least_there_is() {
    for (dimension, epsilon, privunit, duchi) in RADII {
        let radius = |kind| Randomizer::new(kind, dimension, epsilon).unwrap().radius();
        assert!((radius(Kind::Privunit) / privunit - 1.0).abs() < 1e-9, "{dimension} {epsilon}");
        assert!((radius(Kind::Duchi) / duchi - 1.0).abs() < 1e-9, "{dimension} {epsilon}");
    }
    // d = 1,000, epsilon = 4: PrivUnit's squared error is 3.88 times smaller.
    let error = |kind| Randomizer::new(kind, 1000, 4.0).unwrap().squared_error(1.0);
    assert!(error(Kind::Duchi) / error(Kind::Privunit) > 3.8);
}

#[test]
fn the_log_ratio_is_epsilon_and_never_more() {
    for kind in [Kind::Duchi, Kind::Privunit] {
        for dimension in [1, 2, 3, 4, 5, 6, 100, 10_000, 1_000_000] {
            for epsilon in [1e-6, 0.01, 1.0, 4.0, 20.0, 100.0, 200.0] {
                let randomizer = Randomizer::new(kind, dimension, epsilon).unwrap();
                let loss = randomizer.privacy_loss();
                assert!(loss <= epsilon, "{kind:?} {dimension} {epsilon}: {loss}");
                // A coin of 2^-63 steps and a cap whose edge is a multiple of 2^-52 cannot use up more than about 60 in few dimensions.
                let is_coarse = epsilon > 40.0 && (kind == Kind::Duchi || dimension <= 6);
                assert!(loss >= epsilon - 1e-9 || is_coarse, "{kind:?} {dimension} {epsilon}: {loss}");
                let radius = randomizer.radius();
                assert!(
                    radius.is_finite() && radius >= 1.0 - 1e-12,
                    "{kind:?} {dimension} {epsilon}: {radius}"
                );
            }
        }
    }
    // Power: one part in a thousand more inside the cap is refused by the certificate's check.
    let values = values(DECLARATION, &[0.0; 4]);
    let honest = LocalPlan::new(values, Kind::Privunit, Some(2.0)).unwrap().statement();
    assert_eq!(honest.check(), Ok(()));
    let outside = (1u64 << 63) - honest.inside_numerator;
    let bold = Statement { inside_numerator: honest.inside_numerator + outside / 1000, ..honest.clone() };
    assert!(bold.check().is_err());
    assert!(Statement { gamma: honest.gamma * 1.001, ..honest.clone() }.check().is_err());
    assert!(Statement { gamma: f64::NAN, ..honest.clone() }.check().is_err());
    assert!(Statement { epsilon: f64::NAN, ..honest.clone() }.check().is_err());
    assert!(Statement { dimension: 0, ..honest.clone() }.check().is_err());
    assert!(Statement { inside_numerator: u64::MAX, ..honest.clone() }.check().is_err());
    // A coin that nearly always avoids the cap gives the vector away as surely as one that never does.
    assert!(Statement { inside_numerator: 1, gamma: 0.0, ..honest }.check().is_err());
}

/// The Kolmogorov-Smirnov distance of draws from P(t >= x | side).
fn distance(dimension: usize, gamma: f64, inside: bool, drawn_at: f64, seed: u8) -> f64 {
    const N: usize = 20_000;
    let (law, mut stream) = (CapLaw::new(dimension, drawn_at), stream(seed));
    let mut draws: Vec<f64> =
        (0..N).map(|_| if inside { law.inside(&mut stream) } else { law.outside(&mut stream) }).collect();
    draws.sort_by(f64::total_cmp);
    let mass = cap_mass(dimension, gamma);
    let tail =
        |x: f64| if x >= 0.0 { cap_mass(dimension, x.min(1.0)) } else { 1.0 - cap_mass(dimension, -x) };
    let below = |x: f64| {
        let probability =
            if inside { 1.0 - tail(x.max(gamma)) / mass } else { (1.0 - tail(x.min(gamma))) / (1.0 - mass) };
        probability.clamp(0.0, 1.0)
    };
    let gaps = draws.iter().enumerate().map(|(i, &x)| {
        let (low, high) = (i as f64 / N as f64, (i + 1) as f64 / N as f64);
        (below(x) - low).abs().max((high - below(x)).abs())
    });
    gaps.fold(0.0, f64::max) * (N as f64).sqrt()
}

#[test]
fn inner_products_have_the_law_of_the_cap() {
    // Hypothesis: the stated law. n = 20,000; sqrt(n) D > 2.8 has probability 2 exp(-2 * 2.8^2) = 3.1e-7.
    for (seed, (dimension, gamma)) in (1u8..).zip([
        (2, 0.3),
        (3, 0.5),
        (4, 0.2),
        (5, 0.0),
        (5, 0.6),
        (50, 0.3),
        (100, 0.0),
        (100_000, 0.01),
    ]) {
        for inside in [true, false] {
            let statistic = distance(dimension, gamma, inside, gamma, seed);
            assert!(statistic < 2.8, "d = {dimension}, gamma = {gamma}, inside {inside}: {statistic}");
        }
    }
    // Power: a cap drawn 10 % too far out is seen.
    assert!(distance(50, 0.3, true, 0.33, 9) > 2.8);
    // A cap of mass 1e-60 costs no more than another: this returns at once.
    let far = CapLaw::new(1000, 0.5);
    assert!(cap_mass(1000, 0.5) < 1e-60 && far.inside(&mut stream(1)) >= 0.5);
}

/// A unit vector that is no axis.
fn diagonal(dimension: usize) -> Vec<f64> {
    let mut numbers = Numbers(dimension as u64);
    let vector: Vec<f64> = (0..dimension).map(|_| numbers.next() - 0.4).collect();
    let length = dot(&vector, &vector).sqrt();
    vector.iter().map(|x| x / length).collect()
}

#[test]
fn messages_are_unbiased_and_of_the_predicted_variance() {
    // Hypotheses: E<message, v> = ||v||, E<message, w> = 0 for w orthogonal to v, E||message - v||^2 = radius^2 - ||v||^2.
    // n = 40,000 per case, |z| < 5.3, alpha = 1.2e-7 each.
    for (seed, (kind, dimension, epsilon, norm)) in (20u8..).zip([
        (Kind::Duchi, 1, 1.0, 0.4),
        (Kind::Duchi, 3, 1.0, 1.0),
        (Kind::Duchi, 100, 4.0, 0.7),
        (Kind::Privunit, 2, 1.0, 1.0),
        (Kind::Privunit, 4, 0.5, 0.5),
        (Kind::Privunit, 5, 2.0, 1.0),
        (Kind::Privunit, 100, 4.0, 1.0),
        (Kind::Privunit, 100, 0.5, 0.0),
    ]) {
        let randomizer = Randomizer::new(kind, dimension, epsilon).unwrap();
        let direction = diagonal(dimension);
        let vector: Vec<f64> = direction.iter().map(|x| norm * x).collect();
        let mut stream = stream(seed);
        let mut across = vec![0.0; dimension];
        across[0] = 1.0;
        let lean = dot(&across, &direction);
        across.iter_mut().zip(&direction).for_each(|(w, v)| *w -= lean * v);
        let (mut along, mut sideways, mut squares) = (vec![], vec![], vec![]);
        for _ in 0..DRAWS {
            let message = randomizer.randomize(&mut stream, &vector).unwrap();
            assert!((dot(&message, &message).sqrt() / randomizer.radius() - 1.0).abs() < 1e-12);
            along.push(dot(&message, &direction));
            sideways.push(dot(&message, &across));
            squares.push(message.iter().zip(&vector).map(|(m, v)| (m - v).powi(2)).sum());
        }
        let case = format!("{kind:?} d = {dimension} epsilon = {epsilon} norm = {norm}");
        assert!(z_score(&along, norm).abs() < CRITICAL, "{case}: {}", z_score(&along, norm));
        if dimension > 1 {
            assert!(z_score(&sideways, 0.0).abs() < CRITICAL, "{case}");
        }
        let predicted = randomizer.squared_error(norm);
        if norm > 0.0 {
            assert!(z_score(&squares, predicted).abs() < CRITICAL, "{case}: {predicted}");
        } else {
            // ||message - 0||^2 is the radius squared without scatter.
            assert!(squares.iter().all(|square| (square / predicted - 1.0f64).abs() < 1e-12));
        }
        // Power: the plus sign that the paper prints in the normalizer would be rejected.
        if kind == Kind::Privunit && norm == 1.0 {
            let mass = cap_mass(dimension, randomizer.gamma());
            let inside = randomizer.inside_numerator() as f64 / (1u64 << 63) as f64;
            let printed =
                cap_moment(dimension, randomizer.gamma()) * (inside / mass + (1.0 - inside) / (1.0 - mass));
            let wrong: Vec<f64> = along.iter().map(|x| x / randomizer.radius() / printed).collect();
            // At d = 100, epsilon = 4 the two differ by 3.7 % only.
            let far = if dimension <= 5 { 2.0 } else { 1.0 };
            assert!(z_score(&wrong, 1.0).abs() > far * CRITICAL, "{case}: {}", z_score(&wrong, 1.0));
        }
        // Power: a scale that is a tenth too long or too short would be rejected, Duchi's and PrivUnit's.
        if norm >= 0.7 {
            for scale in [0.9, 1.1] {
                let wrong: Vec<f64> = along.iter().map(|x| scale * x).collect();
                assert!(z_score(&wrong, norm).abs() > CRITICAL, "{case}: {}", z_score(&wrong, norm));
            }
        }
        // Power: a variance that is 3 % off would be rejected, and so would one that forgets the vector's own length.
        if norm > 0.0 {
            for wrong in [0.97 * predicted, 1.03 * predicted, predicted + norm * norm] {
                assert!(z_score(&squares, wrong).abs() > CRITICAL, "{case}: {wrong}");
            }
        } else {
            assert!(squares.iter().all(|square| (square / (1.03 * predicted) - 1.0f64).abs() > 1e-2));
        }
    }
}

#[test]
fn strange_vectors_are_handled_or_refused() {
    let randomizer = Randomizer::new(Kind::Privunit, 3, 1.0).unwrap();
    let mut stream = stream(3);
    for vector in
        [[0.0; 3], [1e-300, 0.0, -1e-310], [1e300, -1e300, 1e300], [f64::MAX; 3], [-0.0, 0.0, 5e-324]]
    {
        let message = randomizer.randomize(&mut stream, &vector).unwrap();
        assert!((dot(&message, &message).sqrt() / randomizer.radius() - 1.0).abs() < 1e-12, "{vector:?}");
    }
    for (bad, coordinate) in [([f64::NAN, 0.0, 0.0], 0), ([0.0, f64::INFINITY, 0.0], 1)] {
        let refused = randomizer.randomize(&mut stream, &bad).unwrap_err();
        assert!(matches!(refused, LocalError::NotFinite { coordinate: c } if c == coordinate), "{refused}");
    }
    assert!(matches!(randomizer.randomize(&mut stream, &[0.0; 2]), Err(LocalError::WrongLength { .. })));
    for epsilon in [0.0, -1.0, f64::NAN, f64::INFINITY, 201.0] {
        assert!(
            matches!(Randomizer::new(Kind::Duchi, 3, epsilon), Err(LocalError::Epsilon { .. })),
            "{epsilon}"
        );
    }
    for dimension in [0, MOST_DIMENSIONS + 1] {
        assert!(matches!(Randomizer::new(Kind::Duchi, dimension, 1.0), Err(LocalError::Dimension { .. })));
    }
}

const DECLARATION: &str = "
    budget = { epsilon = 8.0, delta = 1e-6 }
    protect = { unit = 'row' }
    [columns]
    a = { bounds = [0, 10] }
    b = { bounds = [-1, 1] }";

/// Rows (value, -value) of the columns a and b; users in pairs.
fn values(declaration: &str, cells: &[f64]) -> Values {
    let protection = Protection::parse(declaration, "privacy.toml").unwrap_or_else(|error| panic!("{error}"));
    let chosen = Values::choose(&protection, &["a".to_owned(), "b".to_owned()]).unwrap();
    let columns = vec![
        ("user".to_owned(), Column::Text((0..cells.len()).map(|row| (row / 2).to_string()).collect())),
        ("a".to_owned(), Column::Numbers(cells.iter().map(|x| 5.0 + 5.0 * x).collect())),
        ("b".to_owned(), Column::Numbers(cells.iter().map(|x| -x).collect())),
    ];
    let table = Table::from_columns(columns).unwrap();
    Values::bind(protection, chosen, &table, OutOfDomain::Refuse).unwrap()
}

fn released(declaration: &str, cells: &[f64], epsilon: f64) -> LocalRelease {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = Ledger::open_or_create(&folder.path().join("ledger")).unwrap();
    let plan = LocalPlan::new(values(declaration, cells), Kind::Privunit, Some(epsilon)).unwrap();
    let charged = ledger.charge(plan).unwrap();
    let release = charged.run(&mut seeded(5), &mut ()).unwrap().release().unwrap();
    assert_eq!(
        ledger.overview().unwrap().charges[0].event,
        Event::PureDp { epsilon: Epsilon::new(epsilon).unwrap() }
    );
    release
}

#[test]
fn a_table_becomes_messages_and_a_mean() {
    let cells: Vec<f64> = (0..20_000).map(|row| if row % 4 == 0 { -0.5 } else { 0.5 }).collect();
    let release = released(DECLARATION, &cells, 4.0);
    assert!(release.messages.starts_with("{\"halflit_message\":2,\"id\":\""));
    assert!(release.messages.contains("\",\"mechanism\":\"privunit\",\"epsilon\":4.0,\"dimension\":2,"));
    let messages = Messages::read(release.messages.as_bytes()).unwrap();
    assert_eq!(messages.count, 20_000);
    let mean = aggregate(&messages, &[], Weights::Best);
    // Encoded means 0.25 and -0.25; z below 5.3.
    for (column, expected) in mean.columns.iter().zip([5.0 + 5.0 * 0.25, -0.25]) {
        let z = (column.mean - expected) / column.standard_error.unwrap();
        assert!(z.abs() < CRITICAL, "{column:?}");
    }
    let certificate = &release.certificate;
    assert_eq!((certificate.guarantee.epsilon, certificate.guarantee.delta), (4.0, 0.0));
    assert_eq!(certificate.guarantee.accountant.upper, 4.0, "the accountant's last word is the claim");
    assert_eq!(certificate.numerics, crate::release::Numerics::Idealized);
    // Everything but the fixed seed holds.
    assert!(matches!(certificate.verify(), Err(crate::release::VerifyError::Seeded)));
    assert!(certificate.is_for_model(release.messages.as_bytes()));
}

#[test]
fn units_send_one_message_each_and_absent_ones_too() {
    let zero_out = DECLARATION.replace("unit = 'row'", "unit = 'row', change = 'zero-out', rows = 7");
    assert_eq!(released(&zero_out, &[0.1; 4], 1.0).messages.lines().count(), 7);
    let users = DECLARATION.replace("unit = 'row'", "unit = 'user', user = 'user'")
        + "\n    user = { visibility = 'public' }";
    assert_eq!(released(&users, &[0.1; 8], 1.0).messages.lines().count(), 4);
}

#[test]
fn what_does_not_belong_together_is_refused_with_its_line() {
    let good = released(DECLARATION, &[0.1, 0.2, 0.3], 1.0).messages;
    let other = released(DECLARATION, &[0.1], 2.0).messages;
    let refused = |text: &str| Messages::read(text.as_bytes()).unwrap_err().to_string();
    assert_eq!(refused("\n\n"), "there are no messages");
    assert!(refused(&format!("{good}\n{other}")).starts_with("line 5: epsilon is 2, but 1 in line 1"));
    for (old, new, line, says) in [
        ("privunit", "duchi", 3, "mechanism"),
        ("\"low\":0.0", "\"low\":1.0", 3, "list of columns"),
        ("\"halflit_message\":2", "\"halflit_message\":3", 3, "format 3"),
        ("\"dimension\":2", "\"dimension\":3", 3, "the message says 3"),
        ("\"value\":[", "\"value\":[0.5,", 3, "3 coordinates"),
        ("\"value\":[", "\"value\":[NaN,", 3, "not a message"),
        ("\"value\":[", "\"value\":[1e999,", 3, "not a message"),
        ("\"value\":[", "\"values\":[", 3, "not a message"),
        ("\"value\":[", "\"value\":[9", 3, "has length"),
    ] {
        let (last, rest) =
            (good.lines().last().unwrap(), good.lines().take(2).collect::<Vec<_>>().join("\n"));
        let message = refused(&format!("{rest}\n{}\n", last.replacen(old, new, 1)));
        assert!(message.starts_with(&format!("line {line}: ")) && message.contains(says), "{new}: {message}");
    }
    // Format 1 had no id; it is told by its number, not by what it lacks.
    let old = good.replace("\"halflit_message\":2", "\"halflit_message\":1");
    let id = |line: &str| line.split("\"id\":\"").nth(1).unwrap()[..32].to_owned();
    let without_id = good.lines().next().unwrap().replace(&format!("\"id\":\"{}\",", id(&good)), "");
    for text in [old.as_str(), &without_id.replace("\"halflit_message\":2", "\"halflit_message\":1")] {
        assert!(refused(text).starts_with("line 1: the message has format 1"), "{}", refused(text));
    }
    assert!(refused(&without_id).contains("missing field `id`"));
    let named = |name: &str| good.replacen(&id(&good), name, 1);
    assert!(refused(&named("")).starts_with("line 1: the id is ``"));
    assert!(refused(&named("+0123456789abcdef0123456789abcde")).contains("32 hexadecimal digits"));
    let unbounded = good.replace("\"high\":10.0", "\"high\":-10.0");
    assert!(refused(&unbounded).starts_with("line 1: column `a` has bounds"));
}

/// `cat a a`: without ids the copy would pass for more people and a smaller standard error.
#[test]
fn a_message_counts_once() {
    let one = released(DECLARATION, &[0.1; 40], 1.0).messages;
    let refused = Messages::read(format!("{one}{one}").as_bytes()).unwrap_err();
    assert!(matches!(refused, MessageError::Repeated { line: 41, first: 1, .. }), "{refused}");
    // Another spelling of the number is the same id.
    let last = one.lines().last().unwrap();
    let id = &last.split("\"id\":\"").nth(1).unwrap()[..32];
    let loud = last.replace(id, &id.to_uppercase());
    let refused = Messages::read(format!("{one}\n{loud}\n").as_bytes()).unwrap_err();
    assert!(matches!(refused, MessageError::Repeated { line: 42, first: 40, .. }), "{refused}");
    // A collision among so many ids of 128 random bits has probability 1.5e-29.
    let mut stream = stream(4);
    let ids: std::collections::HashSet<String> =
        (0..100_000).map(|_| crate::digest::random_id(&mut stream)).collect();
    assert_eq!(ids.len(), 100_000);
}

/// What is predicted before the charge is what comes out: the spread of the messages' mean over many releases' worth of rows.
#[test]
fn the_outlook_predicts_the_standard_errors() {
    let declaration = format!(
        "{}\n    open = {{ visibility = 'public' }}",
        DECLARATION.replace("unit = 'row'", "unit = 'row', public_rows = { column = 'user', equals = '0' }")
    )
    .replace("open =", "user =");
    let cells: Vec<f64> = (0..6000).map(|row| f64::from(row % 5) / 4.0 - 0.5).collect();
    let bound = values(&declaration, &cells);
    let outlook = Outlook::new(&bound, Some(2.0)).unwrap();
    assert_eq!((outlook.messages, outlook.public_rows), (5998, 2));
    let best = &outlook.randomizers[0];
    assert_eq!(best.randomizer, Kind::Privunit);
    assert!(outlook.randomizers[1].messages_alone > best.messages_alone);
    assert!(best.with_public_rows_equal.unwrap() < best.messages_alone);
    assert!(best.with_public_rows_best.unwrap() <= best.with_public_rows_equal.unwrap());
    let messages = Messages::read(released(&declaration, &cells, 2.0).messages.as_bytes()).unwrap();
    let mean = aggregate(&messages, &[], Weights::Equal);
    // Half of the bounds of a is 5, of b 1.
    let shares = mean.columns.iter().zip([5.0, 1.0]).map(|(c, half)| c.standard_error.unwrap() / half);
    let measured = (shares.map(|share| share * share).sum::<f64>() / 2.0).sqrt();
    // The prediction counts the rows' spread on top of the randomizer's whole radius: at most 5 % too much here.
    assert!((0.95..1.02).contains(&(measured / best.messages_alone)), "{measured} {}", best.messages_alone);
    // No public rows: nothing to say about them.
    let none = Outlook::new(&values(DECLARATION, &cells), None).unwrap();
    assert_eq!((none.epsilon, none.public_rows_alone), (8.0, None));
    assert!(none.randomizers.iter().all(|r| r.with_public_rows_best.or(r.with_public_rows_equal).is_none()));
    assert!(matches!(Outlook::new(&bound, Some(f64::NAN)), Err(LocalError::Epsilon { .. })));
}

/// The file beside the messages holds the public rows, all of them and nothing else.
#[test]
fn public_rows_stand_beside_the_messages() {
    let declaration = format!(
        "{}\n    user = {{ visibility = 'public' }}",
        DECLARATION
            .replace("unit = 'row'", "unit = 'row', public_rows = { column = 'user', in = ['0', '2'] }")
    );
    let release = released(&declaration, &[1.0, -1.0, 0.3, 0.4, 0.5, 0.6], 1.0);
    assert_eq!(release.public_csv.as_deref(), Some("\"a\",\"b\"\n10,-1\n0,1\n7.5,-0.5\n8,-0.6\n"));
    assert_eq!(release.messages.lines().count(), 2);
    assert_eq!(released(DECLARATION, &[0.1; 3], 1.0).public_csv, None);
}

#[test]
fn public_rows_divide_the_error_as_predicted() {
    // semi-privunit: n_priv/n of the fully local error where privacy dominates; the best weights do no worse.
    let cells = [0.25; 2000];
    let messages = Messages::read(released(DECLARATION, &cells, 1.0).messages.as_bytes()).unwrap();
    let public: Vec<f64> = (0..2000).flat_map(|row| [f64::from(row % 2) - 0.25, -0.25]).collect();
    let local = aggregate(&messages, &[], Weights::Equal);
    let equal = aggregate(&messages, &public, Weights::Equal);
    let best = aggregate(&messages, &public, Weights::Best);
    let error =
        |mean: &Aggregate| mean.columns.iter().map(|c| c.standard_error.unwrap().powi(2)).sum::<f64>();
    // Weights 1/4000 instead of 1/2000: a quarter of the squared error, up to the public rows' own spread.
    assert!((error(&equal) / error(&local) - 0.25).abs() < 0.02, "{}", error(&equal) / error(&local));
    assert!(error(&best) < 0.1 * error(&equal));
    assert!(best.predicted_squared_error.unwrap() < equal.predicted_squared_error.unwrap());
    assert_eq!(equal.message_weight, 1.0 / 4000.0);
    assert!(best.message_weight < equal.message_weight && best.public_row_weight > equal.public_row_weight);
}

/// One pass over rows that scatter around a target; the loss of row x is half its squared distance. Everything between server and client goes through JSON.
fn sgd_distance(private: usize, public: usize, curvature: Curvature, weights: Weights, seed: u8) -> f64 {
    let target = [0.5, -0.3, 0.1, 0.2, -0.1];
    let mut numbers = Numbers(99);
    let rows: Vec<f64> =
        (0..(private + public) * 5).map(|i| target[i % 5] + 0.2 * (numbers.next() - 0.5)).collect();
    let gradient = |row: usize, weights: &[f64], out: &mut [f64]| {
        for j in 0..5 {
            out[j] = weights[j] - rows[row * 5 + j];
        }
    };
    let randomizer = Randomizer::new(Kind::Privunit, 5, 2.0).unwrap();
    let pass = Pass { private, public, clip_norm: 2.0, public_norm: 2.0, radius: 1.0, curvature, weights };
    let mut stream = stream(seed);
    let mut server = Server::new(pass, randomizer.clone(), &mut stream).unwrap();
    while let Some(turn) = server.turn() {
        match turn {
            Turn::Private(row) => {
                let question = serde_json::to_string(&server.question().unwrap()).unwrap();
                let question: Question = serde_json::from_str(&question).unwrap();
                let answer = Client::new(&randomizer)
                    .answer(&mut stream, &question, |w, out| gradient(row, w, out))
                    .unwrap();
                let answer = serde_json::to_string(&answer).unwrap();
                server.receive(&serde_json::from_str(&answer).unwrap()).unwrap();
            }
            Turn::Public(row) => {
                let mut raw = vec![0.0; 5];
                gradient(private + row, server.weights(), &mut raw);
                server.step_public(&raw).unwrap();
            }
        }
    }
    let model = server.model().unwrap();
    model.iter().zip(target).map(|(w, t)| (w - t).powi(2)).sum::<f64>().sqrt()
}

const STRONG: Curvature = Curvature::StronglyConvex { modulus: 1.0 };

#[test]
fn one_local_pass_finds_the_minimizer() {
    // Fixed seeds; from zero the distance is 0.63. Constants of the theory are loose, so only the order of the errors is tested.
    let convex = sgd_distance(20_000, 2_000, Curvature::Convex, Weights::Equal, 11);
    let strong = sgd_distance(20_000, 2_000, STRONG, Weights::Equal, 12);
    let public_only = sgd_distance(0, 2_000, STRONG, Weights::Equal, 13);
    assert!(convex < 0.2, "{convex}");
    assert!(strong < 0.12, "{strong}");
    assert!(public_only < 0.02, "{public_only}");
    // Fewer private rows: a larger error.
    assert!(sgd_distance(300, 0, STRONG, Weights::Equal, 14) > 2.0 * strong);
    // Steps that count by their noise lean on the public rows: mean squares over eight passes.
    for curvature in [Curvature::Convex, STRONG] {
        let square = |weights| {
            (20..28).map(|seed| sgd_distance(4_000, 400, curvature, weights, seed).powi(2)).sum::<f64>() / 8.0
        };
        let (equal, best) = (square(Weights::Equal), square(Weights::Best));
        assert!(best < 0.7 * equal, "{curvature:?}: {best} {equal}");
    }
}

const PASS: Pass = Pass {
    private: 2,
    public: 1,
    clip_norm: 1.0,
    public_norm: 1.0,
    radius: 1.0,
    curvature: Curvature::Convex,
    weights: Weights::Equal,
};

#[test]
fn passes_that_make_no_sense_are_refused() {
    let randomizer = Randomizer::new(Kind::Duchi, 2, 1.0).unwrap();
    let begun = |pass: Pass| Server::new(pass, randomizer.clone(), &mut stream(1));
    assert!(matches!(begun(Pass { private: 0, public: 0, ..PASS }), Err(LocalError::Rows { rows: 0 })));
    assert!(matches!(begun(Pass { private: usize::MAX, ..PASS }), Err(LocalError::Rows { .. })));
    for bad in [
        Pass { clip_norm: f64::NAN, ..PASS },
        Pass { public_norm: -1.0, ..PASS },
        Pass { radius: 0.0, ..PASS },
        Pass { curvature: Curvature::StronglyConvex { modulus: -1.0 }, ..PASS },
    ] {
        assert!(matches!(begun(bad), Err(LocalError::NotPositive { .. })));
    }
    // eta = D / sqrt(n_priv b^2 + n_pub L^2)
    let b = randomizer.radius();
    assert!((PASS.step_size(&randomizer) - 2.0 / (2.0 * b * b + 1.0).sqrt()).abs() < 1e-15);
    // q = 1/b^2: D / sqrt(n_priv/b^2 + n_pub)
    let best = Pass { weights: Weights::Best, ..PASS };
    assert!((best.step_size(&randomizer) - 2.0 / (2.0 / (b * b) + 1.0).sqrt()).abs() < 1e-15);
    // Public gradients of half the length are followed twice as far, and count four times as much next to private ones.
    let short = Pass { public_norm: 0.5, ..best };
    assert!((short.step_size(&randomizer) - 2.0 / (2.0 / (16.0 * b * b) + 0.25).sqrt()).abs() < 1e-15);
}

/// A server takes what a randomizer made for this very question, from a private row in its turn, and nothing else.
#[test]
fn a_server_takes_answers_in_their_turn_only() {
    let randomizer = Randomizer::new(Kind::Duchi, 2, 1.0).unwrap();
    let mut stream = stream(2);
    let mut server = Server::new(PASS, randomizer.clone(), &mut stream).unwrap();
    assert!(matches!(server.model(), Err(LocalError::NotOver { done: 0, turns: 3 })));
    let mut asked = Vec::new();
    while let Some(turn) = server.turn() {
        asked.push(turn);
        let Turn::Private(_) = turn else {
            assert!(matches!(server.question(), Err(LocalError::WrongTurn { .. })));
            assert!(server.step_public(&[0.0]).is_err());
            server.step_public(&[f64::NAN, 1e308]).unwrap();
            assert!(server.weights().iter().all(|x| x.is_finite()));
            continue;
        };
        // A private row's gradient as it is cannot be handed in.
        assert!(matches!(server.step_public(&[0.1, 0.2]), Err(LocalError::WrongTurn { .. })));
        let question = server.question().unwrap();
        // Whatever the gradient, an answer has one length: zero, what is no number, what is far too long.
        for raw in [[0.0, 0.0], [f64::NAN, f64::INFINITY], [1e300, -1e308]] {
            let answer = Client::new(&randomizer)
                .answer(&mut stream, &question, |_, out| out.copy_from_slice(&raw))
                .unwrap();
            assert!((dot(&answer.value, &answer.value).sqrt() / randomizer.radius() - 1.0).abs() < 1e-12);
        }
        let good =
            Client::new(&randomizer).answer(&mut stream, &question, |w, out| out.copy_from_slice(w)).unwrap();
        for (bad, field) in [
            (Answer { halflit_answer: 2, ..good.clone() }, "format"),
            (Answer { pass: "0".repeat(32), ..good.clone() }, "pass"),
            (Answer { step: good.step + 1, ..good.clone() }, "step"),
            (Answer { mechanism: Kind::Privunit, ..good.clone() }, "mechanism"),
            (Answer { epsilon: 2.0, ..good.clone() }, "epsilon"),
            (Answer { value: vec![1.0; 3], ..good.clone() }, "coordinates"),
            (Answer { value: vec![0.1, 0.2], ..good.clone() }, "length"),
            (Answer { value: vec![f64::NAN, 0.2], ..good.clone() }, "length"),
        ] {
            let refused = server.receive(&bad).unwrap_err().to_string();
            assert!(refused.contains(field), "{field}: {refused}");
        }
        server.receive(&good).unwrap();
        assert!(server.receive(&good).is_err(), "an answer counts once");
    }
    asked.sort_by_key(|turn| format!("{turn:?}"));
    assert_eq!(asked, [Turn::Private(0), Turn::Private(1), Turn::Public(0)], "everybody once");
    assert!(matches!(server.skip(), Err(LocalError::Over { turns: 3 })));
    assert_eq!(server.model().unwrap().len(), 2);
    // Nobody answers: the weights are where they began.
    let mut silent = Server::new(Pass { public: 0, ..PASS }, randomizer, &mut stream).unwrap();
    (0..2).for_each(|_| silent.skip().unwrap());
    assert_eq!(silent.model().unwrap(), [0.0, 0.0]);
}

/// The price is the client's own: a server that asks for more gets nothing.
#[test]
fn a_client_answers_on_its_own_terms_only() {
    let randomizer = Randomizer::new(Kind::Duchi, 2, 1.0).unwrap();
    let mut stream = stream(3);
    let server = Server::new(Pass { public: 0, ..PASS }, randomizer.clone(), &mut stream).unwrap();
    let good = server.question().unwrap();
    for (bad, says) in [
        (Question { halflit_question: 2, ..good.clone() }, "format"),
        (Question { epsilon: 100.0, ..good.clone() }, "epsilon is 100, but must be 1"),
        (Question { epsilon: f64::NAN, ..good.clone() }, "epsilon"),
        (Question { mechanism: Kind::Privunit, ..good.clone() }, "mechanism"),
        (Question { clip_norm: 0.0, ..good.clone() }, "clip norm"),
        (Question { weights: vec![0.0; 3], ..good.clone() }, "weights"),
        (Question { weights: vec![0.0, f64::NAN], ..good.clone() }, "coordinate 1"),
    ] {
        let refused =
            Client::new(&randomizer).answer(&mut stream, &bad, |_, _| panic!("the row was looked at"));
        assert!(refused.as_ref().is_err_and(|error| error.to_string().contains(says)), "{refused:?}");
    }
}

#[test]
fn the_numbers_of_a_rehearsal_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = Ledger::open_or_create(&folder.path().join("ledger")).unwrap();
    let plan = LocalPlan::new(values(DECLARATION, &[0.1; 4]), Kind::Privunit, Some(1.0)).unwrap();
    let mut known = halflit_noise::RehearsalSource::from_public_digest([1; 32]);
    let refused = ledger.charge(plan).unwrap().run(known.lend(), &mut ());
    assert!(refused.is_err_and(|error| error.to_string().contains("protect nobody")));
}
