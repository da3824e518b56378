//! kill -9 at many points: no charge is lost, nothing is released uncharged, the ledger stays readable.

use halflit::mechanisms::noisy_gradient;
use halflit::noise::NoiseSource;
use halflit::table::{Column, Declaration, Declared, OutOfDomain, Table};
use halflit::{Ledger, Plan, Plans, Problem, Request, Watch};
use std::io::{BufRead, BufReader, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const DECLARATION: &str = r#"
[budget]
epsilon = 500.0
delta = 1e-6
[protect]
unit = "row"
[task]
label = "y"
loss = "squared"
[columns.x]
bounds = [0, 1]
[columns.y]
bounds = [0, 1]
"#;

const FOLDER: &str = "HALFLIT_TEST_FOLDER";
const POINT: &str = "HALFLIT_TEST_POINT";
/// Where a child can be told to die, in order; each with the number of charges that must be found afterwards.
const POINTS: [(&str, usize); 7] = [
    ("before the ledger", 0),
    ("ledger open", 0),
    ("charged", 1),
    ("in the first step", 1),
    ("in the last step", 1),
    ("before writing", 1),
    ("half written", 1),
];
const KILLS: u64 = 45;
const STEPS: u64 = 3;

fn plan() -> Plan {
    let cells: Vec<f64> = (0..200).map(|row| f64::from(row % 10) / 10.0).collect();
    let columns = ["x", "y"].map(|name| (name.to_owned(), Column::Numbers(cells.clone())));
    let declaration = Declaration::parse(DECLARATION, "privacy.toml").unwrap();
    let declared = Declared::bind(declaration, Table::from_columns(columns.into()).unwrap()).unwrap();
    let problem = Problem::pose(declared, OutOfDomain::Refuse).unwrap();
    let budget = Some(halflit::table::Budget { epsilon: 0.5, delta: 1e-6 });
    // A mechanism with steps to die in.
    let gradient = noisy_gradient::Params { steps: Some(STEPS), ..noisy_gradient::Params::default() };
    Plans::new(problem, &Request { budget, gradient, ..Request::default() }).unwrap().best().unwrap()
}

/// Dies by SIGKILL at one point.
struct Mortal(Option<String>);

impl Mortal {
    fn die_at(&self, here: &str) {
        if self.0.as_deref() == Some(here) {
            let _ = Command::new("kill").args(["-9", &std::process::id().to_string()]).status();
            std::thread::sleep(Duration::from_secs(60));
            unreachable!("kill -9 was survived");
        }
    }
}

impl Watch for Mortal {
    fn progress(&mut self, done: u64, _total: u64) -> ControlFlow<()> {
        match done {
            0 => self.die_at("in the first step"),
            done if done + 1 == STEPS => self.die_at("in the last step"),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// What the child does until it is killed: plan, charge, run, release, and say so each time.
#[allow(clippy::disallowed_methods)]
#[test]
fn child() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let folder = Path::new(&folder);
    let mut mortal = Mortal(std::env::var(POINT).ok());
    let mut noise = NoiseSource::from_os().unwrap();
    let mut out = std::io::stdout();
    let mut say = |line: String| {
        writeln!(out, "{line}").unwrap();
        out.flush().unwrap();
    };
    for _ in 0..10_000 {
        let plan = plan();
        say("planned".to_owned());
        mortal.die_at("before the ledger");
        let mut ledger = Ledger::open_or_create(&folder.join("ledger")).unwrap();
        mortal.die_at("ledger open");
        let charged = ledger.charge(plan).unwrap();
        let charge = charged.receipt().charge;
        say(format!("charged {charge}"));
        mortal.die_at("charged");
        let release = charged.run(&mut noise, &mut mortal).unwrap().release(&[]).unwrap();
        mortal.die_at("before writing");
        std::fs::write(folder.join("partial"), &release.certificate_json).unwrap();
        mortal.die_at("half written");
        std::fs::rename(folder.join("partial"), folder.join(format!("release-{charge}"))).unwrap();
        say(format!("released {charge}"));
        assert!(mortal.0.is_none(), "the point was never reached: {:?}", mortal.0);
    }
}

fn start(folder: &Path, point: Option<&str>) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["child", "--exact", "--nocapture", "--test-threads=1"]).env(FOLDER, folder);
    match point {
        Some(point) => command.env(POINT, point),
        None => command.env_remove(POINT),
    };
    command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

/// The number after a word; the first line of a test shares its line with the test's name.
fn number(line: &str, word: &str) -> Option<i64> {
    line.split(word).nth(1)?.trim().parse().ok()
}

/// Checks that what was reported is in the ledger and what was released was charged; returns how many charges there are.
fn check(folder: &Path, reported: &[i64]) -> (usize, usize) {
    let ledger = folder.join("ledger");
    if !ledger.exists() {
        assert!(reported.is_empty());
        return (0, 0);
    }
    let overview = Ledger::open_or_create(&ledger).unwrap().overview().unwrap();
    let charges: Vec<i64> = overview.charges.iter().map(|charge| charge.number).collect();
    for charge in reported {
        assert!(charges.contains(charge), "charge {charge} was reported and is gone");
    }
    let mut releases = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if let Some(charge) = name.strip_prefix("release-") {
            let charge: i64 = charge.parse().unwrap();
            assert!(charges.contains(&charge), "release {charge} was never charged");
            let text = std::fs::read_to_string(folder.join(&name)).unwrap();
            let certificate: halflit::Certificate = serde_json::from_str(&text).unwrap();
            assert_eq!(certificate.charge, charge);
            certificate.verify().unwrap();
            releases += 1;
        }
    }
    (charges.len(), releases)
}

#[cfg(unix)]
#[test]
fn at_every_named_point_the_charge_is_there_and_the_release_is_not() {
    use std::os::unix::process::ExitStatusExt;
    for (point, expected) in POINTS {
        let folder = tempfile::tempdir().unwrap();
        let output = start(folder.path(), Some(point)).wait_with_output().unwrap();
        assert_eq!(output.status.signal(), Some(9), "{point}: {}", output.status);
        let lines = String::from_utf8(output.stdout).unwrap();
        let reported: Vec<i64> = lines.lines().filter_map(|line| number(line, "charged ")).collect();
        assert_eq!(reported.len(), expected, "{point}");
        assert_eq!(check(folder.path(), &reported), (expected, 0), "{point}");
        // Life goes on, and what was spent stays spent.
        let mut ledger = Ledger::open_or_create(&folder.path().join("ledger")).unwrap();
        ledger.charge(plan()).unwrap();
        assert_eq!(ledger.overview().unwrap().charges.len(), expected + 1, "{point}");
    }
}

/// One folder, one ledger, and a child killed again and again: some tenths of a millisecond after it has planned (so inside the commit of
/// the charge), after it has charged (inside the run), after it has released (inside the next plan).
#[test]
fn no_charge_is_lost_and_nothing_is_released_uncharged() {
    let folder = tempfile::tempdir().unwrap();
    let (mut reported, mut unfinished) = (Vec::new(), 0);
    for kill in 0..KILLS {
        let mut process = start(folder.path(), None);
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines().map_while(Result::ok);
        let awaited = ["planned", "charged ", "released "][(kill % 3) as usize];
        let mut seen: Vec<String> = Vec::new();
        for line in lines.by_ref() {
            let is_awaited = line.contains(awaited);
            seen.push(line);
            if is_awaited {
                break;
            }
        }
        assert!(
            seen.last().is_some_and(|line| line.contains(awaited)),
            "the child stopped by itself: {seen:?}"
        );
        std::thread::sleep(Duration::from_micros(300 * (kill / 3)));
        process.kill().unwrap();
        process.wait().unwrap();
        // What it had said before it died.
        seen.extend(lines);
        reported.extend(seen.iter().filter_map(|line| number(line, "charged ")));
        let (charges, releases) = check(folder.path(), &reported);
        assert!(charges >= reported.len() && releases <= charges);
        unfinished += u64::from(releases < charges);
    }
    // Two thirds of the kills come after at least one charge.
    assert!(reported.len() as u64 >= KILLS * 2 / 3, "{}", reported.len());
    assert!(unfinished > 0, "no kill fell between a charge and its release");
}
