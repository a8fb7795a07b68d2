//! `header [--check]`: the headers of the C libraries, made of their sources. `capi TASK`, `index TASK`: what only a library
//! that was built can tell.
//!
//! The source is read file by file, in the order in which `lib.rs` names its modules: nothing is compiled for it, and the
//! header has the order of the source.
//!
//! The tasks run the programs of the library's tests, which `cargo test -p` with its package runs too, under tools that see
//! more than they do. Each ends with 77 ("skipped") where its tool is missing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Subcommand;

use crate::steps::output;

type Failure = Box<dyn std::error::Error>;

/// A library with functions of C.
#[derive(Debug, Clone, Copy)]
pub struct Library {
    /// The task that is for it.
    task: &'static str,
    package: &'static str,
    /// Where the package is.
    folder: &'static str,
    /// Its name behind `lib`, and that of its header.
    name: &'static str,
    /// How the names of its functions begin.
    prefix: &'static str,
    /// The program of random operations, and for valgrind what it is given.
    operations: &'static [&'static str],
    /// The programs that run with checks of addresses.
    programs: &'static [(&'static str, &'static [&'static str])],
    /// Where else its programs find headers.
    also: &'static [&'static str],
}

/// That of a `Db`. Not `pools`, which measures memory: with the checks there is more of it.
pub const CAPI: Library = Library {
    task: "capi",
    package: "everleaf-capi",
    folder: "crates/capi",
    name: "everleaf",
    prefix: "everleaf_",
    operations: &["20000", "7", "alone"],
    programs: &[
        ("operations.c", &["20000", "7", "alone"]),
        ("misuse.c", &[]),
        ("lifetimes.c", &[]),
        ("threads.c", &[]),
        ("large.c", &["20000001"]),
        ("cpp.cpp", &["4000", "7"]),
    ],
    also: &[],
};

/// That of the trees by name.
pub const INDEX: Library = Library {
    task: "index",
    package: "everleaf-index",
    folder: "research/index",
    name: "everleaf_index",
    prefix: "everleaf_index_",
    operations: &["300", "7", "alone"],
    programs: &[
        ("operations.c", &["5000", "7", "alone"]),
        ("misuse.c", &[]),
        ("threads.c", &["5000"]),
        ("pibench.cpp", &["20000", "7"]),
        ("beside.c", &[]),
    ],
    also: &["-Iresearch/index/pibench"],
};

impl Library {
    /// The header that is checked in.
    fn header(&self) -> String {
        format!("{}/include/{}.h", self.folder, self.name)
    }

    fn include(&self) -> String {
        format!("-I{}/include", self.folder)
    }
}

/// The libraries of the system that link with the static library.
const SYSTEM: [&str; 4] = ["-lpthread", "-ldl", "-lm", "-lgcc_s"];
/// The standard that programs in C follow.
const C: &str = "-std=c99";
const WARNINGS: [&str; 4] = ["-pedantic", "-Wall", "-Wextra", "-Werror"];
const TARGET: &str = "x86_64-unknown-linux-gnu";
/// A script ends so if the machine lacks what it needs.
const SKIPPED: u8 = 77;

/// A task of a C library.
#[derive(Debug, Clone, Copy, Subcommand)]
pub enum Task {
    /// Symbols of the shared library, and the header against the source and two compilers
    Check,
    /// Random operations under memcheck: no error, and no byte lost
    Valgrind,
    /// The programs of the tests under AddressSanitizer and UndefinedBehaviorSanitizer
    Asan,
    /// Bytes as sequences of calls of `capi`, under AddressSanitizer; EVERLEAF_SEED says where they start
    Fuzz {
        /// For how long
        #[arg(default_value_t = 60)]
        seconds: u64,
    },
    /// The program with threads under ThreadSanitizer; needs nightly with rust-src
    Tsan,
}

/// Runs one of them.
pub fn run(root: &Path, of: &Library, task: Task) -> ExitCode {
    let threads = of.programs.iter().filter(|(source, _)| *source == "threads.c");
    let threads: Vec<_> = threads.copied().collect();
    let done = match task {
        Task::Check => check(root, of),
        Task::Valgrind => valgrind(root, of),
        Task::Asan => sanitize(root, of, &ASAN, "asan", of.programs),
        Task::Fuzz { seconds } => fuzz(root, of, seconds),
        Task::Tsan => sanitize(root, of, &TSAN, "tsan", &threads),
    };
    match done {
        Ok(None) => ExitCode::SUCCESS,
        Ok(Some(missing)) => {
            println!("skipped: there is no {missing}");
            ExitCode::from(SKIPPED)
        }
        Err(error) => {
            eprintln!("{}: {error}", of.task);
            ExitCode::FAILURE
        }
    }
}

