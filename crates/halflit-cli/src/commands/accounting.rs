//! What `account` and `calibrate` share: arguments that describe releases, checked numbers, and how a price is told.

use crate::Failure;
use crate::files::{must_be_new, write_new};
use halflit::figures::{at_least, at_most};
use halflit::plot::profile_chart;
use halflit::privacy::{Change, Event, Interval, NoiseMultiplier, ParameterError, Profile, SamplingRate};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Significant figures of a printed price.
pub const FIGURES: usize = 5;

/// How neighbouring tables differ. It doubles the sensitivity, so it is asked for and never assumed.
#[derive(Clone, Copy, clap::ValueEnum)]
pub enum ChangeName {
    /// One unit's values become any others (the stronger promise)
    Replace,
    /// One unit's contribution vanishes (add/remove, as most DP-SGD tools account)
    ZeroOut,
}

impl From<ChangeName> for Change {
    fn from(name: ChangeName) -> Change {
        match name {
            ChangeName::Replace => Change::Replace,
            ChangeName::ZeroOut => Change::ZeroOut,
        }
    }
}

/// A sampling rate, as a ratio or a decimal.
#[derive(Clone, Copy)]
pub struct Rate(pub SamplingRate);

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = || "give a ratio such as 500/29700 or a decimal such as 0.01".to_owned();
        let rate = match text.split_once('/') {
            Some((numerator, denominator)) => SamplingRate::at_least(
                numerator.trim().parse().map_err(|_| refused())?,
                denominator.trim().parse().map_err(|_| refused())?,
            ),
            None => SamplingRate::new(text.trim().parse().map_err(|_| refused())?),
        };
        rate.map(Rate).map_err(|error| error.to_string())
    }
}

/// Where the profile is drawn.
#[derive(clap::Args)]
pub struct Plot {
    /// Draw the privacy profile (delta over epsilon) into this SVG file; it must not exist.
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
}

/// Points of a drawn profile.
const DRAWN_POINTS: usize = 60;

impl Plot {
    /// Refuses a place that cannot be drawn to, before anything is computed.
    pub fn check(&self) -> Result<(), Failure> {
        self.plot.as_deref().map_or(Ok(()), |path| must_be_new(path, "--plot"))
    }

    /// Draws, if asked to.
    pub fn draw(&self, profile: &Profile, promise: (f64, f64)) -> Result<(), Failure> {
        let Some(path) = &self.plot else { return Ok(()) };
        let svg = profile_chart(&profile.points(DRAWN_POINTS), Some(promise)).to_svg();
        write_new(path, svg.as_bytes())
            .map_err(|error| Failure::Failed(format!("{} cannot be written: {error}", path.display())))
    }

    /// Tells the reader where the drawing is.
    pub fn announce(&self) {
        if let Some(path) = self.plot.as_deref().map(Path::display) {
            println!("\nThe profile is drawn in {path}.");
        }
    }
}

/// A checked number; the message of a wrong one names the option.
pub fn checked<T>(
    option: &str,
    value: f64,
    check: impl Fn(f64) -> Result<T, ParameterError>,
) -> Result<T, Failure> {
    check(value).map_err(|error| Failure::BadInput(format!("{option}: {error}")))
}

/// A number of steps: at least one.
pub fn counted(steps: u64) -> Result<NonZeroU64, Failure> {
    NonZeroU64::new(steps).ok_or_else(|| {
        Failure::BadInput("--steps 0: must be at least 1; what never happened costs nothing".to_owned())
    })
}

/// An event that happened this many times; once is the event itself.
pub fn repeated(event: Event, count: NonZeroU64) -> Event {
    if count.get() == 1 { event } else { Event::Repeated { event: Box::new(event), count } }
}

/// One batch of fixed size. Fixed-size sampling has no zero-out analysis: a vanished unit would change the batches of all others.
pub fn fixed_size(
    fraction: SamplingRate,
    noise_multiplier: NoiseMultiplier,
    change: ChangeName,
) -> Result<Event, Failure> {
    match change {
        ChangeName::Replace => Ok(Event::FixedSizeGaussian { fraction, noise_multiplier }),
        ChangeName::ZeroOut => Err(Failure::BadInput(
            "--change zero-out: batches of fixed size are priced under replace only, because the number of units is fixed; use --change \
             replace, or poisson-gaussian"
                .to_owned(),
        )),
    }
}

/// "zero-out: one unit's contribution vanishes", and so on.
pub fn change_in_words(change: Option<Change>, group: u64) -> String {
    let units = if group == 1 { "one unit".to_owned() } else { format!("up to {group} units") };
    match change {
        Some(Change::Replace) => format!("when the values of {units} are replaced by any others (replace)"),
        Some(Change::ZeroOut) => format!("when the contribution of {units} vanishes (zero-out)"),
        None if group == 1 => "for the neighbours that the given sensitivity or epsilon is about".to_owned(),
        None => format!("for tables {group} such changes apart"),
    }
}

/// The two ends of an interval, rounded outward.
pub fn ends(interval: Interval) -> [String; 2] {
    [at_least(interval.lower, FIGURES), at_most(interval.upper, FIGURES)]
}
