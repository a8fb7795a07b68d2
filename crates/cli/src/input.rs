//! The input of a command: a file, a pipe or stdin. Only reading it tells its length.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::failure::{CommandError, Result};
use crate::numbers::grouped;

/// The name that stands for stdin.
pub const STDIN: &str = "-";

/// So many bytes are read at once, and are kept in memory without a file.
const PIECE_BYTES: usize = 1 << 20;

/// Something that can be read.
pub struct Input {
    pub file: File,
    /// As messages call it.
    pub name: PathBuf,
}

/// The error for an input `name` that cannot be read.
pub fn unreadable(name: &Path, error: &io::Error) -> CommandError {
    CommandError::Blocked(format!("cannot read {}: {error}", name.display()))
}

impl Input {
    /// Opens a file, or stdin. A FIFO waits for its other end.
    pub fn open(path: &Path) -> Result<Self> {
        let (file, name) = match path == Path::new(STDIN) {
            true => (io::stdin().as_fd().try_clone_to_owned().map(File::from), "stdin".into()),
            false => (File::open(path), path.to_owned()),
        };
        let opened = file.and_then(|file| match file.metadata()?.is_dir() {
            true => Err(io::ErrorKind::IsADirectory.into()),
            false => Ok(file),
        });
        Ok(Input { file: opened.map_err(|error| unreadable(&name, &error))?, name })
    }

    /// Reads all of it, at most so many bytes. A long input is not kept in memory: if it is a file that can be read
    /// twice, its length is counted, and anything else is copied into a file without a name, at `spool`.
    pub fn whole(mut self, bytes_max: u64, spool: &Path) -> Result<WholeInput> {
        let (start, mut bytes) = (self.file.stream_position().ok(), Vec::new());
        self.read(&mut bytes)?;
        if bytes.len() as u64 > bytes_max {
            return Err(too_long(bytes_max));
        }
        if bytes.len() < PIECE_BYTES {
            return Ok(WholeInput::Short(bytes));
        }
        let is_file = self.file.metadata().is_ok_and(|metadata| metadata.is_file());
        let start = start.filter(|_| is_file);
        let mut copy = if start.is_none() { Some(spool_file(spool)?) } else { None };
        let mut count = 0;
        while !bytes.is_empty() {
            count += bytes.len() as u64;
            if count > bytes_max {
                return Err(too_long(bytes_max));
            }
            if let Some(copy) = &mut copy {
                copy.write_all(&bytes).map_err(|error| not_spooled(spool, &error))?;
            }
            self.read(&mut bytes)?;
        }
        let (mut file, start) = (copy.unwrap_or(self.file), start.unwrap_or(0));
        let sought = file.seek(SeekFrom::Start(start));
        sought.map_err(|error| unreadable(&self.name, &error))?;
        Ok(WholeInput::Long(LongInput { file, left: count }, count))
    }

    /// Puts the next piece into `bytes`; it is shorter than [`PIECE_BYTES`] only at the end.
    fn read(&mut self, bytes: &mut Vec<u8>) -> Result<()> {
        bytes.clear();
        let read = (&mut self.file).take(PIECE_BYTES as u64).read_to_end(bytes);
        read.map(drop).map_err(|error| unreadable(&self.name, &error))
    }
}

fn too_long(bytes_max: u64) -> CommandError {
    CommandError::Usage(format!(
        "a value has at most {} bytes, and this one has more",
        grouped(bytes_max)
    ))
}

fn not_spooled(path: &Path, error: &io::Error) -> CommandError {
    CommandError::Blocked(format!("cannot keep the input in {}: {error}", path.display()))
}

/// A file that is gone when it is closed, however this process ends.
fn spool_file(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600);
    let made = options.open(path).and_then(|file| fs::remove_file(path).map(|()| file));
    made.map_err(|error| not_spooled(path, &error))
}

/// All of an input.
pub enum WholeInput {
    /// In memory.
    Short(Vec<u8>),
    /// To be read, so many bytes.
    Long(LongInput, u64),
}

/// A file whose bytes were counted. Where it has more of them now, reading fails: as with fewer, that is not
/// what was counted.
pub struct LongInput {
    file: File,
    left: u64,
}

impl Read for LongInput {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = (&mut self.file).take(self.left).read(out)?;
        self.left -= read as u64;
        if read > 0 && self.left == 0 && self.file.read(&mut [0])? > 0 {
            return Err(io::Error::other("the file grew while it was read"));
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(path: &Path) -> Input {
        Input::open(path).unwrap()
    }

    fn taken(whole: WholeInput) -> Vec<u8> {
        match whole {
            WholeInput::Short(bytes) => bytes,
            WholeInput::Long(mut long, count) => {
                let mut bytes = Vec::new();
                long.read_to_end(&mut bytes).unwrap();
                assert_eq!(bytes.len() as u64, count);
                bytes
            }
        }
    }

    #[test]
    fn the_length_is_what_can_be_read() {
        let dir = tempfile::tempdir().unwrap();
        let (path, spool) = (dir.path().join("file"), dir.path().join("spool"));
        for len in [0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES] {
            let bytes: Vec<u8> = (0..len).map(|i| (i ^ i >> 9) as u8).collect();
            fs::write(&path, &bytes).unwrap();
            assert!(taken(input(&path).whole(len as u64, &spool).unwrap()) == bytes, "{len}");
            if len > 0 {
                let refused = input(&path).whole(len as u64 - 1, &spool);
                assert!(matches!(refused, Err(CommandError::Usage(_))), "{len}");
            }
            let (reader, mut writer) = io::pipe().unwrap();
            let sender = std::thread::spawn(move || writer.write_all(&bytes).map(|()| bytes));
            let piped =
                Input { file: std::os::fd::OwnedFd::from(reader).into(), name: "pipe".into() };
            let whole = piped.whole(u64::MAX, &spool).unwrap();
            assert!(taken(whole) == sender.join().unwrap().unwrap(), "{len}");
            // The file that kept a long input has left no name.
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        }
    }

    #[test]
    fn what_changes_meanwhile_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        for more in [1, 5_000_000] {
            fs::write(&path, vec![7; 2 * PIECE_BYTES]).unwrap();
            let WholeInput::Long(mut long, _) = input(&path).whole(u64::MAX, &path).unwrap() else {
                panic!("it is long")
            };
            OpenOptions::new().append(true).open(&path).unwrap().write_all(&vec![7; more]).unwrap();
            let read = long.read_to_end(&mut Vec::new());
            assert!(read.unwrap_err().to_string().contains("grew"));
        }
    }
}
