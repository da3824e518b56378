//! The privacy profile as a chart.

use super::{LineChart, Scale, Series};
use halflit_privacy::{Interval, ProfilePoint};

/// delta over epsilon: what may be claimed, what no accountant can improve on, and the (epsilon, delta) that is promised, if one is.
pub fn profile_chart(points: &[ProfilePoint], promise: Option<(f64, f64)>) -> LineChart {
    let ends = |end: fn(&Interval) -> f64| {
        points.iter().map(|point| (point.epsilon, end(&point.delta))).collect::<Vec<_>>()
    };
    let mut series = vec![
        Series::line("upper bound: what may be claimed", ends(|delta| delta.upper)),
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
