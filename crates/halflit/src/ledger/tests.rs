use super::*;
use crate::plan::{Plan, Plans, Request};
use crate::testing::Story;
use halflit_privacy::{Change, NoiseMultiplier, SensitiveColumns, Unit};
use std::path::PathBuf;

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Folder(tempfile::tempdir().unwrap())
    }

    fn ledger(&self) -> PathBuf {
        self.0.path().join("data.ledger")
    }
}

fn plan(story: &Story, epsilon: f64) -> Plan {
    let budget = Some(Budget { epsilon, delta: 1e-6 });
    Plans::new(story.problem(), &Request { budget, steps: Some(4), ..Request::default() })
        .unwrap()
        .best()
        .unwrap()
}

fn labels_only() -> Story {
    Story { public: vec!["x", "u", "c"], ..Story::new(80) }
}

#[test]
fn the_first_charge_opens_the_default_account_with_the_declared_budget() {
    let folder = Folder::new();
    let mut ledger = Ledger::open_or_create(&folder.ledger()).unwrap();
    let charged = ledger.charge(plan(&Story::new(80), 0.4)).unwrap();
    assert!(charged.receipt().charged_at.starts_with("20") && charged.receipt().dataset.len() == 32);
    let overview = ledger.overview().unwrap();
    assert_eq!(overview.dataset, charged.receipt().dataset);
    let [standing] = &overview.accounts[..] else { panic!("{overview:?}") };
    assert_eq!((standing.account.name.as_str(), standing.account.epsilon), (DEFAULT_ACCOUNT, 1.0));
    let spent = standing.spent.unwrap();
    assert!(spent.upper <= 0.4 && spent.upper > 0.39, "{spent:?}");
    assert!(
        standing.left.unwrap() > 0.6 && standing.left.unwrap() < 1.0,
        "Gaussian releases add up in squares"
    );
    assert_eq!(overview.charges.len(), 1);
    assert_eq!(overview.charges[0].number, charged.receipt().charge);
}

#[test]
fn what_exceeds_the_cap_is_refused_and_leaves_no_trace() {
    let folder = Folder::new();
    let mut ledger = Ledger::open_or_create(&folder.ledger()).unwrap();
    ledger.charge(plan(&Story::new(80), 0.8)).unwrap();
    let before = ledger.overview().unwrap();
    let refused = ledger.charge(plan(&Story::new(80), 0.8)).unwrap_err();
    let LedgerError::OverCap { after, left, .. } = &refused else { panic!("{refused}") };
    assert!(*after > 1.0 && left.unwrap() > 0.4 && left.unwrap() < 0.7, "{refused}");
    assert_eq!(ledger.overview().unwrap(), before);
    // What the message says is left does fit, and a little more does not.
    let left = left.unwrap();
    assert!(ledger.charge(plan(&Story::new(80), left * 1.02)).is_err());
    ledger.charge(plan(&Story::new(80), left * 0.999)).unwrap();
}

#[test]
fn every_release_counts_in_every_account() {
    let folder = Folder::new();
    let mut ledger = Ledger::open_or_create(&folder.ledger()).unwrap();
    let (full, labels) = (Story::new(80), labels_only());
    let cap = Budget { epsilon: 2.0, delta: 1e-6 };
    ledger.open_account("labels", labels.problem().relation(), cap).unwrap();
    ledger.charge(plan(&full, 1.0)).unwrap();
    ledger.charge(plan(&labels, 1.0)).unwrap();
    let overview = ledger.overview().unwrap();
    let spent = overview.accounts[0].spent.unwrap().upper;
    assert!(spent > 1.3 && spent < 2.0, "both count: {spent}");
}

#[test]
fn a_label_release_is_refused_while_a_full_account_is_open() {
    let folder = Folder::new();
    let mut ledger = Ledger::open_or_create(&folder.ledger()).unwrap();
    ledger.charge(plan(&Story::new(80), 0.5)).unwrap();
    let refused = ledger.charge(plan(&labels_only(), 0.1)).unwrap_err();
    assert!(
        matches!(&refused, LedgerError::Unbounded { account, .. } if account == DEFAULT_ACCOUNT),
        "{refused}"
    );
    ledger.close_account(DEFAULT_ACCOUNT).unwrap();
    ledger.charge(plan(&labels_only(), 0.1)).unwrap();
    let overview = ledger.overview().unwrap();
    assert!(!overview.accounts[0].account.is_open && overview.accounts[0].spent.is_none());
    assert!(matches!(ledger.close_account("nobody"), Err(LedgerError::NoAccount { .. })));
}

