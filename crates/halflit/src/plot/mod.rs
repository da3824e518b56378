//! Small SVG charts for reports, `--plot` files and lab figures: lines with linear or logarithmic axes, and horizontal bars.
//!
//! Charts are plain text in, text out. Colours come from CSS classes: [`LineChart::to_svg`] and [`BarChart::to_svg`] carry their own
//! style sheet so that the file stands alone; the `to_inline_svg` forms leave it to the page that embeds them.

mod axis;
mod bars;
mod lines;
mod profile;

pub use axis::Scale;
pub use bars::{Bar, BarChart};
pub use lines::{LineChart, Series};
pub use profile::profile_chart;

use std::fmt::Write;

/// The style sheet of a chart that stands alone; a page that embeds inline charts brings its own rules for these classes.
pub const STYLE: &str = "\
.hl-chart{font:14px system-ui,sans-serif}\
.hl-chart text{fill:#333}.hl-chart .hl-title{font-weight:600;font-size:16px}\
.hl-chart .hl-grid{stroke:#ddd;stroke-width:1}.hl-chart .hl-axis{stroke:#888;stroke-width:1}\
.hl-chart .hl-halo{stroke:#fff;stroke-width:5}.hl-chart .hl-whisker{stroke:#111;stroke-width:1.8}\
.hl-chart .hl-line{fill:none;stroke-width:2}.hl-chart .hl-mark{stroke:none}\
.hl-chart .hl-s0{stroke:#1f5fbf}.hl-chart .hl-s1{stroke:#c2410c}.hl-chart .hl-s2{stroke:#15803d}\
.hl-chart .hl-s3{stroke:#7e22ce}.hl-chart .hl-s4{stroke:#0e7490}.hl-chart .hl-s5{stroke:#a16207}\
.hl-chart .hl-f0{fill:#1f5fbf}.hl-chart .hl-f1{fill:#c2410c}.hl-chart .hl-f2{fill:#15803d}\
.hl-chart .hl-f3{fill:#7e22ce}.hl-chart .hl-f4{fill:#0e7490}.hl-chart .hl-f5{fill:#a16207}\
.hl-chart .hl-dash{stroke-dasharray:6 4}";

/// How many distinct series colours the style sheet has; later series wrap around.
const COLOURS: usize = 6;

/// Text made safe for SVG and HTML.
pub(crate) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

/// Opens an `svg` element that scales with its container and names itself to screen readers.
fn open(svg: &mut String, width: f64, height: f64, title: &str, standalone: bool) {
    let title = escape(title);
    let _ = write!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"hl-chart\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{title}\""
    );
    if standalone {
        let _ = write!(svg, " width=\"{width}\" height=\"{height}\"><style>{STYLE}</style>");
        let _ = write!(svg, "<rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>");
    } else {
        svg.push('>');
    }
}

/// A text element; `anchor` is SVG's start, middle or end.
fn text(svg: &mut String, x: f64, y: f64, anchor: &str, class: &str, content: &str) {
    let content = escape(content);
    let _ = write!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" class=\"{class}\">{content}</text>"
    );
}

/// A straight line from `from` to `to`.
fn segment(svg: &mut String, from: (f64, f64), to: (f64, f64), class: &str) {
    let _ = write!(
        svg,
        "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" class=\"{class}\"/>",
        from.0, from.1, to.0, to.1
    );
}
