//! Numbers for people.

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

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn thousands_are_grouped() {
        let texts = [0, 12, 999, 1000, 1_234_567].map(grouped);
        assert_eq!(texts, ["0", "12", "999", "1,000", "1,234,567"]);
    }
}
