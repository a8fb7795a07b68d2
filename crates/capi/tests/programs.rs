//! Programs in C against the library as a program gets it: the shared one by its name, or the static one.
//!
//! Cargo builds no shared library for tests, so this asks it to, in the same folder. Without a C compiler the tests say so,
//! and pass.

mod tools;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use everleaf_testing::{seed_or, size, times};
use tools::{Library, SYSTEM, exported, folder, is_there, run, source};

const WARNINGS: [&str; 4] = ["-pedantic", "-Wall", "-Wextra", "-Werror"];

/// The libraries; none without a C compiler, which it says.
fn built() -> Option<&'static Library> {
    if !is_there("cc") {
        eprintln!("skipped: there is no C compiler called cc");
        return None;
    }
    Some(Library::built())
}

/// A compiler with the header and warnings that are errors.
fn compiler(language: &str, standard: &str) -> Command {
    let mut compiler = Command::new("cc");
    compiler.args(["-x", language]).arg(format!("-std={standard}")).args(WARNINGS).arg("-I");
    compiler.arg(source("include"));
    compiler
}

/// Compiles a program against the shared library.
fn compile(built: &Library, program: &str) -> PathBuf {
    let path = built.folder().join(program);
    let mut compiler = compiler("c", "c99");
    compiler.args(["-O1", "-g", "-o"]).arg(&path).arg(source(&format!("tests/{program}.c")));
    compiler.args(["-x", "none"]).arg(built.shared()).args(SYSTEM);
    run(&mut compiler);
    path
}

/// Compiles a program and runs it in a folder of its own.
#[track_caller]
fn runs(built: &Library, program: &str, args: &[&str]) -> String {
    let folder = folder();
    let said = run(built.command(&compile(built, program)).arg(folder.path()).args(args));
    print!("{said}");
    said
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
    assert_eq!(runs(built, "operations", &[&count, &seed]), format!("{count} operations\n"));
}

#[test]
fn the_static_library_does_the_same_and_its_map_hides_the_rest() {
    let Some(built) = built() else { return };
    let (path, folder) = (built.folder().join("operations_static"), folder());
    let mut compiler = compiler("c", "c99");
    compiler.args(["-O1", "-o"]).arg(&path).arg(source("tests/operations.c"));
    run(compiler.args(["-x", "none"]).arg(built.archive()).args(SYSTEM));
    run(Command::new(&path).arg(folder.path()).args(["2000", "8"]));
    let shared = built.folder().join("libother.so");
    let mut linker = Command::new("cc");
    linker.args(["-shared", "-o"]).arg(&shared).arg("-Wl,--whole-archive").arg(built.archive());
    linker.arg("-Wl,--no-whole-archive").args(SYSTEM).arg("-lgcc_s");
    run(linker.arg(format!("-Wl,--version-script={}", source("everleaf.map").display())));
    assert_eq!(symbols(&["-D", "--defined-only"], &shared), exported());
}

#[test]
fn the_library_exports_what_the_header_has_and_a_test_calls_all_of_it() {
    let Some(built) = built() else { return };
    let mut shared = symbols(&["-D", "--defined-only"], built.shared());
    assert_eq!(shared.remove("everleaf_test_panic_in"), cfg!(feature = "test-panic"));
    assert_eq!(shared, exported());
    assert!(shared.len() > 100);
    let called = symbols(&["-u"], &compile(built, "operations"));
    assert_eq!(
        called.into_iter().filter(|name| name.starts_with("everleaf_")).collect::<BTreeSet<_>>(),
        exported()
    );
}

#[test]
fn the_library_has_a_name_of_its_version_and_is_never_unloaded() {
    let Some(built) = built() else { return };
    let told = run(Command::new("readelf").arg("-d").arg(built.shared()));
    assert!(told.contains("Library soname: [libeverleaf.so.0]"), "{told}");
    assert!(told.contains("NODELETE"), "{told}");
    let library = built.folder().join("libeverleaf.so.0");
    runs(built, "unload", &[library.to_str().expect("UTF-8")]);
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
        let file = built.folder().join(format!("guide{at}.c"));
        std::fs::write(&file, block).expect("written");
        let program = built.folder().join(format!("guide{at}"));
        let mut compiler = compiler("c", "c99");
        match block.contains("int main(") {
            true => {
                compiler.arg("-o").arg(&program).arg(&file).args(["-x", "none"]).arg(built.shared())
            }
            false => compiler.arg("-fsyntax-only").arg(&file),
        };
        run(&mut compiler);
        if block.contains("int main(") {
            let folder = folder();
            assert_eq!(run(built.command(&program).current_dir(folder.path())), "2 chairs\n");
        }
        count += 1;
    }
    assert!(count >= 3, "{count} blocks were found");
}

#[test]
fn misuse_is_told_and_does_nothing() {
    let Some(built) = built() else { return };
    runs(built, "misuse", &[]);
}

#[test]
fn handles_may_be_freed_in_any_order_also_after_a_close_and_in_a_fork() {
    let Some(built) = built() else { return };
    runs(built, "lifetimes", &[]);
}

#[test]
fn threads_share_a_pool_and_see_its_close() {
    let Some(built) = built() else { return };
    runs(built, "threads", &[]);
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
    runs(built, "pools", &[&pools.to_string()]);
}

#[test]
fn a_value_comes_in_pieces() {
    let Some(built) = built() else { return };
    let most = u64::from(u32::MAX);
    let bytes = size([50_000_001, 50_000_001, most]).to_string();
    let folder = tempfile::tempdir().expect("a folder on a disk");
    run(built.command(&compile(built, "large")).arg(folder.path()).arg(bytes));
}

#[cfg(feature = "test-panic")]
#[test]
fn a_defect_of_the_library_ends_no_program() {
    let Some(built) = built() else { return };
    runs(built, "panic", &[]);
}
