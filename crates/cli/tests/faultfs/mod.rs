//! A directory of files on a [`SimIo`], mounted by FUSE: a disk that loses power, drops what it could
//! not sync, and fails, under processes that know nothing of it.
//!
//! Data that the kernel caches stays cached from one open to the next, as on any file system. Data that
//! it reads is what the disk has: after a failed sync the two may differ.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use everleaf::io::{Access, Fault, Io, IoFile, SimIo};
use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem,
    FopenFlags, Generation, INodeNo, LockOwner, MountOption, OpenFlags, RenameFlags, ReplyAttr,
    ReplyCreate, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, TimeOrNow,
    WriteFlags,
};
use tempfile::TempDir;

/// The kernel asks again each time.
const TTL: Duration = Duration::ZERO;

/// A mounted disk. It is unmounted when this is dropped.
pub struct Mount {
    // First, so that the directory is free when it is removed.
    _session: BackgroundSession,
    state: Arc<Mutex<State>>,
    pub dir: TempDir,
}

struct State {
    disk: SimIo,
    /// Inode numbers count from [`FIRST`].
    files: Vec<Box<dyn IoFile>>,
    names: HashMap<PathBuf, u64>,
    after_cut: Option<SimIo>,
    fails_reads: bool,
    /// So many calls that it can strike pass before the fault does.
    fault: Option<(u64, Fault)>,
}

/// The kind of a call: which faults can strike it.
#[derive(Clone, Copy, PartialEq)]
enum Call {
    Look,
    Write,
    Sync,
}

const FIRST: u64 = 2;

