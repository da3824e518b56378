//! Horizontal bars around zero.

use super::axis::{Axis, Scale, label};
use super::{open, segment, text};
use std::fmt::Write;

/// One bar of a [`BarChart`].
#[derive(Clone, Debug)]
pub struct Bar {
    /// Written beside the bar.
    pub name: String,
    /// Its length; negative values go left of zero.
    pub value: f64,
    /// Half the length of the whisker around the end of the bar, where the uncertainty is known.
    pub error: Option<f64>,
}

/// Bars sharing one horizontal axis that always shows zero.
#[derive(Clone, Debug)]
pub struct BarChart {
    /// Said above the chart and to screen readers.
    pub title: String,
    /// What the bars measure.
    pub x_label: String,
    /// Values that the axis reaches besides zero and the bars.
    pub shows: Vec<f64>,
    /// From top to bottom.
    pub bars: Vec<Bar>,
}

/// What the bars have to themselves.
const PLOT: f64 = 360.0;
/// An average character of a name.
const CHARACTER: f64 = 8.5;
const RIGHT: f64 = 20.0;
const TOP: f64 = 40.0;
const ROW: f64 = 22.0;
/// Longer names are cut with an ellipsis so that they stay left of the bars.
const NAME_CHARACTERS: usize = 30;

impl BarChart {
    /// A file of its own, with its style sheet.
    pub fn to_svg(&self) -> String {
        self.draw(Scale::Linear, true)
    }

    /// For a page that styles the chart's classes.
    pub fn to_inline_svg(&self) -> String {
        self.draw(Scale::Linear, false)
    }

    /// The same as dots on a logarithmic axis: it has no zero for a bar to start at. It starts at the power of ten below the smallest value; what is not
    /// positive is left out.
    pub fn to_inline_log_svg(&self) -> String {
        self.draw(Scale::Log, false)
    }

    fn draw(&self, scale: Scale, standalone: bool) -> String {
        let ends = self.bars.iter().flat_map(|bar| {
            let error = bar.error.unwrap_or(0.0);
            [bar.value - error, bar.value + error]
        });
        let start = match scale {
            Scale::Linear => 0.0,
            Scale::Log => power_below(ends.clone().filter(|end| *end > 0.0).fold(f64::INFINITY, f64::min)),
        };
        let axis = Axis::spanning(scale, ends.chain([start]).chain(self.shows.iter().copied()));
        // As much room as the longest name takes: a narrow chart stays readable on a phone.
        let longest = self.bars.iter().map(|bar| bar.name.chars().count()).max().unwrap_or(0);
        let names = (16.0 + CHARACTER * longest.min(NAME_CHARACTERS) as f64).max(60.0);
        let width = names + PLOT + RIGHT;
        let plot_height = ROW * self.bars.len() as f64;
        let across = |value: f64| axis.position(value).map(|position| names + position * PLOT);
        let zero = across(start).unwrap_or(names);

        let mut svg = String::new();
        open(&mut svg, width, TOP + plot_height + 50.0, &self.title, standalone);
        text(&mut svg, 8.0, 22.0, "start", "hl-title", &self.title);
        for tick in axis.ticks() {
            let Some(x) = across(tick) else { continue };
            segment(&mut svg, (x, TOP), (x, TOP + plot_height), "hl-grid");
            text(&mut svg, x, TOP + plot_height + 18.0, "middle", "hl-tick", &label(tick));
        }
        for (index, bar) in self.bars.iter().enumerate() {
            let top = TOP + ROW * index as f64;
            text(&mut svg, names - 8.0, top + 15.0, "end", "hl-label", &shortened(&bar.name));
            let Some(end) = across(bar.value) else { continue };
            let colour = if bar.value < 0.0 { 1 } else { 0 };
            let middle = top + ROW / 2.0;
            let title = format!("<title>{}: {:.4}</title>", super::escape(&bar.name), bar.value);
            let _ = match scale {
                Scale::Linear => write!(
                    svg,
                    "<rect class=\"hl-f{colour}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\">{title}</rect>",
                    end.min(zero),
                    top + 3.0,
                    (end - zero).abs().max(0.5),
                    ROW - 6.0
                ),
                Scale::Log => write!(
                    svg,
                    "<circle class=\"hl-f{colour}\" cx=\"{end:.1}\" cy=\"{middle:.1}\" r=\"5\">{title}</circle>"
                ),
            };
            // What is exact has none, and no caps either.
            let whisker = bar
                .error
                .filter(|error| *error > 0.0)
                .and_then(|error| Some((across(bar.value - error)?, across(bar.value + error)?)));
            if let Some((low, high)) = whisker {
                draw_whisker(&mut svg, low, high, middle);
            }
        }
        segment(&mut svg, (zero, TOP), (zero, TOP + plot_height), "hl-axis");
        text(&mut svg, names + PLOT / 2.0, TOP + plot_height + 40.0, "middle", "hl-label", &self.x_label);
        svg.push_str("</svg>");
        svg
    }
}

