//! Ends in order on SIGINT, SIGTERM and SIGHUP, for what has something to clean up.
//!
//! The handlers of `signal-hook` only set a flag, so there is no thread and nothing that a handler must
//! not do; who works asks the flag. A second signal ends the process at once.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::failure::{CommandError, Result};

/// The signal that has come; 0 for none.
static CAUGHT: OnceLock<Arc<AtomicUsize>> = OnceLock::new();

/// From now on signals are told by [`check`].
pub fn watch() -> Result<()> {
    let caught = CAUGHT.get_or_init(Arc::default);
    let seen = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // In this order: the first signal finds `seen` unset.
        flag::register_conditional_default(signal, Arc::clone(&seen))
            .and_then(|_| flag::register(signal, Arc::clone(&seen)))
            .and_then(|_| flag::register_usize(signal, Arc::clone(caught), signal as usize))
            .map_err(|error| CommandError::Blocked(format!("cannot watch for signals: {error}")))?;
    }
    Ok(())
}

/// Whether a signal has come.
///
/// # Errors
///
/// [`CommandError::Interrupted`] if so.
pub fn check() -> Result<()> {
    match CAUGHT.get().map_or(0, |caught| caught.load(Ordering::Relaxed)) {
        0 => Ok(()),
        signal => Err(CommandError::Interrupted(signal as i32)),
    }
}
