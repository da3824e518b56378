use super::*;
use crate::mechanisms::noisy_gradient;
use crate::plan::{Plan, Plans, Request};
use crate::testing::Story;
use halflit_privacy::{
    Change, Mu, NoiseMultiplier, PrivateRows, Profile, SamplingRate, SensitiveColumns, Unit,
};
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
    let gradient = noisy_gradient::Params { steps: Some(4), ..noisy_gradient::Params::default() };
    let request = Request { budget, gradient, ..Request::default() };
    Plans::new(story.problem(), &request).unwrap().best().unwrap()
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
    let cap = Budget { epsilon: 1.0, delta: 1e-6 };
    ledger.open_account("labels", labels_only().problem().relation(), cap).unwrap();
    ledger.charge(plan(&labels_only(), 0.1)).unwrap();
    let overview = ledger.overview().unwrap();
    let [closed, open] = &overview.accounts[..] else { panic!("{overview:?}") };
    assert!(!closed.account.is_open && open.account.is_open);
    // The closed account stands where it was closed; the open one counts both.
    let spent = closed.spent.unwrap().upper;
    assert!(spent <= 0.5 && spent > 0.49, "{spent}");
    assert!(open.spent.unwrap().upper > 0.5);
    assert!(matches!(ledger.close_account("nobody"), Err(LedgerError::NoAccount { .. })));
    assert!(matches!(ledger.close_account(DEFAULT_ACCOUNT), Err(LedgerError::NoAccount { .. })));
}

/// A ledger is made for a plan that it takes, and for no other.
#[test]
fn a_refused_first_charge_makes_no_ledger() {
    let folder = Folder::new();
    let (cheap, dear) = (plan(&Story::new(80), 0.5), plan(&Story::new(80), 1e3));
    let refused = Ledger::open_or_create_for(&folder.ledger(), &dear).unwrap_err();
    assert!(matches!(refused, LedgerError::OverCap { .. }), "{refused}");
    assert!(!folder.ledger().exists());
    Ledger::open_or_create_for(&folder.ledger(), &cheap).unwrap().charge(cheap).unwrap();
    // One that is there is opened whatever the plan, and refuses the charge itself.
    let mut ledger = Ledger::open_or_create_for(&folder.ledger(), &dear).unwrap();
    assert!(matches!(ledger.charge(dear), Err(LedgerError::OverCap { .. })));
}

/// Nothing would limit the charge if no account is open.
#[test]
fn with_every_account_closed_nothing_can_be_charged() {
    let folder = Folder::new();
    let mut ledger = Ledger::open_or_create(&folder.ledger()).unwrap();
    ledger.charge(plan(&Story::new(80), 0.5)).unwrap();
    ledger.close_account(DEFAULT_ACCOUNT).unwrap();
    let before = ledger.overview().unwrap();
    let refused = ledger.charge(plan(&Story::new(80), 0.1)).unwrap_err();
    assert!(
        matches!(&refused, LedgerError::NothingOpen { closed } if closed == &[DEFAULT_ACCOUNT]),
        "{refused}"
    );
    assert!(refused.to_string().contains("halflit ledger open"), "{refused}");
    assert_eq!(ledger.overview().unwrap(), before);
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
        Relation::new(Unit::Row, SensitiveColumns::All, PrivateRows::All, Change::Replace).unwrap();
    ledger.open_account("replace", &relation, Budget { epsilon: 5.0, delta: 1e-6 }).unwrap();
    ledger.charge(plan(&Story { zero_out: true, ..Story::new(80) }, 1.0)).unwrap();
    let spent = ledger.overview().unwrap().accounts[0].spent.unwrap();
    assert!(spent.lower > 1.9, "zero-out at epsilon 1 costs about twice that under replace: {spent:?}");
    ledger.charge(plan(&Story::new(80), 1.0)).unwrap();
    assert!(ledger.overview().unwrap().accounts[0].spent.unwrap().upper > spent.upper);
}