/// The missing tool or library, or nothing.
type Outcome = Result<Option<&'static str>, Failure>;

fn has(tool: &str) -> bool {
    Command::new(tool).arg("--version").output().is_ok()
}

/// Runs a command at the top of the repository, which prints what it likes.
fn do_it(root: &Path, command: &mut Command) -> Result<(), Failure> {
    let status = command.current_dir(root).status().map_err(|e| format!("{command:?}: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?}: {status}").into()) }
}

fn target(root: &Path) -> PathBuf {
    root.join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Builds the library as it is given out, and says where it is.
fn build(root: &Path, of: &Library) -> Result<PathBuf, Failure> {
    do_it(root, cargo().args(["build", "--quiet", "--release", "-p", of.package, "--lib"]))?;
    Ok(target(root).join("release"))
}

fn check(root: &Path, of: &Library) -> Outcome {
    let Some(compilers) = ["cc", "c++", "nm"]
        .into_iter()
        .all(has)
        .then_some([("cc", "c", "c99"), ("c++", "c++", "c++11")])
    else {
        return Ok(Some("cc, c++ or nm"));
    };
    let made = make(root, of)?;
    compare(root, of, &made)?;
    for (compiler, language, standard) in compilers {
        let mut command = Command::new(compiler);
        command.args(["-fsyntax-only", "-x", language]).arg(format!("-std={standard}"));
        do_it(root, command.args(WARNINGS).arg(of.header()))?;
        println!("{}: valid {standard}, no warnings", of.task);
    }
    let library = build(root, of)?.join(format!("lib{}.so", of.name));
    let args = ["-D", "--defined-only", library.to_str().ok_or("a path that is not UTF-8")?];
    let told = output(root, "nm", &args)?;
    let symbols: BTreeSet<_> =
        told.lines().filter_map(|line| line.split(' ').next_back()).collect();
    let (own, others): (BTreeSet<_>, BTreeSet<_>) =
        symbols.into_iter().partition(|name| name.starts_with(of.prefix));
    println!("{}: {} symbols {}*, {} others", of.task, own.len(), of.prefix, others.len());
    if !others.is_empty() {
        return Err(format!("the library exports {others:?}").into());
    }
    if own != functions(&made) {
        return Err("the library does not export what the header has".into());
    }
    Ok(None)
}

/// The functions of a header.
fn functions(header: &str) -> BTreeSet<&str> {
    let lines = header.lines().filter(|line| !line.starts_with([' ', '/', '#', '}']));
    let words = lines.filter_map(|line| line.split_once('(')?.0.rsplit([' ', '*']).next());
    words.filter(|word| word.starts_with("everleaf_")).collect()
}

/// Compiles a program of the tests; its folder, too, is that of the library.
fn compile(root: &Path, of: &Library, folder: &Path, program: &str) -> Result<PathBuf, Failure> {
    let path = folder.join(format!("{}_{program}", of.task));
    let mut compiler = Command::new("cc");
    compiler.args([C, "-g", "-O1"]).arg(of.include()).arg("-o").arg(&path);
    compiler.arg(format!("{}/tests/{program}.c", of.folder));
    compiler.arg(folder.join(format!("lib{}.a", of.name)));
    do_it(root, compiler.args(SYSTEM))?;
    Ok(path)
}

/// An empty folder for the pools of a program.
fn emptied(folder: &Path) -> Result<PathBuf, Failure> {
    let pools = folder.join("capi-pools");
    match std::fs::remove_dir_all(&pools) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    std::fs::create_dir_all(&pools)?;
    Ok(pools)
}

/// The program ends when the last thread of the library has: a stack of one that is still there would count as lost.
fn valgrind(root: &Path, of: &Library) -> Outcome {
    if !["valgrind", "cc"].into_iter().all(has) {
        return Ok(Some("valgrind or cc"));
    }
    let folder = build(root, of)?;
    let program = compile(root, of, &folder, "operations")?;
    let mut command = Command::new("valgrind");
    command.args(["--leak-check=full", "--errors-for-leak-kinds=definite,indirect,possible"]);
    command.arg("--error-exitcode=1").arg(program).arg(emptied(&folder)?);
    do_it(root, command.args(of.operations))?;
    Ok(None)
}

/// A tool that compilers build into programs: those of C and C++ by gcc, the library by rustc.
struct Sanitizer {
    /// As rustc calls it, and its run-time library.
    names: [&'static str; 2],
    compiled: &'static [&'static str],
    linked: &'static [&'static str],
    /// It needs a standard library that is built with it, too.
    builds_std: bool,
}