/// Half the height of the caps of a whisker.
const CAP: f64 = 4.0;

/// A line with caps at both ends, first in the colour of the paper and wider: so it is seen on the bar as well as beside it.
fn draw_whisker(svg: &mut String, low: f64, high: f64, middle: f64) {
    for class in ["hl-halo", "hl-whisker"] {
        segment(svg, (low, middle), (high, middle), class);
        for end in [low, high] {
            segment(svg, (end, middle - CAP), (end, middle + CAP), class);
        }
    }
}

/// The largest power of ten that is clearly below.
fn power_below(value: f64) -> f64 {
    10f64.powf((0.9 * value).log10().floor())
}

fn shortened(name: &str) -> String {
    if name.chars().count() <= NAME_CHARACTERS {
        return name.to_owned();
    }
    let kept: String = name.chars().take(NAME_CHARACTERS - 1).collect();
    format!("{kept}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logarithmic_axis_starts_below_the_shortest_bar() {
        let bar = |name: &str, value: f64| Bar { name: name.into(), value, error: None };
        let bars = vec![bar("one", 0.1), bar("many", 1000.0), bar("none", 0.0)];
        let chart = BarChart { title: "Sizes".into(), x_label: "norm".into(), shows: Vec::new(), bars };
        let svg = chart.to_inline_log_svg();
        let ends: Vec<f64> = svg
            .split("<circle class=")
            .skip(1)
            .map(|dot| dot.split("cx=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap())
            .collect();
        assert_eq!(ends.len(), 2);
        // 0.1 is one of five decades above 0.01, 1000 all of them.
        let decade = (ends[1] - ends[0]) / 4.0;
        assert!((decade - PLOT / 5.0).abs() < 0.1, "{ends:?}");
    }

    #[test]
    fn the_axis_reaches_what_it_is_said_to_show() {
        let bars = vec![Bar { name: "age".into(), value: 0.4, error: None }];
        let ends_at_one = |shows: Vec<f64>| BarChart {
            title: "Means".into(),
            x_label: "share".into(),
            shows,
            bars: bars.clone(),
        };
        assert!(ends_at_one(vec![1.0]).to_svg().contains(">1</text>"));
        assert!(!ends_at_one(vec![]).to_svg().contains(">1</text>"));
    }

    #[test]
    fn bars_start_at_zero_and_long_names_are_cut() {
        let chart = BarChart {
            title: "Weights".into(),
            x_label: "log-odds".into(),
            shows: Vec::new(),
            bars: vec![
                Bar { name: "x".repeat(80), value: 1.0, error: Some(0.5) },
                Bar { name: "age".into(), value: -2.0, error: None },
                Bar { name: "broken".into(), value: f64::NAN, error: None },
            ],
        };
        let svg = chart.to_svg();
        assert_eq!(svg.matches("<rect class=").count(), 2, "a bar that is not a number is not drawn");
        let whisker = svg.matches("class=\"hl-whisker\"").count();
        assert_eq!(whisker, 3, "a line and its two caps, for the one bar with an error");
        assert!(svg.contains('…'));
        assert!(!svg.contains(">NaN"));
    }
}
