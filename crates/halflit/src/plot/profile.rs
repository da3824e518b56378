//! The privacy profile as a chart.

use super::{LineChart, Scale, Series};
use halflit_privacy::{Interval, ProfilePoint};

/// delta over epsilon: what may be claimed, what no accountant can improve on, and the (epsilon, delta) that is promised, if one is.
pub fn profile_chart(points: &[ProfilePoint], promise: Option<(f64, f64)>) -> LineChart {
    let ends = |end: fn(&Interval) -> f64| {
        points.iter().map(|point| (point.epsilon, end(&point.delta))).collect::<Vec<_>>()
    };
    let mut series = vec![
        Series::line("upper bound: what may be claimed", bounded(&ends(|delta| delta.upper))),
        Series::line("lower bound: no accountant can claim less", ends(|delta| delta.lower)).dashed(),
    ];
    series.extend(promise.map(|promise| Series::line("the promise", vec![promise]).marked()));
    LineChart {
        title: "Privacy profile".to_owned(),
        x_label: "epsilon".to_owned(),
        y_label: "delta".to_owned(),
        x_scale: Scale::Linear,
        y_scale: Scale::Log,
        series,
    }
}

/// The bound between the points as well. On a logarithmic axis a straight line to a delta near zero runs far below the truth; delta is convex in e^epsilon, so the chord over
/// that bounds it. Points are added where it falls by more than half, ever nearer to the end of its fall.
fn bounded(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut all = Vec::with_capacity(points.len());
    for pair in points.windows(2) {
        let [(left, high), (right, low)] = [pair[0], pair[1]];
        all.push((left, high));
        let start = (left - right).exp();
        let fall = (1..).map(|step| 1.0 - f64::from(-step).exp2()).map(|share| {
            let epsilon = right + (start + (1.0 - start) * share).ln();
            (epsilon, high + (low - high) * share)
        });
        all.extend(fall.take_while(|&(epsilon, delta)| epsilon < right && delta > 2.0 * low));
    }
    all.extend(points.last());
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use halflit_privacy::{Epsilon, Event, Profile};

    /// What is read off the chart, straight lines on a logarithmic axis, is not below the truth by more than the width of a line.
    #[test]
    fn the_upper_line_is_above_the_profile_between_its_points() {
        let pure = Event::PureDp { epsilon: Epsilon::new(1.0).unwrap() };
        let profile = Profile::of(&pure).unwrap();
        let points = profile.points(20);
        let line =
            bounded(&points.iter().map(|point| (point.epsilon, point.delta.upper)).collect::<Vec<_>>());
        assert!(line.is_sorted_by(|a, b| a.0 < b.0 && a.1 >= b.1), "{line:?}");
        for step in 1..999 {
            let epsilon = f64::from(step) / 1000.0;
            let at = line.partition_point(|&(x, _)| x <= epsilon);
            let [(left, high), (right, low)] = [line[at - 1], line[at]];
            let read = high * (low / high).powf((epsilon - left) / (right - left));
            let truth = profile.delta(Epsilon::new(epsilon).unwrap()).upper;
            assert!(read > 0.9 * truth, "{epsilon}: {read} {truth}");
        }
    }
}
