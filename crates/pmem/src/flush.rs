//! Writing cache lines back to persistent memory.
//!
//! | processor | write-back | fence |
//! |---|---|---|
//! | x86-64 | `clwb`, else `clflushopt`, else `clflush` | `sfence` |
//! | aarch64 | `dc cvap`, else `dc cvac` | `dsb sy` |
//!
//! `clwb` may keep the line in the cache; the other two of x86-64 drop it. `clflush` waits for itself,
//! the others for the fence. `dc cvap` cleans to the point of persistence; a processor without it
//! promises persistence nowhere, and `dc cvac`, to the point of coherency, is what is left.
//!
//! Invariant kept here: a `Flusher` holds an instruction that this processor has, so that no flush
//! meets an unknown instruction.

use std::fmt;
use std::sync::atomic::AtomicU64;

use crate::error::{Error, Result};
use crate::page::LINE_BYTES;

/// How a line is written back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flush {
    /// x86-64: write back, keep the line.
    Clwb,
    /// x86-64: write back and drop the line.
    Clflushopt,
    /// x86-64: the same, each waiting for the one before.
    Clflush,
    /// aarch64: clean to the point of persistence.
    DcCvap,
    /// aarch64: clean to the point of coherency.
    DcCvac,
    /// Nothing but the fence: the caches survive a power failure (eADR). Loses acknowledged writes
    /// where they do not.
    FenceOnly,
}

impl Flush {
    /// All ways to flush, best first; `FenceOnly` last, and only where lines could be flushed at all.
    const ALL: [Flush; 6] = [
        Flush::Clwb,
        Flush::Clflushopt,
        Flush::Clflush,
        Flush::DcCvap,
        Flush::DcCvac,
        Flush::FenceOnly,
    ];

    /// Those that this processor has, best first. Empty on processors that this crate cannot flush.
    pub fn available() -> Vec<Flush> {
        let usable = arch::line_bytes().is_some_and(|bytes| bytes >= LINE_BYTES);
        Self::ALL.into_iter().filter(|&how| usable && arch::has(how)).collect()
    }
}

impl fmt::Display for Flush {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Flush::Clwb => "clwb",
            Flush::Clflushopt => "clflushopt",
            Flush::Clflush => "clflush",
            Flush::DcCvap => "dc cvap",
            Flush::DcCvac => "dc cvac",
            Flush::FenceOnly => "fence only",
        })
    }
}

/// The instruction picked at open.
#[derive(Debug, Clone, Copy)]
pub struct Flusher(Flush);

impl Flusher {
    /// `wanted`, or the best that the processor has; `eadr` says that the caches survive.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the processor has no such instruction.
    pub fn pick(wanted: Option<Flush>, eadr: bool) -> Result<Self> {
        let available = Flush::available();
        let wanted = wanted.or(eadr.then_some(Flush::FenceOnly));
        let best = || available.iter().copied().find(|&how| how != Flush::FenceOnly);
        match wanted.or_else(best) {
            Some(how) if available.contains(&how) => Ok(Self(how)),
            Some(how) => {
                let what = format!("this processor cannot write lines of 64 bytes back by {how}");
                Err(Error::Unsupported { what })
            }
            None => {
                let what = "no way to write cache lines back is known for this processor";
                Err(Error::Unsupported { what: what.into() })
            }
        }
    }

    /// The way that was picked.
    pub fn how(self) -> Flush {
        self.0
    }

    /// Starts to write back the line that the word is in.
    #[inline(always)]
    pub(crate) fn line(self, word: &AtomicU64) {
        // SAFETY: `pick` has seen that the processor has the instruction.
        unsafe { arch::line(self.0, word) }
    }

