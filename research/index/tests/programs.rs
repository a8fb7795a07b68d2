//! Programs in C and C++ against the shared library that was built: all trees on all media that the machine has, misuse,
//! threads, PiBench's calls; and what the library says of itself.
//!
//! Without a compiler the tests say so, and pass.

#[path = "../../../crates/capi/tests/tools/mod.rs"]
mod tools;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use everleaf_testing::{seed_or, times};
use tools::{Library, SYSTEM, exported, folder, is_there, run, source};

const WARNINGS: [&str; 5] = ["-pedantic", "-Wall", "-Wextra", "-Wshadow", "-Werror"];

/// The library; none without compilers, which it says.
fn built() -> Option<&'static Library> {
    if !["cc", "c++"].into_iter().all(is_there) {
        eprintln!("skipped: there is no compiler called cc, or none called c++");
        return None;
    }
    Some(Library::built())
}

/// A compiler for a source, with the headers and warnings that are errors.
fn compiler(file: &str) -> Command {
    let (name, standard) = if file.ends_with(".cpp") { ("c++", "c++17") } else { ("cc", "c99") };
    let mut compiler = Command::new(name);
    compiler.arg(format!("-std={standard}")).args(WARNINGS).args(["-O1", "-g"]);
    compiler.arg("-I").arg(source("include")).arg("-I").arg(source("pibench")).arg(source(file));
    compiler
}

/// Compiles a program of the tests and runs it in a folder of its own.
#[track_caller]
fn runs(built: &Library, program: &str, args: &[&str]) -> String {
    let path: PathBuf = built.folder().join(program);
    let mut compiler = compiler(&format!("tests/{program}"));
    run(compiler.arg("-o").arg(&path).arg(built.shared()).arg("-lpthread"));
    let folder = folder();
    let said = run(built.command(&path).arg(folder.path()).args(args));
    print!("{said}");
    said
}

/// The symbols that `nm` tells of.
fn symbols(args: &[&str], file: &Path) -> BTreeSet<String> {
    let told = run(Command::new("nm").args(args).arg(file));
    told.lines().filter_map(|line| line.split_whitespace().last()).map(str::to_owned).collect()
}

#[test]
fn all_trees_answer_as_an_array_does_on_all_media() {
    let Some(built) = built() else { return };
    let (count, seed) = (times(5_000).to_string(), seed_or(7).to_string());
    let said = runs(built, "operations.c", &[&count, &seed]);
    // 26 trees in memory, counted, and on emulated persistent memory, 14 of them on a file; where there is DAX, 26 more.
    let wanted = [92, 118].map(|runs| format!("26 trees, {runs} runs of {count} operations\n"));
    assert!(wanted.contains(&said), "{said}");
}

#[test]
fn misuse_is_told_and_does_nothing() {
    let Some(built) = built() else { return };
    runs(built, "misuse.c", &[]);
}

#[test]
fn of_several_threads_that_insert_a_key_one_does() {
    let Some(built) = built() else { return };
    runs(built, "threads.c", &[&times(5_000).to_string()]);
}

#[test]
fn the_calls_of_pibench_are_answered_as_by_a_map() {
    let Some(built) = built() else { return };
    let (count, seed) = (times(10_000).to_string(), seed_or(7).to_string());
    let said = runs(built, "pibench.cpp", &[&count, &seed]);
    assert_eq!(said, format!("92 runs of {count} operations\n"));
}

#[test]
fn the_wrapper_is_a_library_that_pibench_finds_its_tree_in() {
    let Some(built) = built() else { return };
    let wrapper = built.folder().join("libeverleaf_wrapper.so");
    let mut compiler = compiler("pibench/everleaf_wrapper.cpp");
    compiler.args(["-shared", "-fPIC", "-fvisibility=hidden"]).arg("-o").arg(&wrapper);
    run(compiler.arg(built.shared()));
    let own = symbols(&["-D", "--defined-only"], &wrapper);
    assert!(!own.contains("create_tree"), "hidden, so that this test can tell");
    let mut compiler = self::compiler("pibench/everleaf_wrapper.cpp");
    compiler.args(["-shared", "-fPIC"]).arg("-o").arg(&wrapper).arg(built.shared());
    run(&mut compiler);
    assert!(symbols(&["-D", "--defined-only"], &wrapper).contains("create_tree"));
}

#[test]
fn the_library_exports_what_the_header_has_and_has_a_name_of_its_version() {
    let Some(built) = built() else { return };
    let shared = symbols(&["-D", "--defined-only"], built.shared());
    assert_eq!(shared, exported());
    assert!(shared.len() >= 20 && shared.iter().all(|name| name.starts_with("everleaf_index_")));
    let told = run(Command::new("readelf").arg("-d").arg(built.shared()));
    assert!(told.contains("Library soname: [libeverleaf_index.so.0]"), "{told}");
    assert!(told.contains("NODELETE"), "{told}");
}

#[test]
fn the_static_library_does_the_same_and_its_map_hides_the_rest() {
    let Some(built) = built() else { return };
    let (path, folder) = (built.folder().join("operations_static"), folder());
    let mut compiler = compiler("tests/operations.c");
    run(compiler.arg("-o").arg(&path).arg(built.archive()).args(SYSTEM));
    run(Command::new(&path).arg(folder.path()).args(["200", "8"]));
    let shared = built.folder().join("libother.so");
    let mut linker = Command::new("cc");
    linker.args(["-shared", "-o"]).arg(&shared).arg("-Wl,--whole-archive").arg(built.archive());
    linker.arg("-Wl,--no-whole-archive").args(SYSTEM).arg("-lgcc_s");
    run(linker.arg(format!("-Wl,--version-script={}", source("everleaf_index.map").display())));
    assert_eq!(symbols(&["-D", "--defined-only"], &shared), exported());
}

