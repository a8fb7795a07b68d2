//! Why a command did not do what was asked, and the exit code that says so.

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

/// The result of a command.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// Each kind has its own exit code.
#[derive(Debug)]
pub enum Failure {
    /// What was asked for is not there: 1.
    NotFound(String),
    /// The arguments or the input cannot be understood: 2.
    Usage(String),
    /// The pool is damaged, or no pool at all: 3.
    Damaged(String),
    /// The system or the state of the pool is in the way: 4.
    Blocked(String),
    /// Whoever read our output has gone: 0, in silence, as in `everleaf scan … | head`.
    Unread,
    /// A signal has asked to end: as that signal ends a process.
    Interrupted(i32),
}

impl Failure {
    /// Says it on stderr and gives the exit code.
    pub fn report(self) -> ExitCode {
        let (code, message) = match self {
            Failure::Unread => return ExitCode::SUCCESS,
            Failure::Interrupted(signal) => {
                // All is cleaned up; whoever waits for us sees why we ended.
                let _ = signal_hook::low_level::emulate_default_handler(signal);
                return ExitCode::from(128_u8.saturating_add(signal as u8));
            }
            Failure::NotFound(message) => (1, message),
            Failure::Usage(message) => (2, message),
            Failure::Damaged(message) => (3, message),
            Failure::Blocked(message) => (4, message),
        };
        // Without stderr the code says it alone; `eprintln` would panic.
        let _ = writeln!(io::stderr(), "everleaf: {message}");
        ExitCode::from(code)
    }

    /// A failure to write to stdout.
    pub fn stdout(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::BrokenPipe => Failure::Unread,
            _ => Failure::Blocked(format!("cannot write to stdout: {error}")),
        }
    }

    /// The same failure with `context` before its message.
    pub fn context(self, context: impl std::fmt::Display) -> Self {
        let with = |message: String| format!("{context}: {message}");
        match self {
            Failure::NotFound(message) => Failure::NotFound(with(message)),
            Failure::Usage(message) => Failure::Usage(with(message)),
            Failure::Damaged(message) => Failure::Damaged(with(message)),
            Failure::Blocked(message) => Failure::Blocked(with(message)),
            failure @ (Failure::Interrupted(_) | Failure::Unread) => failure,
        }
    }
}

impl From<everleaf::Error> for Failure {
    fn from(error: everleaf::Error) -> Self {
        use everleaf::Error;
        let message = error.to_string();
        match error {
            Error::Corrupt { .. } | Error::Foreign { .. } | Error::Missing { .. } => {
                Failure::Damaged(message)
            }
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
            | Error::ValueTooLong { .. } => Failure::Usage(message),
            _ => Failure::Blocked(message),
        }
    }
}
