//! The tree that `cargo xtask install` makes is all that programs need: the examples are built from it alone, by pkg-config,
//! by CMake and by Go, after the tree was moved to another place.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// How many bytes the shared library may have: what a change adds by accident is seen.
const BYTES_MAX: u64 = 3_700_000;

/// Examples, and what they print.
const C: [(&str, &str); 3] = [
    ("queue", "2000 jobs taken, 0 left\n"),
    ("snapshot", "20 reports, all of 100000\n"),
    ("transfer", "4000 transfers, 8000 in all accounts\n"),
];
const CPP: (&str, &str) =
    ("index", "00000001: tea is in the tin\n00000003: buy tea\n00000001: tea is in the tin\n");

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository").to_owned()
}

/// Whether a tool is installed; says so if not.
fn has(tool: &str, argument: &str) -> bool {
    let mut command = Command::new(tool);
    let is_there =
        command.arg(argument).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !is_there {
        eprintln!("skipped: there is no {tool}");
    }
    is_there
}

/// The output of a command, which must succeed.
#[track_caller]
fn run(command: &mut Command) -> String {
    let done = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    let told = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{command:?}: {}\n{said}{told}", done.status);
    said
}

/// Each file below a folder that is no link.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        match path.symlink_metadata().expect("it is there").file_type() {
            is if is.is_dir() => files.extend(self::files(&path)),
            is if is.is_symlink() => {}
            _ => files.push(path),
        }
    }
    files
}

/// An installed tree that was moved, and the examples beside it.
struct Installed {
    folder: TempDir,
}

impl Installed {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        // The second time, everything is there.
        for _ in 0..2 {
            let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
            command.args(["install", "--prefix", "/opt/everleaf", "--destdir"]);
            let said = run(command.arg(folder.path().join("destdir")));
            assert!(said.contains("bytes, stripped"), "{said}");
        }
        let from = folder.path().join("destdir/opt/everleaf");
        fs::rename(from, folder.path().join("prefix")).expect("it can be moved");
        for example in files(&repository().join("examples")) {
            let below = example.strip_prefix(repository()).expect("a file of it");
            let to = folder.path().join(below);
            fs::create_dir_all(to.parent().expect("a folder")).expect("made");
            fs::copy(&example, to).expect("copied");
        }
        Self { folder }
    }

    fn path(&self, below: &str) -> PathBuf {
        self.folder.path().join(below)
    }

    /// Runs an example with a new pool.
    #[track_caller]
    fn runs(&self, program: &Path, prints: &str) {
        let pool = tempfile::tempdir().expect("a folder");
        let mut command = Command::new(program);
        command.arg(pool.path().join("pool")).env("LD_LIBRARY_PATH", self.path("prefix/lib"));
        assert_eq!(run(&mut command), prints, "{}", program.display());
    }
}

fn what_was_installed_is_whole_and_names_no_machine(installed: &Installed) {
    let lib = installed.path("prefix/lib");
    let links = ["libeverleaf.so", "libeverleaf.so.0"].map(|name| fs::read_link(lib.join(name)));
    let [newest, soname] = links.map(|link| link.expect("a link"));
    assert_eq!(newest, Path::new("libeverleaf.so.0"));
    assert_eq!(soname, Path::new(concat!("libeverleaf.so.", env!("CARGO_PKG_VERSION"))));
    let bytes = fs::metadata(lib.join("libeverleaf.so")).expect("a library").len();
    assert!(bytes <= BYTES_MAX, "libeverleaf.so has {bytes} bytes");
    if has("readelf", "--version") {
        let told = run(Command::new("readelf").arg("-dS").arg(lib.join("libeverleaf.so")));
        assert!(told.contains("soname: [libeverleaf.so.0]"), "{told}");
        assert!(!told.contains(".debug_"), "{told}");
    }
    let version = run(Command::new(installed.path("prefix/bin/everleaf")).arg("--version"));
    assert!(version.contains(env!("CARGO_PKG_VERSION")), "{version}");
    for file in ["share/man/man1/everleaf-put.1", "share/zsh/site-functions/_everleaf"] {
        let bytes = fs::metadata(installed.path("prefix").join(file)).expect(file).len();
        assert!(bytes > 500, "{file}");
    }
    let home = std::env::var("CARGO_HOME")
        .unwrap_or_else(|_| format!("{}/.cargo", std::env::var("HOME").expect("a home")));
    let places =
        [repository().display().to_string(), home, installed.path("").display().to_string()];
    let all = files(&installed.path("prefix"));
    assert!(all.len() > 30, "{all:?}");
    for file in all {
        let bytes = fs::read(&file).expect("a file");
        for place in &places {
            let is_named = bytes.windows(place.len()).any(|window| window == place.as_bytes());
            assert!(!is_named, "{} has {place}", file.display());
        }
        let mode = fs::metadata(&file).expect("a file").permissions().mode() & 0o777;
        assert!(mode == 0o644 || mode == 0o755, "{}: {mode:o}", file.display());
    }
}

