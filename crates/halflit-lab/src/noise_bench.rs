use crate::Outcome;
use crate::peers::{median_seconds, python};
use crate::sample::write_unless_closed;
use halflit_noise::{FractionBits, Law, NoiseSource, PoissonSampler, Probability, Stream};
use rand_distr::Distribution;
use serde::Serialize;
use std::collections::BTreeMap;
use std::hint::black_box;

/// Measure the exact samplers beside floating-point and exact peers, in one run.
///
/// Every rate is for one core, the median of several fills of an 8 MB array. Peers that python3 lacks are reported as missing.
#[derive(clap::Args)]
pub struct Args {
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

/// Draws per timed fill: 8 MB of integers or doubles for everyone.
const DRAWS: usize = 1 << 20;
const REPEATS: usize = 9;

#[derive(Serialize)]
struct Report {
    samplers: Vec<Measured>,
    peers: Vec<Peer>,
    /// The exact normal at 20 bits over each peer.
    exact_normal_over: BTreeMap<String, f64>,
}

#[derive(Serialize)]
struct Measured {
    name: String,
    threads: usize,
    per_second_per_core: f64,
    random_bytes_per_draw: f64,
}

/// Software that does the same job, on one core.
#[derive(Serialize)]
struct Peer {
    name: String,
    version: Option<String>,
    per_second: Option<f64>,
    missing: Option<String>,
}

pub fn run(args: Args) -> Outcome {
    let mut stream = NoiseSource::from_os()?.stream()?;
    let samplers = measure_samplers(&mut stream)?;
    let mut peers = vec![rand_distr_peer()];
    peers.extend(python_peers());

    let exact_normal = samplers[0].per_second_per_core;
    let exact_normal_over =
        peers.iter().filter_map(|peer| Some((peer.name.clone(), exact_normal / peer.per_second?))).collect();
    let report = Report { samplers, peers, exact_normal_over };
    let text = if args.json { serde_json::to_string_pretty(&report)? + "\n" } else { table(&report) };
    write_unless_closed(&mut std::io::stdout(), text.as_bytes())?;
    Ok(())
}

fn measure_samplers(stream: &mut Stream) -> Result<Vec<Measured>, Box<dyn std::error::Error>> {
    let mut out = vec![0; DRAWS];
    let mut measured = Vec::new();
    // The first one is what the peers are compared with.
    for (law, name) in [(Law::Normal, "normal"), (Law::Laplace, "laplace"), (Law::Exponential, "exponential")]
    {
        for bits in [20, 32, 44] {
            let bits = FractionBits::new(bits)?;
            let name = format!("exact {name}, {} bits", bits.get());
            measured.push(measure(name, 1, stream, |stream| {
                stream.fill_rounded(law, bits, &mut out);
                DRAWS
            }));
        }
    }
    let (threads, twenty) = (rayon::current_num_threads(), FractionBits::new(20)?);
    measured.push(measure("exact normal, 20 bits, all threads".into(), threads, stream, |stream| {
        stream.par_fill_rounded(Law::Normal, twenty, &mut out);
        DRAWS
    }));
    for (numerator, denominator) in [(1, 1000), (1, 100), (1, 2)] {
        let sampler = PoissonSampler::new(Probability::new(numerator, denominator)?);
        // About as many units drawn as there are draws elsewhere.
        let units = (DRAWS as u64 * denominator / numerator).min(1 << 30) as u32;
        let name = format!("units of a Poisson subsample, rate {numerator}/{denominator}");
        measured.push(measure(name, 1, stream, |stream| {
            black_box(stream.poisson_subsample(units, &sampler)).len()
        }));
    }
    measured.push(measure("places of a permutation".into(), 1, stream, |stream| {
        black_box(stream.permutation(DRAWS as u32)).len()
    }));
    Ok(measured)
}

/// Times `work`, which returns how many draws it made.
fn measure(
    name: String,
    threads: usize,
    stream: &mut Stream,
    mut work: impl FnMut(&mut Stream) -> usize,
) -> Measured {
    let (mut calls, mut draws) = (0, 0);
    let bytes_before = stream.bytes_drawn();
    let seconds = median_seconds(REPEATS, || {
        draws += work(stream);
        calls += 1;
    });
    let random_bytes = (stream.bytes_drawn() - bytes_before) as f64;
    let per_call = draws as f64 / f64::from(calls);
    Measured {
        name,
        threads,
        per_second_per_core: per_call / seconds / threads as f64,
        random_bytes_per_draw: random_bytes / draws as f64,
    }
}

/// The usual floating-point normal of the Rust ecosystem on the same generator (ChaCha12 of the same crate).
fn rand_distr_peer() -> Peer {
    use chacha20::rand_core::SeedableRng;
    let mut generator = chacha20::ChaCha12Rng::from_seed([7; 32]);
    let mut out = vec![0.0f64; DRAWS];
    let seconds = median_seconds(REPEATS, || {
        for value in &mut out {
            *value = rand_distr::StandardNormal.sample(&mut generator);
        }
        black_box(&mut out);
    });
    Peer {
        name: "rand_distr StandardNormal on ChaCha12 (floating point)".into(),
        version: None,
        per_second: Some(DRAWS as f64 / seconds),
        missing: None,
    }
}

const NUMPY: &str = r#"
import json, statistics, sys, time
import numpy
count, repeats = int(sys.argv[1]), int(sys.argv[2])
generator, out, seconds = numpy.random.default_rng(), numpy.empty(count), []
for _ in range(repeats + 1):
    start = time.perf_counter()
    generator.standard_normal(out=out)
    seconds.append(time.perf_counter() - start)
print(json.dumps({"version": numpy.__version__, "per_second": count / statistics.median(seconds[1:])}))
"#;

/// `numbers` is float (the usual call) or int (the discrete Gaussian behind it, at scale 2^20 as here).
const OPENDP: &str = r#"
import importlib.metadata, json, statistics, sys, time
import opendp.prelude as dp
count, repeats, numbers = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
dp.enable_features("contrib")
atoms = dp.atom_domain(T=float, nan=False) if numbers == "float" else dp.atom_domain(T=int)
scale = 1.0 if numbers == "float" else float(2**20)
mechanism = dp.m.make_gaussian(dp.vector_domain(atoms), dp.l2_distance(T=float), scale=scale)
data, seconds = [0.0 if numbers == "float" else 0] * count, []
for _ in range(repeats + 1):
    start = time.perf_counter()
    mechanism(data)
    seconds.append(time.perf_counter() - start)
version = importlib.metadata.version("opendp")
print(json.dumps({"version": version, "per_second": count / statistics.median(seconds[1:])}))
"#;

fn python_peers() -> Vec<Peer> {
    // OpenDP is slow: a few thousand draws already take a good part of a second.
    [
        ("numpy Generator.standard_normal (floating point, not secure)", NUMPY, DRAWS, ""),
        ("OpenDP vector Gaussian, float (exact)", OPENDP, 4000, "float"),
        ("OpenDP vector Gaussian, integer (exact)", OPENDP, 16_000, "int"),
    ]
    .into_iter()
    .map(|(name, program, count, extra)| {
        let answer = python(program, &[count.to_string(), REPEATS.to_string(), extra.to_owned()]);
        let field = |key: &str| answer.as_ref().ok().and_then(|value| value.get(key).cloned());
        Peer {
            name: name.into(),
            version: field("version").and_then(|version| version.as_str().map(str::to_owned)),
            per_second: field("per_second").and_then(|rate| rate.as_f64()),
            missing: answer.as_ref().err().cloned(),
        }
    })
    .collect()
}

fn table(report: &Report) -> String {
    let mut text =
        format!("{:<62} {:>7} {:>14} {:>10}\n", "sampler", "threads", "million/s/core", "bytes/draw");
    for Measured { name, threads, per_second_per_core, random_bytes_per_draw } in &report.samplers {
        let rate = per_second_per_core / 1e6;
        text += &format!("{name:<62} {threads:>7} {rate:>14.3} {random_bytes_per_draw:>10.2}\n");
    }
    text += &format!("\n{:<62} {:>7} {:>14} {:>10}\n", "peer", "threads", "million/s/core", "we are");
    for Peer { name, per_second, missing, .. } in &report.peers {
        text += &match (per_second, report.exact_normal_over.get(name)) {
            (Some(rate), Some(ratio)) => format!("{name:<62} {:>7} {:>14.3} {ratio:>9.1}x\n", 1, rate / 1e6),
            _ => format!("{name:<62} {}\n", missing.as_deref().unwrap_or("no answer")),
        };
    }
    text
}
