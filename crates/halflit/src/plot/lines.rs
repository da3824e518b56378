//! Line charts.

use super::axis::{Axis, Scale, label};
use super::{COLOURS, open, segment, text};
use std::fmt::Write;

/// One line of a [`LineChart`].
#[derive(Clone, Debug)]
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// Points in drawing order; those that an axis cannot show are left out and break the line.
    pub points: Vec<(f64, f64)>,
    /// Dashed instead of solid.
    pub dashed: bool,
    /// A dot at every point.
    pub marked: bool,
}

impl Series {
    /// A solid line without dots.
    pub fn line(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Series { name: name.into(), points, dashed: false, marked: false }
    }

    /// The same, dashed.
    pub fn dashed(self) -> Self {
        Series { dashed: true, ..self }
    }

    /// The same with a dot at every point.
    pub fn marked(self) -> Self {
        Series { marked: true, ..self }
    }
}

/// Lines over two axes.
#[derive(Clone, Debug)]
pub struct LineChart {
    /// Said above the chart and to screen readers.
    pub title: String,
    /// What the horizontal axis measures.
    pub x_label: String,
    /// What the vertical axis measures.
    pub y_label: String,
    /// How the horizontal axis is spread.
    pub x_scale: Scale,
    /// How the vertical axis is spread.
    pub y_scale: Scale,
    /// The lines, in legend order.
    pub series: Vec<Series>,
}

const WIDTH: f64 = 520.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;
/// Between the axis label and the legend.
const LEGEND_GAP: f64 = 12.0;

impl LineChart {
    /// A file of its own, with its style sheet.
    pub fn to_svg(&self) -> String {
        self.draw(true)
    }

    /// For a page that styles the chart's classes.
    pub fn to_inline_svg(&self) -> String {
        self.draw(false)
    }

    fn draw(&self, standalone: bool) -> String {
        let points = || self.series.iter().flat_map(|series| series.points.iter());
        let x_axis = Axis::spanning(self.x_scale, points().map(|point| point.0));
        let y_axis = Axis::spanning(self.y_scale, points().map(|point| point.1));
        let legend_rows = if self.series.len() > 1 { self.series.len() } else { 0 };
        let height = HEIGHT + 20.0 * legend_rows as f64 + if legend_rows > 0 { LEGEND_GAP } else { 0.0 };
        let (plot_width, plot_height) = (WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);
        let across = |position: f64| LEFT + position * plot_width;
        let up = |position: f64| TOP + (1.0 - position) * plot_height;

        let mut svg = String::new();
        open(&mut svg, WIDTH, height, &self.title, standalone);
        text(&mut svg, LEFT, 22.0, "start", "hl-title", &self.title);
        for tick in x_axis.ticks() {
            let Some(x) = x_axis.position(tick).map(across) else {
                continue;
            };
            segment(&mut svg, (x, TOP), (x, TOP + plot_height), "hl-grid");
            text(&mut svg, x, TOP + plot_height + 18.0, "middle", "hl-tick", &label(tick));
        }
        for tick in y_axis.ticks() {
            let Some(y) = y_axis.position(tick).map(up) else {
                continue;
            };
            segment(&mut svg, (LEFT, y), (LEFT + plot_width, y), "hl-grid");
            text(&mut svg, LEFT - 6.0, y + 4.0, "end", "hl-tick", &label(tick));
        }
        segment(&mut svg, (LEFT, TOP + plot_height), (LEFT + plot_width, TOP + plot_height), "hl-axis");
        segment(&mut svg, (LEFT, TOP), (LEFT, TOP + plot_height), "hl-axis");
        text(
            &mut svg,
            LEFT + plot_width / 2.0,
            TOP + plot_height + 40.0,
            "middle",
            "hl-label",
            &self.x_label,
        );
        let _ = write!(svg, "<g transform=\"translate(18 {:.1}) rotate(-90)\">", TOP + plot_height / 2.0);
        text(&mut svg, 0.0, 0.0, "middle", "hl-label", &self.y_label);
        svg.push_str("</g>");

        for (index, series) in self.series.iter().enumerate() {
            let colour = index % COLOURS;
            let places: Vec<Option<(f64, f64)>> = series
                .points
                .iter()
                .map(|&(x, y)| Some((across(x_axis.position(x)?), up(y_axis.position(y)?))))
                .collect();
            let dash = if series.dashed { " hl-dash" } else { "" };
            let _ = write!(svg, "<path class=\"hl-line hl-s{colour}{dash}\" d=\"{}\"/>", path(&places));
            // A point on its own has no line to be seen by.
            let alone = series.points.len() == 1;
            let radius = if alone { 5 } else { 3 };
            if series.marked {
                for (x, y) in places.iter().flatten() {
                    let _ = write!(
                        svg,
                        "<circle class=\"hl-mark hl-f{colour}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\"/>"
                    );
                }
            }
            if legend_rows > 0 {
                let y = HEIGHT + LEGEND_GAP + 20.0 * index as f64;
                if alone && series.marked {
                    let x = LEFT + 12.0;
                    let _ = write!(
                        svg,
                        "<circle class=\"hl-mark hl-f{colour}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\"/>"
                    );
                } else {
                    segment(&mut svg, (LEFT, y), (LEFT + 24.0, y), &format!("hl-line hl-s{colour}{dash}"));
                }
                text(&mut svg, LEFT + 32.0, y + 4.0, "start", "hl-label", &series.name);
            }
        }
        svg.push_str("</svg>");
        svg
    }
}

/// Path data through the drawable points; a gap starts a new stroke.
fn path(places: &[Option<(f64, f64)>]) -> String {
    let mut data = String::new();
    let mut pen_down = false;
    for place in places {
        match place {
            Some((x, y)) => {
                let _ = write!(data, "{}{x:.1} {y:.1}", if pen_down { 'L' } else { 'M' });
                pen_down = true;
            }
            None => pen_down = false,
        }
    }
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart() -> LineChart {
        LineChart {
            title: "a < b".into(),
            x_label: "epsilon".into(),
            y_label: "delta".into(),
            x_scale: Scale::Linear,
            y_scale: Scale::Log,
            series: vec![
                Series::line("upper", vec![(0.0, 1e-1), (1.0, 1e-3), (2.0, 0.0), (3.0, 1e-6)]),
                Series::line("lower", vec![(0.0, 1e-2), (3.0, f64::NAN)]).dashed().marked(),
            ],
        }
    }

    #[test]
    fn names_are_escaped_and_unplottable_points_break_the_line() {
        let svg = chart().to_svg();
        assert!(svg.contains("a &lt; b") && !svg.contains("a < b"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        let first_path = svg.split("<path").nth(1).unwrap().split("/>").next().unwrap();
        assert_eq!(first_path.matches('M').count(), 2);
    }

    #[test]
    fn only_the_standalone_form_carries_a_style_sheet() {
        assert!(chart().to_svg().contains("<style>"));
        assert!(!chart().to_inline_svg().contains("<style>"));
    }
}