/// A replace release publishes how many units there are; a zero-out account of all columns hides whether one of them is there.
#[test]
fn a_replace_release_is_refused_while_a_zero_out_account_of_all_columns_is_open() {
    let folder = Folder::new();
    let mut ledger = Ledger::open_or_create(&folder.ledger()).unwrap();
    ledger.charge(plan(&Story { zero_out: true, ..Story::new(80) }, 0.5)).unwrap();
    let refused = ledger.charge(plan(&Story::new(80), 0.1)).unwrap_err();
    assert!(
        matches!(&refused, LedgerError::Unbounded { why: Unbounded::CountsAreProtected, .. }),
        "{refused}"
    );
}

/// One row of a user is a replacement of what the user contributes: twice the radius, although both sides say zero-out.
#[test]
fn a_user_release_costs_a_row_account_a_replacement() {
    let folder = Folder::new();
    let mut ledger = Ledger::open_or_create(&folder.ledger()).unwrap();
    let rows =
        Relation::new(Unit::Row, SensitiveColumns::named(["y"]).unwrap(), PrivateRows::All, Change::ZeroOut)
            .unwrap();
    ledger.open_account("rows", &rows, Budget { epsilon: 5.0, delta: 1e-6 }).unwrap();
    let users = Story { by_user: true, zero_out: true, ..labels_only() };
    ledger.charge(plan(&users, 1.0)).unwrap();
    let spent = ledger.overview().unwrap().accounts[0].spent.unwrap();
    assert!(spent.lower > 1.9, "about twice epsilon 1: {spent:?}");
}

#[test]
fn outcomes_are_noted_beside_the_charge_once() {
    let folder = Folder::new();
    let mut ledger = Ledger::open_or_create(&folder.ledger()).unwrap();
    let charge = ledger.charge(plan(&Story::new(80), 0.5)).unwrap().receipt().charge;
    let outcome = Outcome::NothingReleased { reason: "interrupted".to_owned() };
    ledger.record_outcome(charge, outcome.clone()).unwrap();
    assert_eq!(ledger.overview().unwrap().charges[0].outcome, Some(outcome.clone()));
    for wrong in [charge, 1, 99, -1] {
        let refused = ledger.record_outcome(wrong, outcome.clone()).unwrap_err();
        assert!(matches!(refused, LedgerError::NoCharge { charge } if charge == wrong), "{refused}");
    }
}

fn budget_ledger(folder: &Folder, cap: Budget) -> Ledger {
    let mut ledger = Ledger::open_or_create(&folder.ledger()).unwrap();
    ledger.open_account("all", &Relation::full(Change::Replace), cap).unwrap();
    ledger
}

fn record(ledger: &mut Ledger, event: &Event) -> Result<Receipt, LedgerError> {
    let none = Budget { epsilon: 1.0, delta: 1e-6 };
    ledger.record(&Relation::full(Change::Replace), event, "test", none)
}

/// delta at epsilon = 1 of both events, had they been planned together.
fn planned_delta(first: &Event, second: &Event) -> f64 {
    let both = Event::Composed(vec![first.clone(), second.clone()]);
    Profile::of(&both).unwrap().delta(Epsilon::new(1.0).unwrap()).upper
}

/// After a first release, a Gaussian or a randomized response, each so large that with the first it has delta = 1e-3 exactly at epsilon
/// = 1. Whoever may pick one of them after looking gets more than that (`docs/accounting/filters.md`), so neither may be admitted:
/// adding up privacy-loss distributions would admit both.
#[test]
fn what_is_chosen_after_looking_is_not_added_up_as_if_planned() {
    let first = Event::Gdp { mu: Mu::new(0.2).unwrap() };
    let kinds: [fn(f64) -> Event; 2] = [
        |size| Event::Gdp { mu: Mu::new(size).unwrap() },
        |size| Event::PureDp { epsilon: Epsilon::new(size).unwrap() },
    ];
    for kind in kinds {
        let (mut low, mut high) = (0.0, 5.0);
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            if planned_delta(&first, &kind(middle)) <= 1e-3 { low = middle } else { high = middle }
        }
        assert!(planned_delta(&first, &kind(low)) <= 1e-3 && low > 0.1, "{low}");
        let folder = Folder::new();
        let mut ledger = budget_ledger(&folder, Budget { epsilon: 1.0, delta: 1e-3 });
        record(&mut ledger, &first).unwrap();
        let refused = record(&mut ledger, &kind(low)).unwrap_err();
        assert!(matches!(refused, LedgerError::OverCap { .. }), "{refused}");
        // What the message says is left is admitted.
        record(&mut ledger, &kind(0.5 * low)).unwrap();
    }
}

