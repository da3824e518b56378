//! Tables, CSV and charts.

use super::{AXES, BELIEFS, Cell};
use crate::record::COMMIT;
use crate::record::Measured;
use halflit::plot::{LineChart, Scale, Series};
use std::fmt::Write;

pub fn csv(cells: &[Cell]) -> String {
    let mut text = format!("# semi-sensitive, commit {COMMIT}; the data have fixed seeds\n");
    text += "table,mechanism,epsilon,k,d,runs,predicted,excess,excess_error,test_loss,test_loss_error,test_accuracy\n";
    let number = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.6}"));
    for cell in cells {
        let _ = writeln!(
            text,
            "\"{}\",{},{},{},{},{},{},{},{},{},{},{}",
            cell.table,
            cell.mechanism,
            cell.epsilon,
            cell.values,
            cell.dimension,
            cell.runs,
            number(cell.predicted),
            number(cell.excess.map(|m| m.mean)),
            number(cell.excess.map(|m| m.standard_error)),
            number(cell.test_loss.map(|m| m.mean)),
            number(cell.test_loss.map(|m| m.standard_error)),
            number(cell.test_accuracy.map(|m| m.mean))
        );
    }
    text
}

pub fn chart(cells: &[Cell], axis: &str, name: &str) -> String {
    let own: Vec<&Cell> = cells.iter().filter(|cell| cell.table == format!("synthetic, {axis}")).collect();
    let mut names: Vec<&str> = own.iter().map(|cell| cell.mechanism.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let at = |cell: &Cell| if axis == "d" { cell.dimension } else { cell.values } as f64;
    let series = |mechanism: &str| {
        let points = own.iter().filter(|cell| cell.mechanism == mechanism);
        Series::line(mechanism, points.filter_map(|cell| Some((at(cell), cell.excess?.mean))).collect())
            .marked()
    };
    LineChart {
        title: "Excess training loss".to_owned(),
        x_label: name.to_owned(),
        y_label: "excess loss".to_owned(),
        x_scale: Scale::Log,
        y_scale: Scale::Log,
        series: names.into_iter().map(series).collect(),
    }
    .to_svg()
}

pub fn human(cells: &[Cell]) -> String {
    let mut text = format!("Commit {COMMIT}; ± is one standard error.\n");
    let mut last = String::new();
    for cell in cells {
        if cell.table != last {
            let _ = writeln!(text, "\n{} (delta = 1e-6, replace)", cell.table);
            let _ = writeln!(
                text,
                "  {:<28} {:>7} {:>4} {:>5} {:>10} {:>18} {:>18} {:>9}",
                "mechanism", "epsilon", "k", "d", "predicted", "excess", "test loss", "accuracy"
            );
            last.clone_from(&cell.table);
        }
        let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.5}"));
        let with_error = |value: Option<Measured>| {
            value.map_or("-".to_owned(), |m| format!("{:.5} ± {:.5}", m.mean, m.standard_error))
        };
        let _ = writeln!(
            text,
            "  {:<28} {:>7} {:>4} {:>5} {:>10} {:>18} {:>18} {:>9}",
            cell.mechanism,
            cell.epsilon,
            cell.values,
            cell.dimension,
            number(cell.predicted),
            with_error(cell.excess),
            with_error(cell.test_loss),
            number(cell.test_accuracy.map(|m| m.mean))
        );
    }
    // Theorem 18 lets the excess grow like a power of log k.
    for (axis, _) in &AXES[..2] {
        for mechanism in BELIEFS {
            let of = |k: usize| {
                let own = |cell: &&Cell| cell.table == format!("synthetic, {axis}") && cell.values == k;
                Some(cells.iter().filter(own).find(|cell| cell.mechanism == mechanism)?.excess?.mean)
            };
            if let (Some(few), Some(many)) = (of(2), of(64)) {
                let ratio = many / few;
                let powers = (ratio.ln() / 6f64.ln(), ratio.ln() / 32f64.ln());
                let _ = writeln!(
                    text,
                    "\n{mechanism}, {axis}: from k = 2 to 64 the excess is multiplied by {ratio:.2} = 6^{:.2} = 32^{:.2} \
                     (log k is multiplied by 6, k by 32)",
                    powers.0, powers.1
                );
            }
        }
    }
    text
}
