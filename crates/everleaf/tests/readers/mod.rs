//! Readers of values: in pieces of all sizes, with failures, and with minds of their own.
#![allow(missing_docs, reason = "for tests")]

use std::io::{self, Read};

use everleaf_testing::Rng;

/// Gives a value in pieces of all sizes, some of them interrupted, and then does what it is told to.
pub struct Dribble<'v> {
    left: &'v [u8],
    rng: Rng,
    end: End,
}

/// The behaviour of a reader behind its last byte.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum End {
    Ends,
    Fails,
    Panics,
    Lies,
    /// A signal interrupts each call.
    Storms,
}

pub fn dribble(value: &[u8], end: End) -> Dribble<'_> {
    Dribble { left: value, rng: Rng(value.len() as u64), end }
}

impl Read for Dribble<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.left.is_empty() {
            return match self.end {
                End::Ends => Ok(0),
                End::Fails => Err(io::Error::other("the cable is cut")),
                End::Panics => panic!("a reader's own bug"),
                End::Lies => Ok(buf.len() + 1),
                End::Storms => Err(io::ErrorKind::Interrupted.into()),
            };
        }
        let most = self.rng.pick(&[1, 7, 4096, 100_000, usize::MAX]);
        if most == 7 && self.rng.one_in(3) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let n = self.left.len().min(buf.len()).min(most);
        let (now, left) = self.left.split_at(n);
        buf[..n].copy_from_slice(now);
        self.left = left;
        Ok(n)
    }
}

/// A reader that must not be asked for anything.
pub struct Untouched;

impl Read for Untouched {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        panic!("it was refused, and yet it was read");
    }
}

/// A reader that does something to the pool in the middle of a value.
pub struct Busy<F: FnMut(usize)> {
    pub left: usize,
    pub act: F,
}

impl<F: FnMut(usize)> Read for Busy<F> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        (self.act)(self.left);
        let n = self.left.min(buf.len()).min(300_000);
        buf[..n].fill(b'x');
        self.left -= n;
        Ok(n)
    }
}
