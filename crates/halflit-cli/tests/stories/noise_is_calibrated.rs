use crate::Desk;

#[test]
fn the_smallest_noise_fits_the_budget_and_less_does_not() {
    let desk = Desk::new(1);
    let release = "poisson-gaussian --rate 500/29700 --steps 5000 --change zero-out --delta 1e-5";
    let answer = desk.json(&format!("calibrate {release} --epsilon 2"));
    let noise = answer["noise_multiplier"].as_f64().unwrap();
    // dp_accounting 0.6.0 needs 2.4965 for epsilon 2 (Lowy et al. 2024 print 2.490).
    assert!((2.49..2.50).contains(&noise), "{answer}");
    let price = |noise: f64| {
        desk.json(&format!("account {release} --noise-multiplier {noise}"))["epsilon"]["upper"]
            .as_f64()
            .unwrap()
    };
    assert!(price(noise) <= 2.0 && price(noise * 0.999) > 2.0);
}

#[test]
fn steps_and_rates_are_found_too() {
    let desk = Desk::new(1);
    let budget = "--epsilon 2 --delta 1e-5 --change replace";
    let price = |words: &str| {
        desk.json(&format!("account {words} --change replace --delta 1e-5"))["epsilon"]["upper"]
            .as_f64()
            .unwrap()
    };
    let steps = desk
        .json(&format!("calibrate poisson-gaussian {budget} --rate 0.01 --noise-multiplier 2 --find steps"));
    let steps = steps["steps"].as_u64().unwrap();
    let sampled =
        |steps: u64| price(&format!("poisson-gaussian --rate 0.01 --noise-multiplier 2 --steps {steps}"));
    assert!(sampled(steps) <= 2.0 && sampled(steps + 1) > 2.0, "{steps}");

    let rate = desk
        .json(&format!("calibrate poisson-gaussian {budget} --noise-multiplier 2 --steps 500 --find rate"));
    let rate = rate["rate"].as_f64().unwrap();
    let sampled =
        |rate: f64| price(&format!("poisson-gaussian --rate {rate} --noise-multiplier 2 --steps 500"));
    assert!(sampled(rate) <= 2.0 && sampled(rate * 1.001) > 2.0, "{rate}");

    let fixed = desk.json(&format!("calibrate fixed-size-gaussian {budget} --rate 0.01 --steps 500"));
    let noise = fixed["noise_multiplier"].as_f64().unwrap();
    let fixed = |noise: f64| {
        price(&format!("fixed-size-gaussian --rate 0.01 --steps 500 --noise-multiplier {noise}"))
    };
    assert!(fixed(noise) <= 2.0 && fixed(noise * 0.999) > 2.0, "{noise}");

    let steps = desk.json(&format!("calibrate gaussian {budget} --noise-multiplier 50 --find steps"));
    let steps = steps["steps"].as_u64().unwrap();
    let full = |steps: u64| price(&format!("gaussian --noise-multiplier 50 --steps {steps}"));
    assert!(full(steps) <= 2.0 && full(steps + 1) > 2.0, "{steps}");
}

#[test]
fn pure_releases_are_calibrated_without_a_delta() {
    let desk = Desk::new(1);
    let laplace = desk.json("calibrate laplace --sensitivity 2 --epsilon 0.5 --delta 0");
    assert!((laplace["scale"].as_f64().unwrap() - 4.0).abs() < 1e-6, "{laplace}");
    let pure = desk.json("calibrate pure --steps 10 --epsilon 1 --delta 0");
    assert!((pure["epsilon_each"].as_f64().unwrap() - 0.1).abs() < 1e-7, "{pure}");
    assert!(pure["epsilon"]["upper"].as_f64().unwrap() <= 1.0);
    let steps = desk.json("calibrate pure --epsilon-each 0.01 --epsilon 1 --delta 1e-6 --find steps");
    assert!(steps["steps"].as_u64().unwrap() > 100, "composition is better than adding up: {steps}");
    let steps =
        desk.json("calibrate laplace --sensitivity 1 --scale 100 --epsilon 1 --delta 1e-6 --find steps");
    assert!(steps["steps"].as_u64().unwrap() > 100, "{steps}");
}

#[test]
fn a_person_is_told_a_number_that_is_safe_to_type() {
    let desk = Desk::new(1);
    let told = desk.ok("calibrate gaussian --epsilon 1 --delta 1e-6 --change replace");
    let printed = told.split("clip norm) is ").nth(1).unwrap().split(['\n', ' ']).next().unwrap();
    let noise: f64 = printed.trim_end_matches('.').parse().unwrap();
    let exact = desk.json("calibrate gaussian --epsilon 1 --delta 1e-6 --change replace")["noise_multiplier"]
        .as_f64();
    assert!(noise >= exact.unwrap(), "{told}");
}

#[test]
fn what_cannot_be_calibrated_is_refused() {
    let desk = Desk::new(1);
    for (words, expected) in [
        ("gaussian --epsilon 1 --delta 1e-6", "--change"),
        ("gaussian --epsilon 1 --delta 0 --change replace", "no noise multiplier fits"),
        ("gaussian --epsilon 1 --delta 0.999999 --change replace", "at most 0.5"),
        ("gaussian --epsilon nan --delta 1e-6 --change replace", "--epsilon"),
        ("gaussian --epsilon 1 --delta 1e-6 --change replace --noise-multiplier 3", "--find noise"),
        ("gaussian --epsilon 1 --delta 1e-6 --change replace --find steps", "--noise-multiplier is missing"),
        ("gaussian --epsilon 1 --delta 1e-6 --change replace --find rate", "possible values"),
        ("poisson-gaussian --epsilon 1 --delta 1e-6 --change replace --rate 0.1", "--steps is missing"),
        ("poisson-gaussian --epsilon 1 --delta 1e-6 --change replace --steps 5", "--rate is missing"),
        (
            "poisson-gaussian --epsilon 1 --delta 1e-6 --change replace --rate 0.1 --noise-multiplier 0.1 --find steps",
            "no number of steps fits",
        ),
        (
            "fixed-size-gaussian --epsilon 1 --delta 1e-6 --change zero-out --rate 0.1 --steps 5",
            "replace only",
        ),
        ("laplace --sensitivity 1 --scale 3 --epsilon 1 --delta 1e-6", "--find noise"),
        ("pure --epsilon 1 --delta 1e-6 --find steps", "--epsilon-each is missing"),
    ] {
        let message = desk.refused(&format!("calibrate {words}"));
        assert!(message.contains(expected), "{words}: {message}");
    }
}
