//! How long after a write has returned it is durable, where writes become durable by epochs.
//!
//! A thread notes when a write returned and which epoch was running then. The write is in that epoch, or in one
//! before it. Another thread notes when it saw that an epoch was durable. The time between the two is what a
//! crash could have taken at most.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A write that returned: when, and in which epoch at most.
pub type Noted = (Instant, u64);

/// When epochs were seen to be durable. One that is missing became durable with the next one that is there.
pub type DurableAt = BTreeMap<u64, Instant>;

/// How long after its return a write was durable: nothing if it was so before; `None` if it never was.
/// O(log(epochs)).
pub fn until_durable(durable: &DurableAt, (returned, epoch): Noted) -> Option<Duration> {
    let (_, at) = durable.range(epoch..).next()?;
    Some(at.saturating_duration_since(returned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_durable_with_its_epoch_or_a_later_one() {
        let start = Instant::now();
        let after = |ms| start + Duration::from_millis(ms);
        let durable = DurableAt::from([(0, start), (3, after(20)), (7, after(50))]);
        let ms = |returned, epoch| {
            until_durable(&durable, (after(returned), epoch)).map(|lag| lag.as_millis())
        };
        assert_eq!(ms(5, 3), Some(15));
        assert_eq!(ms(5, 1), Some(15), "nobody saw epoch 1 alone");
        assert_eq!(ms(21, 4), Some(29));
        assert_eq!(ms(60, 7), Some(0), "it was durable when it returned");
        assert_eq!(ms(5, 0), Some(0));
        assert_eq!(ms(55, 8), None);
        assert_eq!(until_durable(&DurableAt::new(), (start, 0)), None);
        assert_eq!(ms(5, u64::MAX), None);
    }
}
