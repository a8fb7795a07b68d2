//! Byte strings as the words of slots.

use everleaf_pool::RecordRef;

use crate::node::Slot;

/// Byte strings to byte strings.
#[derive(Debug, Clone, Copy)]
pub struct Strings;

/// Up to `N` bytes of a key from `from` on, zero-padded.
fn bytes_at<const N: usize>(key: &[u8], from: usize) -> [u8; N] {
    let mut bytes = [0; N];
    let rest = key.get(from..).unwrap_or_default();
    let n = rest.len().min(N);
    bytes[..n].copy_from_slice(&rest[..n]);
    bytes
}

/// The 8 bytes that order a key in a node with this prefix.
pub(super) fn head(key: &[u8], prefix: usize) -> u64 {
    u64::from_be_bytes(bytes_at(key, prefix))
}

/// The slot of a key in a node with this prefix.
pub(super) fn slot_for(key: &[u8], prefix: usize, place: u64) -> Slot {
    let next = u16::from_be_bytes(bytes_at(key, prefix + 8));
    Slot { ident: place << 16 | u64::from(next), payload: head(key, prefix) }
}

pub(super) fn place_of(slot: Slot) -> u64 {
    slot.ident >> 16
}

pub(super) fn record_of(slot: Slot) -> RecordRef {
    RecordRef::from_bits(place_of(slot))
}

/// Bytes that two keys share at their start.
pub(super) fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}
