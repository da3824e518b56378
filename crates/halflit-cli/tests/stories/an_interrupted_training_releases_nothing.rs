use crate::{Desk, files_of};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// kill -9 at many instants of the whole command: a release is complete or absent, and never without its charge.
#[test]
fn a_killed_training_leaves_no_half_release() {
    let desk = Desk::new(500);
    let full_run = {
        let start = Instant::now();
        desk.ok("train patients.csv --out whole --mechanism noisy_gradient --epsilon 0.05 --steps 200");
        start.elapsed()
    };
    for kill in 0..24u32 {
        let out = format!("out-{kill}");
        let charges_before = charges(&desk);
        let mut process = desk
            .command(&format!(
                "train patients.csv --out {out} --mechanism noisy_gradient --epsilon 0.05 --steps 200"
            ))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(full_run.mul_f64(1.1) * kill / 24);
        let _ = process.kill();
        process.wait().unwrap();
        let new_charges = charges(&desk) - charges_before;
        assert!(new_charges <= 1);
        if desk.path(&out).exists() {
            assert_eq!(files_of(&desk.path(&out)), ["certificate.json", "model.json", "report.html"]);
            assert_eq!(new_charges, 1, "kill {kill}: released without a charge");
            desk.ok(&format!("verify {out}/certificate.json --model {out}/model.json"));
        }
    }
}

fn charges(desk: &Desk) -> usize {
    desk.json("ledger show patients.csv")["charges"].as_array().unwrap().len()
}

#[cfg(unix)]
#[test]
fn ctrl_c_stops_between_steps_and_keeps_the_charge() {
    let desk = Desk::new(20_000);
    let process = desk
        .command("train patients.csv --mechanism noisy_gradient --steps 1000000")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Wait until the charge is on disk: from then on the run is under way.
    let deadline = Instant::now() + Duration::from_secs(60);
    while Instant::now() < deadline {
        let shown = desk.run("ledger show patients.csv --json");
        if shown.status.success() && String::from_utf8_lossy(&shown.stdout).contains("noisy_gradient") {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(200));
    let sent = std::process::Command::new("kill").args(["-INT", &process.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let output = process.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", crate::stderr(&output));
    assert!(
        crate::stderr(&output).contains("interrupted: nothing is released"),
        "{}",
        crate::stderr(&output)
    );
    assert!(!desk.path("patients-release").exists());
    let ledger = desk.ok("ledger show patients.csv");
    assert!(
        ledger.contains("nothing released: interrupted") && ledger.contains("spent epsilon 2 of 2"),
        "{ledger}"
    );
}
