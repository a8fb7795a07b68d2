//! No circles: of two files of a crate, at most one needs the other.
//!
//! A file needs another if its code names what the other defines: a type, a function, a constant, a
//! macro. Where a name passes through `pub use`, the file that defines it counts, so that a `mod.rs`
//! which declares modules and hands their names on needs nobody. Unit tests do not count. Methods
//! are not looked up: a file that calls one and names nothing of its file is not seen.
//!
//! The files are read with `syn`, since paths in nested braces, behind `self` and `super`, and inside
//! macros are more than lines can tell.

mod cfg;
mod graph;
mod modules;
mod paths;

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::tree::{Files, finding, rust};
use modules::{Arrow, Modules};

/// Reports files that need each other.
pub fn check(files: &Files, findings: &mut Vec<String>) {
    for root in rust(files).map(|(path, _)| path).filter(|path| is_root(path)) {
        match Modules::read(files, root) {
            Ok(modules) => findings.extend(circles(&modules)),
            Err((path, error)) => findings.push(finding(&path, 1, error)),
        }
    }
}

/// A finding for each circle of a crate.
fn circles(modules: &Modules) -> Vec<String> {
    let arrows = modules.arrows();
    let mut to = vec![Vec::new(); modules.files.len()];
    arrows.iter().for_each(|arrow| to[arrow.from].push(arrow.to));
    let circles = graph::circles(&to);
    circles.iter().map(|circle| circle_finding(modules, &arrows, circle)).collect()
}

/// Whether modules begin at this file.
fn is_root(path: &str) -> bool {
    path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs")
}

/// A finding with a line for each arrow of a circle.
fn circle_finding(modules: &Modules, arrows: &[Arrow], circle: &[usize]) -> String {
    let name = |file: usize| modules.files[file].as_str();
    let what = format!("a circle of {} files:", circle.len());
    let first = circle.iter().map(|&file| name(file)).min().unwrap_or_default();
    let mut text = finding(first, 1, what);
    let mut lines: BTreeMap<_, Vec<&Arrow>> = BTreeMap::new();
    for arrow in arrows {
        if circle.contains(&arrow.from) && circle.contains(&arrow.to) {
            lines.entry((name(arrow.from), name(arrow.to))).or_default().push(arrow);
        }
    }
    for ((from, to), arrows) in lines {
        let names: Vec<_> = arrows.iter().map(|arrow| arrow.name.as_str()).collect();
        let _ = write!(text, "\n    {from}:{} -> {to}: {}", arrows[0].line, names.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::files;

    /// The findings of a crate `a` of these files.
    fn findings<const N: usize>(sources: [(&str, &str); N]) -> Vec<String> {
        let mut findings = Vec::new();
        let sources = sources.map(|(name, text)| (format!("a/src/{name}"), text));
        check(&files(sources.each_ref().map(|(name, text)| (&name[..], *text))), &mut findings);
        findings
    }

    /// Whether `b.rs` and `c.rs` are found to need each other.
    fn circle(b: &str, c: &str) -> bool {
        let found = findings([("lib.rs", "mod b;\nmod c;\n"), ("b.rs", b), ("c.rs", c)]);
        assert!(found.len() <= 1, "{found:?}");
        found.iter().any(|found| found.starts_with("a/src/b.rs:1: a circle of 2 files:"))
    }

    const NEEDS_B: &str = "use crate::b::{self, Thing};\npub struct Other;\npub fn other() {}\n\
                           #[macro_export]\nmacro_rules! third { () => {} }\n";

    #[test]
    fn a_name_is_found_however_it_is_said() {
        for b in [
            "use super::c::Other;",
            "use crate::{c::{self as d, Other as X}};",
            "fn f() { use crate::c::Other; }",
            "use crate::c; fn f() { c::other() }",
            "use crate::c::*; fn f(_: Other) {}",
            "mod inner { use super::super::c::other; }",
            "fn f() { crate::c::other() }",
            "fn f(c: u8, _: super::c::Other) {}",
            "fn f() { assert_eq!(crate::c::other(), ()) }",
            "fn f() { matches!(1, crate::c::Other if true) }",
            "fn f() { third!() }",
            "impl crate::c::Other {}",
            "type T = Vec<Option<crate::c::Other>>;",
            "fn f(x: impl Into<crate::c::Other>) {}",
            "macro_rules! m { () => { $crate::c::other() } }",
            "#[cfg(not(test))]\nuse crate::c::Other;",
        ] {
            assert!(circle(&format!("pub struct Thing;\n{b}\n"), NEEDS_B), "{b}");
        }
    }

    #[test]
    fn what_needs_nothing_is_left_alone() {
        for b in [
            "pub use crate::c::Other;",
            "use crate::c;",
            "#[cfg(test)]\nmod tests { use crate::c::Other; }",
            "#[cfg(all(test, loom))]\nuse crate::c::Other;",
            "struct S { #[cfg(test)] c: crate::c::Other }",
            "#[cfg(test)]\nimpl S { fn f() { crate::c::other() } }",
            "impl S { #[cfg(test)] fn f() { crate::c::other() } }",
            "/// As [`crate::c::Other`].\nstruct S;",
            "use super::b::Thing as Other;",
            "use ::c::Other;",
            "pub(in crate::c) fn f() {}",
            "fn other() {} fn f() { other() }",
            "pub use crate::c::other; fn f() { let other = 1; g(other) }",
        ] {
            assert!(!circle(&format!("pub struct Thing;\n{b}\n"), NEEDS_B), "{b}");
        }
    }

    #[test]
    fn a_folder_that_hands_names_on_needs_nobody_and_is_seen_through() {
        let module = "mod part;\npub use part::Part;\n";
        let lib = "mod user;\nmod folder;\npub struct Root;";
        let part = "use crate::Root;\npub struct Part;\n";
        let user = "use crate::folder::Part;\n";
        let all = [("lib.rs", lib), ("folder/mod.rs", module), ("folder/part.rs", part)];
        let [a, b, c] = all;
        assert!(findings([a, b, c, ("user.rs", user)]).is_empty());
        let part = "use crate::user::User;\npub struct Part;\n";
        let user = "use crate::folder::Part;\npub struct User(Part);\n";
        let found = findings([a, b, ("folder/part.rs", part), ("user.rs", user)]);
        let wanted = "a/src/folder/part.rs:1: a circle of 2 files:\n    \
                      a/src/folder/part.rs:1 -> a/src/user.rs: User\n    \
                      a/src/user.rs:1 -> a/src/folder/part.rs: Part";
        assert_eq!(found, [wanted]);
    }

    #[test]
    fn a_folder_that_defines_what_its_parts_use_and_uses_them_is_in_a_circle() {
        let lib = ("lib.rs", "mod folder;");
        let part = ("folder/part.rs", "use super::Whole;\npub fn part(_: &Whole) {}\n");
        let module = "mod part;\npub struct Whole;\nfn f(w: &Whole) { part::part(w) }\n";
        assert_eq!(findings([lib, ("folder/mod.rs", module), part]).len(), 1);
        assert_eq!(findings([lib, ("folder.rs", module), part]).len(), 1);
        let module = "mod part;\npub use part::part;\npub struct Whole;\n";
        assert!(findings([lib, ("folder/mod.rs", module), part]).is_empty());
    }

    #[test]
    fn what_is_no_rust_is_a_finding() {
        assert!(
            findings([("lib.rs", "mod b;"), ("b.rs", "fn (")])[0].starts_with("a/src/b.rs:1: ")
        );
    }
}
