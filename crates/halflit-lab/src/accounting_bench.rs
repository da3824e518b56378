use crate::Outcome;
use crate::peers::{PeerAnswer, median_seconds, python};
use crate::sample::write_unless_closed;
use halflit_privacy::calibrate::{Budget, noise_multiplier};
use halflit_privacy::{Change, Delta, Epsilon, Event, NoiseMultiplier, Profile, SamplingRate};
use serde::Serialize;
use std::error::Error;
use std::hint::black_box;

/// Measure pricing and calibrating Poisson-sampled Gaussian steps, beside dp_accounting in the same run.
///
/// One core; the median of several calls, after one to warm up. dp_accounting does the same work with its default grid (1e-4) and its own search (tolerance
/// 1e-6 on the noise), which is told the answer up to a factor of two; each call once, its import not counted. Where python3 lacks it, that is reported instead.
#[derive(clap::Args)]
pub struct Args {
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
    /// Leave out the peer's calibrations, which take most of the time.
    #[arg(long)]
    quick: bool,
}

const DELTA: f64 = 1e-5;
const REPEATS: usize = 9;

/// One question, and how long the answers took.
#[derive(Serialize)]
struct Case {
    what: Question,
    rate: f64,
    steps: u64,
    change: Change,
    delta: f64,
    /// Given when calibrating; the upper end of the answer when pricing.
    epsilon: f64,
    /// Given when pricing; the answer when calibrating.
    noise_multiplier: f64,
    milliseconds: f64,
    peer: Option<PeerCase>,
}

#[derive(Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Question {
    Price,
    Calibrate,
}

#[derive(Serialize)]
struct PeerCase {
    /// epsilon when pricing, the noise multiplier when calibrating.
    answer: f64,
    milliseconds: f64,
    /// The peer's time over ours.
    ratio: f64,
}

#[derive(Serialize)]
struct Report {
    peer: &'static str,
    peer_version: Option<String>,
    peer_missing: Option<String>,
    slowest_calibration_milliseconds: f64,
    smallest_calibration_ratio: Option<f64>,
    cases: Vec<Case>,
}

pub fn run(args: Args) -> Outcome {
    let mut cases = measured()?;
    let answer = ask_peer(&cases, args.quick);
    let (peer_version, peer_missing) = match &answer {
        Ok(answer) => (answer["version"].as_str().map(str::to_owned), None),
        Err(reason) => (None, Some(reason.clone())),
    };
    if let Ok(answer) = answer {
        for (case, theirs) in cases.iter_mut().zip(answer["cases"].as_array().into_iter().flatten()) {
            if let (Some(seconds), Some(answer)) = (theirs["seconds"].as_f64(), theirs["answer"].as_f64()) {
                let milliseconds = seconds * 1e3;
                case.peer = Some(PeerCase { answer, milliseconds, ratio: milliseconds / case.milliseconds });
            }
        }
    }
    let calibrations = || cases.iter().filter(|case| case.what == Question::Calibrate);
    let report = Report {
        peer: "dp_accounting (PLD)",
        peer_version,
        peer_missing,
        slowest_calibration_milliseconds: calibrations().map(|case| case.milliseconds).fold(0.0, f64::max),
        smallest_calibration_ratio: calibrations()
            .filter_map(|case| case.peer.as_ref().map(|peer| peer.ratio))
            .reduce(f64::min),
        cases,
    };
    let text = if args.json { serde_json::to_string_pretty(&report)? + "\n" } else { table(&report) };
    write_unless_closed(&mut std::io::stdout(), text.as_bytes())?;
    Ok(())
}

/// Our answers, with their times.
fn measured() -> Result<Vec<Case>, Box<dyn Error>> {
    let mut cases = Vec::new();
    for change in [Change::ZeroOut, Change::Replace] {
        let priced = price(SamplingRate::new(0.01)?, 10_000, change, 1.0)?;
        let epsilon = priced.epsilon;
        cases.push(priced);
        // The budget that a noise multiplier of one spends: the answer is close to one again.
        cases.push(calibrate(SamplingRate::new(0.01)?, 10_000, change, epsilon)?);
        for epsilon in [1.0, 2.0, 4.0] {
            let calibrated = calibrate(SamplingRate::at_least(500, 29_700)?, 5_000, change, epsilon)?;
            let noise = calibrated.noise_multiplier;
            cases.push(price(SamplingRate::at_least(500, 29_700)?, 5_000, change, noise)?);
            cases.push(calibrated);
        }
    }
    Ok(cases)
}

fn steps_of(
    rate: SamplingRate,
    steps: u64,
    change: Change,
    noise_multiplier: NoiseMultiplier,
) -> Result<Event, Box<dyn Error>> {
    Ok(Event::PoissonGaussian { rate, noise_multiplier, change }.repeated(steps)?)
}

