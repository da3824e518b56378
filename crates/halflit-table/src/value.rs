//! When is a cell a number, and when are two cells the same value?
//!
//! The whole crate asks these two questions here, so that a file, a declaration and a stored model cannot disagree.

use std::borrow::Cow;

/// The cell as a finite number, if its text is one.
///
/// A number is an optional sign, digits with an optional point, and an optional exponent: `12`, `-0.5`, `.5`, `1e-3`.
/// `NaN`, `inf`, `1e999`, `0x10` and `1,000` are not numbers.
pub(crate) fn parse_number(cell: &[u8]) -> Option<f64> {
    if let Some(value) = parse_short_decimal(cell) {
        return Some(value);
    }
    // The standard parser also takes the words for infinity and NaN; a number here starts with a digit or a point.
    let unsigned = cell.strip_prefix(b"-").or_else(|| cell.strip_prefix(b"+")).unwrap_or(cell);
    if !unsigned.first().is_some_and(|first| first.is_ascii_digit() || *first == b'.') {
        return None;
    }
    let value: f64 = std::str::from_utf8(cell).ok()?.parse().ok()?;
    value.is_finite().then_some(value)
}

/// `12.50` and the like, correctly rounded: the digits make an integer below 2^53 and the power of ten is exact, so
/// one division rounds once.
fn parse_short_decimal(cell: &[u8]) -> Option<f64> {
    const POWERS_OF_TEN: [f64; 16] =
        [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];
    let (negative, unsigned) = match cell {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, cell),
    };
    // 15 digits stay below 10^15 < 2^53.
    if unsigned.len() > 16 {
        return None;
    }
    let mut digits: u64 = 0;
    let mut digit_count = 0;
    let mut point_at = None;
    for &byte in unsigned {
        match byte {
            b'0'..=b'9' => {
                // 16 digits cannot wrap.
                digits = digits.wrapping_mul(10).wrapping_add(u64::from(byte.wrapping_sub(b'0')));
                digit_count += 1;
            }
            b'.' if point_at.is_none() => point_at = Some(digit_count),
            _ => return None,
        }
    }
    if digit_count == 0 || digit_count > 15 {
        return None;
    }
    let decimals = digit_count - point_at.unwrap_or(digit_count);
    let value = digits as f64 / POWERS_OF_TEN[decimals];
    Some(if negative { -value } else { value })
}

/// The cell without the ASCII spaces around it.
pub(crate) fn trim(cell: &[u8]) -> &[u8] {
    cell.trim_ascii()
}

/// The text by which two values are compared: numbers are the same value when they are the same number (`1`, `1.0`,
/// `+1`, `01` and `1e0` are one value), everything else when its text is equal.
///
/// Numbers are compared digit by digit, not as `f64`, so two 64-bit identifiers never collapse into one. Merging `01`
/// and `1` errs on the safe side for user ids: two people may be protected as one, one person is never split in two.
pub(crate) fn comparable(text: &str) -> Cow<'_, str> {
    match canonical_number(text) {
        Some(canonical) => Cow::Owned(canonical),
        None => Cow::Borrowed(text),
    }
}

/// The number as sign, digits without zeros at either end, and the power of ten: `-1.50` is `-15e-1`.
fn canonical_number(text: &str) -> Option<String> {
    let (negative, unsigned) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
        None => (unsigned, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = || whole.bytes().chain(fraction.bytes());
    if digits().next().is_none() || !digits().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let all: String = whole.chars().chain(fraction.chars()).collect();
    let without_tail = all.trim_end_matches('0');
    let significant = without_tail.trim_start_matches('0');
    if significant.is_empty() {
        return Some("0".to_owned());
    }
    let dropped = i64::try_from(all.len() - without_tail.len()).ok()?;
    let decimals = i64::try_from(fraction.len()).ok()?;
    // digits * 10^(exponent - decimals), and every zero dropped at the end puts one back.
    let power = exponent.checked_sub(decimals)?.checked_add(dropped)?;
    let sign = if negative { "-" } else { "" };
    Some(format!("{sign}{significant}e{power}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_and_not_numbers() {
        for (text, value) in [
            ("12", 12.0),
            ("-0.5", -0.5),
            (".5", 0.5),
            ("5.", 5.0),
            ("+7", 7.0),
            ("1e-3", 1e-3),
            ("1E3", 1000.0),
            ("123456789012345678", 123456789012345678.0),
            ("0.1", 0.1),
            ("1e-400", 0.0),
        ] {
            assert_eq!(parse_number(text.as_bytes()), Some(value), "{text}");
        }
        for text in [
            "", " ", "-", "+", ".", "e5", "NaN", "nan", "inf", "-inf", "infinity", "1e999", "0x10", "1,0",
            "1 2", "--1", "1.2.3", "é",
        ] {
            assert_eq!(parse_number(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse_number(b"\xff"), None);
    }

    #[test]
    fn same_and_different_values() {
        for same in ["1", "1.0", "01", "+1", "1e0", "10e-1", "0.1E1", "1."] {
            assert_eq!(comparable(same), comparable("1"), "{same}");
        }
        for zero in ["0", "-0", "0.00", "0e7", ".0"] {
            assert_eq!(comparable(zero), comparable("0"), "{zero}");
        }
        let different =
            ["1", "-1", "10", "0.1", "yes", "Yes", "9007199254740993", "9007199254740992", "1e", "."];
        for (index, left) in different.iter().enumerate() {
            for right in &different[index + 1..] {
                assert_ne!(comparable(left), comparable(right), "{left} {right}");
            }
        }
    }

    proptest! {
        #[test]
        fn short_decimals_round_like_the_standard_parser(whole in 0u64..10_000_000_000, decimals in 0usize..6, negative: bool) {
            let digits = format!("{whole:011}");
            let (head, tail) = digits.split_at(digits.len() - decimals);
            let text = format!("{}{head}.{tail}", if negative { "-" } else { "" });
            prop_assert_eq!(parse_number(text.as_bytes()), text.parse().ok());
        }

        #[test]
        fn a_number_keeps_its_identity_through_display(value: f64) {
            prop_assume!(value.is_finite());
            let plain = format!("{value}");
            let scientific = format!("{value:e}");
            prop_assert_eq!(comparable(&plain), comparable(&scientific));
            prop_assert_eq!(parse_number(plain.as_bytes()), Some(value));
        }

        #[test]
        fn any_bytes_are_a_number_or_not(bytes: Vec<u8>) {
            if let Some(value) = parse_number(&bytes) {
                prop_assert!(value.is_finite());
            }
            let _ = comparable(&String::from_utf8_lossy(&bytes));
        }
    }
}
