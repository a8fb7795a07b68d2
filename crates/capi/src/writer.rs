//! A value that comes in pieces, and may be more than there is memory for.
//!
//! The store asks for the bytes of such a value when it has room for them, and C would rather hand them over. So a thread of
//! the writer's own makes the call, and takes the pieces out of a short queue. It ends with the writer.

use std::collections::VecDeque;
use std::ffi::{c_int, c_void};
use std::io::{self, Read};
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use db::{Db, Error, Tree};

use crate::call::{self, Handle, boxed, bytes, give, on, on_mut};
use crate::codes::EVERLEAF_OK;
use crate::failure::{Result, invalid};
use crate::tree::everleaf_tree;

/// The most bytes of a piece in the queue.
const PIECE: usize = 256 << 10;
/// So many pieces may be in the queue.
const PIECES: usize = 2;

/// A value that is being written in pieces. Others see the old value until everleaf_writer_finish. One thread at a time may use
/// it. Free it with everleaf_writer_free.
pub struct everleaf_writer {
    db: Db,
    /// Bytes of the value that have not come.
    missing: u64,
    work: Work,
}

enum Work {
    Goes(End, JoinHandle<std::result::Result<(), Error>>),
    /// It was finished, or has failed.
    Ended,
}

impl Handle for everleaf_writer {
    fn db(&self) -> Option<&Db> {
        Some(&self.db)
    }
}

/// Pieces that wait to be read. It is not a channel of the standard library, in which a thread that waits leaves memory
/// behind: that of the first thread of a program would be reported as lost.
#[derive(Default)]
struct Queue {
    state: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    pieces: VecDeque<Vec<u8>>,
    /// One of both ends is gone: nothing comes any more, or nothing is taken.
    is_over: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while this holds, and the other end is there.
    fn wait(&self, holds: impl Fn(&Waiting) -> bool) -> MutexGuard<'_, Waiting> {
        let waits = |waiting: &mut Waiting| !waiting.is_over && holds(waiting);
        self.changed.wait_while(self.lock(), waits).unwrap_or_else(PoisonError::into_inner)
    }
}

/// One end of the queue.
struct End(Arc<Queue>);

impl End {
    /// Adds a piece; says whether anybody is there to take it.
    fn send(&self, piece: Vec<u8>) -> bool {
        let mut waiting = self.0.wait(|waiting| waiting.pieces.len() >= PIECES);
        if !waiting.is_over {
            waiting.pieces.push_back(piece);
            self.0.changed.notify_all();
        }
        !waiting.is_over
    }

    /// The next piece; none at the end.
    fn receive(&self) -> Option<Vec<u8>> {
        let mut waiting = self.0.wait(|waiting| waiting.pieces.is_empty());
        let piece = waiting.pieces.pop_front();
        self.0.changed.notify_all();
        piece
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.0.lock().is_over = true;
        self.0.changed.notify_all();
    }
}

/// The pieces as a stream; it ends when the writer does.
struct Pieces {
    queue: End,
    piece: Vec<u8>,
    read: usize,
}

impl Read for Pieces {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.read == self.piece.len() {
            (self.piece, self.read) = (self.queue.receive().unwrap_or_default(), 0);
        }
        let read = (&self.piece[self.read..]).read(buf)?;
        self.read += read;
        Ok(read)
    }
}

