//! Why a call fails.

use jni::errors::Error as JniError;
use store::Error;

/// Why a call fails.
pub(crate) enum Failure {
    Store(Error),
    Java(JniError),
    /// A handle was closed: what users call it.
    Gone(&'static str),
    /// An exception of Java waits to be thrown.
    Thrown,
}

pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl From<Error> for Failure {
    #[cold]
    fn from(error: Error) -> Self {
        Failure::Store(error)
    }
}

impl From<JniError> for Failure {
    #[cold]
    fn from(error: JniError) -> Self {
        match error {
            JniError::JavaException => Failure::Thrown,
            error => Failure::Java(error),
        }
    }
}

/// A mistake of the program that calls.
#[cold]
pub(crate) fn invalid(what: impl Into<String>) -> Failure {
    Failure::Store(Error::Invalid { what: what.into() })
}
