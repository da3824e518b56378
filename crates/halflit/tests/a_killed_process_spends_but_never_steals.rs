//! kill -9 at many points: no charge is lost, nothing is released uncharged, the ledger stays readable.

use halflit::noise::NoiseSource;
use halflit::table::{Column, Declaration, Declared, OutOfDomain, Table};
use halflit::{Ledger, Plan, Plans, Problem, Request};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
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
const KILLS: u64 = 40;

fn plan() -> Plan {
    let cells: Vec<f64> = (0..200).map(|row| f64::from(row % 10) / 10.0).collect();
    let columns = ["x", "y"].map(|name| (name.to_owned(), Column::Numbers(cells.clone())));
    let declaration = Declaration::parse(DECLARATION, "privacy.toml").unwrap();
    let declared = Declared::bind(declaration, Table::from_columns(columns.into()).unwrap()).unwrap();
    let problem = Problem::pose(declared, OutOfDomain::Refuse).unwrap();
    let budget = Some(halflit::table::Budget { epsilon: 0.5, delta: 1e-6 });
    Plans::new(problem, &Request { budget, steps: Some(3), ..Request::default() }).unwrap().best().unwrap()
}

/// What the child does until it is killed: charge, say so, run, release, say so.
#[test]
fn child() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let folder = Path::new(&folder);
    let mut noise = NoiseSource::from_os().unwrap();
    let mut out = std::io::stdout();
    for _ in 0..10_000 {
        let mut ledger = Ledger::open_or_create(&folder.join("ledger")).unwrap();
        let charged = ledger.charge(plan()).unwrap();
        let charge = charged.receipt().charge;
        writeln!(out, "charged {charge}").unwrap();
        out.flush().unwrap();
        let release = charged.run(&mut noise, &mut ()).unwrap().release(&[]).unwrap();
        std::fs::write(folder.join("partial"), &release.certificate_json).unwrap();
        std::fs::rename(folder.join("partial"), folder.join(format!("release-{charge}"))).unwrap();
    }
}

#[test]
fn no_charge_is_lost_and_nothing_is_released_uncharged() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = folder.path().join("ledger");
    let mut reported = Vec::new();
    for kill in 0..KILLS {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["child", "--exact", "--nocapture", "--test-threads=1"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdout = process.stdout.take().unwrap();
        let reader = std::thread::spawn(move || {
            let lines = BufReader::new(stdout).lines().map_while(Result::ok);
            // The first line of a test shares its line with the test's name.
            let charged = |line: String| line.split("charged ").nth(1)?.trim().parse::<i64>().ok();
            lines.filter_map(charged).collect::<Vec<i64>>()
        });
        // From before the first charge to the middle of a later one.
        std::thread::sleep(Duration::from_micros(1_500 * kill));
        process.kill().unwrap();
        process.wait().unwrap();
        reported.extend(reader.join().unwrap());

        if !ledger.exists() {
            assert!(reported.is_empty());
            continue;
        }
        let overview = Ledger::open_or_create(&ledger).unwrap().overview().unwrap();
        let charges: Vec<i64> = overview.charges.iter().map(|charge| charge.number).collect();
        for charge in &reported {
            assert!(charges.contains(charge), "kill {kill}: charge {charge} was reported and is gone");
        }
        for entry in std::fs::read_dir(folder.path()).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if let Some(charge) = name.strip_prefix("release-") {
                let charge: i64 = charge.parse().unwrap();
                assert!(charges.contains(&charge), "kill {kill}: release {charge} was never charged");
                let text = std::fs::read_to_string(folder.path().join(&name)).unwrap();
                let certificate: halflit::Certificate = serde_json::from_str(&text).unwrap();
                assert_eq!(certificate.charge, charge);
                certificate.verify().unwrap();
            }
        }
    }
    assert!(reported.len() > 20, "the kills came before anything happened: {}", reported.len());
}
