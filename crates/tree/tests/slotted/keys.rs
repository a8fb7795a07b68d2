//! Keys and values that meet the limits of a node.

use everleaf_testing::Rng;
use everleaf_tree::slotted::{inline_value_max, whole_key_max};

/// Families of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Numbers of 8 bytes, big-endian.
    Numbers,
    /// Numbers of which only the last two bytes differ.
    Narrow,
    /// Twenty bytes that are the same, then digits.
    Users,
    /// Few different bytes, zeros among them, and any length up to 12.
    Zeros,
    /// Keys that tie for long, around the length that a node keeps whole.
    Long,
    /// Up to 65,536 bytes, many of which are the same.
    Huge,
    /// All of these.
    Mixed,
}

pub const STYLES: [Style; 7] = [
    Style::Numbers,
    Style::Narrow,
    Style::Users,
    Style::Zeros,
    Style::Long,
    Style::Huge,
    Style::Mixed,
];

pub fn key(rng: &mut Rng, style: Style, page_bytes: usize) -> Vec<u8> {
    let whole = whole_key_max(page_bytes);
    match style {
        Style::Numbers => rng.next().to_be_bytes().to_vec(),
        Style::Narrow => (0x0102_0304_0500_0000 + rng.below(3000)).to_be_bytes().to_vec(),
        Style::Users => format!("user:000000000000000{:07}", rng.below(100_000)).into_bytes(),
        Style::Zeros => {
            let n = rng.below(13);
            (0..n).map(|_| rng.pick(&[0, 0, 0, b'a', 255])).collect()
        }
        Style::Long => {
            let same = rng.below(whole as u64 + 4) as usize;
            let mut key = vec![rng.pick(b"xy"); same];
            let n = rng.below(12);
            key.extend((0..n).map(|_| rng.pick(&[0, b'a', b'x'])));
            key
        }
        Style::Huge => {
            let lengths = [whole as u64 - 2, whole as u64 + 2, 2 * whole as u64, 5000, 65_536];
            let most = rng.pick(&lengths);
            let mut key = vec![b'h'; (most - rng.below(40.min(most))) as usize];
            for _ in 0..rng.below(4) {
                let at = rng.below(key.len().max(1) as u64) as usize;
                if let Some(byte) = key.get_mut(at) {
                    *byte = rng.pick(b"gi\0");
                }
            }
            key
        }
        Style::Mixed => {
            let style = rng.pick(&STYLES[..6]);
            key(rng, style, page_bytes)
        }
    }
}

/// A value of a length at some limit, or of any.
pub fn value(rng: &mut Rng, page_bytes: usize) -> Vec<u8> {
    let most = inline_value_max(page_bytes);
    let lengths = [0, 1, 4, 8, 12, 13, 14, 255, 256, 257, most - 1, most, most + 1, most + 100];
    let mut n = match rng.below(4) {
        0 => rng.pick(&lengths),
        1 => rng.below(most as u64 + 2) as usize,
        _ => rng.below(16) as usize,
    };
    if rng.one_in(2) {
        n = n.min(100);
    }
    rng.bytes(n)
}
