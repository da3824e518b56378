use super::*;
use crate::ledger::Ledger;
use crate::plan::{Plans, Request};
use crate::testing::{LOSSES, Story, seeded};
use halflit_noise::NoiseSource;
use halflit_privacy::Event;
use halflit_table::OutOfDomain;

fn released(story: &Story, noise: &mut NoiseSource) -> Release {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = Ledger::open_or_create(&folder.path().join("ledger")).unwrap();
    let plan = Plans::new(story.problem(), &Request { steps: Some(5), ..Request::default() })
        .unwrap()
        .best()
        .unwrap();
    let output = ledger.charge(plan).unwrap().run(noise, &mut ()).unwrap();
    output.release(&ledger.overview().unwrap().accounts).unwrap()
}

fn honest() -> Release {
    released(&Story::new(80), &mut NoiseSource::from_os().unwrap())
}

#[test]
fn an_honest_certificate_verifies_from_its_text_alone() {
    for story in [
        Story::new(80),
        Story { zero_out: true, ..Story::new(80) },
        Story { by_user: true, public: vec!["x"], public_rows: true, ..Story::new(80) },
        Story { public: vec!["x", "u", "c"], ..Story::new(80).loss("softmax") },
    ] {
        let release = released(&story, &mut NoiseSource::from_os().unwrap());
        let read: Certificate = serde_json::from_str(&release.certificate_json).unwrap();
        assert_eq!(read, release.certificate);
        let verified = read.verify().unwrap();
        assert!(verified.recomputed_epsilon.upper <= verified.epsilon);
        assert!(read.is_for_model(release.model_json.as_bytes()));
        assert!(!read.is_for_model(b"{}"));
    }
}

#[test]
fn a_changed_certificate_is_refused() {
    let release = honest();
    let text = &release.certificate_json;
    let mut changed = 0;
    // Every digit of the file, changed by one: either it is no certificate any more, or it does not verify.
    for (place, byte) in text.bytes().enumerate() {
        if !byte.is_ascii_digit() || place % 3 != 0 {
            continue;
        }
        let mut bytes = text.clone().into_bytes();
        bytes[place] = b'0' + (byte - b'0' + 1) % 10;
        let tampered = String::from_utf8(bytes).unwrap();
        if let Ok(certificate) = serde_json::from_str::<Certificate>(&tampered) {
            // A digit beyond double precision may leave every number as it was.
            if certificate != release.certificate {
                assert!(certificate.verify().is_err(), "{}", &tampered[place.saturating_sub(40)..place + 10]);
                changed += 1;
            }
        }
    }
    assert!(changed > 100, "{changed}");
}

/// A forger who also recomputes the seal is caught by the arithmetic.
#[test]
fn claims_that_do_not_follow_are_refused_even_under_a_fresh_seal() {
    let honest = honest().certificate;
    type Forgery = fn(&mut Certificate);
    let forgeries: [(&str, Forgery); 11] = [
        ("guarantee.epsilon", |c| c.guarantee.epsilon *= 0.9),
        ("guarantee.epsilon", |c| c.guarantee.delta *= 0.1),
        ("guarantee.epsilon", |c| c.guarantee.epsilon = f64::NAN),
        ("guarantee.accountant.upper", |c| c.guarantee.accountant.upper *= 0.9),
        ("profile", |c| c.profile[10].delta.upper *= 0.5),
        ("gdp_mu", |c| c.gdp_mu = c.gdp_mu.map(|mu| 0.9 * mu)),
        ("zcdp_rho", |c| c.zcdp_rho = c.zcdp_rho.map(|rho| 0.9 * rho)),
        ("sentence", |c| c.sentence = "Nobody can learn anything.".to_owned()),
        ("event", |c| c.event = Event::Composed(vec![])),
        ("event", |c| {
            if let crate::mechanisms::Statement::NoisyGradient(statement) = &mut c.mechanism {
                statement.steps -= 1;
            }
        }),
        ("noise_multiplier", |c| {
            if let crate::mechanisms::Statement::NoisyGradient(statement) = &mut c.mechanism {
                statement.noise_multiplier *= 2.0;
            }
        }),
    ];
    for (field, forge) in forgeries {
        let mut forged = honest.clone();
        forge(&mut forged);
        match forged.sealed().verify() {
            Err(VerifyError::Mismatch { field: found, .. }) => assert_eq!(found, field),
            other => panic!("{field}: {other:?}"),
        }
    }
    let mut later = honest.clone();
    later.halflit_certificate = 2;
    assert!(matches!(later.sealed().verify(), Err(VerifyError::Format { found: 2 })));
}

