//! Programs in C against the library as a program gets it: the shared one by its name, or the static one.
//!
//! Cargo builds no shared library for tests, so this asks it to, in the same folder. Without a C compiler the tests say so,
//! and pass.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use everleaf_testing::{seed_or, size, times};
use tempfile::TempDir;

/// What links with the static library beside it.
const SYSTEM: [&str; 3] = ["-lpthread", "-ldl", "-lm"];
const WARNINGS: [&str; 4] = ["-pedantic", "-Wall", "-Wextra", "-Werror"];

/// The libraries, and a folder in which the shared one has its name.
struct Built {
    shared: PathBuf,
    archive: PathBuf,
    folder: TempDir,
}

fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// What a command prints; it must succeed.
#[track_caller]
fn run(command: &mut Command) -> String {
    let done = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    let told = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{command:?}: {}\n{said}{told}", done.status);
    said
}

/// The libraries; none without a C compiler, which it says.
fn built() -> Option<&'static Built> {
    static BUILT: OnceLock<Option<Built>> = OnceLock::new();
    BUILT.get_or_init(build).as_ref()
}

fn build() -> Option<Built> {
    if Command::new("cc").arg("--version").output().is_err() {
        eprintln!("skipped: there is no C compiler called cc");
        return None;
    }
    let profile = if cfg!(debug_assertions) { "test" } else { "release" };
    let target =
        Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it is in the target folder");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args([
        "build",
        "-p",
        "everleaf-capi",
        "--lib",
        "--message-format=json",
        "--profile",
        profile,
    ]);
    cargo.arg("--target-dir");
    // With the feature it is another library of the same name, which Cargo would not tell from the first one.
    match cfg!(feature = "test-panic") {
        true => cargo.arg(target.join("capi-test-panic")).args(["--features", "test-panic"]),
        false => cargo.arg(target),
    };
    let told = run(cargo.current_dir(source("")));
    let artifacts =
        told.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let own = artifacts
        .filter(|told| told["manifest_path"] == source("Cargo.toml").to_str().expect("UTF-8"));
    let files = own.flat_map(|told| told["filenames"].as_array().cloned().unwrap_or_default());
    let files: Vec<PathBuf> = files.filter_map(|file| Some(file.as_str()?.into())).collect();
    let with =
        |end: &str| files.iter().find(|file| file.extension() == Some(OsStr::new(end))).cloned();
    let (shared, archive) =
        (with("so").expect("a shared library"), with("a").expect("a static library"));
    let folder = tempfile::tempdir().expect("a folder");
    std::os::unix::fs::symlink(&shared, folder.path().join("libeverleaf.so.0")).expect("a link");
    Some(Built { shared, archive, folder })
}

/// A compiler with the header and warnings that are errors.
fn compiler(language: &str, standard: &str) -> Command {
    let mut compiler = Command::new("cc");
    compiler.args(["-x", language]).arg(format!("-std={standard}")).args(WARNINGS).arg("-I");
    compiler.arg(source("include"));
    compiler
}

impl Built {
    /// Compiles a program against the shared library.
    fn compile(&self, program: &str) -> PathBuf {
        let path = self.folder.path().join(program);
        let mut compiler = compiler("c", "c99");
        compiler.args(["-O1", "-g", "-o"]).arg(&path).arg(source(&format!("tests/{program}.c")));
        compiler.args(["-x", "none"]).arg(&self.shared).args(SYSTEM);
        run(&mut compiler);
        path
    }

    /// A program that finds the shared library by its name.
    fn command(&self, path: &Path) -> Command {
        let mut command = Command::new(path);
        command.env("LD_LIBRARY_PATH", self.folder.path());
        command
    }

    /// Compiles a program and runs it in a folder of its own.
    #[track_caller]
    fn run(&self, program: &str, args: &[&str]) -> String {
        let folder = directory();
        let said = run(self.command(&self.compile(program)).arg(folder.path()).args(args));
        print!("{said}");
        said
    }
}

/// A folder in memory if there is one.
fn directory() -> TempDir {
    let shm = Path::new("/dev/shm");
    if shm.is_dir() { tempfile::tempdir_in(shm) } else { tempfile::tempdir() }.expect("a folder")
}

/// The functions that the header has.
fn exported() -> BTreeSet<String> {
    let header = std::fs::read_to_string(source("include/everleaf.h")).expect("the header");
    let lines = header.lines().filter(|line| !line.starts_with([' ', '/', '#', '}']));
    let words = lines.filter_map(|line| line.split('(').next()?.rsplit([' ', '*']).next());
    words
        .filter(|word| word.starts_with("everleaf_") && !word.ends_with(';'))
        .map(str::to_owned)
        .collect()
}

/// The symbols that `nm` tells of.
fn symbols(args: &[&str], file: &Path) -> BTreeSet<String> {
    let told = run(Command::new("nm").args(args).arg(file));
    told.lines().filter_map(|line| line.split_whitespace().last()).map(str::to_owned).collect()
}

#[test]
fn random_operations_answer_as_an_array_does() {
    let Some(built) = built() else { return };
    let (count, seed) = (times(20_000).to_string(), seed_or(7).to_string());
    assert_eq!(built.run("operations", &[&count, &seed]), format!("{count} operations\n"));
}