fn pkg_config_says_how_to_compile(installed: &Installed) {
    if !has("pkg-config", "--version") || !has("cc", "--version") {
        return;
    }
    let flags = |args: &[&str]| {
        let mut command = Command::new("pkg-config");
        command.env("PKG_CONFIG_PATH", installed.path("prefix/lib/pkgconfig"));
        run(command.args(args).arg("everleaf"))
    };
    assert_eq!(flags(&["--modversion"]).trim(), env!("CARGO_PKG_VERSION"));
    assert!(flags(&["--static", "--libs"]).contains("-lpthread"));
    let flags = flags(&["--cflags", "--libs"]);
    let compile = |compiler: &str, standard: &str, source: &str, (name, prints): (&str, &str)| {
        let program = installed.path(&format!("by_pkg_config_{name}"));
        let mut command = Command::new(compiler);
        command.args([standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-o"]).arg(&program);
        command.arg(installed.path(source)).args(flags.split_whitespace());
        run(command.arg("-lpthread"));
        installed.runs(&program, prints);
    };
    for example in C {
        compile("cc", "-std=c99", &format!("examples/c/{}.c", example.0), example);
    }
    if has("c++", "--version") {
        compile("c++", "-std=c++17", &format!("examples/cpp/{}.cpp", CPP.0), CPP);
    }
}

fn cmake_finds_the_package(installed: &Installed) {
    if !has("cmake", "--version") || !has("cc", "--version") {
        return;
    }
    let build = |examples: &str| {
        let to = installed.path(&format!("by_cmake_{examples}"));
        let mut command = Command::new("cmake");
        command.arg("-S").arg(installed.path(&format!("examples/{examples}"))).arg("-B").arg(&to);
        let mut prefix = std::ffi::OsString::from("-DCMAKE_PREFIX_PATH=");
        prefix.push(installed.path("prefix"));
        run(command.arg(prefix));
        run(Command::new("cmake").arg("--build").arg(&to));
        to
    };
    let programs = build("c");
    for (name, prints) in C.into_iter().chain([("transfer_static", C[2].1)]) {
        installed.runs(&programs.join(name), prints);
    }
    if has("c++", "--version") {
        installed.runs(&build("cpp").join(CPP.0), CPP.1);
    }
}

fn go_calls_the_static_library(installed: &Installed) {
    if !has("go", "version") || !has("cc", "--version") {
        return;
    }
    let program = installed.path("by_go");
    let prefix = installed.path("prefix").display().to_string();
    let mut command = Command::new("go");
    command.args(["build", "-o"]).arg(&program).current_dir(installed.path("examples/go"));
    command.env("CGO_CFLAGS", format!("-I{prefix}/include"));
    command.env("CGO_LDFLAGS", format!("-L{prefix}/lib -l:libeverleaf.a -lm"));
    command.env("CGO_ENABLED", "1").env("GOFLAGS", "-mod=mod").env("GOTOOLCHAIN", "local");
    run(command.env("GOCACHE", installed.path("go_cache")));
    let text = installed.path("text");
    fs::write(&text, "a rose is a rose\n").expect("written");
    let pool = installed.path("pool_of_go");
    for prints in ["a 2\nis 1\nrose 2\n", "a 4\nis 2\nrose 4\n"] {
        let mut command = Command::new(&program);
        let said = run(command.arg(&pool).stdin(fs::File::open(&text).expect("a file")));
        assert_eq!(said, prints);
    }
}

/// One test, for the install takes longest.
#[test]
fn examples_are_built_from_the_installed_tree_alone() {
    let installed = Installed::new();
    what_was_installed_is_whole_and_names_no_machine(&installed);
    pkg_config_says_how_to_compile(&installed);
    cmake_finds_the_package(&installed);
    go_calls_the_static_library(&installed);
}
