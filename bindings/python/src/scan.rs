//! Scans: many pairs a call.
//!
//! A loop of Python over a [`Scan`] gets lists of pairs, each of twice as many as the last one, up to [`MOST`];
//! `itertools.chain` takes them apart, which costs less a pair than a call of this module would. The store lends key and
//! value, and they are copied once, into the objects that the program gets.

use std::ops::Bound as End;
use std::sync::{Arc, Mutex};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use store::{Cursor, Result};

use crate::bytes::{made, owned};
use crate::errors::raise;
use crate::pool::Pool;
use crate::wait::lock_at_once;

/// Pairs of the first list: with the next two it has little more than the hundred that many programs want.
const FIRST: usize = 16;
/// The most pairs of a list.
const MOST: usize = 256;
/// A list ends when it has so many bytes.
const MOST_BYTES: usize = 64 << 10;

/// A part of a tree: from a key on, and before another one.
pub struct Bounds {
    pub low: End<Vec<u8>>,
    pub high: End<Vec<u8>>,
}

impl Bounds {
    /// The keys that lie between two keys and begin with a prefix.
    pub fn new(
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        prefix: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let (start, stop) = (owned("a key", start)?, owned("a key", stop)?);
        let prefix = owned("a prefix", prefix)?;
        let end = match &prefix {
            Some(prefix) => store::prefix_end(prefix).map_err(|error| raise(py, error))?,
            None => End::Unbounded,
        };
        let end = if let End::Excluded(end) = end { Some(end) } else { None };
        let low = start.into_iter().chain(prefix).max();
        let high = stop.into_iter().chain(end).min();
        Ok(Self {
            low: low.map_or(End::Unbounded, End::Included),
            high: high.map_or(End::Unbounded, End::Excluded),
        })
    }

    pub fn of(&self) -> (End<&[u8]>, End<&[u8]>) {
        (self.low.as_ref().map(Vec::as_slice), self.high.as_ref().map(Vec::as_slice))
    }

    /// Whether no key can lie in it.
    pub fn is_empty(&self) -> bool {
        match (&self.low, &self.high) {
            (End::Included(low) | End::Excluded(low), End::Excluded(high)) => low >= high,
            _ => false,
        }
    }
}

/// The items that a loop gets.
#[derive(Clone, Copy)]
pub enum What {
    Keys,
    Values,
    Pairs,
}

impl What {
    pub fn new((keys, values): (bool, bool)) -> PyResult<Self> {
        match (keys, values) {
            (true, true) => Ok(What::Pairs),
            (true, false) => Ok(What::Keys),
            (false, true) => Ok(What::Values),
            (false, false) => Err(PyValueError::new_err("neither keys nor values are asked for")),
        }
    }
}

/// An iterator over lists of what a loop gets.
#[pyclass(frozen, module = "everleaf._everleaf")]
pub struct Scan {
    /// None when the scan has ended.
    walk: Mutex<Option<Walk>>,
    _pool: Arc<Pool>,
}

struct Walk {
    cursor: Cursor,
    bounds: Bounds,
    reverse: bool,
    what: What,
    is_new: bool,
    /// Items of the next list.
    most: usize,
    /// It came up behind items that were good, which are given first.
    failed: Option<PyErr>,
}

impl Walk {
    /// Goes to the next pair of the part.
    #[inline]
    fn step(&mut self) -> Result<bool> {
        let found = match (self.is_new, self.reverse) {
            (false, false) => self.cursor.next(),
            (false, true) => self.cursor.prev(),
            (true, _) => self.begin(),
        };
        Ok(found? && self.is_inside())
    }

    #[inline]
    fn is_inside(&self) -> bool {
        // One that cannot be read was an error.
        let Some(key) = self.cursor.key() else { return true };
        match (self.reverse, &self.bounds.low, &self.bounds.high) {
            (false, _, End::Excluded(high)) => key < &high[..],
            (true, End::Included(low), _) => key >= &low[..],
            _ => true,
        }
    }

    #[cold]
    fn begin(&mut self) -> Result<bool> {
        self.is_new = false;
        match (self.reverse, &self.bounds.low, &self.bounds.high) {
            (false, End::Included(low), _) => self.cursor.seek(low),
            (false, ..) => self.cursor.first(),
            (true, _, End::Excluded(high)) => match self.cursor.seek_for_prev(high)? {
                true if self.cursor.key() == Some(&high[..]) => self.cursor.prev(),
                found => Ok(found),
            },
            (true, ..) => self.cursor.last(),
        }
    }

    /// The item that the cursor is at, and its bytes; none if it was removed meanwhile.
    #[inline]
    fn item<'py>(&mut self, py: Python<'py>) -> PyResult<Option<(Bound<'py, PyAny>, usize)>> {
        if let What::Keys = self.what {
            let key = self.cursor.key();
            return key.map(|key| Ok((made(py, key)?.into_any(), key.len()))).transpose();
        }
        let pair = self.cursor.pair().map_err(|error| raise(py, error))?;
        let Some((key, value)) = pair else { return Ok(None) };
        let bytes = key.len() + value.len();
        let value = made(py, value)?;
        Ok(Some(match self.what {
            What::Values => (value.into_any(), bytes),
            _ => (PyTuple::new(py, [made(py, key)?, value])?.into_any(), bytes),
        }))
    }
}

impl Scan {
    pub fn new(
        cursor: Cursor,
        bounds: Bounds,
        reverse: bool,
        what: (bool, bool),
        pool: Arc<Pool>,
    ) -> PyResult<Self> {
        let what = What::new(what)?;
        let walk = Walk { cursor, reverse, what, is_new: true, most: FIRST, failed: None, bounds };
        let walk = Some(walk).filter(|walk| !walk.bounds.is_empty());
        Ok(Self { walk: Mutex::new(walk), _pool: pool })
    }
}

#[pymethods]
impl Scan {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyList>>> {
        let mut place = lock_at_once(&self.walk, "the iterator")?;
        let Some(walk) = &mut *place else { return Ok(None) };
        if let Some(error) = walk.failed.take() {
            *place = None;
            return Err(error);
        }
        let mut items = Vec::with_capacity(walk.most);
        let (mut bytes, mut ended) = (0, false);
        while items.len() < walk.most && bytes < MOST_BYTES {
            let item = match walk.step() {
                Ok(true) => walk.item(py),
                Ok(false) => {
                    ended = true;
                    break;
                }
                Err(error) => Err(raise(py, error)),
            };
            match item {
                Ok(Some((item, len))) => {
                    bytes += len;
                    items.push(item);
                }
                Ok(None) => {}
                Err(error) if items.is_empty() => {
                    *place = None;
                    return Err(error);
                }
                Err(error) => {
                    walk.failed = Some(error);
                    break;
                }
            }
        }
        walk.most = (walk.most * 2).min(MOST);
        if ended {
            *place = None;
        }
        Ok(if items.is_empty() && ended { None } else { Some(PyList::new(py, items)?) })
    }
}