#[test]
fn an_account_opened_late_counts_what_was_spent_before() {
    let folder = Folder::new();
    let mut ledger = Ledger::open_or_create(&folder.ledger()).unwrap();
    let story = Story::new(80);
    ledger.charge(plan(&story, 1.0)).unwrap();
    let small = Budget { epsilon: 0.5, delta: 1e-6 };
    let relation = story.problem().relation().clone();
    assert!(matches!(ledger.open_account("small", &relation, small), Err(LedgerError::OverCap { .. })));
    ledger.open_account("large", &relation, Budget { epsilon: 3.0, delta: 1e-6 }).unwrap();
    assert!(matches!(ledger.open_account("large", &relation, small), Err(LedgerError::AccountExists { .. })));
    for cap in [(f64::NAN, 1e-6), (f64::INFINITY, 1e-6), (-1.0, 1e-6), (1.0, 1.0), (1.0, f64::NAN)] {
        let cap = Budget { epsilon: cap.0, delta: cap.1 };
        assert!(matches!(ledger.open_account("odd", &relation, cap), Err(LedgerError::Parameter(_))));
    }
}

#[test]
fn releases_under_both_changes_compose() {
    let folder = Folder::new();
    let mut ledger = Ledger::open_or_create(&folder.ledger()).unwrap();
    let relation =
        Relation::new(Unit::Row, SensitiveColumns::All, halflit_privacy::PrivateRows::All, Change::Replace)
            .unwrap();
    ledger.open_account("replace", &relation, Budget { epsilon: 5.0, delta: 1e-6 }).unwrap();
    ledger.charge(plan(&Story { zero_out: true, ..Story::new(80) }, 1.0)).unwrap();
    let spent = ledger.overview().unwrap().accounts[0].spent.unwrap();
    assert!(spent.lower > 1.9, "zero-out at epsilon 1 costs about twice that under replace: {spent:?}");
    ledger.charge(plan(&Story::new(80), 1.0)).unwrap();
    assert!(ledger.overview().unwrap().accounts[0].spent.unwrap().upper > spent.upper);
}

#[test]
fn outcomes_are_noted_beside_the_charge() {
    let folder = Folder::new();
    let mut ledger = Ledger::open_or_create(&folder.ledger()).unwrap();
    let charge = ledger.charge(plan(&Story::new(80), 0.5)).unwrap().receipt().charge;
    let outcome = Outcome::NothingReleased { reason: "interrupted".to_owned() };
    ledger.record_outcome(charge, outcome.clone()).unwrap();
    assert_eq!(ledger.overview().unwrap().charges[0].outcome, Some(outcome));
}

#[test]
fn two_writers_never_spend_the_same_budget() {
    let folder = Folder::new();
    let path = folder.ledger();
    Ledger::open_or_create(&path).unwrap();
    // Ten Gaussian releases of mu = 0.1 have mu = 0.316; a cap at mu = 0.2 admits four.
    let event =
        Event::Gaussian { noise_multiplier: NoiseMultiplier::new(20.0).unwrap(), change: Change::Replace };
    let relation = Relation::full(Change::Replace);
    let cap = Profile::of(&Event::Gdp { mu: Mu::new(0.2001).unwrap() })
        .unwrap()
        .epsilon(Delta::new(1e-6).unwrap())
        .upper;
    let cap = Budget { epsilon: cap, delta: 1e-6 };
    let accepted: usize = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..5)
            .map(|_| {
                scope.spawn(|| {
                    let mut ledger = Ledger::open(&path).unwrap();
                    (0..2).filter(|_| ledger.record(&relation, &event, "test", cap).is_ok()).count()
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    assert_eq!(accepted, 4);
    assert_eq!(Ledger::open(&path).unwrap().overview().unwrap().charges.len(), 4);
}
