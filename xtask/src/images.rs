//! `images FILE [IMAGES IN_RECOVERY]`: adds up what explorations of crash images wrote to a file
//! (`EVERLEAF_TALLY`), and fails if it is less than that.

use std::collections::BTreeMap;

/// Sums by name of lines such as `images: 3, in recovery: 1`.
fn sums(text: &str) -> Result<BTreeMap<&str, u64>, String> {
    let mut sums = BTreeMap::new();
    for (line, at) in text.lines().zip(1..) {
        for field in line.split(", ") {
            let pair = field.split_once(": ");
            let parsed = pair.and_then(|(name, n)| Some((name, n.parse::<u64>().ok()?)));
            let (name, n) = parsed.ok_or_else(|| format!("line {at}: {line}"))?;
            *sums.entry(name).or_default() += n;
        }
    }
    Ok(sums)
}

/// The sums in one line, and whether they reach what is wanted.
pub fn report(text: &str, wanted: [u64; 2]) -> Result<(String, bool), String> {
    let (sums, runs) = (sums(text)?, text.lines().count());
    let sum = |name| sums.get(name).copied().unwrap_or_default();
    let [images, nested] = [sum("images"), sum("in recovery")];
    let [points, small, all] = [sum("crash points"), sum("small"), sum("exhaustive")];
    let share = if small == 0 { 100.0 } else { 100.0 * all as f64 / small as f64 };
    let line = format!(
        "images: {images}, in recovery: {nested}, explorations: {runs}, crash points: {points}, \
         of at most 2^16 images: {small}, exhaustive: {all} ({share:.1} %), all exhaustive: {}",
        if all == points { "yes" } else { "no" }
    );
    Ok((line, images >= wanted[0] && nested >= wanted[1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_added_up_and_held_against_what_is_wanted() {
        let text = "images: 3, in recovery: 1, crash points: 2, small: 2, exhaustive: 2\n\
                    images: 40, in recovery: 0, crash points: 9, small: 8, exhaustive: 3\n";
        let (line, enough) = report(text, [43, 1]).expect("well-formed");
        assert!(line.starts_with("images: 43, in recovery: 1, explorations: 2, crash points: 11"));
        assert!(line.ends_with("exhaustive: 5 (50.0 %), all exhaustive: no"), "{line}");
        assert!(enough && !report(text, [44, 1]).expect("well-formed").1);
        assert!(report("images: 3, nonsense", [0, 0]).is_err());
    }
}
