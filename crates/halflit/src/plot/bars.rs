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
    /// From top to bottom.
    pub bars: Vec<Bar>,
}

const WIDTH: f64 = 640.0;
const NAMES: f64 = 220.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 40.0;
const ROW: f64 = 22.0;
/// Longer names are cut with an ellipsis so that they stay left of the bars.
const NAME_CHARACTERS: usize = 30;

impl BarChart {
    /// A file of its own, with its style sheet.
    pub fn to_svg(&self) -> String {
        self.draw(true)
    }

    /// For a page that styles the chart's classes.
    pub fn to_inline_svg(&self) -> String {
        self.draw(false)
    }

    fn draw(&self, standalone: bool) -> String {
        let ends = self.bars.iter().flat_map(|bar| {
            let error = bar.error.unwrap_or(0.0);
            [bar.value - error, bar.value + error]
        });
        let axis = Axis::spanning(Scale::Linear, ends.chain([0.0]));
        let plot_width = WIDTH - NAMES - RIGHT;
        let plot_height = ROW * self.bars.len() as f64;
        let across = |value: f64| axis.position(value).map(|position| NAMES + position * plot_width);
        let zero = across(0.0).unwrap_or(NAMES);

        let mut svg = String::new();
        open(&mut svg, WIDTH, TOP + plot_height + 50.0, &self.title, standalone);
        text(&mut svg, 8.0, 22.0, "start", "hl-title", &self.title);
        for tick in axis.ticks() {
            let Some(x) = across(tick) else { continue };
            segment(&mut svg, (x, TOP), (x, TOP + plot_height), "hl-grid");
            text(&mut svg, x, TOP + plot_height + 18.0, "middle", "hl-tick", &label(tick));
        }
        for (index, bar) in self.bars.iter().enumerate() {
            let top = TOP + ROW * index as f64;
            text(&mut svg, NAMES - 8.0, top + 15.0, "end", "hl-label", &shortened(&bar.name));
            let Some(end) = across(bar.value) else { continue };
            let colour = if bar.value < 0.0 { 1 } else { 0 };
            let _ = write!(
                svg,
                "<rect class=\"hl-f{colour}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"><title>{}: {:.4}</title></rect>",
                end.min(zero),
                top + 3.0,
                (end - zero).abs().max(0.5),
                ROW - 6.0,
                super::escape(&bar.name),
                bar.value
            );
            let whisker =
                bar.error.and_then(|error| Some((across(bar.value - error)?, across(bar.value + error)?)));
            if let Some((low, high)) = whisker {
                segment(&mut svg, (low, top + ROW / 2.0), (high, top + ROW / 2.0), "hl-axis");
            }
        }
        segment(&mut svg, (zero, TOP), (zero, TOP + plot_height), "hl-axis");
        text(
            &mut svg,
            NAMES + plot_width / 2.0,
            TOP + plot_height + 40.0,
            "middle",
            "hl-label",
            &self.x_label,
        );
        svg.push_str("</svg>");
        svg
    }
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
    fn bars_start_at_zero_and_long_names_are_cut() {
        let chart = BarChart {
            title: "Weights".into(),
            x_label: "log-odds".into(),
            bars: vec![
                Bar { name: "x".repeat(80), value: 1.0, error: Some(0.5) },
                Bar { name: "age".into(), value: -2.0, error: None },
                Bar { name: "broken".into(), value: f64::NAN, error: None },
            ],
        };
        let svg = chart.to_svg();
        assert_eq!(svg.matches("<rect class=").count(), 2, "a bar that is not a number is not drawn");
        assert!(svg.contains('…'));
        assert!(!svg.contains(">NaN"));
    }
}
