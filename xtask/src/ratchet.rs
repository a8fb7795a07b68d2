//! Exceptions that may only shrink: `xtask/ratchet.txt`.
//!
//! Each line is `PATH LINES` for a file, or `PATH FUNCTION LINES` for a function; `#` starts a
//! comment. The number is exactly what there is: an exception that is too wide, or that is no
//! longer needed, is a finding, so that what got shorter stays shorter.

use std::collections::BTreeMap;

use crate::tree::{Files, finding};

/// Where the exceptions are.
pub const PATH: &str = "xtask/ratchet.txt";

/// Exceptions by what they are for: a path, or a path, a space and a function.
pub struct Ratchet {
    allowed: BTreeMap<String, (usize, usize)>,
}

impl Ratchet {
    /// Reads the exceptions; reports those that make no sense.
    pub fn read(files: &Files, findings: &mut Vec<String>) -> Self {
        let text = files.get(PATH).map_or("", String::as_str);
        let mut allowed = BTreeMap::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let parts = line.rsplit_once(' ').and_then(|(what, count)| {
                Some((what.trim().to_owned(), count.parse::<usize>().ok()?))
            });
            match parts {
                Some((what, count)) => drop(allowed.insert(what, (count, number + 1))),
                None => findings.push(finding(PATH, number + 1, "not PATH [FUNCTION] LINES")),
            }
        }
        Ratchet { allowed }
    }

    /// How many lines `what` may have: its exception, or `limit`. Each exception is used up.
    pub fn judge(
        &mut self,
        what: &str,
        lines: usize,
        limit: usize,
        findings: &mut Vec<String>,
    ) -> bool {
        let Some((allowed, number)) = self.allowed.remove(what) else { return lines <= limit };
        if lines <= limit {
            findings.push(finding(PATH, number, format_args!("{what} has {lines}: delete this")));
        } else if lines < allowed {
            findings.push(finding(PATH, number, format_args!("{what} has {lines}: write that")));
        }
        lines <= allowed.max(limit)
    }

    /// Reports the exceptions that nothing asked for.
    pub fn finish(self, findings: &mut Vec<String>) {
        for (what, (_, number)) in self.allowed {
            findings.push(finding(
                PATH,
                number,
                format_args!("{what} does not exist: delete this"),
            ));
        }
    }
}