#[test]
fn sampled_releases_are_admitted_by_the_filter() {
    let event = Event::PoissonGaussian {
        rate: SamplingRate::new(0.01).unwrap(),
        noise_multiplier: NoiseMultiplier::new(2.0).unwrap(),
        change: Change::Replace,
    }
    .repeated(200)
    .unwrap();
    let folder = Folder::new();
    let cap = Budget { epsilon: 2.0, delta: 1e-6 };
    let mut ledger = budget_ledger(&folder, cap);
    let mut admitted = 0;
    while record(&mut ledger, &event).is_ok() {
        admitted += 1;
    }
    let as_if_planned = |count: u64| {
        let all = event.clone().repeated(count).unwrap();
        Profile::of(&all).unwrap().epsilon(Delta::new(cap.delta).unwrap()).upper
    };
    assert!(admitted >= 2, "{admitted}");
    assert!(
        as_if_planned(admitted + 1) <= cap.epsilon,
        "the sum of distributions would have admitted one more"
    );
    let spent = ledger.overview().unwrap().accounts[0].spent.unwrap();
    assert!(spent.upper <= 1.002 * cap.epsilon && spent.lower <= as_if_planned(admitted), "{spent:?}");
}

/// An account without a delta: pure releases add up to the last bit, the others are refused by name, and what is left is told in pure epsilon.
#[test]
fn an_account_without_delta_is_for_pure_releases() {
    let pure = |epsilon: f64| Event::PureDp { epsilon: Epsilon::new(epsilon).unwrap() };
    let folder = Folder::new();
    let mut ledger = budget_ledger(&folder, Budget { epsilon: 1.0, delta: 0.0 });
    let standing = |ledger: &Ledger| ledger.overview().unwrap().accounts.remove(0);
    assert_eq!((standing(&ledger).spent.unwrap().upper, standing(&ledger).left), (0.0, Some(1.0)));
    let gaussian = Event::Gdp { mu: Mu::new(0.01).unwrap() };
    let refused = record(&mut ledger, &gaussian).unwrap_err();
    assert!(matches!(refused, LedgerError::NotPure { is_new: true, .. }), "{refused}");
    assert!(refused.to_string().contains("this release is not pure; plan with --delta 0"), "{refused}");
    record(&mut ledger, &pure(0.3)).unwrap();
    record(&mut ledger, &Event::Composed(vec![])).unwrap();
    let refused = record(&mut ledger, &pure(0.8)).unwrap_err().to_string();
    assert!(
        refused.contains("epsilon 1 at delta 0;") && refused.contains("bring it to epsilon 1.1;"),
        "{refused}"
    );
    assert!(refused.contains("a further pure release of at most epsilon 0.7 fits"), "{refused}");
    record(&mut ledger, &pure(0.7)).unwrap();
    assert_eq!((standing(&ledger).spent.unwrap().upper, standing(&ledger).left), (1.0, None));
    // An earlier Gaussian charge keeps an account without a delta from being opened.
    let folder = Folder::new();
    let mut ledger = budget_ledger(&folder, Budget { epsilon: 1.0, delta: 1e-6 });
    record(&mut ledger, &gaussian).unwrap();
    record(&mut ledger, &pure(0.1)).unwrap();
    let cap = Budget { epsilon: 9.0, delta: 0.0 };
    let refused = ledger.open_account("pure", &Relation::full(Change::Replace), cap).unwrap_err();
    assert!(matches!(refused, LedgerError::NotPure { is_new: false, .. }), "{refused}");
}

