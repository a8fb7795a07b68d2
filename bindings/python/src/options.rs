//! The settings of an open, from keywords.

use std::time::Duration;

use crate::budget::Budget;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use store::{Compression, Durability, Options, Storage};

/// The durability that `sync=` says.
pub fn durability(sync: bool) -> Durability {
    if sync { Durability::Sync } else { Durability::Buffered }
}

/// The options that keywords say, and whether threads work in the background, whether the program ends epochs, and
/// whether each write waits for the disk.
pub struct Settings {
    pub options: Options,
    pub background: bool,
    pub manual_epochs: bool,
    pub sync: bool,
}

impl Settings {
    /// Whether threads end epochs.
    pub fn ends_epochs(&self) -> bool {
        self.background && !self.manual_epochs
    }
}

/// Reads the keywords. `None` is the default of each.
pub fn read(keywords: Option<&Bound<'_, PyDict>>) -> PyResult<Settings> {
    let mut settings =
        Settings { options: Options::new(), background: true, manual_epochs: false, sync: false };
    for (name, value) in keywords.into_iter().flatten() {
        let name: String = name.extract()?;
        if !value.is_none() {
            settings.set(&name, &value)?;
        } else if !NAMES.contains(&&name[..]) {
            return Err(unknown(&name));
        }
    }
    Ok(settings)
}

/// The keywords there are: the functions of `Options`. A test compares the two.
const NAMES: [&str; 16] = [
    "background",
    "budget",
    "compression",
    "create",
    "interval",
    "journal_bytes",
    "manual_epochs",
    "max_bytes",
    "memory",
    "page_bytes",
    "pending_bytes",
    "read_only",
    "snapshot_memory",
    "storage",
    "sync",
    "transaction_memory",
];

fn unknown(name: &str) -> PyErr {
    PyTypeError::new_err(format!("there is no option {name}; there are {}", NAMES.join(", ")))
}

impl Settings {
    fn set(&mut self, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let options = std::mem::take(&mut self.options);
        self.options = match name {
            "background" => {
                self.background = value.extract()?;
                options.background(self.background)
            }
            "manual_epochs" => {
                self.manual_epochs = value.extract()?;
                options.manual_epochs(self.manual_epochs)
            }
            "sync" => {
                self.sync = value.extract()?;
                options.durability(durability(self.sync))
            }
            "compression" => options.compression(match &value.extract::<String>()?[..] {
                "none" => Compression::None,
                "lz4" => Compression::Lz4,
                other => return Err(choice(name, other, "'none' or 'lz4'")),
            }),
            "storage" => options.storage(match &value.extract::<String>()?[..] {
                "file" => Storage::File,
                "dax" => Storage::Dax,
                "emulated-dax" => Storage::EmulatedDax,
                other => return Err(choice(name, other, "'file', 'dax' or 'emulated-dax'")),
            }),
            "interval" => options.interval(seconds(name, value)?),
            "create" => options.create(value.extract()?),
            "read_only" => options.read_only(value.extract()?),
            "journal_bytes" => options.journal_bytes(value.extract()?),
            "max_bytes" => options.max_bytes(value.extract()?),
            "budget" => options.budget(&value.extract::<PyRef<'_, Budget>>()?.budget),
            "memory" => options.memory(value.extract()?),
            "page_bytes" => options.page_bytes(value.extract()?),
            "pending_bytes" => options.pending_bytes(value.extract()?),
            "snapshot_memory" => options.snapshot_memory(value.extract()?),
            "transaction_memory" => options.transaction_memory(value.extract()?),
            _ => return Err(unknown(name)),
        };
        Ok(())
    }
}

fn choice(name: &str, given: &str, there_are: &str) -> PyErr {
    PyValueError::new_err(format!("{name} is {there_are}, not {given:?}"))
}

/// A number of seconds that is not negative.
pub fn seconds(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Duration> {
    let seconds: f64 = value.extract()?;
    if seconds.is_nan() || seconds < 0.0 {
        return Err(PyValueError::new_err(format!("{name} is a number of seconds, not {seconds}")));
    }
    Ok(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}