impl everleaf_writer {
    fn new(db: &Db, tree: &Tree, key: &[u8], len: u64) -> Result<Self> {
        let queue = Arc::new(Queue::default());
        let (sender, queue) = (End(Arc::clone(&queue)), End(queue));
        let (tree, key) = (tree.clone(), key.to_vec());
        let pieces = Pieces { queue, piece: Vec::new(), read: 0 };
        let thread = thread::Builder::new().name("everleaf-writer".into());
        let thread = thread.spawn(move || tree.put_from(&key, pieces, len));
        let thread = thread.map_err(|error| Error::io("starting a thread", error))?;
        Ok(everleaf_writer { db: db.clone(), missing: len, work: Work::Goes(sender, thread) })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.len() as u64 > self.missing {
            let (more, missing) = (bytes.len(), self.missing);
            return Err(invalid(format!("{more} bytes of a value of which {missing} are missing")));
        }
        for piece in bytes.chunks(PIECE) {
            let Work::Goes(queue, _) = &self.work else { return Err(has_ended()) };
            let mut copy = Vec::new();
            if copy.try_reserve_exact(piece.len()).is_err() {
                let what = "a piece of a value";
                return Err(Error::NoMemory { what, bytes: piece.len() }.into());
            }
            copy.extend_from_slice(piece);
            if !queue.send(copy) {
                // Nobody takes it: the call has failed.
                self.end()?;
                return Err(has_ended());
            }
            self.missing -= piece.len() as u64;
        }
        Ok(())
    }

    /// Lets the thread come to an end, and waits for it.
    fn end(&mut self) -> Result<()> {
        let Work::Goes(queue, thread) = mem::replace(&mut self.work, Work::Ended) else {
            return Err(has_ended());
        };
        drop(queue);
        match thread.join() {
            Ok(written) => Ok(written?),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

impl Drop for everleaf_writer {
    fn drop(&mut self) {
        match mem::replace(&mut self.work, Work::Ended) {
            // In a fork there is no such thread, and nobody to wait for.
            work if matches!(self.db.expect_open(), Err(Error::Forked)) => mem::forget(work),
            Work::Goes(queue, thread) => {
                drop(queue);
                let _ = thread.join();
            }
            Work::Ended => {}
        }
    }
}

#[cold]
fn has_ended() -> crate::failure::Failure {
    invalid("the writer was finished, or has failed")
}

/// Begins to write a value of `value_len` bytes in pieces, and makes a writer in `*out`, which is yours to free with
/// everleaf_writer_free. The key is copied. A writer has a thread of its own until it is finished, has failed or was freed.
///
/// Errors: EVERLEAF_READ_ONLY if the tree is that of a snapshot; EVERLEAF_IO if no thread can be started. Others come with
/// everleaf_writer_write or everleaf_writer_finish.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_writer_new(
    tree: *const everleaf_tree,
    key: *const c_void,
    key_len: usize,
    value_len: u64,
    out: *mut *mut everleaf_writer,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        give(out, std::ptr::null_mut());
        on("everleaf_writer_new", tree, |tree| {
            boxed(out, || {
                let (now, key) = (tree.writable()?, bytes(key, key_len)?);
                Ok(Some(everleaf_writer::new(&tree.db, now, key, value_len)?))
            })
        })
    }
}

/// Writes the next bytes of the value; they are copied. A call may wait for the disk.
///
/// Errors: those of everleaf_put: then the writer has ended, and nothing has changed. EVERLEAF_INVALID for more bytes than the
/// value has: then nothing of them was taken.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_writer_write(
    writer: *mut everleaf_writer,
    bytes: *const c_void,
    len: usize,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        on_mut("everleaf_writer_write", writer, |writer| {
            writer.write(self::bytes(bytes, len)?)?;
            Ok(EVERLEAF_OK)
        })
    }
}

/// Sets the value, which has all its bytes now, in one step. It is as durable as a put of the tree's handle. The writer has
/// ended then, also after an error; free it.
///
/// Errors: those of everleaf_put; EVERLEAF_READER_ENDED if bytes are missing: then nothing has changed; EVERLEAF_INVALID if the
/// writer has ended before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_writer_finish(writer: *mut everleaf_writer) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        on_mut("everleaf_writer_finish", writer, |writer| {
            writer.end()?;
            Ok(EVERLEAF_OK)
        })
    }
}

/// Frees the writer. A value that was not finished is dropped, and its room is free again. NULL may be freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_writer_free(writer: *mut everleaf_writer) {
    // SAFETY: the promise of a caller.
    unsafe { call::free("everleaf_writer_free", writer) }
}
