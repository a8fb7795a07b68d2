//! Keys and values: any object with the buffer protocol.

use std::ops::Deref;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView, PyString};

/// The bytes of an argument. Those of a `bytes` are lent; those of another object are copied, for it may change them
/// while the store reads.
pub enum Bytes<'a, 'py> {
    Lent(&'a [u8]),
    Copied(Bound<'py, PyBytes>),
}

impl Deref for Bytes<'_, '_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Lent(bytes) => bytes,
            Bytes::Copied(bytes) => bytes.as_bytes(),
        }
    }
}

/// The bytes of an argument that is called `name`.
#[inline]
pub fn bytes<'a, 'py>(name: &str, object: &'a Bound<'py, PyAny>) -> PyResult<Bytes<'a, 'py>> {
    match object.cast::<PyBytes>() {
        Ok(bytes) => Ok(Bytes::Lent(bytes.as_bytes())),
        Err(_) => copied(name, object).map(Bytes::Copied),
    }
}

/// The same, kept for later.
pub fn owned(name: &str, object: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Vec<u8>>> {
    object.map(|object| bytes(name, object).map(|bytes| bytes.to_vec())).transpose()
}

#[cold]
fn copied<'py>(name: &str, object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    if object.is_instance_of::<PyString>() {
        return Err(PyTypeError::new_err(format!(
            "{name} is str, and must be bytes: use .encode()"
        )));
    }
    let Ok(view) = PyMemoryView::from(object) else {
        let kind = object.get_type().name()?;
        let what = format!("{name} must be an object with bytes, such as bytes, not {kind}");
        return Err(PyTypeError::new_err(what));
    };
    Ok(view.call_method0("tobytes")?.cast_into()?)
}

/// A key and a value, out of any iterable of two.
pub fn pair<'py>(item: &Bound<'py, PyAny>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    if let Ok(pair) = item.extract() {
        return Ok(pair);
    }
    let parts = item.try_iter()?.collect::<PyResult<Vec<_>>>()?;
    let count = parts.len();
    let parts: Result<[_; 2], _> = parts.try_into();
    let [key, value] = parts.map_err(|_| {
        pyo3::exceptions::PyValueError::new_err(format!(
            "a pair has a key and a value, not {count} parts"
        ))
    })?;
    Ok((key, value))
}

/// A value of more bytes may find no memory.
const LARGE: usize = 1 << 20;

/// A `bytes` of Python.
#[inline]
pub fn made<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    match bytes.len() {
        // This panics without memory, which the interpreter itself would not survive.
        ..LARGE => Ok(PyBytes::new(py, bytes)),
        len => PyBytes::new_with(py, len, |to| {
            to.copy_from_slice(bytes);
            Ok(())
        }),
    }
}

/// The same, if there is something.
pub fn some_bytes<'py>(
    py: Python<'py>,
    bytes: Option<&[u8]>,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    bytes.map(|bytes| made(py, bytes)).transpose()
}