#[test]
fn another_change_than_the_relations_is_refused() {
    let mut forged = honest().certificate;
    forged.relation = halflit_privacy::Relation::full(halflit_privacy::Change::ZeroOut);
    forged.sentence = forged.relation.sentence();
    assert!(matches!(
        forged.sealed().verify(),
        Err(VerifyError::Mismatch { field: "the mechanism's change", .. })
    ));
}

#[test]
fn a_fixed_seed_is_said_in_capitals_and_does_not_verify() {
    let release = released(&Story::new(80), &mut seeded(1));
    assert_eq!(release.certificate.randomness, SEEDED_RANDOMNESS);
    assert!(release.report_html.contains(SEEDED_RANDOMNESS));
    assert!(matches!(release.certificate.verify(), Err(VerifyError::Seeded)));
}

#[test]
fn models_survive_their_file_and_predict_every_kind_of_label() {
    for loss in LOSSES {
        let story = Story { epsilon: 50.0, ..Story::new(400).loss(loss) };
        let release = released(&story, &mut seeded(2));
        let model: Model = serde_json::from_str(&release.model_json).unwrap();
        assert_eq!(model, release.model);
        let table = story.cells.table_for(loss);
        let predictions = model.predict(&table, OutOfDomain::Refuse).unwrap();
        assert_eq!(predictions.len(), 400);
        if let Predictions::Classes { probabilities: Some(probabilities), .. } = &predictions {
            assert!(probabilities.iter().all(|row| (row.iter().sum::<f64>() - 1.0).abs() < 1e-12));
        }
        let evaluation = model.evaluate(&table, OutOfDomain::Refuse).unwrap();
        if let Some(accuracy) = evaluation.accuracy {
            assert!(accuracy > 0.5, "{loss}: {evaluation:?}");
        }
        assert!(evaluation.mean_loss.is_finite());
    }
}

#[test]
fn models_that_do_not_fit_are_refused() {
    let release = honest();
    let text = &release.model_json;
    for (from, to) in [
        ("\"halflit_model\": 1", "\"halflit_model\": 2"),
        ("\"weights\"", "\"wieghts\""),
        ("\"logistic\"", "\"softmax\""),
    ] {
        assert!(text.contains(from), "{from}");
        assert!(serde_json::from_str::<Model>(&text.replacen(from, to, 1)).is_err(), "{from}");
    }
    let encoding = release.model.encoding().clone();
    let width = encoding.width();
    let loss = release.model.loss();
    assert!(matches!(Model::new(loss, encoding.clone(), vec![]), Err(ModelError::Shape { .. })));
    assert!(matches!(
        Model::new(loss, encoding.clone(), vec![vec![0.0; width + 1]]),
        Err(ModelError::Shape { .. })
    ));
    let mut weights = vec![0.0; width];
    weights[1] = f64::NAN;
    assert!(matches!(Model::new(loss, encoding, vec![weights]), Err(ModelError::Weight { index: 1, .. })));
}

#[test]
fn the_report_stands_alone_and_says_what_matters() {
    let release = released(
        &Story { by_user: true, public: vec!["x"], public_rows: true, ..Story::new(80) },
        &mut NoiseSource::from_os().unwrap(),
    );
    let report = &release.report_html;
    for expected in
        [&release.certificate.sentence, "What was spent", "Privacy profile", "c=a", "halflit verify"]
    {
        assert!(report.contains(expected.replace('&', "&amp;").as_str()), "{expected}");
    }
    for forbidden in ["http://", "https://", "src=", "@import", "url("] {
        let outside = report.replace("http://www.w3.org/2000/svg", "");
        assert!(!outside.contains(forbidden), "{forbidden}: the report must not need a network");
    }
}
