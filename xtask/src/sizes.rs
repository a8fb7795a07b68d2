//! Files of at most 1,200 lines, functions of at most 70; and no file of the product under 60 without a reason.
//!
//! A file is a subject, not a size. A file that is shorter than a page is mostly a part of another file's subject.

use crate::ratchet::Ratchet;
use crate::source::{code, has_word};
use crate::tree::{Files, finding, rust};

const FILE_LINES_MAX: usize = 1200;
const FUNCTION_LINES_MAX: usize = 70;
const FILE_LINES_MIN: usize = 60;

/// The crates of the product. Their tests are not meant, nor their examples.
const PRODUCT: [&str; 8] = ["pmem", "file", "pool", "tree", "everleaf", "salvage", "cli", "capi"];

const SUBCOMMAND: &str = "a subcommand has a file of its own";

/// Shorter files of the product, and why they are files. A `mod.rs`, `lib.rs` or `main.rs` needs no reason: it explains
/// a folder. CONTRIBUTING.md says which reasons count.
const SHORT: [(&str, &str); 12] = [
    ("crates/cli/src/backup.rs", SUBCOMMAND),
    ("crates/cli/src/compact.rs", SUBCOMMAND),
    ("crates/cli/src/completions.rs", SUBCOMMAND),
    ("crates/cli/src/del.rs", SUBCOMMAND),
    ("crates/cli/src/drop.rs", SUBCOMMAND),
    ("crates/cli/src/man.rs", SUBCOMMAND),
    ("crates/cli/src/put.rs", SUBCOMMAND),
    ("crates/cli/src/rename.rs", SUBCOMMAND),
    ("crates/cli/src/trees.rs", SUBCOMMAND),
    ("crates/everleaf/src/engine/sync.rs", "loom_versions.rs compiles other types in its place"),
    ("crates/pmem/src/target.rs", "its test compiles it alone, for targets that it refuses"),
    (
        "crates/tree/src/blink/reading.rs",
        "descend.rs and beside.rs need it, and beside.rs needs descend.rs",
    ),
];

/// Reports files and functions that are too long, and files that are too short.
pub fn check(files: &Files, findings: &mut Vec<String>) {
    check_long(files, findings);
    check_short(files, &SHORT, findings);
}

/// Reports files of the product that are short without a reason, and reasons that nothing needs.
fn check_short(files: &Files, reasons: &[(&str, &str)], findings: &mut Vec<String>) {
    for (path, source) in rust(files).filter(|(path, _)| is_of_product(path)) {
        let lines = source.lines().count();
        let may_be_short = reasons.iter().any(|(listed, _)| *listed == path)
            || ["mod.rs", "lib.rs", "main.rs"].contains(&path.rsplit('/').next().unwrap_or(path));
        if lines < FILE_LINES_MIN && !may_be_short {
            let what = format!(
                "the file has {lines} lines, fewer than {FILE_LINES_MIN}: is it a part of another file's subject? \
                 If not, xtask/src/sizes.rs lists the reason"
            );
            findings.push(finding(path, 1, what));
        }
    }
    for (path, reason) in reasons {
        if files.get(*path).is_none_or(|source| source.lines().count() >= FILE_LINES_MIN) {
            let what = format!("no short file {path} needs the reason `{reason}`: delete it");
            findings.push(finding("xtask/src/sizes.rs", 1, what));
        }
    }
}

fn is_of_product(path: &str) -> bool {
    let source = path.strip_prefix("crates/").and_then(|path| path.split_once("/src/"));
    source.is_some_and(|(krate, file)| {
        PRODUCT.contains(&krate)
            && !file.split('/').any(|part| part == "tests" || part == "tests.rs")
    })
}

/// Reports files and functions that are too long.
fn check_long(files: &Files, findings: &mut Vec<String>) {
    let mut ratchet = Ratchet::read(files, findings);
    for (path, source) in rust(files) {
        let lines = source.lines().count();
        if !ratchet.judge(path, lines, FILE_LINES_MAX, findings) {
            let what = format!("the file has {lines} lines, the limit is {FILE_LINES_MAX}");
            findings.push(finding(path, 1, what));
        }
        for function in functions(source) {
            let Function { name, line, lines } = function;
            if !ratchet.judge(&format!("{path} {name}"), lines, FUNCTION_LINES_MAX, findings) {
                let what = format!("{name} has {lines} lines, the limit is {FUNCTION_LINES_MAX}");
                findings.push(finding(path, line, what));
            }
        }
    }
    ratchet.finish(findings);
}

/// A function with a body.
#[derive(Debug, PartialEq)]
struct Function {
    name: String,
    /// Where its `fn` is, counted from 1.
    line: usize,
    /// From there to the closing brace, both included.
    lines: usize,
}

