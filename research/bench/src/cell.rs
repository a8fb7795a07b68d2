//! One setting of an experiment: a value for each parameter.

use toml::{Table, Value};

/// One setting of an experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell(pub Table);

/// A value of a parameter, as results and tables show it.
pub fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Whether parameters have all these values.
pub fn fits(only: &Table, of: impl Fn(&str) -> Option<String>) -> bool {
    only.iter().all(|(name, wanted)| {
        let is = of(name);
        let any = wanted.as_array().map_or(std::slice::from_ref(wanted), Vec::as_slice);
        any.iter().any(|one| is.as_deref() == Some(&shown(one)))
    })
}

impl Cell {
    /// The value of a parameter, as it is shown.
    pub fn get(&self, name: &str) -> Option<String> {
        self.0.get(name).map(shown)
    }

    /// The parameter `system`, or nothing.
    pub fn system(&self) -> String {
        self.get("system").unwrap_or_default()
    }

    /// All parameters in one line.
    pub fn line(&self) -> String {
        let parts = self.0.iter().map(|(name, value)| format!("{name}={}", shown(value)));
        parts.collect::<Vec<_>>().join(" ")
    }
}

/// Whether a system is ours among peers.
pub fn is_ours(system: &str) -> bool {
    system.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("everleaf"))
}