fn price(rate: SamplingRate, steps: u64, change: Change, noise: f64) -> Result<Case, Box<dyn Error>> {
    let event = steps_of(rate, steps, change, NoiseMultiplier::new(noise)?)?;
    let delta = Delta::new(DELTA)?;
    let epsilon = Profile::of(&event)?.epsilon(delta).upper;
    let seconds = median_seconds(REPEATS, || {
        // A new profile every time: nothing is remembered from call to call.
        black_box(Profile::of(&event).map(|profile| profile.epsilon(delta))).ok();
    });
    Ok(case(Question::Price, rate, steps, change, epsilon, noise, seconds))
}

fn calibrate(rate: SamplingRate, steps: u64, change: Change, epsilon: f64) -> Result<Case, Box<dyn Error>> {
    let budget = Budget { epsilon: Epsilon::new(epsilon)?, delta: Delta::new(DELTA)? };
    let plan = |noise| {
        steps_of(rate, steps, change, noise).unwrap_or_else(|_| unreachable!("a positive number of steps"))
    };
    let noise = noise_multiplier(budget, plan)?.value.get();
    let seconds = median_seconds(REPEATS, || {
        black_box(noise_multiplier(budget, plan)).ok();
    });
    Ok(case(Question::Calibrate, rate, steps, change, epsilon, noise, seconds))
}

fn case(
    what: Question,
    rate: SamplingRate,
    steps: u64,
    change: Change,
    epsilon: f64,
    noise_multiplier: f64,
    seconds: f64,
) -> Case {
    let (rate, milliseconds) = (rate.get(), seconds * 1e3);
    Case { what, rate, steps, change, delta: DELTA, epsilon, noise_multiplier, milliseconds, peer: None }
}

const DP_ACCOUNTING: &str = r#"
import importlib.metadata, json, sys, time, warnings
warnings.filterwarnings("ignore")
import dp_accounting as dp
from dp_accounting.pld import pld_privacy_accountant as pld
relations = {"zero-out": dp.NeighboringRelation.ADD_OR_REMOVE_ONE, "replace": dp.NeighboringRelation.REPLACE_ONE}
cases, quick, answers = json.loads(sys.argv[1]), sys.argv[2] == "true", []
for case in cases:
    accountant = lambda: pld.PLDAccountant(relations[case["change"]])
    event = lambda noise: dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(case["rate"], dp.GaussianDpEvent(noise)), case["steps"])
    if case["what"] == "calibrate" and quick:
        answers.append({})
        continue
    start = time.perf_counter()
    if case["what"] == "price":
        answer = accountant().compose(event(case["noise_multiplier"])).get_epsilon(case["delta"])
    else:
        bracket = dp.ExplicitBracketInterval(case["noise_multiplier"] / 2, case["noise_multiplier"] * 2)
        answer = dp.calibrate_dp_mechanism(accountant, event, case["epsilon"], case["delta"], bracket)
    answers.append({"seconds": time.perf_counter() - start, "answer": answer})
print(json.dumps({"version": importlib.metadata.version("dp-accounting"), "cases": answers}))
"#;

fn ask_peer(cases: &[Case], quick: bool) -> PeerAnswer {
    let cases = serde_json::to_string(cases).map_err(|error| error.to_string())?;
    python(DP_ACCOUNTING, &[cases, quick.to_string()])
}

fn table(report: &Report) -> String {
    let mut text = format!(
        "{:<10} {:<9} {:>8} {:>7} {:>9} {:>9} {:>9} {:>11} {:>10} {:>7}\n",
        "", "change", "rate", "steps", "epsilon", "noise", "ms", "peer says", "peer ms", "ratio"
    );
    for case in &report.cases {
        let what = if case.what == Question::Price { "price" } else { "calibrate" };
        let Case { rate, steps, change, epsilon, noise_multiplier, milliseconds, .. } = case;
        let change = change.to_string();
        text += &format!(
            "{what:<10} {change:<9} {rate:>8.5} {steps:>7} {epsilon:>9.4} {noise_multiplier:>9.4} {milliseconds:>9.2}"
        );
        text += &case.peer.as_ref().map_or("\n".to_owned(), |PeerCase { answer, milliseconds, ratio }| {
            format!(" {answer:>11.4} {milliseconds:>10.0} {ratio:>6.0}x\n")
        });
    }
    let peer = match (&report.peer_version, &report.peer_missing) {
        (_, Some(reason)) => format!("missing: {reason}"),
        (version, None) => version.clone().unwrap_or_default(),
    };
    text += &format!(
        "\nslowest calibration {:.1} ms; peer {} {peer}\n",
        report.slowest_calibration_milliseconds, report.peer
    );
    text
}
