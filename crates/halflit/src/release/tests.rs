use super::*;
use crate::ledger::Ledger;
use crate::mechanisms::weighted_mean::NoiseLaw;
use crate::mechanisms::{Statement, noisy_gradient};
use crate::plan::{Plans, Request};
use crate::testing::{LOSSES, Story, seeded};
use halflit_noise::NoiseSource;
use halflit_privacy::{Change, Event, PrivateRows, PublicRows, Relation, SensitiveColumns, Unit};
use halflit_table::OutOfDomain;
use serde_json::{Value, json};

fn released(story: &Story, noise: &mut NoiseSource) -> Release {
    released_by(None, story, noise)
}

fn released_by(mechanism: Option<&str>, story: &Story, noise: &mut NoiseSource) -> Release {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = Ledger::open_or_create(&folder.path().join("ledger")).unwrap();
    let mechanism = mechanism.map(str::to_owned);
    let is_gradient = mechanism.as_deref().is_none_or(|name| name == noisy_gradient::NAME);
    let steps = is_gradient.then_some(5);
    let gradient = noisy_gradient::Params { steps, ..noisy_gradient::Params::default() };
    let request = Request { mechanism, gradient, ..Request::default() };
    let plan = Plans::new(story.problem(), &request).unwrap().best().unwrap();
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
            if let Statement::NoisyGradient(statement) = &mut c.mechanism {
                statement.steps -= 1;
                statement.levels[0].steps -= 1;
            }
        }),
        ("noise_multiplier", |c| {
            if let Statement::NoisyGradient(statement) = &mut c.mechanism {
                statement.levels[0].noise_multiplier *= 2.0;
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
    later.halflit_certificate = CERTIFICATE_FORMAT + 1;
    assert!(matches!(later.sealed().verify(), Err(VerifyError::Format { found: 3 })));
}

/// Every leaf of a certificate with the ways in which it is changed: what to put in its place, and where.
fn tampered(value: &Value) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    let mut stack = vec![(String::new(), value)];
    while let Some((pointer, node)) = stack.pop() {
        let mut put = |new: Value| {
            let mut changed = value.clone();
            *changed.pointer_mut(&pointer).unwrap() = new;
            found.push((pointer.clone(), changed));
        };
        match node {
            Value::Object(fields) => {
                for (key, field) in fields {
                    stack.push((format!("{pointer}/{key}"), field));
                }
            }
            Value::Array(items) => {
                stack.extend((0..items.len()).map(|index| (format!("{pointer}/{index}"), &items[index])));
                let mut fewer = items.clone();
                if fewer.pop().is_some() {
                    put(Value::Array(fewer));
                }
            }
            Value::Null => put(json!(0.25)),
            Value::Bool(flag) => put(json!(!flag)),
            Value::String(text) => {
                put(json!(format!("{text} ")));
                put(json!(""));
            }
            Value::Number(number) => {
                let value = number.as_f64().unwrap();
                let numbers = [0.5 * value, 2.0 * value + 1e-3, -value - 1.0];
                for changed in numbers {
                    let is_whole = number.is_i64() || number.is_u64();
                    put(if is_whole { json!(changed.round() as i64) } else { json!(changed) });
                }
            }
        }
    }
    found
}

/// Where a changed text is no longer a certificate at all, that is a refusal, too.
fn read(value: &Value) -> Option<Certificate> {
    serde_json::from_value(value.clone()).ok()
}

/// One of every mechanism, and of several relations.
fn certificates() -> Vec<Certificate> {
    let mut certificates = vec![means(), messages()];
    certificates.extend(models());
    certificates
}

/// Numbers of a declaration without a task.
fn values() -> halflit_table::Values {
    use halflit_table::{Column, Protection, Table, Values};
    let text = "budget = { epsilon = 1.0, delta = 1e-6 }\nprotect = { unit = 'row' }\n[columns]\n\
        a = { bounds = [0, 10] }\nb = { bounds = [-1, 1] }\n";
    let protection = Protection::parse(text, "privacy.toml").unwrap_or_else(|error| panic!("{error}"));
    let columns = Values::choose(&protection, &["a".to_owned(), "b".to_owned()]).unwrap();
    let cells = |high: f64| Column::Numbers((0..50).map(|row| high * f64::from(row) / 50.0).collect());
    let table = Table::from_columns(vec![("a".to_owned(), cells(10.0)), ("b".to_owned(), cells(1.0))]);
    Values::bind(protection, columns, &table.unwrap(), OutOfDomain::Refuse).unwrap()
}

fn means() -> Certificate {
    use crate::mechanisms::weighted_mean::{MeanPlans, MeanRequest};
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = Ledger::open_or_create(&folder.path().join("ledger")).unwrap();
    let plan = MeanPlans::new(values(), &MeanRequest::default()).unwrap().best().unwrap();
    let output = ledger.charge(plan).unwrap().run(&mut NoiseSource::from_os().unwrap()).unwrap();
    output.release(&[]).unwrap().certificate
}

fn messages() -> Certificate {
    use crate::mechanisms::local::{Kind, LocalPlan};
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = Ledger::open_or_create(&folder.path().join("ledger")).unwrap();
    let plan = LocalPlan::new(values(), Kind::Privunit, None).unwrap();
    let output = ledger.charge(plan).unwrap().run(&mut NoiseSource::from_os().unwrap(), &mut ()).unwrap();
    output.release().unwrap().certificate
}

fn models() -> Vec<Certificate> {
    let labels = || Story { public: vec!["x", "u", "c"], ..Story::new(80) };
    [
        ("noisy_gradient", Story::new(80)),
        ("noisy_gradient", Story { zero_out: true, by_user: true, ..Story::new(80) }),
        ("noisy_gradient", Story { by_user: true, public: vec!["x"], public_rows: true, ..Story::new(80) }),
        ("noisy_statistics", labels()),
        ("randomized_response", labels()),
        ("block_statistics", Story { public: vec!["x"], ..Story::new(80).loss("squared") }),
        ("belief_statistics", Story { public: vec!["x", "u", "y"], ..Story::new(80) }),
        ("belief_updates", Story { public: vec!["x", "u", "y"], ..Story::new(80) }),
        ("belief_centred", Story { public: vec!["x", "u", "y"], ..Story::new(80) }),
        ("public_rows", Story { public_rows: true, ..Story::new(300) }),
    ]
    .map(|(mechanism, story)| {
        released_by(Some(mechanism), &story, &mut NoiseSource::from_os().unwrap()).certificate
    })
    .to_vec()
}

#[test]
fn every_changed_field_breaks_the_seal() {
    for honest in certificates() {
        let value = serde_json::to_value(&honest).unwrap();
        let (mut changed, mut fields) = (0, std::collections::BTreeSet::new());
        for (pointer, tampered) in tampered(&value) {
            let Some(certificate) = read(&tampered) else { continue };
            if certificate == honest {
                assert!(tampered == value, "{pointer}: a change that is not read");
                continue;
            }
            assert!(certificate.verify().is_err(), "{pointer}");
            changed += 1;
            fields.insert(pointer);
        }
        assert!(changed > 100 && fields.len() > 50, "{changed} {}", fields.len());
    }
}

/// A forger who computes a new seal: every field that follows from others is checked against them. Listed are the fields that say nothing about
/// privacy, or that only the ledger and the model file can confirm; and claims may always be made weaker.
#[test]
fn every_field_that_follows_from_others_is_recomputed() {
    const FREE: [&str; 44] = [
        "/software",
        "/charged_at",
        // Computed anew by the forger.
        "/seal",
        "/charge",
        "/hyperparameters",
        // What was done with the releases, and what was taken from the public rows.
        "/mechanism/descent/step_size",
        "/mechanism/descent/momentum",
        "/mechanism/descent/noise",
        "/mechanism/hidden_weight",
        "/mechanism/public/batch",
        "/mechanism/public/rescaled",
        "/mechanism/regularization",
        "/mechanism/radius",
        "/mechanism/rows",
        "/mechanism/coordinates",
        "/mechanism/values",
        "/mechanism/released",
        "/statistics_sha256",
        // Whether that file has a matrix; sensitivity and noise are of what was summed, with it or without.
        "/mechanism/is_shaped",
        // How many people gave a randomized answer, or stand beside public rows: it changes the promise to nobody.
        "/mechanism/units",
        // An optional claim may be left out, but not made up: see below.
        "/gdp_mu",
        "/zcdp_rho",
        // How many public rows there are beside the units.
        "/mechanism/total_weight",
        "/mechanism/public_row_weight",
        "/mechanism/centre/0",
        "/mechanism/centre/1",
        "/mechanism/optimizer/step_size",
        "/mechanism/optimizer/momentum",
        "/mechanism/optimizer/penalty",
        "/mechanism/optimizer/rounds",
        // From two on their number does not matter; everybody sends one message.
        "/mechanism/hidden_coordinates",
        "/mechanism/messages",
        // Compared with the model's: see below.
        "/secrets/sensitive_columns",
        "/secrets/sensitive_columns/0",
        "/secrets/sensitive_columns/1",
        "/secrets/sensitive_columns/2",
        "/secrets/sensitive_columns/3",
        "/secrets/public_columns",
        "/secrets/public_columns/0",
        "/secrets/public_columns/1",
        "/secrets/public_columns/2",
        "/secrets/public_columns/3",
        // Every column of this relation is sensitive, whatever its name; others are compared with theirs: see below.
        "/mechanism/sensitive_columns/0",
        "/mechanism/sensitive_columns/1",
    ];
    /// What steers the use of belief queries, beside the number of updates.
    const STEERING: [&str; 6] = ["rate", "truncation", "threshold", "size_floor", "vector_bound", "trust"];
    for honest in certificates() {
        honest.verify().unwrap();
        let value = serde_json::to_value(&honest).unwrap();
        for (pointer, tampered) in tampered(&value) {
            let Some(certificate) = read(&tampered) else { continue };
            let units_are_free = matches!(honest.mechanism, Statement::RandomizedResponse(_))
                || matches!(honest.relation.private_rows(), halflit_privacy::PrivateRows::Outside(_));
            let is_steering = pointer.starts_with("/mechanism/releases/")
                && pointer.rsplit('/').next().is_some_and(|field| STEERING.contains(&field));
            let is_free = is_steering
                || FREE.contains(&pointer.as_str()) && (units_are_free || pointer != "/mechanism/units");
            if is_free || certificate == honest {
                continue;
            }
            let verified = certificate.sealed().verify();
            // A promise without any delta holds at every delta.
            let is_pure = match &honest.mechanism {
                Statement::RandomizedResponse(_) | Statement::Local(_) => true,
                Statement::WeightedMean(mean) => mean.law() == Some(NoiseLaw::Laplace),
                _ => false,
            };
            if is_pure && pointer == "/guarantee/delta" {
                continue;
            }
            // None: weaker, but no longer of one piece with the lower end beside it; either answer will do.
            if let Some(is_weaker) = is_weaker_claim(&pointer, &value, &tampered) {
                let name = &value["mechanism"]["name"];
                assert_eq!(verified.is_ok(), is_weaker, "{name} {pointer}: {:?}", tampered.pointer(&pointer));
            }
        }
    }
}

/// A larger epsilon or upper end, or a smaller lower end, promises less.
fn is_weaker_claim(pointer: &str, honest: &Value, tampered: &Value) -> Option<bool> {
    let number = |value: &Value| value.pointer(pointer).and_then(Value::as_f64).unwrap_or(f64::NAN);
    let (before, after) = (number(honest), number(tampered));
    let is_claim = pointer.starts_with("/guarantee/") || pointer.starts_with("/profile/");
    match pointer.rsplit('/').next() {
        _ if !is_claim => Some(false),
        Some("lower") => Some(after < before),
        Some("upper") => Some(after > before),
        Some("epsilon") if pointer == "/guarantee/epsilon" => Some(after > before),
        Some("epsilon" | "delta") if after > before => None,
        _ => Some(false),
    }
}

#[test]
fn optional_claims_cannot_be_made_up_or_lowered() {
    for honest in certificates() {
        for (mu, rho) in [(Some(1e-3), honest.zcdp_rho), (honest.gdp_mu, Some(1e-6))] {
            let is_free = honest.gdp_mu == Some(0.0);
            let forged = Certificate { gdp_mu: mu, zcdp_rho: rho, ..honest.clone() }.sealed();
            assert_eq!(forged.verify().is_ok(), is_free, "{mu:?} {rho:?}");
        }
        Certificate { gdp_mu: None, zcdp_rho: None, ..honest }.sealed().verify().unwrap();
    }
}

/// A certificate relabelled: given another relation, with its sentence and conditions, and sealed anew.
fn under(mut certificate: Certificate, relation: Relation) -> Result<Verified, VerifyError> {
    certificate.sentence = relation.sentence();
    certificate.conditions = certificate::conditions(&relation);
    certificate.relation = relation;
    certificate.sealed().verify()
}

/// The same with the other kind of change, the other unit, and other sensitive columns.
fn relabelled(relation: &Relation) -> Vec<Relation> {
    let users = |id_column: &str| Unit::User { id_column: id_column.to_owned() };
    let unit = match relation.unit() {
        Unit::Row => users("user"),
        Unit::User { .. } => Unit::Row,
    };
    let change = match relation.change() {
        Change::Replace => Change::ZeroOut,
        Change::ZeroOut => Change::Replace,
    };
    let named = |columns: &[&str]| SensitiveColumns::named(columns.iter().copied()).unwrap();
    let (rows, sensitive) = (relation.private_rows(), relation.sensitive());
    let mut others = vec![
        Relation::new(relation.unit().clone(), sensitive.clone(), rows.clone(), change),
        Relation::new(unit, sensitive.clone(), rows.clone(), relation.change()),
    ];
    if matches!(relation.unit(), Unit::User { .. }) {
        let other = users("household");
        others.push(Relation::new(other, sensitive.clone(), rows.clone(), relation.change()));
    }
    let marked = |value: &str| PrivateRows::Outside(PublicRows::new("consent", [value]).unwrap());
    for private_rows in [PrivateRows::All, marked("yes"), marked("never")] {
        // Where all columns are sensitive, none can mark rows.
        if private_rows != *rows && (private_rows == PrivateRows::All || *sensitive != SensitiveColumns::All)
        {
            let unit = relation.unit().clone();
            others.push(Relation::new(unit, sensitive.clone(), private_rows, relation.change()));
        }
    }
    for sensitive in [SensitiveColumns::All, named(&["x", "u"]), named(&["c"]), named(&["y"]), named(&["z"])]
    {
        if sensitive != *relation.sensitive() {
            others.push(Relation::new(relation.unit().clone(), sensitive, rows.clone(), relation.change()));
        }
    }
    others.into_iter().map(Result::unwrap).collect()
}

#[test]
fn no_certificate_holds_under_a_relation_it_was_not_made_for() {
    let mut refused = 0;
    for honest in certificates() {
        under(honest.clone(), honest.relation.clone()).unwrap();
        for relation in relabelled(&honest.relation) {
            // What reads no private cell promises as much whichever way these change.
            let is_free = matches!(honest.mechanism, Statement::PublicRows(_));
            if is_free && relation.change() != honest.relation.change() {
                continue;
            }
            let name = serde_json::to_value(&honest.mechanism).unwrap()["name"].clone();
            assert!(under(honest.clone(), relation.clone()).is_err(), "{name}: {}", relation.sentence());
            refused += 1;
        }
    }
    assert!(refused > 60, "{refused}");
}

#[test]
fn a_certificate_speaks_of_the_columns_of_its_model() {
    for story in [
        Story::new(80),
        Story { public: vec!["x", "u", "c"], ..Story::new(80) },
        Story { public: vec!["x", "u", "y"], ..Story::new(80) },
    ] {
        let release = released(&story, &mut NoiseSource::from_os().unwrap());
        release.certificate.agrees_with(&release.model).unwrap();
        let with = |forge: &dyn Fn(&mut Secrets)| {
            let mut certificate = release.certificate.clone();
            forge(&mut certificate.secrets);
            certificate.agrees_with(&release.model)
        };
        assert!(with(&|secrets| secrets.sensitive_columns.push("z".to_owned())).is_err());
        assert!(with(&|secrets| secrets.public_columns.push("z".to_owned())).is_err());
        assert!(with(&|secrets| secrets.sensitive_columns.clear()).is_err());
        let swap = |secrets: &mut Secrets| {
            std::mem::swap(&mut secrets.sensitive_columns, &mut secrets.public_columns);
        };
        assert!(with(&swap).is_err());
    }
}

/// Statements that cannot belong to their relation, each under a fresh seal and with the right sentence.
#[test]
fn a_mechanism_that_the_relation_does_not_allow_is_refused() {
    let outside = || PrivateRows::Outside(PublicRows::new("consent", ["yes"]).unwrap());
    let mismatch = |verified: Result<Verified, VerifyError>, wanted: &str| match verified {
        Err(VerifyError::Mismatch { field, .. }) => assert_eq!(field, wanted),
        other => panic!("{wanted}: {other:?}"),
    };
    // A midrange centre has nothing to stand on where all columns are sensitive.
    let labels_by = |mechanism: &str| {
        let story = Story { public: vec!["x", "u", "c"], ..Story::new(80) };
        released_by(Some(mechanism), &story, &mut NoiseSource::from_os().unwrap()).certificate
    };
    let labels = labels_by("noisy_gradient");
    labels.verify().unwrap();
    mismatch(under(labels.clone(), Relation::full(Change::Replace)), "centre");
    // Nor have label statistics, and randomized labels are not randomized users.
    for mechanism in ["noisy_statistics", "randomized_response"] {
        mismatch(under(labels_by(mechanism), Relation::full(Change::Replace)), "mechanism");
    }
    // Beliefs read public features; blocks of products are summed over rows that everyone can count.
    let hidden = |mechanism: &str, loss| {
        let story = Story { public: vec!["x", "u", "y"], ..Story::new(80).loss(loss) };
        released_by(Some(mechanism), &story, &mut NoiseSource::from_os().unwrap()).certificate
    };
    for mechanism in ["belief_updates", "belief_centred", "belief_statistics"] {
        let certificate = hidden(mechanism, "logistic");
        certificate.verify().unwrap();
        mismatch(under(certificate, Relation::full(Change::Replace)), "mechanism");
    }
    let blocks = hidden("block_statistics", "squared");
    mismatch(under(blocks, Relation::full(Change::Replace)), "known_norm");
    let story = Story { public: vec!["x"], zero_out: true, ..Story::new(80).loss("squared") };
    let blocks =
        released_by(Some("block_statistics"), &story, &mut NoiseSource::from_os().unwrap()).certificate;
    blocks.verify().unwrap();
    mismatch(under(blocks, Relation::full(Change::ZeroOut)), "mechanism");
    let users = Unit::User { id_column: "user".to_owned() };
    let users =
        Relation::new(users, SensitiveColumns::named(["y"]).unwrap(), PrivateRows::All, Change::Replace);
    mismatch(under(labels_by("randomized_response"), users.unwrap()), "mechanism");
    // Weights: without public rows the units are all there is.
    let mut heavier = labels.clone();
    if let Statement::NoisyGradient(statement) = &mut heavier.mechanism {
        statement.total_weight += 10.0;
    }
    mismatch(under(heavier.clone(), labels.relation.clone()), "total_weight");
    let named = SensitiveColumns::named(["y"]).unwrap();
    let with_public = Relation::new(Unit::Row, named, outside(), Change::Replace).unwrap();
    heavier.secrets.private_rows = with_public.private_rows().clone();
    under(heavier.clone(), with_public.clone()).unwrap();
    if let Statement::NoisyGradient(statement) = &mut heavier.mechanism {
        statement.total_weight += 0.5;
    }
    mismatch(under(heavier, with_public), "total_weight");
    // Training on public rows where there are none.
    let free = certificates().pop().unwrap();
    assert!(matches!(free.mechanism, Statement::PublicRows(_)), "{:?}", free.mechanism);
    mismatch(under(free, Relation::full(Change::Replace)), "mechanism");
}

/// A mean of sensitive columns over private units without noise must not pass for one that cost nothing.
#[test]
fn a_mean_without_noise_uses_no_private_cell() {
    use crate::mechanisms::weighted_mean::{Statement as Mean, Variant};
    use halflit_privacy::{Change, PrivateRows, PublicRows, Relation, SensitiveColumns, Unit};
    let relation = |columns: &[&str], public: bool| {
        let sensitive = match columns {
            [] => SensitiveColumns::All,
            names => SensitiveColumns::named(names.iter().copied()).unwrap(),
        };
        let rows = PrivateRows::Outside(PublicRows::new("consent", ["yes"]).unwrap());
        let rows = if public { rows } else { PrivateRows::All };
        Relation::new(Unit::Row, sensitive, rows, Change::Replace).unwrap()
    };
    let mean = |variant: Variant, sensitive: &[&str], weight: f64, public_rows: u64| {
        let public_row_weight =
            if public_rows > 0 { (1.0 - 10.0 * weight) / public_rows as f64 } else { 0.0 };
        Statement::WeightedMean(Mean {
            variant,
            change: Change::Replace,
            units: 10,
            public_rows,
            sensitive_columns: sensitive.iter().map(|&name| name.to_owned()).collect(),
            public_columns: vec!["age".to_owned()],
            weight,
            public_row_weight,
            centre: vec![0.0; sensitive.len()],
            noise: None,
        })
    };
    let holds = |statement: &Statement, relation: &Relation| {
        statement.check().is_ok() && statement.belongs_to(relation).is_ok()
    };
    let exact = mean(Variant::Exact, &[], 0.1, 0);
    assert!(holds(&exact, &relation(&["y"], false)));
    assert!(!holds(&exact, &relation(&[], false)), "every column is sensitive");
    assert!(!holds(&exact, &relation(&["y", "age"], false)), "the free mean is of a protected column");
    let public_only = mean(Variant::PublicOnly, &["x", "y"], 0.0, 5);
    assert!(holds(&public_only, &relation(&["x", "y"], true)));
    assert!(!holds(&public_only, &relation(&[], true)), "age would be sensitive, too");
    assert!(!holds(&public_only, &relation(&["x", "y"], false)), "no row is public");
    assert!(!holds(&public_only, &relation(&["y"], true)), "two columns cannot be the one that is sensitive");
    assert!(!holds(&public_only, &relation(&["y", "z"], true)), "x is not protected");
    assert!(
        !holds(&mean(Variant::PublicOnly, &["y", "y"], 0.0, 5), &relation(&["y"], true)),
        "y is there twice"
    );
    for variant in [Variant::Exact, Variant::PublicOnly] {
        assert!(
            !holds(&mean(variant, &["y"], 0.1, 0), &relation(&["y"], false)),
            "private units count, without noise"
        );
        assert!(!holds(&mean(variant, &["y"], 0.05, 5), &relation(&["y"], true)));
    }
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
