//! Writes that ask Java on the way. No lock is held meanwhile, so Java may use the pool.

use jni::objects::{JByteArray, JObject};
use jni::sys::jlong;
use jni::{Env, jni_sig, jni_str};

use crate::bytes::{Taken, give_some, piece};
use crate::call::native;
use crate::failure::{Failure, Result};
use crate::read::AnyTree;

/// Objects of Java that a question may make.
const LOCALS: usize = 8;

native! {
    /// Sets a key to what a function of Java makes of its value.
    fn tree_update(env, tree: AnyTree, key: JByteArray<'l>, change: JObject<'l>) {
        let key = Taken::new(env, &key)?;
        let mut failed = None;
        let done = tree.writable()?.update(key.bytes(), |old| {
            changed(env, &change, old).unwrap_or_else(|failure| {
                // The same value: then nothing is written.
                failed = Some(failure);
                old.map(<[u8]>::to_vec)
            })
        });
        match failed {
            Some(failure) => Err(failure),
            None => Ok(done.map(drop)?),
        }
    }
}

/// The result of the function for a value.
fn changed(env: &mut Env<'_>, change: &JObject<'_>, old: Option<&[u8]>) -> Result<Option<Vec<u8>>> {
    env.with_local_frame(LOCALS, |env| {
        let old = give_some(env, old)?;
        let apply = (jni_str!("apply"), jni_sig!("(Ljava/lang/Object;)Ljava/lang/Object;"));
        let new = env.call_method(change, apply.0, apply.1, &[(&old).into()])?.l()?;
        taken(env, new)
    })
}

/// The bytes of an array that Java has returned, or nothing.
fn taken(env: &mut Env<'_>, array: JObject<'_>) -> Result<Option<Vec<u8>>> {
    if array.is_null() {
        return Ok(None);
    }
    let array = env.cast_local::<JByteArray<'_>>(array)?;
    Ok(Some(Taken::new(env, &array)?.bytes().to_vec()))
}

native! {
    /// Sets the values of keys in ascending order, which an object of Java gives many at a time. How many there were.
    fn tree_load_sorted(env, tree: AnyTree, source: JObject<'l>) -> jlong {
        let mut source = Source { env, source: &source, packed: Vec::new(), at: 0 };
        let pairs = std::iter::from_fn(|| source.next().transpose());
        Ok(tree.writable()?.load_sorted(pairs)? as jlong)
    }
}

/// Pairs that come from Java.
struct Source<'a, 'l> {
    env: &'a mut Env<'l>,
    source: &'a JObject<'l>,
    /// Packed keys and values, and how many bytes of them are used up.
    packed: Vec<u8>,
    at: usize,
}

impl Source<'_, '_> {
    #[allow(clippy::type_complexity)]
    fn next(&mut self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        if self.at == self.packed.len() {
            let Some(packed) = self.ask()? else { return Ok(None) };
            (self.packed, self.at) = (packed, 0);
        }
        let mut rest = &self.packed[self.at..];
        let (key, value) = (piece(&mut rest)?, piece(&mut rest)?);
        self.at = self.packed.len() - rest.len();
        Ok(Some((key.to_vec(), value.to_vec())))
    }

    fn ask(&mut self) -> Result<Option<Vec<u8>>> {
        let source = self.source;
        self.env.with_local_frame(LOCALS, |env| -> std::result::Result<_, Failure> {
            let packed = env.call_method(source, jni_str!("next"), jni_sig!("()[B"), &[])?.l()?;
            taken(env, packed)
        })
    }
}
