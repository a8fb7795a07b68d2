//! Output for people, on stderr: messages, progress on a terminal, and what a load has passed over.
//!
//! Messages quote names of files and trees, and lines of inputs. So bytes that a terminal would act upon are
//! shown as `\xHH`, wherever stderr goes. The reader may be gone: then the exit code says the rest.

use std::fmt::{self, Display};
use std::io::{self, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::escape::show;

/// Writes a message as a line to stderr.
pub fn tell(message: impl Display) {
    let mut text = shown(message).into_bytes();
    text.push(b'\n');
    let _ = io::stderr().write_all(&text);
}

/// A text without what a terminal acts upon, but for newlines and TABs.
pub fn shown(text: impl Display) -> String {
    let mut out = Vec::new();
    show(text.to_string().as_bytes(), &mut out);
    String::from_utf8(out).expect("what is shown is UTF-8")
}

/// Progress on a terminal, and nothing elsewhere: a bar over `bytes` of input, or a spinner when the length is unknown. It shows itself only if
/// stderr is a terminal.
pub fn input_bar(bytes: Option<u64>) -> ProgressBar {
    let (bar, template) = match bytes {
        Some(bytes) => (ProgressBar::new(bytes), "{bar:40} {percent:>3} %  {msg}  {eta} left"),
        None => (ProgressBar::new_spinner(), "{spinner} {elapsed}  {msg}"),
    };
    styled(bar, template)
}

/// A bar over so many things.
pub fn count_bar(things: u64, unit: &'static str) -> ProgressBar {
    let bar = ProgressBar::new(things).with_message(unit);
    styled(bar, "   {bar:40} {human_pos} of {human_len} {msg}")
}

fn styled(bar: ProgressBar, template: &str) -> ProgressBar {
    bar.set_style(ProgressStyle::with_template(template).expect("a sound template"));
    // Ticking takes a thread, and a system that grants none ends the process: only where it shows.
    if !bar.is_hidden() {
        bar.enable_steady_tick(Duration::from_millis(200));
    }
    bar
}

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
    use super::*;

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
