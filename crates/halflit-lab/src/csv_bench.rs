use crate::Outcome;
use crate::peers::{median_seconds, python};
use halflit_table::{ReadOptions, Table};
use serde::Serialize;
use serde_json::Value;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Measure how fast a generated CSV file is read, beside pandas and pyarrow, in one run.
///
/// Rates are in megabytes of CSV (10^6 bytes) per second, the median of several reads of a file that is in the page cache.
/// Peers that python3 lacks are reported as missing.
#[derive(clap::Args)]
pub struct Args {
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
    /// Rows of the generated file.
    #[arg(long, default_value_t = 1_000_000)]
    rows: u64,
    /// Columns of the generated file: six tenths decimals, three tenths whole numbers, one tenth texts.
    #[arg(long, default_value_t = 100)]
    columns: u64,
    /// Timed reads, after one to warm up.
    #[arg(long, default_value_t = 3)]
    repeats: usize,
}

#[derive(Serialize)]
struct Report {
    rows: u64,
    columns: u64,
    megabytes: f64,
    measured: Vec<Measured>,
}

#[derive(Serialize)]
struct Measured {
    reader: String,
    threads: Option<usize>,
    megabytes_per_second: Option<f64>,
    /// Why there is no rate.
    missing: Option<String>,
}

pub fn run(args: Args) -> Outcome {
    let folder = Folder::new()?;
    let path = folder.0.join("generated.csv");
    write_csv(&path, args.rows, args.columns)?;
    let megabytes = std::fs::metadata(&path)?.len() as f64 / 1e6;

    let mut measured = Vec::new();
    for threads in [1, 2] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
        pool.install(|| Table::read(&path, &ReadOptions::default()))?;
        let seconds = median_seconds(args.repeats, || {
            // The first read has shown that the file is sound.
            let _ = std::hint::black_box(pool.install(|| Table::read(&path, &ReadOptions::default())));
        });
        measured.push(Measured {
            reader: "halflit".to_owned(),
            threads: Some(threads),
            megabytes_per_second: Some(megabytes / seconds),
            missing: None,
        });
    }
    measured.extend(peers(&path, megabytes, args.repeats));
    let report = Report { rows: args.rows, columns: args.columns, megabytes, measured };
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{}", table(&report));
    }
    Ok(())
}

/// A folder that is removed with its files.
struct Folder(PathBuf);

impl Folder {
    fn new() -> std::io::Result<Folder> {
        let path = std::env::temp_dir().join(format!("halflit-csv-bench-{}", std::process::id()));
        std::fs::create_dir(&path)?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Nothing is lost if the folder stays behind.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const TEXTS: [&str; 8] =
    ["Private", "State-gov", "Self-emp-inc", "Federal-gov", "Local-gov", "Without-pay", "Never-worked", ""];

fn write_csv(path: &Path, rows: u64, columns: u64) -> std::io::Result<()> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let header: Vec<String> = (0..columns).map(|column| format!("column_{column}")).collect();
    writeln!(file, "{}", header.join(","))?;
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    for _ in 0..rows {
        for column in 0..columns {
            // A linear congruential step: these cells need variety, not randomness.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let draw = state >> 33;
            let separator = if column == 0 { "" } else { "," };
            match column % 10 {
                0..6 => write!(file, "{separator}{:.4}", draw as f64 / f64::from(1u32 << 24) - 64.0)?,
                6..9 => write!(file, "{separator}{}", draw % 1000)?,
                _ => write!(file, "{separator}{}", TEXTS[(draw % 8) as usize])?,
            }
        }
        writeln!(file)?;
    }
    file.flush()
}

const PEERS: &str = r#"
import json, statistics, sys, time
path, repeats = sys.argv[1], int(sys.argv[2])

def median(read):
    read()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        read()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)

answers = []
def peer(name, threads, make):
    try:
        read, version = make()
        answers.append({"reader": f"{name} {version}", "threads": threads, "seconds": median(read)})
    except Exception as error:
        answers.append({"reader": name, "threads": threads, "missing": f"{type(error).__name__}: {error}"})

def pandas():
    import pandas
    return (lambda: pandas.read_csv(path)), pandas.__version__

def pyarrow(threads):
    import pyarrow, pyarrow.csv
    pyarrow.set_cpu_count(threads)
    options = pyarrow.csv.ReadOptions(use_threads=threads > 1)
    return (lambda: pyarrow.csv.read_csv(path, read_options=options)), pyarrow.__version__

peer("pandas", 1, pandas)
peer("pyarrow", 1, lambda: pyarrow(1))
peer("pyarrow", 2, lambda: pyarrow(2))
print(json.dumps(answers))
"#;

fn peers(path: &Path, megabytes: f64, repeats: usize) -> Vec<Measured> {
    let missing = |reader: &str, reason: String| Measured {
        reader: reader.to_owned(),
        threads: None,
        megabytes_per_second: None,
        missing: Some(reason),
    };
    let answers = match python(PEERS, &[path.display().to_string(), repeats.to_string()]) {
        Ok(Value::Array(answers)) => answers,
        Ok(other) => return vec![missing("python peers", format!("unexpected answer {other}"))],
        Err(reason) => return vec![missing("python peers", reason)],
    };
    let measured = |answer: &Value| Measured {
        reader: answer["reader"].as_str().unwrap_or("unnamed").to_owned(),
        threads: answer["threads"].as_u64().and_then(|threads| usize::try_from(threads).ok()),
        megabytes_per_second: answer["seconds"].as_f64().map(|seconds| megabytes / seconds),
        missing: answer["missing"].as_str().map(str::to_owned),
    };
    answers.iter().map(measured).collect()
}

fn table(report: &Report) -> String {
    let Report { rows, columns, megabytes, measured } = report;
    let mut text = format!("{rows} rows x {columns} columns, {megabytes:.0} MB\n\n");
    text.push_str(&format!("{:<20} {:>7} {:>8}\n", "reader", "threads", "MB/s"));
    for Measured { reader, threads, megabytes_per_second, missing } in measured {
        let threads = threads.map_or(String::new(), |threads| threads.to_string());
        match (megabytes_per_second, missing) {
            (Some(rate), _) => text.push_str(&format!("{reader:<20} {threads:>7} {rate:>8.0}\n")),
            (None, reason) => {
                let reason = reason.as_deref().unwrap_or("no answer");
                text.push_str(&format!("{reader:<20} {threads:>7} missing: {reason}\n"));
            }
        }
    }
    text
}
