//! Whole reads and writes over calls that may be short or interrupted, in one place for all files.

use std::io::{self, ErrorKind};

/// A call that signals interrupt so many times in a row has failed: with one each millisecond, and calls that take
/// longer, it would never end.
const INTERRUPTS_MOST: u32 = 10_000;

/// Repeats a call while a signal interrupts it.
///
/// # Errors
/// Those of the call; [`ErrorKind::Interrupted`] after 10,000 of them in a row.
#[inline]
pub fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for _ in 1..INTERRUPTS_MOST {
        match call() {
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            done => return done,
        }
    }
    call()
}

/// One call to a system, which may do less than it was asked for.
pub(super) trait Raw {
    /// Reads some bytes at `offset`; 0 at the end of the file.
    fn pread(&mut self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes some bytes at `offset`.
    fn pwrite(&mut self, bytes: &[u8], offset: u64) -> io::Result<usize>;
}

/// Reads until `buf` is full or the file ends; says how much it read.
pub(super) fn read_whole(raw: &mut impl Raw, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buf.len() {
        match uninterrupted(|| raw.pread(&mut buf[done..], offset + done as u64))? {
            0 => break,
            n => {
                assert!(n <= buf.len() - done, "a read of more than was asked for");
                done += n;
            }
        }
    }
    Ok(done)
}

/// Writes all bytes. A call that writes nothing and says no reason is a failure, for it would be
/// repeated for ever.
pub(super) fn write_whole(raw: &mut impl Raw, bytes: &[u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match uninterrupted(|| raw.pwrite(&bytes[done..], offset + done as u64))? {
            0 => return Err(ErrorKind::WriteZero.into()),
            n => {
                assert!(n <= bytes.len() - done, "a write of more than was asked for");
                done += n;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten bytes; `plan` says what the next calls do: so many bytes, or an error.
    struct Planned {
        bytes: [u8; 10],
        plan: Vec<io::Result<usize>>,
    }

    impl Planned {
        fn new(plan: impl IntoIterator<Item = Result<usize, ErrorKind>>) -> Self {
            let plan: Vec<_> = plan.into_iter().map(|p| p.map_err(io::Error::from)).collect();
            Self { bytes: *b"0123456789", plan: plan.into_iter().rev().collect() }
        }
        fn next(&mut self, wanted: usize, offset: u64) -> io::Result<usize> {
            let most = wanted.min(self.bytes.len().saturating_sub(offset as usize));
            self.plan.pop().unwrap_or(Ok(most)).map(|n| n.min(most))
        }
    }

    impl Raw for Planned {
        fn pread(&mut self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
            let n = self.next(buf.len(), offset)?;
            buf[..n].copy_from_slice(&self.bytes[offset as usize..offset as usize + n]);
            Ok(n)
        }
        fn pwrite(&mut self, bytes: &[u8], offset: u64) -> io::Result<usize> {
            let n = self.next(bytes.len(), offset)?;
            self.bytes[offset as usize..offset as usize + n].copy_from_slice(&bytes[..n]);
            Ok(n)
        }
    }

    const INTR: Result<usize, ErrorKind> = Err(ErrorKind::Interrupted);

    #[test]
    fn short_and_interrupted_calls_go_on_where_they_stopped() {
        let mut buf = [0; 6];
        let mut raw = Planned::new([INTR, Ok(1), INTR, INTR, Ok(2)]);
        assert_eq!(read_whole(&mut raw, &mut buf, 3).expect("whole"), 6);
        assert_eq!(&buf, b"345678");
        let mut raw = Planned::new([Ok(2), INTR, Ok(1)]);
        write_whole(&mut raw, b"abcdef", 2).expect("whole");
        assert_eq!(&raw.bytes, b"01abcdef89");
    }

    /// Calls that signals interrupt, some that do a byte, and so on.
    #[test]
    fn a_storm_of_signals_ends_what_does_not_get_on() {
        let most = INTERRUPTS_MOST as usize;
        let storm = |calls: usize| std::iter::repeat_n(INTR, calls).chain([Ok(1)]);
        let kind = |done: io::Result<usize>| done.map_err(|e| e.kind());
        let (mut buf, interrupted) = ([0; 2], Err(ErrorKind::Interrupted));
        let mut read = |plan: Vec<_>| kind(read_whole(&mut Planned::new(plan), &mut buf, 3));
        assert_eq!(read(storm(most - 1).chain(storm(most - 1)).collect()), Ok(2));
        assert_eq!(read(storm(most).collect()), interrupted);
        assert_eq!(read([Ok(1)].into_iter().chain(storm(most)).collect()), interrupted);
        let write = |plan: Vec<_>| kind(write_whole(&mut Planned::new(plan), b"ab", 3).map(|()| 2));
        assert_eq!(write(storm(most - 1).chain(storm(most - 1)).collect()), Ok(2));
        assert_eq!(write(storm(most).collect()), interrupted);
        let mut calls = 0;
        let other = uninterrupted(|| {
            calls += 1;
            Err::<(), _>(ErrorKind::TimedOut.into())
        });
        assert_eq!((other.map_err(|e| e.kind()), calls), (Err(ErrorKind::TimedOut), 1));
    }

    #[test]
    fn the_end_of_the_file_ends_a_read() {
        let mut buf = [0; 6];
        assert_eq!(read_whole(&mut Planned::new([Ok(1)]), &mut buf, 7).expect("short"), 3);
        assert_eq!(&buf, b"789\0\0\0");
    }

    #[test]
    fn a_write_of_nothing_is_a_failure_and_so_is_any_other_error() {
        let failed = |plan: Vec<_>| write_whole(&mut Planned::new(plan), b"abc", 0);
        let kind = |plan| failed(plan).map_err(|e| e.kind());
        assert_eq!(kind(vec![Ok(1), Ok(0)]), Err(ErrorKind::WriteZero));
        assert_eq!(kind(vec![Ok(1), Err(ErrorKind::StorageFull)]), Err(ErrorKind::StorageFull));
        let read = read_whole(&mut Planned::new([Err(ErrorKind::TimedOut)]), &mut [0], 0);
        assert_eq!(read.map_err(|e| e.kind()), Err(ErrorKind::TimedOut));
        assert_eq!(write_whole(&mut Planned::new([Ok(0)]), b"", 0).map_err(|e| e.kind()), Ok(()));
    }
}
