//! One axis: which values it spans, where a value falls on it, and which ticks it carries.

/// How values are spread along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Equal differences take equal lengths.
    Linear,
    /// Equal ratios take equal lengths; values that are not positive are left out.
    Log,
}

/// An axis over the finite values it was given.
pub(super) struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
}

impl Axis {
    /// The axis that spans all plottable `values`; a single value or none gets a span of its own.
    pub fn spanning(scale: Scale, values: impl Iterator<Item = f64>) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|&value| plottable(scale, value)) {
            low = low.min(value);
            high = high.max(value);
        }
        if !(low <= high) {
            (low, high) = (1.0, 10.0);
        }
        match scale {
            Scale::Linear if low == high => (low, high) = (low - 0.5, high + 0.5),
            Scale::Log if low == high => (low, high) = (low / 10.0, high * 10.0),
            _ => {}
        }
        Axis { scale, low, high }
    }

    /// Where `value` falls, 0 at the low end and 1 at the high end; none for a value that cannot be drawn.
    pub fn position(&self, value: f64) -> Option<f64> {
        if !plottable(self.scale, value) {
            return None;
        }
        Some(match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => (value / self.low).ln() / (self.high / self.low).ln(),
        })
    }

    /// Ticks at round values inside the span.
    pub fn ticks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Linear => linear_ticks(self.low, self.high),
            Scale::Log => log_ticks(self.low, self.high),
        }
    }
}

fn plottable(scale: Scale, value: f64) -> bool {
    value.is_finite() && (scale == Scale::Linear || value > 0.0)
}

fn linear_ticks(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low) / 5.0;
    let magnitude = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * magnitude)
        .find(|&step| step >= rough)
        .unwrap_or(10.0 * magnitude);
    let first = (low / step).ceil() as i64;
    let last = (high / step).floor() as i64;
    (first..=last).take(20).map(|k| k as f64 * step).collect()
}

fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let stride = ((last - first) / 7).max(1);
    let inside = |tick: &f64| *tick >= low * 0.999 && *tick <= high * 1.001;
    let decades: Vec<f64> =
        (first..=last).step_by(stride as usize).map(|k| 10f64.powi(k)).filter(inside).collect();
    if decades.len() >= 3 {
        return decades;
    }
    (first..=last).flat_map(|k| [1.0, 2.0, 5.0].map(|factor| factor * 10f64.powi(k))).filter(inside).collect()
}

/// A tick label: plain where that is short, scientific otherwise.
pub(super) fn label(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 {
        "0".to_owned()
    } else if (1e-3..1e5).contains(&size) {
        let rounded = format!("{value:.4}");
        rounded.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        format!("{value:.0e}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_run_from_zero_to_one_and_skip_what_cannot_be_drawn() {
        let axis = Axis::spanning(Scale::Log, [1e-6, 1.0, f64::NAN, -3.0, 0.0].into_iter());
        assert_eq!(axis.position(1e-6), Some(0.0));
        assert_eq!(axis.position(1.0), Some(1.0));
        assert!((axis.position(1e-3).unwrap() - 0.5).abs() < 1e-12);
        assert_eq!(axis.position(0.0), None);
        assert_eq!(axis.position(f64::NAN), None);
    }

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(
            Axis::spanning(Scale::Linear, [0.0, 10.0].into_iter()).ticks(),
            [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
        );
        let ticks = Axis::spanning(Scale::Log, [1e-9, 1e-3].into_iter()).ticks();
        assert_eq!(ticks.len(), 7);
    }

    #[test]
    fn an_axis_of_nothing_still_draws() {
        assert!(!Axis::spanning(Scale::Linear, std::iter::empty()).ticks().is_empty());
    }

    #[test]
    fn labels_are_short() {
        assert_eq!(label(0.25), "0.25");
        assert_eq!(label(1e-6), "1e-6");
        assert_eq!(label(-2.0), "-2");
    }
}
