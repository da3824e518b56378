//! Tables 11 and 12: the noise multipliers of the paper's linear regression, and what they are worth under replace.

use super::Args;
use super::printed::{MULTIPLIERS, RATIOS};
use super::tuning::{STEPS, rate};
use crate::Outcome;
use crate::record::{COMMIT, write};
use halflit::plot::{LineChart, Scale, Series};
use halflit_privacy::calibrate::{Budget, noise_multiplier};
use halflit_privacy::{Change, Delta, Epsilon, Event, NoiseMultiplier, Profile, SamplingRate};
use serde_json::json;
use std::fmt::Write;

const ROWS: f64 = 30_000.0;
const DELTA: f64 = 1e-5;

struct Line {
    ratio: f64,
    printed: f64,
    zero_out: f64,
    replace: f64,
    /// Delta under replace at the same epsilon, with the printed noise.
    delta_under_replace: f64,
}

/// Table 11 or 12.
pub fn run(number: u32, args: &Args) -> Outcome {
    let (_, epsilon, printed) =
        MULTIPLIERS.into_iter().find(|(table, ..)| *table == number).ok_or("no such table")?;
    let count = STEPS;
    let mut lines = Vec::new();
    for (ratio, printed) in RATIOS.into_iter().zip(printed) {
        let rate = rate((ROWS * (1.0 - ratio)).round() as usize)?;
        let rate = SamplingRate::at_least(rate.ratio().numerator(), rate.ratio().denominator().get())?;
        let event = |noise_multiplier: NoiseMultiplier, change: Change| {
            let step = Event::PoissonGaussian { rate, noise_multiplier, change };
            Event::Repeated { event: Box::new(step), count }
        };
        let budget = Budget { epsilon: Epsilon::new(epsilon)?, delta: Delta::new(DELTA)? };
        let least = |change| noise_multiplier(budget, |multiplier| event(multiplier, change));
        let profile = Profile::of(&event(NoiseMultiplier::new(printed)?, Change::Replace))?;
        lines.push(Line {
            ratio,
            printed,
            zero_out: least(Change::ZeroOut)?.value.get(),
            replace: least(Change::Replace)?.value.get(),
            delta_under_replace: profile.delta(Epsilon::new(epsilon)?).lower,
        });
    }
    report(number, epsilon, &lines, args)
}

fn report(number: u32, epsilon: f64, lines: &[Line], args: &Args) -> Outcome {
    let mut csv = format!("# table {number}, epsilon {epsilon}, delta {DELTA}, T {STEPS}, commit {COMMIT}\n");
    csv += "ratio,printed,zero_out,replace,delta_under_replace_at_least\n";
    for line in lines {
        let Line { ratio, printed, zero_out, replace, delta_under_replace } = line;
        writeln!(csv, "{ratio},{printed},{zero_out},{replace},{delta_under_replace}")?;
    }
    let series = |name: &str, y: &dyn Fn(&Line) -> f64| {
        Series::line(name, lines.iter().map(|line| (line.ratio, y(line))).collect()).marked()
    };
    let chart = LineChart {
        title: format!("Table {number}: noise multipliers at epsilon {epsilon}"),
        x_label: "share of public rows".to_owned(),
        y_label: "noise std / clip norm".to_owned(),
        x_scale: Scale::Log,
        y_scale: Scale::Log,
        series: vec![
            series("printed", &|line| line.printed).dashed(),
            series("halflit, zero-out", &|line| line.zero_out),
            series("halflit, replace", &|line| line.replace),
        ],
    };
    let csv_path = write(&args.out, &format!("table{number}.csv"), &csv)?;
    let svg_path = write(&args.out, &format!("table{number}.svg"), &chart.to_svg())?;
    if args.json {
        let rows: Vec<_> = lines
            .iter()
            .map(|line| json!({
                "ratio": line.ratio, "printed": line.printed, "zero_out": line.zero_out, "replace": line.replace,
                "delta_under_replace_at_least": line.delta_under_replace,
            }))
            .collect();
        println!("{}", json!({ "experiment": format!("table{number}"), "commit": COMMIT, "rows": rows }));
        return Ok(());
    }
    println!(
        "Table {number}: noise multipliers for epsilon = {epsilon}, delta = {DELTA:e}, T = {STEPS}, batches of about 500 of 30,000 (1 - n_pub/n) rows."
    );
    println!(
        "The printed ones are for zero-out (add/remove); under replace they promise the delta in the last column only. Commit {COMMIT}.\n"
    );
    println!(
        "  {:>6} {:>9} {:>9} {:>7} {:>9} {:>22}",
        "n_pub", "printed", "zero-out", "ratio", "replace", "delta, printed noise"
    );
    for line in lines {
        println!(
            "  {:>6} {:>9.3} {:>9.3} {:>7.3} {:>9.3} {:>22.2e}",
            line.ratio,
            line.printed,
            line.zero_out,
            line.zero_out / line.printed,
            line.replace,
            line.delta_under_replace
        );
    }
    println!("\nWrote {} and {}.", csv_path.display(), svg_path.display());
    Ok(())
}
