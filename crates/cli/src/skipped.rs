//! What a load has passed over.

use std::fmt;

use crate::message::tell;

/// So many lines are told with their reasons.
const REASONS: usize = 20;
/// So many runs of lines are told with their numbers.
const RUNS: usize = 100;

/// Lines that could not be understood.
#[derive(Default)]
pub struct Skipped {
    pub count: u64,
    reasons: Vec<(u64, String)>,
    /// Runs of numbers: first and last.
    runs: Vec<(u64, u64)>,
}

impl Skipped {
    pub fn add(&mut self, line: u64, reason: String) {
        debug_assert!(
            self.runs.last().is_none_or(|(_, last)| *last <= line),
            "lines come in order"
        );
        self.count += 1;
        if self.reasons.len() < REASONS {
            self.reasons.push((line, reason));
        }
        let runs = self.runs.len();
        match self.runs.last_mut() {
            Some((_, last)) if *last + 1 == line => *last = line,
            _ if runs < RUNS => self.runs.push((line, line)),
            _ => {}
        }
    }

    /// Says the first of them on stderr.
    pub fn tell(&self) {
        for (line, reason) in &self.reasons {
            tell(format_args!("line {line}: {reason}"));
        }
    }
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Skipped { count, runs, .. } = self;
        write!(f, "{count} skipped, at line")?;
        let mut told = 0;
        for (i, (first, last)) in runs.iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            match last - first {
                0 => write!(f, "{comma} {first}")?,
                _ => write!(f, "{comma} {first}-{last}")?,
            }
            told += last - first + 1;
        }
        if told < *count { write!(f, " and more") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::Skipped;

    #[test]
    fn numbers_are_told_in_runs_and_not_without_end() {
        let mut skipped = Skipped::default();
        [3, 7, 8, 9].into_iter().for_each(|line| skipped.add(line, String::new()));
        assert_eq!(skipped.to_string(), "4 skipped, at line 3, 7-9");
        (20..1000).step_by(2).for_each(|line| skipped.add(line, String::new()));
        let text = skipped.to_string();
        assert!(text.starts_with("494 skipped, at line 3, 7-9, 20, 22, ") && text.len() < 700);
        assert!(text.ends_with(" and more"));
        assert_eq!(skipped.reasons.len(), 20);
    }
}