#[test]
fn the_static_library_does_the_same_and_its_map_hides_the_rest() {
    let Some(built) = built() else { return };
    let (path, folder) = (built.folder.path().join("operations_static"), directory());
    let mut compiler = compiler("c", "c99");
    compiler.args(["-O1", "-o"]).arg(&path).arg(source("tests/operations.c"));
    run(compiler.args(["-x", "none"]).arg(&built.archive).args(SYSTEM));
    run(Command::new(&path).arg(folder.path()).args(["2000", "8"]));
    let shared = built.folder.path().join("libother.so");
    let mut linker = Command::new("cc");
    linker.args(["-shared", "-o"]).arg(&shared).arg("-Wl,--whole-archive").arg(&built.archive);
    linker.arg("-Wl,--no-whole-archive").args(SYSTEM).arg("-lgcc_s");
    run(linker.arg(format!("-Wl,--version-script={}", source("everleaf.map").display())));
    assert_eq!(symbols(&["-D", "--defined-only"], &shared), exported());
}

#[test]
fn the_library_exports_what_the_header_has_and_a_test_calls_all_of_it() {
    let Some(built) = built() else { return };
    let mut shared = symbols(&["-D", "--defined-only"], &built.shared);
    assert_eq!(shared.remove("everleaf_test_panic_in"), cfg!(feature = "test-panic"));
    assert_eq!(shared, exported());
    assert!(shared.len() > 100);
    let called = symbols(&["-u"], &built.compile("operations"));
    assert_eq!(
        called.into_iter().filter(|name| name.starts_with("everleaf_")).collect::<BTreeSet<_>>(),
        exported()
    );
}

#[test]
fn the_library_has_a_name_of_its_version_and_is_never_unloaded() {
    let Some(built) = built() else { return };
    let told = run(Command::new("readelf").arg("-d").arg(&built.shared));
    assert!(told.contains("Library soname: [libeverleaf.so.0]"), "{told}");
    assert!(told.contains("NODELETE"), "{told}");
    let library = built.folder.path().join("libeverleaf.so.0");
    built.run("unload", &[library.to_str().expect("UTF-8")]);
}

#[test]
fn the_header_is_valid_c99_and_cpp11() {
    if built().is_none() {
        return;
    }
    let header = source("include/everleaf.h");
    run(compiler("c", "c99").arg("-fsyntax-only").arg(&header));
    match Command::new("c++").arg("--version").output() {
        Ok(_) => drop(run(compiler("c++", "c++11").arg("-fsyntax-only").arg(&header))),
        Err(_) => eprintln!("skipped: there is no C++ compiler called c++"),
    }
}

#[test]
fn the_code_of_the_guide_compiles_and_the_first_program_runs() {
    let Some(built) = built() else { return };
    let guide = std::fs::read_to_string(source("../../docs/guide/c.md")).expect("the guide");
    let blocks = guide.split("```c\n").skip(1).filter_map(|rest| rest.split("```").next());
    let mut count = 0;
    for (at, block) in blocks.enumerate() {
        let file = built.folder.path().join(format!("guide{at}.c"));
        std::fs::write(&file, block).expect("written");
        let program = built.folder.path().join(format!("guide{at}"));
        let mut compiler = compiler("c", "c99");
        match block.contains("int main(") {
            true => {
                compiler.arg("-o").arg(&program).arg(&file).args(["-x", "none"]).arg(&built.shared)
            }
            false => compiler.arg("-fsyntax-only").arg(&file),
        };
        run(&mut compiler);
        if block.contains("int main(") {
            let folder = directory();
            assert_eq!(run(built.command(&program).current_dir(folder.path())), "2 chairs\n");
        }
        count += 1;
    }
    assert!(count >= 3, "{count} blocks were found");
}

#[test]
fn misuse_is_told_and_does_nothing() {
    let Some(built) = built() else { return };
    built.run("misuse", &[]);
}

#[test]
fn handles_may_be_freed_in_any_order_also_after_a_close_and_in_a_fork() {
    let Some(built) = built() else { return };
    built.run("lifetimes", &[]);
}

#[test]
fn threads_share_a_pool_and_see_its_close() {
    let Some(built) = built() else { return };
    built.run("threads", &[]);
}

#[test]
fn many_pools() {
    let Some(built) = built() else { return };
    let limits = std::fs::read_to_string("/proc/self/limits").expect("Linux");
    let files = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let most = files.and_then(|line| line.split_whitespace().next()?.parse().ok());
    let pools = 2_000.min(most.unwrap_or(u64::MAX).saturating_sub(200));
    if pools < 2_000 {
        eprintln!("ulimit -n allows for {pools} pools only");
    }
    built.run("pools", &[&pools.to_string()]);
}

#[test]
fn a_value_comes_in_pieces() {
    let Some(built) = built() else { return };
    let most = u64::from(u32::MAX);
    let bytes = size([50_000_001, 50_000_001, most]).to_string();
    let folder = tempfile::tempdir().expect("a folder on a disk");
    run(built.command(&built.compile("large")).arg(folder.path()).arg(bytes));
}

#[cfg(feature = "test-panic")]
#[test]
fn a_defect_of_the_library_ends_no_program() {
    let Some(built) = built() else { return };
    built.run("panic", &[]);
}
