//! Numbers for people to read: few figures, and never rounded in a claim's favour.
//!
//! A promise printed with fewer figures than it has must still hold, so an epsilon, delta, mu or rho goes through [`at_most`],
//! what is left of a budget and the lower end of an interval through [`at_least`]. [`about`] is for what promises nothing.

use std::cmp::Ordering;

/// Rounded up: the text, read back as a number, is never below `value`.
pub fn at_most(value: f64, figures: usize) -> String {
    written(value, figures, Some(Ordering::Greater))
}

/// Rounded down: the text, read back as a number, is never above `value`.
pub fn at_least(value: f64, figures: usize) -> String {
    written(value, figures, Some(Ordering::Less))
}

/// Rounded to the nearest: no claim rests on it.
pub fn about(value: f64, figures: usize) -> String {
    written(value, figures, None)
}

/// A delta as it was declared: a power of ten where there is one, 0 for pure differential privacy.
pub fn delta(value: f64) -> String {
    if value == 0.0 { "0".to_owned() } else { format!("{value:e}") }
}

/// A number as it was declared, with all its figures; with an exponent where plain digits would be mostly zeros.
pub fn declared(value: f64) -> String {
    let is_plain = value == 0.0 || (1e-4..1e7).contains(&value.abs());
    if is_plain || !value.is_finite() { value.to_string() } else { format!("{value:e}") }
}

/// A whole number with its thousands apart.
pub fn whole(value: u64) -> String {
    grouped(&value.to_string())
}

/// A count and what was counted: `1 public row`, `2,000 public rows`.
pub fn count_of(count: u64, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {what}{plural}", whole(count))
}

/// Larger numbers are written with an exponent.
const LARGEST_PLAIN: i32 = 6;
/// Smaller numbers are written with an exponent.
const SMALLEST_PLAIN: i32 = -4;

/// `figures` significant figures, or the whole number if that has more; trailing zeros are left out.
fn written(value: f64, figures: usize, toward: Option<Ordering>) -> String {
    if !value.is_finite() {
        return if value.is_nan() { "not a number".to_owned() } else { "infinite".to_owned() };
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let whole_figures = match rounded(value, 17, None).1 {
        exponent @ 0..=LARGEST_PLAIN => exponent as usize + 1,
        _ => 1,
    };
    let (digits, exponent) = rounded(value, figures.max(whole_figures).clamp(1, 17), toward);
    let sign = if value < 0.0 { "-" } else { "" };
    format!("{sign}{}", placed(&digits, exponent))
}

/// The decimal digits of the size of `value`, first digit first, and the power of ten of the first.
fn rounded(value: f64, figures: usize, toward: Option<Ordering>) -> (String, i32) {
    // The exact decimal expansion, rounded to the nearest.
    let text = format!("{value:.*e}", figures - 1);
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let mut digits: u64 =
        mantissa.chars().filter(char::is_ascii_digit).collect::<String>().parse().unwrap_or(0);
    let mut exponent: i32 = exponent.parse().unwrap_or(0);
    let nearest: f64 = text.parse().unwrap_or(value);
    // Rounding went the wrong way: one unit of the last place back. Reading is monotone, so one is enough.
    let misses =
        nearest.partial_cmp(&value).filter(|side| toward.is_some_and(|toward| *side == toward.reverse()));
    if let Some(side) = misses {
        let grows = (side == Ordering::Less) == (value > 0.0);
        if grows {
            digits += 1;
        } else if digits == 10u64.pow(figures as u32 - 1) {
            // 1.00 becomes 0.999: as many figures, one place further down.
            (digits, exponent) = (digits * 10 - 1, exponent - 1);
        } else {
            digits -= 1;
        }
        if digits == 10u64.pow(figures as u32) {
            (digits, exponent) = (digits / 10, exponent + 1);
        }
    }
    (digits.to_string(), exponent)
}

/// Digits with their point, plain where that is short.
fn placed(digits: &str, exponent: i32) -> String {
    let kept = digits.trim_end_matches('0');
    if !(SMALLEST_PLAIN..=LARGEST_PLAIN).contains(&exponent) {
        let (first, rest) = kept.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        return format!("{first}{point}{rest}e{exponent}");
    }
    if exponent < 0 {
        return format!("0.{}{kept}", "0".repeat((-exponent - 1) as usize));
    }
    let places = exponent as usize + 1;
    if kept.len() <= places {
        return grouped(&format!("{kept:0<places$}"));
    }
    let (before, after) = kept.split_at(places);
    format!("{}.{after}", grouped(before))
}

fn grouped(digits: &str) -> String {
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|group| std::str::from_utf8(group).ok()).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_claim_is_never_rounded_down() {
        assert_eq!(at_most(0.0281, 2), "0.029");
        assert_eq!(at_most(0.0281, 3), "0.0281");
        assert_eq!(at_most(0.999_96, 4), "1");
        assert_eq!(at_most(1.000_000_1, 4), "1.001");
        assert_eq!(at_most(1.23e-7, 2), "1.3e-7");
        assert_eq!(at_most(9.99e-7, 2), "1e-6");
        assert_eq!(at_most(f64::INFINITY, 3), "infinite");
    }

    #[test]
    fn what_is_left_is_never_rounded_up() {
        assert_eq!(at_least(0.029_99, 3), "0.0299");
        assert_eq!(at_least(0.999_96, 4), "0.9999");
        assert_eq!(at_least(0.1, 3), "0.1");
    }

    #[test]
    fn a_number_that_is_short_already_stays_as_it_is() {
        for (value, text) in
            [(1.0, "1"), (1e-6, "1e-6"), (0.5, "0.5"), (2e9, "2e9"), (0.0, "0"), (-2.5, "-2.5")]
        {
            for write in [at_most, at_least, about] {
                assert_eq!(write(value, 3), text);
            }
        }
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!(about(0.2367, 3), "0.237");
        assert_eq!(about(123_456.0, 3), "123,456");
        assert_eq!(about(1234.5, 3), "1,234");
        assert_eq!(about(12_345_678.0, 3), "1.23e7");
        assert_eq!(about(0.000_123, 3), "0.000123");
        assert_eq!(whole(32_561), "32,561");
        assert_eq!(whole(999), "999");
    }

    #[test]
    fn declared_numbers_keep_their_figures() {
        for (value, text) in [(0.1, "0.1"), (2.0, "2"), (1e-300, "1e-300"), (1e308, "1e308"), (0.0, "0")] {
            assert_eq!(declared(value), text);
        }
        assert_eq!(declared(1.0 / 3.0), "0.3333333333333333");
    }

    fn read_back(text: &str) -> f64 {
        text.replace(',', "").parse().unwrap()
    }

    proptest! {
        #[test]
        fn the_text_read_back_lies_on_the_safe_side_and_near(
            mantissa in 1.0f64..10.0, exponent in -300i32..300, figures in 1usize..17, negative: bool,
        ) {
            let value = mantissa * 10f64.powi(exponent) * if negative { -1.0 } else { 1.0 };
            let (up, down) = (read_back(&at_most(value, figures)), read_back(&at_least(value, figures)));
            prop_assert!(down <= value && value <= up, "{down} {value} {up}");
            let unit = value.abs() * 10f64.powi(1 - figures as i32) * (1.0 + 1e-9);
            prop_assert!(up - value <= unit && value - down <= unit, "{down} {value} {up}");
        }
    }
}
