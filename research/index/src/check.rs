//! `everleaf_index_check`: a tree in C or C++, compiled with `everleaf_recorder.h`, under the crash checker.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::rc::Rc;

use everleaf_crash_check::{Durable, Explorer};
use everleaf_pmem::{Dram, Geometry, Medium};

use crate::call::{self, expect_place};
use crate::codes::EVERLEAF_INDEX_OK;
use crate::failure::{Failure, Result, invalid};
use crate::options::expect_size;
use crate::record::Area;

/// A tree of yours, as functions. None may throw an exception, and each is called by one thread.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct everleaf_index_tree {
    /// Makes the tree in an area of zeros, or recovers it from what a crash has left in the area; returns what the other
    /// functions get, or NULL if the area is none of the tree's. The area begins at a line, and stays
    /// where it is until the close; another open may get another one, so what is in it are offsets, not pointers.
    pub open: Option<unsafe extern "C" fn(area: *mut c_void, bytes: usize) -> *mut c_void>,
    /// Frees what the tree has beside its area, in which it changes nothing. May be NULL.
    pub close: Option<unsafe extern "C" fn(tree: *mut c_void)>,
    /// Sets the value of a key, whether it is there or not. Durable when it returns.
    pub put: Option<unsafe extern "C" fn(tree: *mut c_void, key: u64, value: u64)>,
    /// Removes a key, if it is there. Durable when it returns.
    pub remove: Option<unsafe extern "C" fn(tree: *mut c_void, key: u64)>,
    /// Writes the value of a key, and returns whether it is there.
    pub get: Option<unsafe extern "C" fn(tree: *mut c_void, key: u64, value: *mut u64) -> c_int>,
}

/// An operation of a workload.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct everleaf_index_operation {
    /// Whether `key` is removed, rather than set to `value`.
    pub removes: c_int,
    pub key: u64,
    pub value: u64,
}

/// The findings of a check.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct everleaf_index_verdict {
    /// Crash images that were recovered and found right, if the tree is sound.
    pub images: u64,
    /// Of these, those of a crash inside recovery.
    pub in_recovery: u64,
    /// Moments at which the power was cut.
    pub crash_points: u64,
    /// Of these, those of which all images were built.
    pub exhaustive_points: u64,
    /// Stores of 8 bytes of the first open and the workload; exact.
    pub stores: u64,
    /// Lines that they flushed.
    pub flushes: u64,
    /// Their fences.
    pub fences: u64,
}

/// The functions, all there.
#[derive(Clone, Copy)]
struct Functions {
    open: unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void,
    close: Option<unsafe extern "C" fn(*mut c_void)>,
    put: unsafe extern "C" fn(*mut c_void, u64, u64),
    remove: unsafe extern "C" fn(*mut c_void, u64),
    get: unsafe extern "C" fn(*mut c_void, u64, *mut u64) -> c_int,
}

impl Functions {
    fn of(tree: &everleaf_index_tree) -> Option<Self> {
        let everleaf_index_tree { open, close, put, remove, get } = *tree;
        Some(Self { open: open?, close, put: put?, remove: remove?, get: get? })
    }
}

/// An operation on the tree.
#[derive(Debug, Clone, Copy)]
enum Do {
    Put(u64, u64),
    Remove(u64),
}

impl Do {
    fn key(self) -> u64 {
        match self {
            Do::Put(key, _) | Do::Remove(key) => key,
        }
    }
}

/// A tree of C on an area.
struct Foreign {
    functions: Functions,
    tree: *mut c_void,
    area: Rc<Area>,
}

impl Foreign {
    /// # Panics
    /// If the tree refuses the area.
    fn open<M: Medium + 'static>(functions: Functions, medium: M) -> Self {
        let area = Area::new(medium);
        let place = ptr::with_exposed_provenance_mut(area.start());
        // SAFETY: the caller's promise: it is a function of this type. The area lives as long as the tree.
        let tree = area.during(|| unsafe { (functions.open)(place, area.bytes()) });
        if tree.is_null() {
            resume_unwind(Box::new("open returned NULL".to_owned()));
        }
        Self { functions, tree, area }
    }

    fn apply(&self, what: Do) {
        let Functions { put, remove, .. } = self.functions;
        self.area.during(|| match what {
            // SAFETY: the caller's promise, and the tree is open.
            Do::Put(key, value) => unsafe { put(self.tree, key, value) },
            // SAFETY: the same.
            Do::Remove(key) => unsafe { remove(self.tree, key) },
        });
    }

    fn get(&self, key: u64) -> Option<u64> {
        let mut value = 0;
        let get = self.functions.get;
        // SAFETY: the caller's promise, and the tree is open.
        let is_there = self.area.during(|| unsafe { get(self.tree, key, &mut value) });
        (is_there != 0).then_some(value)
    }

    fn read(&self, keys: &[u64]) -> BTreeMap<u64, u64> {
        keys.iter().filter_map(|key| Some((*key, self.get(*key)?))).collect()
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        if let Some(close) = self.functions.close {
            // SAFETY: the caller's promise, and the tree is open until here.
            let close = || unsafe { close(self.tree) };
            match std::thread::panicking() {
                // Something is wrong already, and that is what is told.
                true => self.area.on_its_memory(close),
                false => self.area.during(close),
            }
        }
    }
}

