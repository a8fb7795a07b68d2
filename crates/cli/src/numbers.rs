//! Numbers for people, and the sizes that people write.
//!
//! Messages and tables for people have commas between thousands and units of 1,024: `1,234,567 pairs`,
//! `1.2 MiB`. Output for programs has plain digits: every `--json`, and what `count` and `del` print
//! where stdout is no terminal.

use std::fmt;

use crate::output;

/// Units of sizes, each 1,024 times the one before.
const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// A number with commas between thousands.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number for stdout: with commas for people, plain digits for programs.
pub fn for_stdout(number: u64) -> String {
    if output::is_terminal() { grouped(number) } else { number.to_string() }
}

/// So many of something, in words: `1 pair`, `1,234 pairs`.
pub fn counted(number: u64, one: &str) -> String {
    format!("{} {one}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// Bytes in the largest unit of which there is at least one, with a digit behind the point: `1.2 MiB`.
pub fn size(bytes: u64) -> String {
    if bytes < 1024 {
        return counted(bytes, "byte");
    }
    // In tenths of a unit, rounded, in whole numbers: u64::MAX is a size, too.
    let (mut unit, mut at) = (1_u128 << 10, 0);
    let tenths = |unit: u128| (u128::from(bytes) * 10 + unit / 2) / unit;
    while tenths(unit) >= 10_240 && at + 1 < UNITS.len() {
        unit <<= 10;
        at += 1;
    }
    let tenths = tenths(unit);
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[at])
}

/// The same, and all bytes: `1.2 MiB (1,234,567 bytes)`.
pub fn exact_size(bytes: u64) -> String {
    match bytes {
        0..1024 => size(bytes),
        _ => format!("{} ({} bytes)", size(bytes), grouped(bytes)),
    }
}

/// The parser of sizes: a number of bytes, or of 1,024 bytes, and so on, with a unit behind it.
pub fn parse_size(text: &str) -> Result<u64, SizeError> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let shift = match &unit.to_ascii_lowercase()[..] {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        "t" | "tib" => 40,
        "kb" | "mb" | "gb" | "tb" => return Err(SizeError::Ambiguous(text.into())),
        _ => return Err(SizeError::NotASize(text.into())),
    };
    if number.is_empty() {
        return Err(SizeError::NotASize(text.into()));
    }
    let bytes = number.parse::<u64>().ok().and_then(|n| n.checked_mul(1 << shift));
    bytes.ok_or_else(|| SizeError::TooLarge(text.into()))
}

/// Why a text is no size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SizeError {
    /// It is no number with a unit that is known.
    NotASize(String),
    /// Some mean 1,000 and some 1,024 by its unit.
    Ambiguous(String),
    /// It is 16 EiB or more.
    TooLarge(String),
}

impl fmt::Display for SizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SizeError::NotASize(text) => {
                write!(f, "{text:?} is no size: write bytes, as 4096, or 4k, 64M, 1GiB or 2T")
            }
            SizeError::Ambiguous(text) => {
                write!(
                    f,
                    "{text:?} may mean 1,000 or 1,024: write K, M, G or T, or KiB, MiB, GiB or TiB, for 1,024"
                )
            }
            SizeError::TooLarge(text) => {
                write!(f, "{text:?} is too large: the most is {} bytes", u64::MAX)
            }
        }
    }
}

impl std::error::Error for SizeError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped() {
        let texts = [0, 12, 999, 1000, 1_234_567].map(grouped);
        assert_eq!(texts, ["0", "12", "999", "1,000", "1,234,567"]);
        assert_eq!(grouped(u64::MAX), "18,446,744,073,709,551,615");
        assert_eq!(
            [0, 1, 2, 1000].map(|n| counted(n, "pair")).join(" "),
            "0 pairs 1 pair 2 pairs 1,000 pairs"
        );
    }

    #[test]
    fn sizes_have_units() {
        let cases = [
            (0, "0 bytes"),
            (1, "1 byte"),
            (1023, "1,023 bytes"),
            (1024, "1.0 KiB"),
            (1_234_567, "1.2 MiB"),
            (1_048_575, "1.0 MiB"),
            (10 << 30, "10.0 GiB"),
            ((10 << 30) - 1, "10.0 GiB"),
            (1 << 40, "1.0 TiB"),
            (u64::MAX, "16.0 EiB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(size(bytes), text, "{bytes}");
        }
        assert_eq!(exact_size(1_234_567), "1.2 MiB (1,234,567 bytes)");
        assert_eq!(exact_size(12), "12 bytes");
    }

    #[test]
    fn sizes_are_read_with_units_and_nothing_else_is() {
        let cases = [
            ("0", 0),
            ("4096", 4096),
            ("4096b", 4096),
            ("4k", 4096),
            ("4K", 4096),
            ("4KiB", 4096),
            ("64M", 64 << 20),
            ("64mib", 64 << 20),
            ("1G", 1 << 30),
            ("1GiB", 1 << 30),
            ("2T", 2 << 40),
            ("18446744073709551615", u64::MAX),
            ("17179869183G", u64::MAX - ((1 << 30) - 1)),
        ];
        for (text, bytes) in cases {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in
            ["", "M", "-1", "+1", "1.5G", "4 k", " 4k", "0x10", "4kk", "1e9", "1,000", "4kiB ", "é"]
        {
            assert_eq!(parse_size(text), Err(SizeError::NotASize(text.into())), "{text}");
        }
        for text in ["1kb", "1MB", "1Gb", "1tB"] {
            assert_eq!(parse_size(text), Err(SizeError::Ambiguous(text.into())), "{text}");
        }
        for text in ["18446744073709551616", "17179869184G", "16777216T"] {
            assert_eq!(parse_size(text), Err(SizeError::TooLarge(text.into())), "{text}");
        }
    }
}
