//! Memory that pools share.

use pyo3::prelude::*;

/// Memory that pools share.
#[pyclass(frozen, subclass, module = "everleaf._everleaf")]
pub struct Budget {
    pub budget: store::Budget,
}

#[pymethods]
impl Budget {
    /// Makes one of so many bytes.
    #[new]
    fn new(bytes: u64) -> Self {
        Self { budget: store::Budget::new(bytes) }
    }

    /// The one that pools share by default.
    #[staticmethod]
    fn of_process() -> Self {
        Self { budget: store::Budget::of_process() }
    }

    /// How many bytes it has.
    #[getter]
    fn bytes(&self) -> u64 {
        self.budget.bytes()
    }

    /// How many of them its pools take, about.
    #[getter]
    fn used(&self) -> u64 {
        self.budget.used()
    }

    /// How many pools are open that share it.
    #[getter]
    fn pools(&self) -> u64 {
        self.budget.pools()
    }

    fn __repr__(&self) -> String {
        let budget = &self.budget;
        format!(
            "<Budget of {} bytes: {} used by {} pools>",
            budget.bytes(),
            budget.used(),
            budget.pools()
        )
    }
}