const ASAN: Sanitizer = Sanitizer {
    names: ["address", "asan"],
    compiled: &["-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
    linked: &["-lubsan"],
    builds_std: false,
};

const TSAN: Sanitizer = Sanitizer {
    names: ["thread", "tsan"],
    compiled: &["-fsanitize=thread"],
    linked: &[],
    builds_std: true,
};

/// The static library with the checks of a sanitizer, and what links it: its programs have the run-time library of rustc
/// for their own checks, too.
struct Checked<'l> {
    of: &'l Library,
    with: &'static Sanitizer,
    folder: PathBuf,
    runtime: PathBuf,
}

impl<'l> Checked<'l> {
    /// Builds it with further flags, in a folder of its own; or says what is missing for it.
    fn build(
        root: &Path,
        of: &'l Library,
        with: &'static Sanitizer,
        into: &str,
        flags: &str,
    ) -> Result<Result<Self, &'static str>, Failure> {
        if !["cc", "c++"].into_iter().all(has) {
            return Ok(Err("cc or c++"));
        }
        let toolchain: &[&str] = if with.builds_std { &["+nightly"] } else { &[] };
        let sysroot = output(root, "rustc", &[toolchain, &["--print", "sysroot"]].concat());
        let Ok(sysroot) = sysroot else { return Ok(Err("nightly compiler")) };
        let rustlib = Path::new(sysroot.trim()).join("lib/rustlib");
        if with.builds_std && !rustlib.join("src/rust/library").is_dir() {
            return Ok(Err("source of the standard library (rust-src)"));
        }
        let end = format!("_rt.{}.a", with.names[1]);
        let files = std::fs::read_dir(rustlib.join(TARGET).join("lib")).into_iter().flatten();
        let mut files = files.flatten().map(|file| file.path());
        let Some(runtime) = files.find(|file| file.to_string_lossy().ends_with(&end)) else {
            return Ok(Err("run-time library of the sanitizer"));
        };
        let into = target(root).join(into);
        // Not what runs this: the name of a toolchain is for the one that chooses among them.
        let mut build = Command::new("cargo");
        build.args(toolchain).args(["build", "--quiet", "-p", of.package, "--lib"]);
        build.args(if with.builds_std { &["-Zbuild-std"][..] } else { &[] });
        build.args(["--target", TARGET, "--target-dir"]).arg(&into);
        if !with.builds_std {
            build.env("RUSTC_BOOTSTRAP", "1");
        }
        build.env("RUSTFLAGS", format!("-Zsanitizer={} {flags}", with.names[0]));
        do_it(root, build.env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only"))?;
        Ok(Ok(Self { of, with, folder: into.join(TARGET).join("debug"), runtime }))
    }

    /// Compiles a program of sources that have the checks of gcc as well.
    fn program(&self, root: &Path, sources: &[&str]) -> Result<PathBuf, Failure> {
        let of = self.of;
        let path = self.folder.join(format!("{}_{}", of.task, sources[0]));
        let (mut linker, mut objects) = (Command::new("c++"), Vec::new());
        for source in sources {
            let (compiler, standard) = match source.ends_with(".cpp") {
                true => ("c++", "-std=c++17"),
                false => ("cc", C),
            };
            let object = self.folder.join(format!("{}_{source}.o", of.task));
            let mut command = Command::new(compiler);
            command.args([standard, "-g", "-O1", "-c"]).args(self.with.compiled);
            command.arg(of.include()).args(of.also).arg("-o").arg(&object);
            command.arg(format!("{}/tests/{source}", of.folder));
            do_it(root, &mut command)?;
            objects.push(object);
        }
        // The library that gcc would link for its own checks must stay out: rustc's does both.
        linker.arg("-o").arg(&path).args(objects);
        linker.arg(self.folder.join(format!("lib{}.a", of.name)));
        linker.arg("-Wl,--whole-archive").arg(&self.runtime).arg("-Wl,--no-whole-archive");
        do_it(root, linker.arg("-rdynamic").args(self.with.linked).args(SYSTEM))?;
        Ok(path)
    }
}

/// Runs programs of the tests with the checks of a sanitizer.
fn sanitize(
    root: &Path,
    of: &Library,
    with: &'static Sanitizer,
    into: &str,
    programs: &[(&str, &[&str])],
) -> Outcome {
    let checked = match Checked::build(root, of, with, into, "")? {
        Ok(checked) => checked,
        Err(missing) => return Ok(Some(missing)),
    };
    for (source, args) in programs {
        let program = checked.program(root, &[source])?;
        println!("== {source} {}", args.join(" "));
        do_it(root, Command::new(program).arg(emptied(&checked.folder)?).args(*args))?;
    }
    println!("{}: {} programs, no report", of.task, programs.len());
    Ok(None)
}

