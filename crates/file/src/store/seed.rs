//! With what a checksum began.
//!
//! All checksums of images and blocks begin with that of the pool's uuid, the *seed*. CRC-32C is linear: what
//! it makes of bytes behind a seed is what it makes of them behind zero, combined by XOR with what it makes of
//! as many zero bytes behind the seed. The latter can be undone, bit by bit. So bytes and their checksum say
//! what the seed was.

/// CRC-32C's polynomial, bits reversed, as the register has it.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// The seed from which `bytes` have this checksum.
pub(crate) fn seed_of(crc: u32, bytes: &[u8]) -> u32 {
    let mut register = crc ^ crc32c::crc32c_append(0, bytes);
    for _ in 0..8 * bytes.len() {
        register = match register >> 31 {
            0 => register << 1,
            _ => (register ^ POLYNOMIAL) << 1 | 1,
        };
    }
    register
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_says_with_what_it_began() {
        let bytes: Vec<u8> = (0..300_u32).map(|i| (i * 7) as u8).collect();
        for seed in [0, 1, 0x8000_0000, 0xdead_beef, u32::MAX] {
            for n in [0, 1, 44, 300] {
                let crc = crc32c::crc32c_append(seed, &bytes[..n]);
                assert_eq!(seed_of(crc, &bytes[..n]), seed, "{n} bytes");
            }
        }
    }
}
