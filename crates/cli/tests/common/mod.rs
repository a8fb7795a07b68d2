//! Running the real binary.
#![allow(dead_code, reason = "each test program uses a part")]

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;

/// A directory for one test, and the path of a pool in it.
pub struct Place {
    pub dir: TempDir,
    pub pool: PathBuf,
}

impl Place {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let pool = dir.path().join("p.ever");
        Place { dir, pool }
    }

    /// Runs `everleaf COMMAND POOL ARGS…`.
    pub fn run<A: AsRef<OsStr>>(&self, command: &str, args: impl IntoIterator<Item = A>) -> Ran {
        self.run_with(command, args, b"")
    }

    /// The same, with `input` on stdin.
    pub fn run_with<A: AsRef<OsStr>>(
        &self,
        command: &str,
        args: impl IntoIterator<Item = A>,
        input: &[u8],
    ) -> Ran {
        run(everleaf().arg(command).arg(&self.pool).args(args), input)
    }
}

impl Drop for Place {
    /// Keeps the directory of a test that fails, to be looked at.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.dir.disable_cleanup(true);
            eprintln!("kept: {}", self.dir.path().display());
        }
    }
}

/// The binary under test.
pub fn everleaf() -> Command {
    Command::new(env!("CARGO_BIN_EXE_everleaf"))
}

/// The same, after a shell has run `limits`; without one if there is nothing to run.
pub fn everleaf_under(limits: &str) -> Command {
    if limits.is_empty() {
        return everleaf();
    }
    let mut shell = Command::new("sh");
    // Std asks for memory to print where memory was refused, and then waits for its own lock.
    shell.env("RUST_BACKTRACE", "0");
    shell.arg("-c").arg(format!("{limits} && exec \"$0\" \"$@\""));
    shell.arg(env!("CARGO_BIN_EXE_everleaf"));
    shell
}

/// The output of a run, and how it ended.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub out: Vec<u8>,
    pub err: String,
}

impl Ran {
    /// Asserts the exit code; for 0 also that it did not panic or complain.
    #[track_caller]
    pub fn ended(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self}");
        assert!(!self.err.contains("panicked"), "{self}");
        if code != 0 {
            assert!(self.err.contains("everleaf:") || self.err.contains("error:"), "{self}");
        }
        self
    }

    /// Stdout as text.
    #[track_caller]
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.out).unwrap()
    }

    /// Stdout as JSON.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.out).unwrap()
    }

    /// Asserts what stdout is.
    #[track_caller]
    pub fn says(self, text: &str) -> Self {
        assert_eq!(self.text(), text, "{self}");
        self
    }
}

impl std::fmt::Display for Ran {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let out = String::from_utf8_lossy(&self.out);
        write!(f, "code {:?}\nstdout: {out}\nstderr: {}", self.code, self.err)
    }
}

/// Starts a command that the test talks with.
pub fn spawn(command: &mut Command) -> Child {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Runs a command to its end.
pub fn run(command: &mut Command, input: &[u8]) -> Ran {
    let mut child = spawn(command);
    let mut stdin = child.stdin.take().unwrap();
    let Output { status, stdout, stderr } = std::thread::scope(|scope| {
        scope.spawn(move || {
            let _ = stdin.write_all(input); // a command that ends early need not read it
        });
        child.wait_with_output().unwrap()
    });
    Ran { code: status.code(), out: stdout, err: String::from_utf8_lossy(&stderr).into_owned() }
}

/// All bytes of all files beside and including the pool, to see whether a command changed any.
pub fn contents(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .map(|path| (path.clone(), std::fs::read(path).unwrap()))
        .collect();
    files.sort();
    files
}