/// Slots of a page: a line of header, and 255 lines behind it, as the area has no header.
const SLOTS: u32 = 1024;

/// Pages for so many bytes, one behind the other.
fn pages(bytes: usize) -> Result<(Geometry, u32)> {
    let geometry = Geometry::new(SLOTS).expect("a power of two");
    let pages = bytes.div_ceil(geometry.page_bytes()).max(1);
    if pages > 1 << 12 {
        return Err(invalid(format!(
            "an area of {bytes} bytes: 64 MiB at most, and the less the better"
        )));
    }
    Ok((geometry, pages as u32))
}

/// Runs a workload on a tree of yours that was compiled with EL_RECORD, cuts the power before each of its stores, flushes and
/// fences, and has the tree recover from each image that a processor may leave then; crashes these recoveries, too. After each
/// one the tree must hold what it held before or after the operation that was cut off, and go on from there. The area has
/// `area_bytes` at least; it is one page after the other, each of 257 lines, and messages count from there: line 0 of a page is that
/// of its "head words", and "body word" j is byte 64 + 8 j of the page. Writes figures to `*verdict`, which may be NULL.
///
/// Errors: EVERLEAF_INDEX_UNSOUND for the first image that is not right, which everleaf_index_last_message describes, or if the
/// tree stores beside the macros, or loses something without a crash; EVERLEAF_INDEX_INVALID; EVERLEAF_INDEX_NO_MEMORY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_index_check(
    tree: *const everleaf_index_tree,
    operations: *const everleaf_index_operation,
    count: usize,
    area_bytes: usize,
    verdict: *mut everleaf_index_verdict,
    verdict_bytes: usize,
) -> c_int {
    call::plain("everleaf_index_check", || {
        expect_place(tree, 1, "the tree")?;
        expect_place(operations, count, "the operations")?;
        if !verdict.is_null() {
            expect_place(verdict, 1, "the verdict")?;
            expect_size::<everleaf_index_verdict>(verdict_bytes, "the verdict")?;
        }
        // SAFETY: the promise of a caller.
        let tree = unsafe { tree.read() };
        let Some(functions) = Functions::of(&tree) else {
            return Err(invalid("a function of the tree is NULL"));
        };
        let operation = |at| {
            // SAFETY: the promise of a caller.
            let everleaf_index_operation { removes, key, value } =
                unsafe { operations.add(at).read() };
            if removes != 0 { Do::Remove(key) } else { Do::Put(key, value) }
        };
        let ops: Vec<Do> = (0..count).map(operation).collect();
        let (geometry, pages) = pages(area_bytes)?;
        let memory = Dram::new(geometry, pages)?;
        // A tree that does something wrong panics in here; nothing of the library's is left half-way by that.
        let found =
            catch_unwind(AssertUnwindSafe(|| check(functions, &ops, memory, (geometry, pages))));
        let found = found.unwrap_or_else(|panic| Err(call::text_of(&*panic).to_owned()));
        let found = found.map_err(Failure::Unsound)?;
        // SAFETY: the promise of a caller.
        unsafe { call::give(verdict, found) };
        Ok(EVERLEAF_INDEX_OK)
    })
}

/// Measures the cost of the workload, and checks that it survives each crash.
fn check(
    functions: Functions,
    ops: &[Do],
    memory: Dram,
    (geometry, pages): (Geometry, u32),
) -> std::result::Result<everleaf_index_verdict, String> {
    let mut keys: Vec<u64> = ops.iter().map(|op| op.key()).collect();
    keys.sort_unstable();
    keys.dedup();
    let plain = Foreign::open(functions, memory);
    let mut model = BTreeMap::new();
    for (at, op) in ops.iter().enumerate() {
        plain.apply(*op);
        match *op {
            Do::Put(key, value) => drop(model.insert(key, value)),
            Do::Remove(key) => drop(model.remove(&key)),
        }
        let found = plain.read(&keys);
        if found != model {
            return Err(format!(
                "without a crash, after operation {at}, {op:?}: found {found:?}, expected {model:?}"
            ));
        }
    }
    let counts = plain.area.counts();
    drop(plain);
    let durable = Durable::new(
        geometry,
        pages,
        ops.iter().copied(),
        |medium| Foreign::open(functions, medium),
        |tree, op| tree.apply(*op),
        |tree| tree.read(&keys),
    );
    let coverage =
        durable.explorer(Explorer::new()).check().map_err(|failure| failure.to_string())?;
    Ok(everleaf_index_verdict {
        images: coverage.images,
        in_recovery: coverage.nested,
        crash_points: coverage.crash_points,
        exhaustive_points: coverage.exhaustive_points,
        stores: counts.stores,
        flushes: counts.flushes,
        fences: counts.fences,
    })
}
