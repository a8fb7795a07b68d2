//! Memory that pools share.

use db::{Budget, Db};

use crate::call::{self, Handle};

/// Memory that pools share. Make one with everleaf_budget_new, open pools with options that name it
/// (everleaf_options_budget), and free it with everleaf_budget_free. Several threads may use it at once.
///
/// All pools of a budget together take no more memory than it has: pages, large values, old values of snapshots, and changes
/// that wait for the disk. When they would, pages and values leave memory that were not used recently, whichever pool they
/// are of. Pools that name no budget and no memory of their own share that of the process, for which NULL stands here: a
/// quarter of what the process may use.
pub struct everleaf_budget {
    pub(crate) budget: Budget,
}

impl Handle for everleaf_budget {
    fn db(&self) -> Option<&Db> {
        None
    }
}

/// The budget of a handle; that of the process without one.
///
/// # Safety
///
/// The handle is NULL or good.
pub(crate) unsafe fn budget(handle: *const everleaf_budget) -> Budget {
    // SAFETY: the caller's promise.
    unsafe { handle.as_ref() }.map_or_else(Budget::of_process, |handle| handle.budget.clone())
}

/// Returns a budget of so many bytes, for you to free with everleaf_budget_free; NULL if that fails. Any number will do.
#[unsafe(no_mangle)]
pub extern "C" fn everleaf_budget_new(bytes: u64) -> *mut everleaf_budget {
    call::lend("everleaf_budget_new", std::ptr::null_mut(), || {
        Box::into_raw(Box::new(everleaf_budget { budget: Budget::new(bytes) }))
    })
}

/// Returns how many bytes a budget has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_budget_bytes(budget: *const everleaf_budget) -> u64 {
    // SAFETY: the promise of a caller.
    call::lend("everleaf_budget_bytes", 0, || unsafe { self::budget(budget) }.bytes())
}

/// Returns how many bytes its pools take, about: a pool tells it when pages come or leave, and when an epoch ends. O(1).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_budget_used(budget: *const everleaf_budget) -> u64 {
    // SAFETY: the promise of a caller.
    call::lend("everleaf_budget_used", 0, || unsafe { self::budget(budget) }.used())
}

/// Returns how many pools are open that share it. O(1).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_budget_pools(budget: *const everleaf_budget) -> u64 {
    // SAFETY: the promise of a caller.
    call::lend("everleaf_budget_pools", 0, || unsafe { self::budget(budget) }.pools())
}

/// Frees a budget. Its pools go on sharing it, and so do options that name it. NULL may be freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_budget_free(budget: *mut everleaf_budget) {
    // SAFETY: the promise of a caller.
    unsafe { call::free("everleaf_budget_free", budget) }
}
