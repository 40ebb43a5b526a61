//! JSON numbers as exact plain decimals.

use super::Number;
use crate::limits::{JSON_DIGITS_MAX, JSON_EXPONENT_MAX, JSON_NUMBER_BYTES_MAX};

/// Normalises a number whose JSON grammar was checked: `sign digits [. digits] [e sign digits]`. `None` beyond a limit.
pub(super) fn normalise(token: &str) -> Option<Number> {
    if token.len() > JSON_NUMBER_BYTES_MAX {
        return None;
    }
    let (negative, rest) = token.strip_prefix('-').map_or((false, token), |rest| (true, rest));
    let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, parse_exponent(exponent)?),
        None => (rest, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all: String = [whole, fraction].concat();
    let digits = all.trim_start_matches('0');
    let coefficient = digits.trim_end_matches('0');
    if coefficient.is_empty() {
        return Some(Number("0".to_owned()));
    }
    if coefficient.len() > JSON_DIGITS_MAX {
        return None;
    }
    // The value is 0.COEFFICIENT times ten to `point`.
    let leading = i64::try_from(all.len() - digits.len()).ok()?;
    let point = i64::try_from(whole.len()).ok()? - leading + exponent;
    if point.abs() > JSON_EXPONENT_MAX {
        return None;
    }
    let mut text = String::new();
    if negative {
        text.push('-');
    }
    match usize::try_from(point) {
        Ok(point) if point >= coefficient.len() => {
            text.push_str(coefficient);
            text.extend(std::iter::repeat_n('0', point - coefficient.len()));
        }
        Ok(point) if point > 0 => {
            let (whole, fraction) = coefficient.split_at(point);
            text.push_str(whole);
            text.push('.');
            text.push_str(fraction);
        }
        _ => {
            text.push_str("0.");
            let zeros = usize::try_from(-point).unwrap_or(0);
            text.extend(std::iter::repeat_n('0', zeros));
            text.push_str(coefficient);
        }
    }
    Some(Number(text))
}

fn parse_exponent(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let digits = digits.trim_start_matches('0');
    let value: i64 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    (value <= JSON_EXPONENT_MAX).then_some(if negative { -value } else { value })
}
