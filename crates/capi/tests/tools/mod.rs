//! Tools for tests that compile programs against the library: the library itself, which cargo does not build for tests, and
//! folders.

#![allow(dead_code, reason = "each program of tests needs a part of it")]

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use tempfile::TempDir;

/// The library of the package that this was compiled for: the C library of a `Db`, or that of the trees by name.
pub fn library() -> &'static str {
    match PACKAGE {
        "everleaf-capi" => "everleaf",
        _ => "everleaf_index",
    }
}

/// That package.
const PACKAGE: &str = env!("CARGO_PKG_NAME");

/// The libraries that a program links beside the static one.
pub const SYSTEM: [&str; 3] = ["-lpthread", "-ldl", "-lm"];

/// A file of this package.
pub fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Whether a program is installed.
pub fn is_there(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// The changes of a program that is killed, one by one.
pub struct Changes<M> {
    /// The last one that is there, and what all of them leave.
    pub made: u64,
    model: M,
    apply: fn(u64, &mut M),
    /// The most changes that are on their way at once.
    on_their_way: u64,
}

impl<M: Default + PartialEq> Changes<M> {
    pub fn new(apply: fn(u64, &mut M), on_their_way: u64) -> Self {
        Self { made: 0, model: M::default(), apply, on_their_way }
    }

    fn go_on(&mut self) {
        self.made += 1;
        (self.apply)(self.made, &mut self.model);
    }

    /// A kill has left `found`: all up to the change that was acknowledged, if one was, and then up to any one. Says how many
    /// were acknowledged since the last kill, and how many others are there, too.
    #[track_caller]
    pub fn follow(&mut self, acked: Option<u64>, found: &M, what: &str) -> (u64, u64) {
        let (least, before) = (acked.unwrap_or(self.made), self.made);
        while self.made < least {
            self.go_on();
        }
        while self.model != *found {
            assert!(
                self.made < least + self.on_their_way,
                "{what}: change {least} was acknowledged, and what is there is no state from there on"
            );
            self.go_on();
        }
        (least - before, self.made - least)
    }
}

/// The output of a command, which must succeed.
#[track_caller]
pub fn run(command: &mut Command) -> String {
    let done = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    let told = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{command:?}: {}\n{said}{told}", done.status);
    said
}

/// A folder in memory if there is one.
pub fn folder() -> TempDir {
    let shm = Path::new("/dev/shm");
    if shm.is_dir() { tempfile::tempdir_in(shm) } else { tempfile::tempdir() }.expect("a folder")
}

/// The functions that the header has.
pub fn exported() -> BTreeSet<String> {
    let header = source(&format!("include/{}.h", library()));
    let header = std::fs::read_to_string(header).expect("the header");
    let lines = header.lines().filter(|line| !line.starts_with([' ', '/', '#', '}']));
    let words = lines.filter_map(|line| line.split('(').next()?.rsplit([' ', '*']).next());
    words
        .filter(|word| word.starts_with("everleaf_") && !word.ends_with(';'))
        .map(str::to_owned)
        .collect()
}

/// The libraries, and a folder in which the shared one has its name.
pub struct Library {
    shared: PathBuf,
    archive: PathBuf,
    folder: TempDir,
}

impl Library {
    /// The libraries as this test was built, for release or not.
    pub fn built() -> &'static Self {
        static BUILT: OnceLock<Library> = OnceLock::new();
        BUILT.get_or_init(Self::build)
    }

    #[allow(unexpected_cfgs, reason = "one of the packages has the feature")]
    fn build() -> Self {
        let profile = if cfg!(debug_assertions) { "test" } else { "release" };
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("a target folder");
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["build", "-p", PACKAGE, "--lib", "--message-format=json"]);
        cargo.args(["--profile", profile, "--target-dir"]);
        // With the feature it is another library of the same name, which Cargo would not tell from the first one.
        match cfg!(feature = "test-panic") {
            true => cargo.arg(target.join("capi-test-panic")).args(["--features", "test-panic"]),
            false => cargo.arg(target),
        };
        let told = run(cargo.current_dir(source("")));
        let artifacts =
            told.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let manifest = source("Cargo.toml");
        let own = artifacts.filter(|told| told["manifest_path"].as_str() == manifest.to_str());
        let files = own.flat_map(|told| told["filenames"].as_array().cloned().unwrap_or_default());
        let files: Vec<PathBuf> = files.filter_map(|file| Some(file.as_str()?.into())).collect();
        let with = |end: &str| {
            files.iter().find(|file| file.extension() == Some(OsStr::new(end))).cloned()
        };
        let shared = with("so").expect("a shared library");
        let archive = with("a").expect("a static library");
        let folder = tempfile::tempdir().expect("a folder");
        let link = folder.path().join(format!("lib{}.so.0", library()));
        std::os::unix::fs::symlink(&shared, link).expect("a link");
        Self { shared, archive, folder }
    }

    /// The shared library.
    pub fn shared(&self) -> &Path {
        &self.shared
    }

    /// The static library.
    pub fn archive(&self) -> &Path {
        &self.archive
    }

    /// Where programs can be put.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Runs a program that finds the shared library by its name.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env("LD_LIBRARY_PATH", self.folder.path());
        command
    }
}
