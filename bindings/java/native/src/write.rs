//! Writes to a tree.

use std::io::{self, Read};

use jni::objects::{JByteArray, JObject, JValue};
use jni::sys::{jboolean, jint, jlong};
use jni::{Env, jni_sig, jni_str};
use store::Swap;

use crate::bytes::{Taken, give_some};
use crate::call::native;
use crate::failure::{Failure, Result, invalid};
use crate::read::{AnyTree, Keys, expect_pair_fits, expect_value_fits, give_pair};

/// Bytes that are asked of a stream at once.
const PIECE: usize = 64 << 10;

native! {
    fn tree_put(env, tree: AnyTree, key: JByteArray<'l>, value: JByteArray<'l>) {
        let (key, value) = (Taken::new(env, &key)?, Taken::new(env, &value)?);
        Ok(tree.writable()?.put(key.bytes(), value.bytes())?)
    }
}

native! {
    fn tree_delete(env, tree: AnyTree, key: JByteArray<'l>) {
        let key = Taken::new(env, &key)?;
        Ok(tree.writable()?.delete(key.bytes())?)
    }
}

native! {
    fn tree_insert_new(env, tree: AnyTree, key: JByteArray<'l>, value: JByteArray<'l>) -> jboolean {
        let (key, value) = (Taken::new(env, &key)?, Taken::new(env, &value)?);
        Ok(tree.writable()?.insert_new(key.bytes(), value.bytes())?)
    }
}

native! {
    fn tree_replace(env, tree: AnyTree, key: JByteArray<'l>, value: JByteArray<'l>) -> jboolean {
        let (key, value) = (Taken::new(env, &key)?, Taken::new(env, &value)?);
        Ok(tree.writable()?.replace(key.bytes(), value.bytes())?)
    }
}

native! {
    /// Removes a key; its value, or null.
    fn tree_take(env, tree: AnyTree, key: JByteArray<'l>) -> JByteArray<'l> {
        let key = Taken::new(env, &key)?;
        let tree = tree.writable()?;
        expect_value_fits(tree, &key)?;
        let old = tree.remove(key.bytes())?;
        give_some(env, old.as_deref())
    }
}

native! {
    /// Sets a value; the old one, or null.
    fn tree_swap(env, tree: AnyTree, key: JByteArray<'l>, value: JByteArray<'l>) -> JByteArray<'l> {
        let (key, value) = (Taken::new(env, &key)?, Taken::new(env, &value)?);
        let tree = tree.writable()?;
        expect_value_fits(tree, &key)?;
        let old = tree.insert(key.bytes(), value.bytes())?;
        give_some(env, old.as_deref())
    }
}

native! {
    fn tree_compare_and_swap(
        env, tree: AnyTree, key: JByteArray<'l>, expected: JByteArray<'l>, new: JByteArray<'l>
    ) -> jboolean {
        let key = Taken::new(env, &key)?;
        let (expected, new) = (Taken::some(env, &expected)?, Taken::some(env, &new)?);
        let swap = tree.writable()?.compare_and_swap(key.bytes(), expected, new)?;
        Ok(matches!(swap, Swap::Done))
    }
}

native! {
    fn tree_remove_range(
        env, tree: AnyTree, from: JByteArray<'l>, to: JByteArray<'l>, flags: jint
    ) -> jlong {
        let keys = Keys::new(env, (&from, &to), flags)?;
        let tree = tree.writable()?;
        if keys.is_empty() {
            return Ok(0);
        }
        Ok(tree.remove_range(keys.of())? as jlong)
    }
}

native! {
    fn tree_clear(_env, tree: AnyTree) -> jlong {
        Ok(tree.writable()?.clear()? as jlong)
    }
}

native! {
    fn tree_pop(env, tree: AnyTree, last: jboolean) -> JByteArray<'l> {
        let tree = tree.writable()?;
        expect_pair_fits(tree, last)?;
        let pair = if last { tree.pop_last()? } else { tree.pop_first()? };
        give_pair(env, pair)
    }
}

native! {
    /// Sets a value of so many bytes, which come from a stream of Java.
    fn tree_put_from(env, tree: AnyTree, key: JByteArray<'l>, stream: JObject<'l>, len: jlong) {
        let key = Taken::new(env, &key)?;
        let len = u64::try_from(len).map_err(|_| invalid("the length is below 0"))?;
        let piece = JByteArray::new(env, PIECE)?;
        let mut reader = Stream { env, stream: &stream, piece: &piece, failed: None };
        let put = tree.writable()?.put_from(key.bytes(), &mut reader, len);
        match reader.failed {
            Some(failure) => Err(failure),
            None => Ok(put?),
        }
    }
}

/// A stream of Java.
struct Stream<'a, 'l> {
    env: &'a mut Env<'l>,
    stream: &'a JObject<'l>,
    piece: &'a JByteArray<'l>,
    failed: Option<Failure>,
}

impl Stream<'_, '_> {
    fn next(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let most = buffer.len().min(PIECE);
        let read = self.env.call_method(
            self.stream,
            jni_str!("read"),
            jni_sig!("([BII)I"),
            &[JValue::from(self.piece), 0.into(), (most as jint).into()],
        )?;
        // Java says -1 at the end.
        let read = usize::try_from(read.i()?).unwrap_or(0).min(most);
        let mut copy = vec![0; read];
        self.piece.get_region(self.env, 0, &mut copy)?;
        for (to, from) in buffer.iter_mut().zip(copy) {
            *to = from as u8;
        }
        Ok(read)
    }
}

impl Read for Stream<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.failed.is_some() {
            return Err(io::Error::other("the stream has failed"));
        }
        self.next(buffer).map_err(|failure| {
            self.failed = Some(failure);
            io::Error::other("the stream has failed")
        })
    }
}
