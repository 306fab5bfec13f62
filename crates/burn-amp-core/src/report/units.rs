//! Numbers for readers.

/// Bytes in the largest unit that gives at least 1: `1.5 MiB`.
pub(crate) fn bytes(bytes: f64) -> String {
    scaled(bytes, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB"])
}

/// Floating-point operations: `1.5 GFLOP`.
pub(crate) fn flops(flops: f64) -> String {
    scaled(flops, 1000.0, &["FLOP", "KFLOP", "MFLOP", "GFLOP", "TFLOP"])
}

fn scaled(mut value: f64, step: f64, units: &[&str]) -> String {
    let mut unit = 0;
    while value >= step && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    format!("{} {}", number(value), units[unit])
}

/// A number with at most one digit after the point: `3`, `2.5`.
pub(crate) fn number(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

/// A share in percent; `-` if there is nothing to share.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    match whole {
        0 => "-".into(),
        _ => format!("{} %", number(100.0 * part as f64 / whole as f64)),
    }
}

/// A share of values, of which few may be lost: with two digits.
pub(crate) fn share(part: u64, whole: u64) -> String {
    match part {
        0 => "none".into(),
        _ => format!("{:.2} %", 100.0 * part as f64 / whole as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_a_fitting_unit() {
        assert_eq!(bytes(0.0), "0 B");
        assert_eq!(bytes(1023.0), "1023 B");
        assert_eq!(bytes(1536.0), "1.5 KiB");
        assert_eq!(flops(2e12), "2 TFLOP");
        assert_eq!(flops(3e18), "3000000 TFLOP");
        assert_eq!(percent(1, 3), "33.3 %");
        assert_eq!(percent(0, 0), "-");
    }
}
