//! Whole reads and writes over calls that may be short or interrupted, in one place for all files.

use std::io::{self, ErrorKind};

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
        match raw.pread(&mut buf[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(n) => {
                assert!(n <= buf.len() - done, "a read of more than was asked for");
                done += n;
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}

/// Writes all bytes. A call that writes nothing and says no reason is a failure, for it would be
/// repeated for ever.
pub(super) fn write_whole(raw: &mut impl Raw, bytes: &[u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match raw.pwrite(&bytes[done..], offset + done as u64) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(n) => {
                assert!(n <= bytes.len() - done, "a write of more than was asked for");
                done += n;
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
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