/// Charges that cost nothing change nothing, wherever they stand.
#[test]
fn free_releases_are_free() {
    let folder = Folder::new();
    let mut ledger = budget_ledger(&folder, Budget { epsilon: 1.0, delta: 1e-6 });
    let (free, whole) = (Event::Composed(vec![]), plan(&Story::new(80), 1.0).event().clone());
    record(&mut ledger, &free).unwrap();
    assert_eq!(ledger.overview().unwrap().accounts[0].spent.unwrap().upper, 0.0);
    record(&mut ledger, &whole).unwrap();
    record(&mut ledger, &free).unwrap();
    assert!(matches!(record(&mut ledger, &whole), Err(LedgerError::OverCap { left: None, .. })));
    let spent = ledger.overview().unwrap().accounts[0].spent.unwrap();
    assert!(spent.upper <= 1.0 && spent.upper > 0.99, "{spent:?}");
    // An account opened now counts the whole, and refuses a smaller cap.
    let relation = Relation::full(Change::Replace);
    assert!(ledger.open_account("small", &relation, Budget { epsilon: 0.9, delta: 1e-6 }).is_err());
    ledger.open_account("same", &relation, Budget { epsilon: 1.0, delta: 1e-6 }).unwrap();
}

#[test]
fn an_emptied_ledger_is_not_a_new_one() {
    let folder = Folder::new();
    Ledger::open_or_create(&folder.ledger()).unwrap().charge(plan(&Story::new(80), 0.5)).unwrap();
    std::fs::write(folder.ledger(), "").unwrap();
    for opened in [Ledger::open_or_create(&folder.ledger()), Ledger::open(&folder.ledger())] {
        let refused = opened.unwrap_err();
        assert!(matches!(refused, LedgerError::Log(LogError::Emptied { .. })), "{refused}");
    }
}

/// A hash chain that holds is not enough: the lines must tell a possible story.
#[test]
fn impossible_lines_are_refused() {
    let cap = |name: &str| Line::AccountOpened {
        name: name.to_owned(),
        relation: Relation::full(Change::Replace),
        epsilon: 1.0,
        delta: 1e-6,
    };
    let dataset = || Line::Dataset { id: "0".to_owned(), software: String::new() };
    let outcome = Outcome::NothingReleased { reason: String::new() };
    for lines in [
        vec![dataset()],
        vec![cap("a"), cap("a")],
        vec![Line::AccountClosed { name: "nobody".to_owned() }],
        vec![
            cap("a"),
            Line::AccountClosed { name: "a".to_owned() },
            Line::AccountClosed { name: "a".to_owned() },
        ],
        vec![Line::Outcome { charge: 1, outcome }],
    ] {
        let folder = Folder::new();
        let mut ledger = Ledger::open_or_create(&folder.ledger()).unwrap();
        ledger.log.append(|_: &[Entry<Line>]| Ok::<_, LogError>((lines.clone(), ()))).unwrap();
        let refused = Ledger::open(&folder.ledger()).unwrap_err();
        assert!(matches!(refused, LedgerError::Log(LogError::Altered { .. })), "{lines:?}: {refused}");
    }
    let folder = Folder::new();
    Log::open_or_create(&folder.ledger(), &cap("a")).unwrap();
    assert!(Ledger::open_or_create(&folder.ledger()).is_err(), "the first line names the dataset");
}

#[test]
fn two_writers_never_spend_the_same_budget() {
    let folder = Folder::new();
    let path = folder.ledger();
    Ledger::open_or_create(&path).unwrap();
    // Ten Gaussian releases of mu = 0.1 have mu = 0.316; a cap at mu = 0.21, less an eighth of its delta, admits four (mu = 0.2).
    let event =
        Event::Gaussian { noise_multiplier: NoiseMultiplier::new(20.0).unwrap(), change: Change::Replace };
    let relation = Relation::full(Change::Replace);
    let cap = Profile::of(&Event::Gdp { mu: Mu::new(0.21).unwrap() })
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