impl Mount {
    /// Mounts a disk; `None`, and a message, where that is not allowed.
    pub fn new(disk: &SimIo) -> Option<Mount> {
        let dir = tempfile::tempdir().unwrap();
        let state = State {
            disk: disk.clone(),
            files: Vec::new(),
            names: HashMap::new(),
            after_cut: None,
            fails_reads: false,
            fault: None,
        };
        let state = Arc::new(Mutex::new(state));
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("everleaf-faults".into())];
        match fuser::spawn_mount(FileSystem(Arc::clone(&state)), dir.path(), &config) {
            Ok(session) => Some(Mount { _session: session, state, dir }),
            Err(error) => {
                let line = format!("skipped: FUSE cannot be mounted here: {error}\n");
                let _ = io::Write::write_all(&mut io::stderr(), line.as_bytes());
                None
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// The disk after the power cut that it was told to make, once that has happened. From then on
    /// every call fails here.
    pub fn after_cut(&self) -> Option<SimIo> {
        self.state().after_cut.clone()
    }

    /// Lets a fault strike once, after so many of the calls that it can strike.
    pub fn fail_after(&self, calls: u64, fault: Fault) {
        self.state().fault = Some((calls, fault));
    }

    /// Whether the fault is still to come; it does not come any more.
    pub fn spare(&self) -> bool {
        self.state().fault.take().is_some()
    }

    /// Lets all reads that reach the disk fail, or none.
    pub fn fail_reads(&self, fail: bool) {
        self.state().fails_reads = fail;
    }
}

impl State {
    /// Makes a call on the disk. One during which the power is cut is never answered with success.
    fn call<T>(
        &mut self,
        what: Call,
        call: impl FnOnce(&mut Self) -> io::Result<T>,
    ) -> Result<T, Errno> {
        if self.after_cut.is_some() {
            return Err(Errno::EIO);
        }
        self.strike(what);
        let done = call(self);
        self.after_cut = self.disk.take_cut();
        match done {
            _ if self.after_cut.is_some() => Err(Errno::EIO),
            Ok(value) => Ok(value),
            Err(error) => Err(match error.kind() {
                ErrorKind::NotFound => Errno::ENOENT,
                ErrorKind::StorageFull => Errno::ENOSPC,
                _ => Errno::EIO,
            }),
        }
    }

    /// Has the next call on the disk fail if its turn has come.
    fn strike(&mut self, what: Call) {
        let Some((left, fault)) = &mut self.fault else { return };
        let can = match fault {
            Fault::LostSync => what == Call::Sync,
            Fault::NoSpace => what == Call::Write,
            _ => true,
        };
        if can && *left == 0 {
            self.disk.fail_at(self.disk.calls(), *fault);
            self.fault = None;
        } else if can {
            *left -= 1;
        }
    }

    fn find(&mut self, name: &OsStr, access: Access) -> io::Result<u64> {
        let path = Path::new(name);
        if let Some(&ino) = self.names.get(path) {
            return Ok(ino);
        }
        self.files.push(self.disk.open(path, access)?);
        let ino = FIRST + self.files.len() as u64 - 1;
        self.names.insert(path.to_owned(), ino);
        Ok(ino)
    }

    fn file(&self, ino: INodeNo) -> io::Result<&dyn IoFile> {
        let file = u64::from(ino).checked_sub(FIRST).and_then(|i| self.files.get(i as usize));
        file.map(|file| &**file).ok_or(ErrorKind::NotFound.into())
    }

    fn attr(&self, ino: INodeNo) -> io::Result<FileAttr> {
        let is_dir = ino == INodeNo::ROOT;
        let size = if is_dir { 0 } else { self.file(ino)?.len()? };
        Ok(FileAttr {
            ino,
            size,
            blocks: size.div_ceil(512),
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if is_dir { FileType::Directory } else { FileType::RegularFile },
            perm: if is_dir { 0o700 } else { 0o600 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }
}

struct FileSystem(Arc<Mutex<State>>);

impl FileSystem {
    fn call<T>(
        &self,
        what: Call,
        call: impl FnOnce(&mut State) -> io::Result<T>,
    ) -> Result<T, Errno> {
        self.0.lock().unwrap().call(what, call)
    }
}

fn answer(done: Result<(), Errno>, reply: ReplyEmpty) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

impl Filesystem for FileSystem {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.call(Call::Look, |state| {
            let ino = state.find(name, Access::Write)?;
            state.attr(INodeNo(ino))
        });
        match found {
            Ok(attr) => reply.entry(&TTL, &attr, Generation(0)),
            Err(error) => reply.error(error),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.call(Call::Look, |state| state.attr(ino)) {
            Ok(attr) => reply.attr(&TTL, &attr),
            Err(error) => reply.error(error),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let set = self.call(Call::Write, |state| {
            if let Some(bytes) = size {
                state.file(ino)?.set_len(bytes)?;
            }
            state.attr(ino)
        });
        match set {
            Ok(attr) => reply.attr(&TTL, &attr),
            Err(error) => reply.error(error),
        }
    }

    fn create(
        &self,
        _: &Request,
        _parent: INodeNo,
        name: &OsStr,
        _mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        let made = self.call(Call::Write, |state| {
            let ino = state.find(name, Access::New)?;
            state.attr(INodeNo(ino))
        });
        match made {
            Ok(attr) => {
                let flags = FopenFlags::FOPEN_KEEP_CACHE;
                reply.created(&TTL, &attr, Generation(0), FileHandle(0), flags);
            }
            Err(error) => reply.error(error),
        }
    }

    fn unlink(&self, _: &Request, _parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let done = self.call(Call::Look, |state| {
            state.disk.remove(Path::new(name))?;
            state.names.remove(Path::new(name));
            Ok(())
        });
        answer(done, reply);
    }

    fn rename(
        &self,
        _: &Request,
        _parent: INodeNo,
        name: &OsStr,
        _new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let done = self.call(Call::Look, |state| {
            let (from, to) = (Path::new(name), Path::new(new_name));
            if flags.contains(RenameFlags::RENAME_NOREPLACE) {
                state.disk.rename_new(from, to)?;
            } else {
                state.disk.rename(from, to)?;
            }
            if let Some(ino) = state.names.remove(Path::new(name)) {
                state.names.insert(new_name.into(), ino);
            }
            Ok(())
        });
        answer(done, reply);
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE);
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let read = self.call(Call::Look, |state| {
            if state.fails_reads {
                return Err(io::Error::other("reads fail"));
            }
            let file = state.file(ino)?;
            file.drop_cached(0..u64::MAX)?; // the cache is the kernel's
            let mut bytes = vec![0; size as usize];
            let len = file.read_at(&mut bytes, offset)?;
            bytes.truncate(len);
            Ok(bytes)
        });
        match read {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.call(Call::Write, |state| state.file(ino)?.write_at(data, offset)) {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok(); // a close makes nothing durable
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer(self.call(Call::Sync, |state| state.file(ino)?.sync_data()), reply);
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer(self.call(Call::Sync, |state| state.disk.sync_dir(Path::new("."))), reply);
    }
}
