//! `everleaf.hpp`: a program in C++ beside a map, and that each function of C can be reached.
//!
//! Without a C++ compiler the tests say so, and pass.

mod tools;

use std::process::Command;

use everleaf_testing::{seed_or, times};
use tools::{Library, exported, folder, run, source};

/// The flags that the header must compile with.
const FLAGS: [&str; 9] = [
    "-std=c++17",
    "-Wall",
    "-Wextra",
    "-Wpedantic",
    "-Wshadow",
    "-Wconversion",
    "-Wsign-conversion",
    "-Werror",
    "-O1",
];

/// The compilers that are there.
fn compilers() -> Vec<&'static str> {
    let mut there = ["g++", "clang++"].to_vec();
    there.retain(|name| tools::is_there(name));
    if there.is_empty() {
        eprintln!("skipped: there is no C++ compiler called g++ or clang++");
    }
    there
}

#[test]
fn the_header_compiles_alone_and_twice_without_a_warning() {
    for compiler in compilers() {
        let folder = folder();
        let unit = folder.path().join("unit.cpp");
        let twice = "#include \"everleaf.hpp\"\n#include \"everleaf.hpp\"\n";
        std::fs::write(&unit, twice).expect("a file");
        let mut command = Command::new(compiler);
        command.args(FLAGS).arg("-fsyntax-only").arg("-I").arg(source("include")).arg(&unit);
        run(&mut command);
    }
}

#[test]
fn the_header_reaches_each_function_of_c() {
    let header = std::fs::read_to_string(source("include/everleaf.hpp")).expect("the header");
    let words: Vec<&str> = header.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
    let missing: Vec<_> =
        exported().into_iter().filter(|name| !words.contains(&name.as_str())).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn a_program_in_cpp_answers_as_a_map_does_and_is_told_of_misuse() {
    for compiler in compilers() {
        let library = Library::built();
        let (count, seed) = (times(4_000).to_string(), seed_or(7).to_string());
        let program = library.folder().join("cpp");
        let mut command = Command::new(compiler);
        command.args(FLAGS).args(["-g", "-o"]).arg(&program).arg("-I").arg(source("include"));
        run(command.arg(source("tests/cpp.cpp")).arg(library.shared()));
        let folder = folder();
        let said = run(library.command(&program).arg(folder.path()).args([&count, &seed]));
        assert_eq!(said, format!("{count} operations\n"));
    }
}

#[test]
fn the_program_of_the_guide_prints_what_it_put() {
    for compiler in compilers() {
        let library = Library::built();
        let guide = std::fs::read_to_string(source("../../docs/guide/c.md")).expect("the guide");
        let block = guide.split("```cpp\n").nth(1).and_then(|rest| rest.split("```").next());
        let (file, folder) = (library.folder().join("guide.cpp"), folder());
        std::fs::write(&file, block.expect("a program in C++")).expect("written");
        let program = library.folder().join("guide_cpp");
        let mut command = Command::new(compiler);
        command.args(FLAGS).arg("-o").arg(&program).arg("-I").arg(source("include")).arg(&file);
        run(command.arg(library.shared()));
        let said = run(library.command(&program).current_dir(folder.path()));
        assert_eq!(said, "2 chairs\n2026-11-20/0001 = 2 chairs\n");
    }
}