/// The functions of a file, those inside others too. Of functions with the same name only the
/// longest counts, so that an exception names one thing.
fn functions(source: &str) -> Vec<Function> {
    let code = code(source);
    let lines: Vec<_> = code.lines().collect();
    let mut found: Vec<Function> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if !has_word(line, "fn") {
            continue;
        }
        let Some(name) = name(line) else { continue };
        let Some(count) = body(&lines[at..]) else { continue };
        match found.iter_mut().find(|function| function.name == name) {
            Some(known) if known.lines >= count => {}
            Some(known) => (known.line, known.lines) = (at + 1, count),
            None => found.push(Function { name, line: at + 1, lines: count }),
        }
    }
    found
}

/// The name after `fn`; none for a function type such as `fn(u8)`.
fn name(line: &str) -> Option<String> {
    let start = line
        .match_indices("fn ")
        .map(|(at, _)| at)
        .find(|&at| at == 0 || line[..at].ends_with(|c: char| !c.is_alphanumeric() && c != '_'))?;
    let rest = line[start + 3..].trim_start();
    let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    (!name.is_empty()).then_some(name)
}

/// How many lines there are up to the brace that closes the first one opened; none if a `;`
/// outside of brackets comes before it.
fn body(lines: &[&str]) -> Option<usize> {
    let (mut braces, mut brackets) = (0_usize, 0_i32);
    for (at, line) in lines.iter().enumerate() {
        let start = if at == 0 { line.find("fn ").unwrap_or(0) } else { 0 };
        for char in line[start..].chars() {
            match char {
                '{' => braces += 1,
                '}' if braces == 1 => return Some(at + 1),
                '}' => braces = braces.checked_sub(1)?,
                '(' | '[' => brackets += 1,
                ')' | ']' => brackets -= 1,
                ';' if braces == 0 && brackets == 0 => return None,
                _ => {}
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::files;

    fn findings(source: &str, ratchet: &str) -> Vec<String> {
        let mut findings = Vec::new();
        check_long(&files([("a.rs", source), ("xtask/ratchet.txt", ratchet)]), &mut findings);
        findings
    }

    fn function(lines: usize) -> String {
        format!("pub fn long() {{\n{}}}\n", "    x();\n".repeat(lines - 2))
    }

    #[test]
    fn functions_are_measured_from_their_name_to_their_end() {
        let source = "trait T {\n fn none(x: [u8; 3]);\n fn one(&self) {}\n}\n\
                      fn two(\n) -> bool {\n if x { \"}\" } else { '}' }\n}\n";
        let found: Vec<_> =
            functions(source).into_iter().map(|f| (f.name, f.line, f.lines)).collect();
        assert_eq!(found, [("one".into(), 3, 1), ("two".into(), 5, 4)]);
    }

    #[test]
    fn the_limits_are_inclusive() {
        assert!(findings(&function(70), "").is_empty());
        assert_eq!(findings(&function(71), ""), ["a.rs:1: long has 71 lines, the limit is 70"]);
        assert!(findings(&"//\n".repeat(1200), "").is_empty());
        assert_eq!(findings(&"//\n".repeat(1201), "").len(), 1);
    }

    #[test]
    fn exceptions_are_exact() {
        assert!(findings(&function(80), "a.rs long 80 # why").is_empty());
        assert_eq!(findings(&function(81), "a.rs long 80").len(), 1);
        assert_eq!(
            findings(&function(79), "# head\na.rs long 80"),
            ["xtask/ratchet.txt:2: a.rs long has 79: write that"]
        );
        assert!(findings(&function(70), "a.rs long 80")[0].ends_with("delete this"));
        assert!(findings("", "b.rs 700")[0].ends_with("does not exist: delete this"));
        assert!(findings("", "b.rs many")[0].contains("not PATH"));
    }

    #[test]
    fn a_short_file_of_the_product_has_a_reason() {
        let (short, long) = ("//\n".repeat(59), "//\n".repeat(60));
        let tree = files([
            ("crates/pool/src/short.rs", short.as_str()),
            ("crates/pool/src/tests/short.rs", short.as_str()),
            ("crates/pool/src/space/mod.rs", short.as_str()),
            ("crates/pool/tests/short.rs", short.as_str()),
            ("crates/fuzz/src/short.rs", short.as_str()),
            ("crates/pool/src/long.rs", long.as_str()),
            ("crates/cli/src/put.rs", short.as_str()),
        ]);
        let found = |reasons: &[(&str, &str)]| {
            let mut findings = Vec::new();
            check_short(&tree, reasons, &mut findings);
            findings
        };
        let put = ("crates/cli/src/put.rs", SUBCOMMAND);
        let one = found(&[put]);
        assert!(one.len() == 1 && one[0].starts_with("crates/pool/src/short.rs:1: "), "{one:?}");
        assert_eq!(found(&[]).len(), 2);
        assert!(found(&[put, ("crates/pool/src/short.rs", "one idea of a paper")]).is_empty());
        // A reason goes when its file is long, or gone.
        assert_eq!(found(&[put, ("crates/pool/src/long.rs", "")]).len(), 2);
        assert_eq!(found(&[put, ("crates/pool/src/gone.rs", "")]).len(), 2);
    }
}
