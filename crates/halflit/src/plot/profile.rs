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

/// A fall between two points that is a cliff: smooth profiles fall by less.
const CLIFF: f64 = 1e3;

/// The bound between the points as well. Straight lines on a logarithmic axis follow a smooth profile, but at a cliff, where a pure release's delta falls to nothing, they run far
/// below the truth. There points are added on the chord over e^epsilon, in which delta is convex, ever nearer to the end of the fall.
fn bounded(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut all = Vec::with_capacity(points.len());
    for pair in points.windows(2) {
        let [(left, high), (right, low)] = [pair[0], pair[1]];
        all.push((left, high));
        if high <= CLIFF * low {
            continue;
        }
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
    use halflit_privacy::{Epsilon, Event, Mu, Profile};

    /// What is read off the chart, straight lines on a logarithmic axis, is not below the truth by more than the width of a line.
    #[test]
    fn the_upper_line_is_above_the_profile_between_its_points() {
        let pure = |epsilon| Event::PureDp { epsilon: Epsilon::new(epsilon).unwrap() };
        let gaussian = |mu| Event::Gdp { mu: Mu::new(mu).unwrap() };
        for event in [pure(1.0), pure(0.1), gaussian(0.236_704), gaussian(3.0)] {
            let profile = Profile::of(&event).unwrap();
            let points = profile.points(20);
            let line =
                bounded(&points.iter().map(|point| (point.epsilon, point.delta.upper)).collect::<Vec<_>>());
            assert!(line.is_sorted_by(|a, b| a.0 < b.0 && a.1 >= b.1), "{line:?}");
            let end = points[19].epsilon;
            for step in 1..999 {
                let epsilon = end * f64::from(step) / 1000.0;
                let at = line.partition_point(|&(x, _)| x <= epsilon);
                let [(left, high), (right, low)] = [line[at - 1], line[at]];
                let read = high * (low / high).powf((epsilon - left) / (right - left));
                let truth = profile.delta(Epsilon::new(epsilon).unwrap()).upper;
                assert!(read > 0.9 * truth, "{event:?} {epsilon}: {read} {truth}");
            }
        }
    }
}