/// Sequences of calls for so many seconds, made of those that reached new places.
fn fuzz(root: &Path, of: &Library, seconds: u64) -> Outcome {
    if !root.join(of.folder).join("tests/fuzz.c").exists() {
        return Err(format!("{} has no program for this", of.package).into());
    }
    let counted = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=3 \
                   -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Ccodegen-units=1";
    let checked = match Checked::build(root, of, &ASAN, "fuzz-capi", counted)? {
        Ok(checked) => checked,
        Err(missing) => return Ok(Some(missing)),
    };
    let program = checked.program(root, &["fuzz.c", "fuzz_driver.c"])?;
    let kept = checked.folder.join("input");
    let seed = std::env::var("EVERLEAF_SEED").unwrap_or_else(|_| "1".into());
    let mut command = Command::new(program);
    command.arg(format!("-{seconds}")).arg(seed).arg(&kept);
    // At the end a worker of the library may be ending, whose memory would count as lost; `valgrind` waits for them.
    command.env("ASAN_OPTIONS", "detect_leaks=0");
    do_it(root, &mut command)
        .map_err(|error| format!("{error}; the input is in {}", kept.display()))?;
    Ok(None)
}

/// Writes the headers, or compares them with what would be written.
pub fn header(root: &Path, is_check: bool) -> ExitCode {
    let one = |of: &Library| {
        make(root, of).and_then(|made| match is_check {
            true => compare(root, of, &made),
            false => Ok(std::fs::write(root.join(of.header()), made)?),
        })
    };
    match [CAPI, INDEX].iter().try_for_each(one) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("header: {error}");
            ExitCode::FAILURE
        }
    }
}

fn compare(root: &Path, of: &Library, made: &str) -> Result<(), Failure> {
    let header = of.header();
    let kept = std::fs::read_to_string(root.join(&header))?;
    let mut lines = made.lines().zip(kept.lines()).enumerate();
    let differs = lines.find(|(_, (made, kept))| made != kept);
    match differs {
        Some((at, (made, kept))) => Err(format!(
            "{header}:{} is `{kept}`, and the source says `{made}`: run cargo xtask header",
            at + 1
        )
        .into()),
        None if made != kept => Err(format!(
            "{header} has not as many lines as the source says: run cargo xtask header"
        )
        .into()),
        None => {
            println!("header: {header} is what the source says");
            Ok(())
        }
    }
}

/// The header that the source says.
fn make(root: &Path, of: &Library) -> Result<String, Failure> {
    let folder = root.join(of.folder);
    let config = cbindgen::Config::from_file(folder.join("cbindgen.toml"))?;
    let lib = std::fs::read_to_string(folder.join("src/lib.rs"))?;
    let mut builder = cbindgen::Builder::new().with_config(config);
    for module in modules(&lib) {
        builder = builder.with_src(folder.join(format!("src/{module}.rs")));
    }
    let mut bytes = Vec::new();
    builder.generate()?.write(&mut bytes);
    Ok(String::from_utf8(bytes)?)
}

/// The modules of a crate but its tests.
fn modules(lib: &str) -> Vec<&str> {
    let names = lib.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
    names.filter(|name| *name != "tests").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_no_part_of_the_header() {
        assert_eq!(
            modules("//! mod x;\nmod call;\npub use y;\nmod tree;\nmod tests;\n"),
            ["call", "tree"]
        );
    }

    #[test]
    fn functions_are_told_from_types_and_comments() {
        let header = "/* int everleaf_no(void); */\n#define EVERLEAF_OK 0\ntypedef struct everleaf_db everleaf_db;\n\
                      int everleaf_put(const struct everleaf_tree *tree,\n                 size_t n);\n\
                      const char *everleaf_version(void);\n";
        assert_eq!(
            functions(header).into_iter().collect::<Vec<_>>(),
            ["everleaf_put", "everleaf_version"]
        );
    }

    #[test]
    fn the_header_is_what_the_source_says() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository");
        for (of, from, to) in [
            (&CAPI, "int everleaf_put(", "int everleaf_set("),
            (&INDEX, "int everleaf_index_put(", "int everleaf_index_set("),
        ] {
            let made = make(root, of).expect("a header");
            compare(root, of, &made).expect("the same");
            compare(root, of, &made.replacen(from, to, 1)).expect_err("another one");
            compare(root, of, &format!("{made}\n")).expect_err("a longer one");
        }
    }
}
