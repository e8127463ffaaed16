//! Numbers as people read them.

use std::time::Duration;

/// `850 ms` never appears: below a minute whole seconds (`7s`), then `1m 02s`, then `2h 05m`.
pub fn duration(d: Duration) -> String {
    let s = d.as_secs();
    match s {
        0..60 => format!("{s}s"),
        60..3600 => format!("{}m {:02}s", s / 60, s % 60),
        _ => format!("{}h {:02}m", s / 3600, s % 3600 / 60),
    }
}

/// Bytes in binary units with one decimal: `34.1 MiB`.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if n < 1024 {
        return format!("{n} B");
    }
    // Tenths in integers, so that no float rounding shows 1024.0 KiB.
    let mut tenths = u128::from(n) * 10 / 1024;
    let mut unit = 0;
    while tenths >= 10240 && unit + 1 < UNITS.len() {
        tenths /= 1024;
        unit += 1;
    }
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
}

/// `1 change`, `2 changes`.
pub fn count(n: usize, one: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_change_unit_at_a_minute_and_an_hour() {
        let shown: Vec<String> = [0, 59, 60, 62, 3599, 3600, 7500].map(|s| duration(Duration::from_secs(s))).into();
        assert_eq!(shown, ["0s", "59s", "1m 00s", "1m 02s", "59m 59s", "1h 00m", "2h 05m"]);
    }

    #[test]
    fn bytes_never_show_a_thousand_of_a_unit_that_has_a_next() {
        let shown: Vec<String> = [0, 1023, 1024, 1536, 1024 * 1024 - 1, 300 * 1024 * 1024, 5 << 40].map(bytes).into();
        assert_eq!(shown, ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1023.9 KiB", "300.0 MiB", "5.0 TiB"]);
    }

    #[test]
    fn one_is_not_many() {
        assert_eq!((count(1, "change"), count(0, "change")), ("1 change".into(), "0 changes".into()));
    }
}
