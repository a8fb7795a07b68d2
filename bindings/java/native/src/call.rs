//! The common part of all native methods.
//!
//! A call runs its body and turns a failure into an exception of Java, which is thrown when the call returns. Nothing
//! unwinds into the virtual machine: a panic stops the writes of the pool, because nobody knows how far it came.

use std::any::Any;

use jni::errors::{Error as JniError, JniError as JniCode};
use jni::objects::{JByteArray, JThrowable};
use jni::sys::{jint, jlong};
use jni::{Env, EnvUnowned, Outcome, jni_sig, jni_str};
use store::Error;

use crate::bytes::give;
use crate::failure::{Failure, Result};
use crate::table;

/// The number of an error that is none of the store's: the library itself is broken.
const PANIC: jint = -100;

/// Runs a call with a handle.
#[inline]
pub(crate) fn call<'l, T: Default>(
    mut env: EnvUnowned<'l>,
    number: jlong,
    body: impl FnOnce(&mut Env<'l>) -> Result<T>,
) -> T {
    match env.with_env(body).into_outcome() {
        Outcome::Ok(answer) => answer,
        Outcome::Err(failure) => raise(&mut env, |env| throw(env, failure)),
        Outcome::Panic(panic) => {
            if let Some(db) = table::db(number) {
                db.poison("a call of the Java library met a defect");
            }
            raise(&mut env, |env| throw_told(env, &told_of_panic(&*panic)))
        }
    }
}

/// A native method with a handle, of the class `Native` of Java. Its first argument there is the object that has the handle,
/// so that this is not collected during the call; other objects come before their numbers for that, too.
macro_rules! native {
    ($(#[$doc:meta])* fn $name:ident($env:ident, $this:ident: $kind:ty $(, $arg:ident: $type:ty)* $(,)?) $(-> $out:ty)? $body:block) => {
        $(#[$doc])*
        #[jni::jni_mangle("io.everleaf.Native")]
        pub fn $name<'l>(
            env: jni::EnvUnowned<'l>,
            _: jni::objects::JClass<'l>,
            _: jni::objects::JObject<'l>,
            number: jni::sys::jlong,
            $($arg: $type,)*
        ) $(-> $out)? {
            $crate::call::call(env, number, |$env| {
                let $this = $crate::table::find::<$kind>(number)?;
                $body
            })
        }
    };
}

pub(crate) use native;

/// Has an exception wait to be thrown, and returns what nobody will see. A failure must not be lost: without an exception the
/// program would go on as if nothing had happened.
#[cold]
fn raise<T: Default>(
    env: &mut EnvUnowned<'_>,
    throw: impl FnOnce(&mut Env<'_>) -> jni::errors::Result<()>,
) -> T {
    let outcome = env.with_env(|env| -> jni::errors::Result<()> {
        if !env.exception_check() {
            // An exception that waits comes back as an error, too.
            let _ = throw(env);
        }
        if !env.exception_check() {
            let text = jni_str!("no memory for an exception of the store");
            let _ = env.throw_new(jni_str!("java/lang/OutOfMemoryError"), text);
        }
        Ok(())
    });
    drop(outcome.into_outcome());
    let outcome = env.with_env(|env| -> jni::errors::Result<()> {
        if !env.exception_check() {
            env.fatal_error(jni_str!("a failure of the store could not be thrown"));
        }
        Ok(())
    });
    drop(outcome.into_outcome());
    T::default()
}

fn told_of_panic(panic: &(dyn Any + Send)) -> Told {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or("no text");
    let text = format!("the call met a defect of the library, please report it: {text}");
    Told { code: PANIC, text, ..Told::default() }
}

/// An error as Java hears of it.
#[derive(Default)]
struct Told {
    code: jint,
    /// The number of the system, or 0.
    errno: jint,
    text: String,
    /// The tree of a conflict, or the file of a damage.
    place: String,
    key: Option<Vec<u8>>,
    /// The offset of a damage.
    offset: u64,
}

#[cold]
fn throw(env: &mut Env<'_>, failure: Failure) -> jni::errors::Result<()> {
    match failure {
        Failure::Store(error) => throw_told(env, &told(error)),
        Failure::Gone(what) => {
            let text = format!("the {what} was closed");
            throw_told(env, &Told { code: Error::Closed.code(), text, ..Told::default() })
        }
        Failure::Java(JniError::JniCall(JniCode::NoMemory)) => {
            let text = jni_str!("no memory for what the store has found");
            env.throw_new(jni_str!("java/lang/OutOfMemoryError"), text)
        }
        Failure::Java(JniError::NullPtr(_)) => env
            .throw_new(jni_str!("java/lang/NullPointerException"), jni_str!("an argument is null")),
        Failure::Java(error) => {
            let text = format!("the virtual machine refused a call: {error}");
            throw_told(env, &Told { code: PANIC, text, ..Told::default() })
        }
        Failure::Thrown => Ok(()),
    }
}

fn told(error: Error) -> Told {
    let (code, text, errno) = (error.code(), error.to_string(), errno(&error));
    let told = Told { code, errno, text, ..Told::default() };
    match error {
        Error::Conflict { tree, key, .. } | Error::Deadlock { tree, key, .. } => {
            Told { place: tree.into_string(), key: Some(key), ..told }
        }
        Error::Corrupt { file, offset, .. } => Told { place: file.to_owned(), offset, ..told },
        _ => told,
    }
}

/// The system's number for what went wrong; 0 if it was not the system.
fn errno(error: &Error) -> jint {
    match error {
        Error::Io { source, .. } | Error::Reader { source } => source.raw_os_error().unwrap_or(0),
        Error::Poisoned { cause } => errno(cause),
        _ => 0,
    }
}

/// Has Java choose the class. Texts go as bytes: strings of the native interface are not in UTF-8.
fn throw_told(env: &mut Env<'_>, told: &Told) -> jni::errors::Result<()> {
    let outcome = make(env, told);
    match outcome {
        Ok(exception) => env.throw(exception),
        // Another exception waits then, such as one about memory.
        Err(Failure::Thrown) => Ok(()),
        Err(Failure::Java(error)) => Err(error),
        Err(_) => Err(JniError::JniCall(JniCode::Unknown)),
    }
}

fn make<'l>(env: &mut Env<'l>, told: &Told) -> Result<JThrowable<'l>> {
    let text = give(env, told.text.as_bytes())?;
    let place = give(env, told.place.as_bytes())?;
    let key = match &told.key {
        Some(key) => give(env, key)?,
        None => JByteArray::default(),
    };
    let exception = env.call_static_method(
        jni_str!("io/everleaf/EverleafException"),
        jni_str!("of"),
        jni_sig!("(II[B[B[BJ)Ljava/lang/Throwable;"),
        &[
            told.code.into(),
            told.errno.into(),
            (&text).into(),
            (&place).into(),
            (&key).into(),
            (told.offset as jlong).into(),
        ],
    )?;
    Ok(env.cast_local::<JThrowable>(exception.l()?)?)
}