#[test]
fn the_program_of_the_readme_counts_lines_of_each_tree() {
    let Some(built) = built() else { return };
    let readme = std::fs::read_to_string(source("README.md")).expect("the file");
    let block = readme.split("```c\n").nth(1).and_then(|rest| rest.split("```").next());
    let (file, program) = (built.folder().join("readme.c"), built.folder().join("readme"));
    std::fs::write(&file, block.expect("a program in C")).expect("written");
    let mut compiler = Command::new("cc");
    compiler.arg("-std=c99").args(WARNINGS).arg("-I").arg(source("include")).arg(&file);
    run(compiler.arg("-o").arg(&program).arg(built.shared()));
    let said = run(&mut built.command(&program));
    assert_eq!(said.lines().count(), 26);
    // Those that are durable by epochs defer their lines.
    let lines = |name: &str| {
        let line = said.lines().find(|line| line.split(' ').next() == Some(name));
        let words: Vec<_> = line.expect("each tree").split_whitespace().collect();
        words[1].parse::<f64>().expect("a number")
    };
    assert!(lines("CircTree") > 1.0 && lines("LbTree") > 1.0 && lines("BdTree") < 1.0, "{said}");
}

/// Compiles a program of examples/, with definitions.
fn example(built: &Library, file: &str, definitions: &[&str]) -> PathBuf {
    let program = built.folder().join(format!("{file}{}", definitions.concat()));
    let mut compiler = compiler(&format!("examples/{file}"));
    run(compiler.args(definitions).arg("-o").arg(&program).arg(built.shared()));
    program
}

#[test]
fn a_tree_in_cpp_is_sound_and_one_with_a_fault_of_order_is_found() {
    let Some(built) = built() else { return };
    let said = run(&mut built.command(&example(built, "check_leaves.cpp", &["-DEL_RECORD"])));
    let (sound, faulty) = said.split_once("careless: ").expect("two trees");
    let exact = "careful: sound in 94 images, 2 of them of recovery, at 45 moments, of which 45 had all of theirs; \
                 48 stores, 29 flushes, 27 fences\n";
    assert_eq!(sound, exact);
    // The first insert's bit is there, and its pair is not: the image is named by its lines.
    assert!(faulty.starts_with("EVERLEAF_INDEX_UNSOUND\nwith operation 0, Put(50, 1), in flight"));
    assert!(faulty.contains("crash 1: the workload after") && faulty.contains("lost:"), "{said}");
}

#[test]
fn the_few_lines_of_the_checker_s_readme_check_a_map() {
    let Some(built) = built() else { return };
    let readme = source("../../crates/crash-check/README.md");
    let readme = std::fs::read_to_string(readme).expect("the file");
    let block = readme.split("```cpp\n").nth(1).and_then(|rest| rest.split("```").next());
    let (file, program) = (built.folder().join("lines.cpp"), built.folder().join("lines"));
    std::fs::write(&file, block.expect("a program in C++")).expect("written");
    let mut compiler = Command::new("c++");
    compiler.args(["-std=c++17", "-DEL_RECORD"]).args(WARNINGS).arg("-I").arg(source("include"));
    run(compiler.arg(&file).arg("-o").arg(&program).arg(built.shared()));
    let said = run(&mut built.command(&program));
    assert!(said.starts_with("sound in ") && said.ends_with(", 3 flushes\n"), "{said}");
}

#[test]
fn without_the_checker_the_macros_are_instructions_or_none() {
    let Some(built) = built() else { return };
    for (definitions, flushes) in [(&["-mclwb"][..], "clwb"), (&[], "clflushopt")] {
        if !cfg!(target_arch = "x86_64") {
            break;
        }
        let program = example(built, "use_leaves.cpp", definitions);
        let code = run(Command::new("objdump").arg("-d").arg(&program));
        assert!(code.contains(flushes) && code.contains("sfence"), "{definitions:?}");
    }
    let program = example(built, "use_leaves.cpp", &["-DEL_VOLATILE"]);
    assert_eq!(run(&mut built.command(&program)), "1000 keys\n");
    let code = run(Command::new("objdump").arg("-d").arg(&program));
    assert!(!code.contains("clflush") && !code.contains("clwb"));
}

#[test]
fn a_tree_that_stores_beside_the_macros_or_is_no_tree_is_told() {
    let Some(built) = built() else { return };
    runs(built, "beside.c", &[]);
}

#[test]
fn the_header_is_valid_c99_and_cpp11() {
    if built().is_none() {
        return;
    }
    for (compiler, language, standard) in [("cc", "c", "c99"), ("c++", "c++", "c++11")] {
        let mut command = Command::new(compiler);
        command.args(["-x", language]).arg(format!("-std={standard}")).args(WARNINGS);
        for header in ["everleaf_index.h", "everleaf_recorder.h"] {
            run(command.arg("-fsyntax-only").arg(source(&format!("include/{header}"))));
        }
    }
}