    /// Completes this thread's write-backs, and orders them before all stores that follow.
    #[inline(always)]
    pub(crate) fn fence(self) {
        arch::fence();
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod arch {
    use super::Flush;
    use std::arch::asm;
    use std::arch::x86_64::__cpuid_count;
    use std::sync::atomic::AtomicU64;

    /// Bytes that a flush writes back: CPUID leaf 1, EBX bits 8–15, in units of 8.
    pub fn line_bytes() -> Option<usize> {
        Some((__cpuid_count(1, 0).ebx >> 8 & 0xff) as usize * 8)
    }

    /// CPUID leaf 1, EDX bit 19; leaf 7, EBX bits 23 and 24.
    pub fn has(how: Flush) -> bool {
        let extended = || {
            let highest = __cpuid_count(0, 0).eax;
            if highest < 7 { 0 } else { __cpuid_count(7, 0).ebx }
        };
        match how {
            Flush::Clwb => extended() >> 24 & 1 != 0,
            Flush::Clflushopt => extended() >> 23 & 1 != 0,
            Flush::Clflush => __cpuid_count(1, 0).edx >> 19 & 1 != 0,
            Flush::DcCvap | Flush::DcCvac => false,
            Flush::FenceOnly => true,
        }
    }

    /// # Safety
    /// The processor must have the instruction.
    #[inline(always)]
    pub unsafe fn line(how: Flush, word: &AtomicU64) {
        let at = std::ptr::from_ref(word);
        // SAFETY: the address is mapped, and writing a line back changes no byte. The blocks count
        // as reading and writing memory, so that the compiler moves no store across them.
        unsafe {
            match how {
                Flush::Clwb => asm!("clwb [{}]", in(reg) at, options(nostack, preserves_flags)),
                Flush::Clflushopt => {
                    asm!("clflushopt [{}]", in(reg) at, options(nostack, preserves_flags));
                }
                Flush::Clflush => {
                    asm!("clflush [{}]", in(reg) at, options(nostack, preserves_flags));
                }
                Flush::DcCvap | Flush::DcCvac | Flush::FenceOnly => {}
            }
        }
    }

    #[inline(always)]
    pub fn fence() {
        // SAFETY: a fence touches nothing.
        unsafe { asm!("sfence", options(nostack, preserves_flags)) }
    }
}

#[cfg(all(target_arch = "aarch64", target_endian = "little", not(miri)))]
mod arch {
    use super::Flush;
    use std::arch::asm;
    use std::sync::atomic::AtomicU64;

    /// The smallest line of all data caches: CTR_EL0 bits 16–19, the logarithm of words of 4 bytes.
    pub fn line_bytes() -> Option<usize> {
        let ctr: u64;
        // SAFETY: Linux lets programs read this register, or reads it for them.
        unsafe {
            asm!("mrs {}, ctr_el0", out(reg) ctr, options(nomem, nostack, preserves_flags));
        }
        Some(4 << (ctr >> 16 & 15))
    }

    pub fn has(how: Flush) -> bool {
        match how {
            Flush::DcCvap => std::arch::is_aarch64_feature_detected!("dpb"),
            Flush::DcCvac | Flush::FenceOnly => true,
            Flush::Clwb | Flush::Clflushopt | Flush::Clflush => false,
        }
    }

    /// # Safety
    /// The processor must have the instruction.
    #[inline(always)]
    pub unsafe fn line(how: Flush, word: &AtomicU64) {
        let at = std::ptr::from_ref(word);
        // SAFETY: the address is mapped, and cleaning a line changes no byte. The blocks count as
        // reading and writing memory, so that the compiler moves no store across them; the processor
        // orders a clean after earlier stores to its line. `dc cvap` goes by its encoding, for
        // assemblers that are not told of it.
        unsafe {
            match how {
                Flush::DcCvap => {
                    asm!("sys #3, c7, c12, #1, {}", in(reg) at, options(nostack, preserves_flags));
                }
                Flush::DcCvac => {
                    asm!("dc cvac, {}", in(reg) at, options(nostack, preserves_flags));
                }
                Flush::Clwb | Flush::Clflushopt | Flush::Clflush | Flush::FenceOnly => {}
            }
        }
    }

    #[inline(always)]
    pub fn fence() {
        // SAFETY: a barrier touches nothing.
        unsafe { asm!("dsb sy", options(nostack, preserves_flags)) }
    }
}

#[cfg(not(any(
    all(target_arch = "x86_64", not(miri)),
    all(target_arch = "aarch64", target_endian = "little", not(miri))
)))]
mod arch {
    use super::Flush;
    use std::sync::atomic::AtomicU64;

    pub fn line_bytes() -> Option<usize> {
        None
    }

    pub fn has(_: Flush) -> bool {
        false
    }

    /// # Safety
    /// Nothing to keep: nothing is available, so nobody gets here.
    pub unsafe fn line(_: Flush, _: &AtomicU64) {}

    pub fn fence() {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_processor_has_is_picked() {
        let available = Flush::available();
        for how in Flush::ALL {
            match Flusher::pick(Some(how), false) {
                Ok(flusher) => assert!(available.contains(&how) && flusher.how() == how),
                Err(Error::Unsupported { .. }) => assert!(!available.contains(&how)),
                Err(e) => panic!("{e}"),
            }
        }
        let best = Flusher::pick(None, false).map(Flusher::how).ok();
        assert_eq!(best, available.first().copied());
        if let Some(best) = best {
            assert_ne!(best, Flush::FenceOnly, "never without being told");
            assert_eq!(Flusher::pick(None, true).map(Flusher::how).ok(), Some(Flush::FenceOnly));
            assert_eq!(Flusher::pick(Some(best), true).map(Flusher::how).ok(), Some(best));
        }
    }

    #[test]
    fn flushing_changes_no_byte() {
        let words: Vec<AtomicU64> = (0..32).map(AtomicU64::new).collect();
        for how in Flush::available() {
            let flusher = Flusher::pick(Some(how), false).expect("available");
            words.iter().for_each(|word| flusher.line(word));
            flusher.fence();
        }
        let words: Vec<u64> = words.into_iter().map(AtomicU64::into_inner).collect();
        assert!(words.into_iter().eq(0..32));
    }
}
