//! Time as A2A writes it: `2026-11-30T12:00:00.000Z` for unix milliseconds. Pure; the clock is elsewhere.

const DAY_MS: u64 = 86_400_000;
/// Days from 0000-03-01 to 1970-01-01. Years that begin in March have their leap day at the end.
const EPOCH_DAYS: u64 = 719_468;
/// Days of 400 years, after which the calendar repeats.
const ERA_DAYS: u64 = 146_097;

/// Days since 0000-03-01 as year, month, day.
fn date_of(days: u64) -> (u64, u64, u64) {
    let (era, day) = (days / ERA_DAYS, days % ERA_DAYS);
    // Without the leap days of 4 years, 100 years and 400 years, all years are equally long.
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // From March on, five months have 153 days.
    let month = (5 * day + 2) / 153;
    let first = (153 * month + 2) / 5;
    let (month, turn) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + turn, month, day - first + 1)
}

/// Days from 0000-03-01 to a date that exists.
fn days_of(year: u64, month: u64, day: u64) -> Option<u64> {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let (year, month) =
        if month > 2 { (year, month - 3) } else { (year.checked_sub(1)?, month + 9) };
    let in_year = (153 * month + 2) / 5 + day - 1;
    Some(365 * year + year / 4 - year / 100 + year / 400 + in_year)
}

/// Prints unix milliseconds in UTC.
pub(super) fn print(ms: u64) -> String {
    let (year, month, day) = date_of(ms / DAY_MS + EPOCH_DAYS);
    let rest = ms % DAY_MS;
    let (hour, minute) = (rest / 3_600_000, rest / 60_000 % 60);
    let (second, ms) = (rest / 1_000 % 60, rest % 1_000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// Reads a timestamp of RFC 3339, with `Z` or an offset, as unix milliseconds rounded up. What lies before 1970 is 0.
pub(super) fn parse(text: &str) -> Option<u64> {
    let number = |from: usize, to: usize| {
        let digits = text.get(from..to)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<u64>().ok())?
    };
    let marks = [(4, "-"), (7, "-"), (13, ":"), (16, ":")];
    if !marks.iter().all(|(at, mark)| text.get(*at..at + 1) == Some(*mark))
        || !matches!(text.get(10..11), Some("T" | "t"))
    {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let days = days_of(year, month, day)?;
    if date_of(days) != (year, month, day) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let (fraction, zone) = fraction_of(text.get(19..)?)?;
    let local = days * DAY_MS + hour * 3_600_000 + minute * 60_000 + second * 1_000 + fraction;
    let utc = i64::try_from(local).ok()? - offset_of(zone)? * 60_000;
    Some(u64::try_from(utc).unwrap_or(0).saturating_sub(EPOCH_DAYS * DAY_MS))
}

/// Milliseconds of `.123456789`, rounded up so that "at or after" keeps its meaning, and what follows.
fn fraction_of(text: &str) -> Option<(u64, &str)> {
    let Some(rest) = text.strip_prefix('.') else { return Some((0, text)) };
    let end = rest.find(|c: char| !c.is_ascii_digit())?;
    let (digits, zone) = rest.split_at(end);
    if digits.is_empty() || digits.len() > 9 {
        return None;
    }
    let nanos: u64 = format!("{digits:0<9}").parse().ok()?;
    Some((nanos.div_ceil(1_000_000), zone))
}

/// Minutes by which `+01:00` is ahead of UTC.
fn offset_of(zone: &str) -> Option<i64> {
    if matches!(zone, "Z" | "z") {
        return Some(0);
    }
    let (sign, rest) = match zone.split_at_checked(1)? {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = rest.split_once(':')?;
    let two = |text: &str, max: i64| {
        let digits = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse::<i64>().ok()).flatten().filter(|number| *number <= max)
    };
    Some(sign * (two(hours, 23)? * 60 + two(minutes, 59)?))
}

#[cfg(test)]
mod tests {
    use super::{parse, print};

    #[test]
    fn what_is_printed_is_read_back() {
        // Seconds by `date -u -d TEXT +%s`.
        let known = [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_799_999, "2000-02-29T23:59:59.999Z"),
            (1_790_000_000_000, "2026-09-21T14:13:20.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ];
        for (ms, text) in known {
            assert_eq!(print(ms), text);
            assert_eq!(parse(text), Some(ms));
        }
        for day in 0..60_000 {
            let ms = day * 86_400_000 + 1;
            assert_eq!(parse(&print(ms)), Some(ms));
        }
    }

    #[test]
    fn offsets_and_fractions() {
        assert_eq!(parse("1970-01-01T01:00:00+01:00"), Some(0));
        assert_eq!(parse("1970-01-01T00:00:00-00:01"), Some(60_000));
        assert_eq!(parse("1970-01-01T00:00:00.0001Z"), Some(1));
        assert_eq!(parse("1970-01-01T00:00:00.5z"), Some(500));
        assert_eq!(parse("1969-12-31T23:59:59Z"), Some(0));
        for wrong in [
            "",
            "1970-01-01",
            "1970-02-29T00:00:00Z",
            "1970-13-01T00:00:00Z",
            "1970-01-01T24:00:00Z",
            "1970-01-01T00:00:00",
            "1970-01-01T00:00:00.Z",
            "1970-01-01T00:00:00.0000000001Z",
            "1970-01-01T00:00:00+1:00",
            "1970-01-01T00:00:00Zx",
            "+970-01-01T00:00:00Z",
            "\u{e9}970-01-01T00:00:00Z",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
