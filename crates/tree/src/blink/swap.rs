//! Compare and swap: a write that happens only if the key has the value that the caller expects.
//!
//! ```text
//! short value   compared under the leaf's latch
//! large value   leaf: find it; nothing latched: read and compare it; leaf: is it still this one?
//! ```
//!
//! Between its two looks at the leaf the large value is pinned, so the same place means the same value.
//! Each further turn means that somebody else replaced the value meanwhile.

use everleaf_pmem::{Medium, Result};
use everleaf_pool::{Pool, StoredValue};

use crate::blink::descend::Blink;
use crate::blink::write::{Condition, KeepBefore, Keeping, Old, Verdict};
use crate::node::{FarValue, KeyOf, Kind, NodeBytes, NodeReads};

/// How a compare-and-swap ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "the value may be another one, and then nothing has changed"]
pub enum Swap {
    /// The key had the expected value, and has the new one now.
    Done,
    /// Nothing has changed: the key has this value, or is not there.
    Found(Option<Vec<u8>>),
}

impl Swap {
    /// Whether the value was swapped.
    pub fn is_done(&self) -> bool {
        *self == Swap::Done
    }
}

/// The write happens only if this is the value.
struct Expected<'e, F> {
    value: Option<&'e [u8]>,
    /// The large value that was found.
    far: Option<F>,
    /// Whether that is the expected one, once it has been read.
    is_it: bool,
    /// The value found in place of the expected one.
    found: Option<Vec<u8>>,
    /// The verdict of the last look.
    look: Verdict,
}

impl<'e, F: PartialEq> Expected<'e, F> {
    fn new(value: Option<&'e [u8]>) -> Self {
        Self { value, far: None, is_it: false, found: None, look: Verdict::Read }
    }

    /// How it ended, after the last look.
    fn outcome(self) -> Swap {
        debug_assert_ne!(self.look, Verdict::Read, "what was to be read is looked at again");
        if self.look == Verdict::Write { Swap::Done } else { Swap::Found(self.found) }
    }

    fn judge(&mut self, found: Option<StoredValue<Vec<u8>, F>>) -> Verdict {
        let found = match found {
            Some(StoredValue::External(far)) if self.far.as_ref() == Some(&far) => {
                return if self.is_it { Verdict::Write } else { Verdict::Refuse };
            }
            Some(StoredValue::External(far)) => {
                (self.far, self.found, self.is_it) = (Some(far), None, false);
                return Verdict::Read;
            }
            Some(StoredValue::Inline(value)) => Some(value),
            None => None,
        };
        self.far = None;
        let is_it = found.as_deref() == self.value;
        self.found = found.filter(|_| !is_it);
        if is_it { Verdict::Write } else { Verdict::Refuse }
    }
}

impl<'p, M, K> Old<'p, M, K> for Expected<'_, <K as NodeReads>::Far<'p, M>>
where
    M: Medium,
    K: Kind + NodeReads<Value = Vec<u8>>,
{
    type Value = ();

    fn find(
        &mut self,
        pool: &'p Pool<M>,
        _: &KeyOf<K>,
        entry: Option<K::Entry<'_>>,
    ) -> Result<Verdict> {
        let found = entry.map(|entry| K::found(pool, entry)).transpose()?;
        self.look = self.judge(found);
        Ok(self.look)
    }

    fn read(&mut self) -> Result<()> {
        if let (Verdict::Read, Some(far)) = (self.look, &self.far) {
            let value = far.read()?;
            self.is_it = Some(&value[..]) == self.value;
            self.found = (!self.is_it).then_some(value);
        }
        Ok(())
    }

    fn take(&mut self) -> Option<()> {
        None
    }
}

impl<M: Medium, K: Kind + NodeBytes> Blink<M, K> {
    /// Gives a key the value `new`, or removes it, if its value is `expected`; `None` is that the key is
    /// not there. One write, as [`put`](Self::put) and [`remove`](Self::remove) are.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn swap(&self, key: &[u8], expected: Option<&[u8]>, new: Option<&[u8]>) -> Result<Swap> {
        let mut old = Expected::new(expected);
        self.change(&mut old, key, new)?;
        Ok(old.outcome())
    }

    /// As [`swap`](Self::swap), for a caller that keeps what it replaces.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn swap_keeping(
        &self,
        keeper: &impl KeepBefore<[u8], Vec<u8>>,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<Swap> {
        let condition = if new.is_some() { Condition::Always } else { Condition::Present };
        let mut old = Keeping::new(Expected::new(expected), keeper, condition);
        self.change(&mut old, key, new)?;
        Ok(old.inner.outcome())
    }

    fn change<'s, O: Old<'s, M, K>>(
        &'s self,
        old: &mut O,
        key: &[u8],
        new: Option<&[u8]>,
    ) -> Result<()> {
        match new {
            Some(new) => self.put_for(old, key, new, Condition::Always).map(drop),
            None => self.remove_for(old, key).map(drop),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reference to a large value.
    fn far(n: u32) -> Option<StoredValue<Vec<u8>, u32>> {
        Some(StoredValue::External(n))
    }

    fn inline(value: &[u8]) -> Option<StoredValue<Vec<u8>, u32>> {
        Some(StoredValue::Inline(value.to_vec()))
    }

    #[test]
    fn a_short_value_is_judged_at_once() {
        let expecting = |value| Expected::<u32>::new(value);
        assert_eq!(expecting(Some(b"a")).judge(inline(b"a")), Verdict::Write);
        assert_eq!(expecting(Some(b"")).judge(inline(b"")), Verdict::Write);
        assert_eq!(expecting(Some(b"")).judge(None), Verdict::Refuse);
        assert_eq!(expecting(None).judge(None), Verdict::Write);
        assert_eq!(expecting(None).judge(inline(b"")), Verdict::Refuse);
        let mut other = expecting(Some(b"a"));
        assert_eq!(other.judge(inline(b"b")), Verdict::Refuse);
        assert_eq!(other.found.as_deref(), Some(&b"b"[..]));
    }

    #[test]
    fn a_large_value_counts_only_as_long_as_it_is_the_one_that_was_read() {
        let mut old = Expected::new(Some(b"a"));
        assert_eq!(old.judge(far(1)), Verdict::Read);
        (old.is_it, old.found) = (true, None);
        assert_eq!(old.judge(far(1)), Verdict::Write);
        // Another one took its place: what is known of the first one says nothing.
        assert_eq!(old.judge(far(2)), Verdict::Read);
        assert!(!old.is_it && old.found.is_none());
        old.found = Some(b"b".to_vec());
        assert_eq!(old.judge(far(2)), Verdict::Refuse);
        assert_eq!(old.found.as_deref(), Some(&b"b"[..]));
        // And then the expected one, which is short.
        assert_eq!(old.judge(inline(b"a")), Verdict::Write);
        assert!(old.far.is_none() && old.found.is_none());
        // And nothing.
        assert_eq!(old.judge(None), Verdict::Refuse);
        assert!(old.found.is_none());
    }
}
