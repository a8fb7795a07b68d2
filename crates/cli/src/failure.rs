//! Why a command did not do what was asked, and the exit code that says so.
//!
//! A command that has something to clean up ends in order on SIGINT, SIGTERM and SIGHUP.
//! The handlers of `signal-hook` only set a flag, so there is no thread and nothing that a handler must
//! not do; the command asks the flag. A second signal ends the process at once.

use std::io::{self, ErrorKind};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::message::tell;

/// The result of a command.
pub type Result<T, E = CommandError> = std::result::Result<T, E>;

/// Each kind has its own exit code.
#[derive(Debug)]
pub enum CommandError {
    /// The requested tree or key is not there: 1.
    NotFound(String),
    /// The arguments or the input cannot be understood: 2.
    Usage(String),
    /// The pool is damaged, or no pool at all: 3.
    Damaged(String),
    /// The system or the state of the pool is in the way: 4.
    Blocked(String),
    /// The reader of our output has gone: 0, in silence, as in `everleaf scan … | head`.
    Unread,
    /// A signal has asked to end: as that signal ends a process.
    Interrupted(i32),
}

impl CommandError {
    /// Says it on stderr and gives the exit code.
    pub fn report(self) -> ExitCode {
        let (code, message) = match self {
            CommandError::Unread => return ExitCode::SUCCESS,
            CommandError::Interrupted(signal) => {
                // All is cleaned up; the process that waits for us sees why we ended.
                let _ = signal_hook::low_level::emulate_default_handler(signal);
                return ExitCode::from(128_u8.saturating_add(signal as u8));
            }
            CommandError::NotFound(message) => (1, message),
            CommandError::Usage(message) => (2, message),
            CommandError::Damaged(message) => (3, message),
            CommandError::Blocked(message) => (4, message),
        };
        tell(format_args!("everleaf: {message}"));
        ExitCode::from(code)
    }

    /// A failure to write to stdout.
    pub fn stdout(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::BrokenPipe => CommandError::Unread,
            _ => CommandError::Blocked(format!("cannot write to stdout: {error}")),
        }
    }

    /// A failure to read the input.
    pub fn input(error: &io::Error) -> Self {
        CommandError::Blocked(format!("cannot read the input: {error}"))
    }

    /// The same failure with `context` before its message.
    pub fn context(self, context: impl std::fmt::Display) -> Self {
        let with = |message: String| format!("{context}: {message}");
        match self {
            CommandError::NotFound(message) => CommandError::NotFound(with(message)),
            CommandError::Usage(message) => CommandError::Usage(with(message)),
            CommandError::Damaged(message) => CommandError::Damaged(with(message)),
            CommandError::Blocked(message) => CommandError::Blocked(with(message)),
            failure @ (CommandError::Interrupted(_) | CommandError::Unread) => failure,
        }
    }
}

impl From<everleaf::Error> for CommandError {
    fn from(error: everleaf::Error) -> Self {
        use everleaf::Error;
        let message = error.to_string();
        match error {
            Error::Corrupt { .. } | Error::Foreign { .. } => CommandError::Damaged(message),
            Error::FileExists { .. }
            | Error::Invalid { .. }
            | Error::InvalidOption { .. }
            | Error::KeyTooLong { .. }
            | Error::OtherPool { .. }
            | Error::RecordTooLong { .. }
            | Error::TreeExists { .. }
            | Error::TreeName { .. }
            | Error::Unrecovered { .. }
            | Error::Unsupported { .. }
            | Error::ValueTooLong { .. } => CommandError::Usage(message),
            _ => CommandError::Blocked(message),
        }
    }
}

/// The signal that has come; 0 for none.
static CAUGHT: OnceLock<Arc<AtomicUsize>> = OnceLock::new();

/// From now on signals are told by [`expect_no_signal`].
pub fn watch_signals() -> Result<()> {
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
pub fn expect_no_signal() -> Result<()> {
    match CAUGHT.get().map_or(0, |caught| caught.load(Ordering::Relaxed)) {
        0 => Ok(()),
        signal => Err(CommandError::Interrupted(signal as i32)),
    }
}

#[cfg(test)]
mod tests {
    use everleaf::Error;

    use super::CommandError;

    #[test]
    fn what_a_user_asked_for_wrongly_is_usage_and_the_state_of_the_world_is_not() {
        let (what, option, name) = (String::new(), "interval", String::new());
        let path = std::path::PathBuf::new();
        let usage = [
            Error::FileExists { path, what: "" },
            Error::Invalid { what: what.clone() },
            Error::InvalidOption { option, what: what.clone() },
            Error::KeyTooLong { bytes: 2, bytes_max: 1 },
            Error::OtherPool { name: name.clone() },
            Error::RecordTooLong { bytes: 2, bytes_max: 1 },
            Error::TreeExists { name },
            Error::TreeName { bytes: 0, bytes_max: 1 },
            Error::Unrecovered { what: what.clone() },
            Error::Unsupported { what },
            Error::ValueTooLong { bytes: 2, bytes_max: 1 },
        ];
        for error in usage {
            assert!(
                matches!(CommandError::from(error.clone()), CommandError::Usage(_)),
                "{error:?}"
            );
        }
        for error in [Error::Closed, Error::ReadOnly, Error::InsideBatch, Error::Full { bytes: 1 }]
        {
            assert!(
                matches!(CommandError::from(error.clone()), CommandError::Blocked(_)),
                "{error:?}"
            );
        }
        let damaged = CommandError::from(Error::corrupt(0, ""));
        assert!(matches!(damaged, CommandError::Damaged(_)), "{damaged:?}");
    }
}
