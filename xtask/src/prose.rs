//! Sentences of the documents that can be held against the code: numbers, names, options of the command, and
//! phrases that a feature has made false. And how the first documents that a reader meets begin their sentences.
//!
//! Documents are the `.md` files and the comments that rustdoc reads. A changelog tells of the past, and the
//! report is made by a program: both are left out.

use std::collections::BTreeSet;

use crate::tree::{Files, finding, rust, with_suffix};

/// The file of phrases that a feature has made false: a phrase, `|`, and what made it false.
const PHRASES: &str = "ci/phrases.txt";
/// Where the public names of the store are.
const API: [&str; 3] = ["crates/everleaf/src/", "crates/file/src/", "crates/pmem/src/"];
/// The types whose items are written as `Type::item`, and the handles as they are called in examples.
const TYPES: [&str; 13] = [
    "Options::",
    "Db::",
    "Tree::",
    "Batch::",
    "Cursor::",
    "Snapshot::",
    "SnapshotTree::",
    "Transaction::",
    "Stats::",
    "Error::",
    "Durability::",
    "Storage::",
    "Compression::",
];
const HANDLES: [&str; 6] = ["`db.", "`tree.", "`tx.", "`batch.", "`cursor.", "`snapshot."];

/// Documents that a reader meets first, and how many words they may have.
const WORDS_MOST: [(&str, usize); 2] = [("README.md", 900), ("ARCHITECTURE.md", 2500)];

/// A number of the code, and where prose says it: between two texts, in any document.
struct Fact {
    file: &'static str,
    /// The text before the number in the code; behind it is a comma, a semicolon or a parenthesis.
    code: &'static str,
    prose: &'static [(&'static str, &'static str)],
}

const FACTS: [Fact; 22] = [
    Fact {
        file: "crates/file/src/store/format.rs",
        code: "pub const FORMAT_VERSION: u32 = ",
        prose: &[
            ("\nVersion ", ". All integers"),
            ("The file format has version ", ";"),
            ("| format version, u32 | ", " |"),
            ("EVERLEAF, version ", ","),
            ("\n- Format ", " is the first one that"),
        ],
    },
    Fact {
        file: "crates/everleaf/src/options.rs",
        code: "            interval: ",
        prose: &[
            ("the defaults: an interval of ", ","),
            ("on disk one interval (", " unless set)"),
            ("Every ", " (`Options::interval`)"),
        ],
    },
    Fact {
        file: "crates/everleaf/src/options.rs",
        code: "            journal_bytes: ",
        prose: &[("a journal of ", ", at most"), ("`journal_bytes` (", ")")],
    },
    Fact {
        file: "crates/everleaf/src/options.rs",
        code: "            pending_bytes: ",
        prose: &[
            ("At most ", " of changes (`Options::pending_bytes`)"),
            (", at most ", " of changes that"),
        ],
    },
    Fact {
        file: "crates/file/src/memory/warm.rs",
        code: "[(32 << 40, ",
        prose: &[("names 1 to 255 bytes, a pool ", " of pages"), ("| pool | ", " of pages")],
    },
    Fact {
        file: "crates/everleaf/src/limits.rs",
        code: "pub const KEY_BYTES_MAX: usize = ",
        prose: &[("| key | 0 to ", " bytes |"), ("**Sizes.** Keys have 0 to ", " bytes,")],
    },
    Fact {
        file: "crates/everleaf/src/limits.rs",
        code: "pub const VALUE_BYTES_MAX: usize = ",
        prose: &[("| value | 0 to ", " |"), ("65,536 bytes, values 0 to ", ", tree names")],
    },
    Fact {
        file: "crates/everleaf/src/limits.rs",
        code: "pub const TREE_NAME_BYTES_MAX: usize = ",
        prose: &[("| name of a tree | 1 to ", " bytes |"), (", tree names 1 to ", " bytes")],
    },
    Fact {
        file: "crates/tree/src/slotted/view.rs",
        code: "pub const PAGE_BYTES_MAX: usize = ",
        prose: &[("`Options::page_bytes`: 512 to ", " |")],
    },
    Fact {
        file: "crates/tree/src/slotted/view.rs",
        code: "pub const PAGE_BYTES_MIN: usize = ",
        prose: &[("`Options::page_bytes`: ", " to 32,768")],
    },
    Fact {
        file: "crates/everleaf/src/options.rs",
        code: "const FILE_PAGE_BYTES: u32 = ",
        prose: &[("| page | ", " bytes, or `Options::page_bytes`")],
    },
    Fact {
        file: "crates/everleaf/src/attempts.rs",
        code: "pub(crate) const ATTEMPTS: u32 = ",
        prose: &[("it read: ", " times unless `TransactionOptions::attempts`")],
    },
    Fact {
        file: "crates/tree/src/slotted/view.rs",
        code: "pub const KEPT_BYTES: usize = ",
        prose: &[("keeps the first bytes of the suffix, ", " or one less")],
    },
    Fact {
        file: "crates/pool/src/pair.rs",
        code: "const KEPT_KEY_BYTES: usize = ",
        prose: &[("The key is kept if it has at most ", " bytes")],
    },
    Fact {
        file: "crates/file/src/values/segments.rs",
        code: "const LISTED: u32 = ",
        prose: &[("number of pages n, at most ", " |"), ("A run of more than ", " pages")],
    },
    Fact {
        file: "crates/file/src/store/image.rs",
        code: "const COMPRESS_BYTES: usize = ",
        prose: &[("if it has at least ", " bytes, and if that saves")],
    },
    Fact {
        file: "crates/file/src/store/table.rs",
        code: "pub(crate) const LEAF_PAGES: usize = ",
        prose: &[("**Leaf i** holds the ", " entries"), ("8 KiB for ", " pages")],
    },
    Fact {
        file: "crates/file/src/options.rs",
        code: "            reserve_from: ",
        prose: &[("From ", " MiB in use on, a file")],
    },
    Fact {
        file: "crates/file/src/memory/warm.rs",
        code: "const AHEAD_BYTES: usize = ",
        prose: &[("highest page in use, by ", " of pages at most")],
    },
    Fact {
        file: "crates/file/src/limits/bounds.rs",
        code: "const BOUND_LEAST: u64 = ",
        prose: &[("on a disk that takes ", " in four")],
    },
    Fact {
        file: "crates/file/src/checkpoint/cleaner.rs",
        code: "const SPARE_BYTES: u64 = ",
        prose: &[("free end of the file when it has ", " and an eighth")],
    },
    Fact {
        file: "crates/file/src/checkpoint/mod.rs",
        code: "const CLOSE_BYTES: u64 = ",
        prose: &[("but moves at most ", "."), ("for which it moves at most ", ".")],
    },
];

/// Reports sentences that are not true of the code.
pub fn check(files: &Files, findings: &mut Vec<String>) {
    let documents: Vec<_> = documents(files).collect();
    for fact in &FACTS {
        check_fact(files, fact, &documents, findings);
    }
    check_phrases(files, &documents, findings);
    let (items, options) = (items(files), options(files));
    for (path, text) in with_suffix(files, ".md").filter(|(path, _)| is_document(path)) {
        check_items(path, text, &items, findings);
        check_options(path, text, &options, findings);
        if !path.starts_with("research/") {
            check_subjects(path, text, findings);
        }
        check_length(path, text, findings);
    }
    for (path, text) in rust(files) {
        check_subjects(path, &comments(text), findings);
    }
}

/// The comments of a source, each in its line, and nothing of its code.
fn comments(text: &str) -> String {
    let comment = |line: &str| {
        let rest = match line.trim_start().strip_prefix("//") {
            Some(rest) => rest,
            None => {
                // Not in a string.
                let is_behind = |at: &usize| line[..*at].matches('"').count().is_multiple_of(2);
                let at = line.match_indices(" // ").map(|(at, _)| at).find(is_behind)?;
                &line[at + 3..]
            }
        };
        Some(rest.trim_start_matches(['/', '!']).trim_start().to_owned())
    };
    text.lines().map(|line| comment(line).unwrap_or_default() + "\n").collect()
}

/// Reports documents that have become longer than a reader who meets them first wants to read.
fn check_length(path: &str, text: &str, findings: &mut Vec<String>) {
    let words = text.split_whitespace().count();
    let most = WORDS_MOST.iter().find(|(document, _)| *document == path).map(|(_, most)| *most);
    if let Some(most) = most.filter(|most| words > *most) {
        findings.push(finding(path, 1, format_args!("{words} words, and {most} at most")));
    }
}

/// Reports sentences whose subject is "who …" or "what …", which say late what they are about. Questions are none of
/// them, and neither is what headings and cells of tables begin with in small letters.
fn check_subjects(path: &str, text: &str, findings: &mut Vec<String>) {
    let (mut in_code, mut prose) = (false, String::from("\n"));
    for line in text.lines() {
        in_code ^= line.trim_start().starts_with("```");
        prose += if in_code || line.starts_with('#') { "" } else { line };
        prose.push('\n');
    }
    for subject in ["Who ", "What "] {
        for (start, end, line) in places(&prose, subject) {
            let (before, rest) = (prose[..start].trim_end_matches([' ', '*']), &prose[end..]);
            // Behind a sentence, a mark of a list or of a cell, or an empty line.
            let is_first = before.trim_end().ends_with(['.', '!', '?', ':', '|', '-', ')'])
                || before.ends_with("\n\n")
                || before.trim().is_empty();
            let is_head = rest.starts_with('|');
            let ends = rest.find(['.', '!', '?', ':', '|']).map_or("", |at| &rest[at..]);
            if is_first && !is_head && !ends.starts_with('?') {
                let what = format_args!("a sentence begins with `{subject}…`: name its subject");
                findings.push(finding(path, line, what));
            }
        }
    }
}

fn is_document(path: &str) -> bool {
    !path.ends_with("CHANGELOG.md") && !path.starts_with("research/report/")
}

/// A document as one text: comments without what marks them. Lines stay lines.
fn documents(files: &Files) -> impl Iterator<Item = (&str, String)> {
    let texts = with_suffix(files, ".md").filter(|(path, _)| is_document(path));
    let comments =
        rust(files).filter(|(path, _)| !path.starts_with("xtask/")).map(|(path, text)| {
            let comment = |line: &str| {
                let line = line.trim_start();
                let rest = line.strip_prefix("//!").or_else(|| line.strip_prefix("///"))?;
                Some(rest.strip_prefix(' ').unwrap_or(rest).to_owned())
            };
            (path, text.lines().map(|line| comment(line).unwrap_or_default() + "\n").collect())
        });
    texts
        .map(|(path, text)| (path, format!("\n{text}")))
        .chain(comments.map(|(p, t): (_, String)| (p, format!("\n{t}"))))
}

/// Where `wanted` stands in `text`: lines may break where it has a space. Begin, end and line of each.
fn places(text: &str, wanted: &str) -> Vec<(usize, usize, usize)> {
    let fits = |at: usize| {
        let mut rest = text[at..].char_indices().peekable();
        for c in wanted.chars() {
            let (_, found) = rest.next()?;
            if c == ' ' && found == '\n' {
                while rest.peek().is_some_and(|(_, c)| *c == ' ') {
                    rest.next();
                }
            } else if c != found {
                return None;
            }
        }
        Some(rest.peek().map_or(text.len(), |(i, _)| at + i))
    };
    let first = wanted.chars().next().unwrap_or(' ');
    let starts = text.match_indices(|c: char| c == first || (first == ' ' && c == '\n'));
    let line = |at: usize| text[..at].matches('\n').count().max(1);
    starts
        .filter_map(|(at, _)| Some((at, fits(at)?, line(at + usize::from(first == '\n')))))
        .collect()
}

fn check_fact(
    files: &Files,
    fact: &Fact,
    documents: &[(&str, String)],
    findings: &mut Vec<String>,
) {
    let source = files.get(fact.file).map_or("", |text| &text[..]);
    let value =
        source.split_once(fact.code).and_then(|(_, rest)| rest.split([',', ';', ')']).next());
    let Some(said) = value.and_then(said) else {
        findings.push(finding(
            fact.file,
            1,
            format_args!("no `{}` with a value", fact.code.trim()),
        ));
        return;
    };
    for (before, after) in fact.prose {
        let mut is_there = false;
        for (path, text) in documents {
            for (_, end, line) in places(text, before) {
                // A number and its unit are short.
                let near: String = text[end..].chars().take(24 + after.chars().count()).collect();
                let Some((_, number)) =
                    places(&near, after).first().map(|(at, _, _)| (at, &near[..*at]))
                else {
                    continue;
                };
                is_there = true;
                if number.replace('\n', " ") != said {
                    findings.push(finding(
                        path,
                        line,
                        format_args!("`{number}`, and `{}` is {said}", fact.code.trim()),
                    ));
                }
            }
        }
        if !is_there {
            let what =
                format_args!("no document says `{before}…{after}` any more: change the list");
            findings.push(finding("xtask/src/prose.rs", 1, what));
        }
    }
}

/// How prose writes a number of the code.
fn said(value: &str) -> Option<String> {
    if value == "u32::MAX as usize" {
        return Some("4 GiB − 1".into());
    }
    if let Some(millis) = value.strip_prefix("Duration::from_millis(") {
        return Some(format!("{} ms", millis.trim_end_matches(')')));
    }
    match value.split_once(" << ") {
        Some((n, "20")) => Some(format!("{n} MiB")),
        Some((n, "30")) => Some(format!("{n} GiB")),
        Some((n, bits)) => Some(with_commas(n.parse::<u64>().ok()? << bits.parse::<u32>().ok()?)),
        None => Some(with_commas(value.replace('_', "").parse().ok()?)),
    }
}

fn with_commas(n: u64) -> String {
    let digits = n.to_string();
    let comma = |(i, c): (usize, char)| {
        let is_third = i > 0 && (digits.len() - i).is_multiple_of(3);
        is_third.then_some(',').into_iter().chain([c])
    };
    digits.chars().enumerate().flat_map(comma).collect()
}

fn check_phrases(files: &Files, documents: &[(&str, String)], findings: &mut Vec<String>) {
    let list = files.get(PHRASES).map_or("", |text| &text[..]);
    for (line, at) in list.lines().zip(1..).filter(|(line, _)| !line.starts_with('#')) {
        let Some((phrase, why)) = line.split_once(" | ") else {
            findings.push(finding(PHRASES, at, "a line is PHRASE | WHAT MADE IT FALSE"));
            continue;
        };
        for (path, text) in documents {
            for (_, _, line) in places(&text.to_lowercase(), &phrase.trim().to_lowercase()) {
                findings.push(finding(
                    path,
                    line,
                    format_args!("`{}` is false: {why}", phrase.trim()),
                ));
            }
        }
    }
}

/// Names of functions, fields and variants that are public in the store.
fn items(files: &Files) -> BTreeSet<&str> {
    let mut items = BTreeSet::new();
    for (_, text) in
        rust(files).filter(|(path, _)| API.iter().any(|folder| path.starts_with(folder)))
    {
        for line in text.lines().map(str::trim_start) {
            let item = line.strip_prefix("pub ").unwrap_or(line);
            let item = ["const ", "async ", "fn "]
                .iter()
                .fold(item, |item, word| item.strip_prefix(word).unwrap_or(item));
            let name = item.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or("");
            let is_variant = name.starts_with(char::is_uppercase);
            if !name.is_empty() && (is_variant || line.starts_with("pub ")) {
                items.insert(name);
            }
        }
    }
    items
}

fn check_items(path: &str, text: &str, items: &BTreeSet<&str>, findings: &mut Vec<String>) {
    if !(path.starts_with("docs/guide/") || path == "README.md") {
        return;
    }
    for (line, at) in text.lines().zip(1..) {
        // The first column of these tables has the names of another store.
        let of_another = path.contains("coming-from") && line.starts_with("| ");
        let line = line.split_once(" | ").filter(|_| of_another).map_or(line, |(_, ours)| ours);
        for before in TYPES.iter().chain(&HANDLES) {
            for (start, _) in line.match_indices(before) {
                let is_whole = !line[..start].ends_with(|c: char| c.is_alphanumeric() || c == ':');
                let name = line[start + before.len()..]
                    .split(|c: char| !c.is_alphanumeric() && c != '_')
                    .next();
                let name = name.unwrap_or("");
                if is_whole && !name.is_empty() && !items.contains(name) {
                    findings.push(finding(path, at, format_args!("{before}{name} is not there")));
                }
            }
        }
    }
}

/// The long options of the command: fields behind `#[arg(… long …)]`.
fn options(files: &Files) -> BTreeSet<String> {
    let mut options: BTreeSet<_> = ["help", "version"].map(String::from).into();
    for (_, text) in rust(files).filter(|(path, _)| path.starts_with("crates/cli/src/")) {
        let mut rest = text;
        while let Some((_, behind)) = rest.split_once("#[arg(") {
            rest = behind;
            let Some((attributes, behind)) = behind.split_once(")]\n") else { break };
            let word = |word: &str| attributes.split([',', ' ', '\n']).any(|found| found == word);
            if let Some((_, named)) = attributes.split_once("long = \"") {
                options.extend(named.split('"').next().map(String::from));
            } else if word("long") {
                let field =
                    behind.lines().map(str::trim).find(|line| !line.starts_with(['#', '/']));
                let name = field.and_then(|line| line.trim_start_matches("pub ").split(':').next());
                options.extend(
                    name.map(|name| name.trim().trim_start_matches("r#").replace('_', "-")),
                );
            }
        }
    }
    options
}

/// Commands are lines of code that begin with `everleaf`, and what stands so between two backticks.
fn check_options(path: &str, text: &str, options: &BTreeSet<String>, findings: &mut Vec<String>) {
    for (line, at) in text.lines().zip(1..) {
        let spans = line.split('`').skip(1).step_by(2).chain([line.trim_start()]);
        for command in spans.filter(|span| span.starts_with("everleaf ")) {
            let words =
                command.split(|c: char| c.is_whitespace() || c == '[' || c == ']' || c == '=');
            for option in words.filter_map(|word| word.strip_prefix("--")) {
                if !option.is_empty() && !options.contains(option) {
                    findings.push(finding(path, at, format_args!("the command has no --{option}")));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::files;

    fn found(check: impl FnOnce(&mut Vec<String>)) -> Vec<String> {
        let mut findings = Vec::new();
        check(&mut findings);
        findings
    }

    #[test]
    fn numbers_are_written_as_prose_writes_them() {
        let said = |value| said(value).expect("a number");
        assert_eq!(said("65_536"), "65,536");
        assert_eq!(said("1 << 15"), "32,768");
        assert_eq!(said("256 << 20"), "256 MiB");
        assert_eq!(said("Duration::from_millis(10)"), "10 ms");
        assert_eq!(said("255"), "255");
        assert_eq!(with_commas(1_234_567), "1,234,567");
        assert_eq!(super::said("max()"), None);
    }

    #[test]
    fn a_number_that_differs_is_found_across_a_broken_line() {
        let fact = Fact {
            file: "a.rs",
            code: "const MAX: u32 = ",
            prose: &[("at most ", " bytes of it")],
        };
        let all = files([
            ("a.rs", "const MAX: u32 = 1_000;"),
            ("b.md", "It has at\nmost 1,001 bytes\nof it.\n"),
        ]);
        let documents: Vec<_> = documents(&all).collect();
        let of = |documents: &[_]| found(|findings| check_fact(&all, &fact, documents, findings));
        assert_eq!(of(&documents), ["b.md:1: `1,001`, and `const MAX: u32 =` is 1,000"]);
        assert!(of(&[])[0].ends_with("any more: change the list"));
        let all = files([("a.rs", ""), ("b.md", "")]);
        assert_eq!(
            found(|f| check_fact(&all, &fact, &[], f)),
            ["a.rs:1: no `const MAX: u32 =` with a value"]
        );
    }

    #[test]
    fn phrases_are_found_in_documents_and_comments() {
        let list = "# why\nno online copy | there is one\n";
        let text = "/// There is\n/// No Online\n///  copy.\nfn f() {}\n";
        let all = files([(PHRASES, list), ("a.rs", text), ("CHANGELOG.md", "no online copy")]);
        let documents: Vec<_> = documents(&all).collect();
        let findings = found(|findings| check_phrases(&all, &documents, findings));
        assert_eq!(findings, ["a.rs:2: `no online copy` is false: there is one"]);
    }

    #[test]
    fn names_that_are_gone_are_found() {
        let source = "pub fn len(&self) {}\npub struct A {\n    pub bytes: u64,\n}\npub enum E {\n    Full,\n}\n";
        let all = files([("crates/everleaf/src/a.rs", source)]);
        let text = "`Tree::len`, `tree.len()?`, `Stats::bytes`, `Error::Full`, `MyDb::open`\n`Db::find_tree`, `tx.len`\n";
        let findings =
            found(|findings| check_items("docs/guide/a.md", text, &items(&all), findings));
        assert_eq!(findings, ["docs/guide/a.md:2: Db::find_tree is not there"]);
    }

    #[test]
    fn sentences_about_who_and_what_are_found_and_questions_are_not() {
        let text = "# What is there\nWhat is it? It is a store. What it keeps\nstays. He asks who\nWho is.\n\n\
                    - **What counts** is this. Guess What\n| What | x. Who waits goes on |\n\
                    ```\nWhat runs.\n```\nWho comes here,\nand when?\n";
        let of = |path| found(|findings| check_subjects(path, text, findings));
        let lines = |path| -> Vec<_> {
            of(path).iter().map(|line| line.split(": ").next().unwrap_or("").to_owned()).collect()
        };
        let wanted = ["7", "2", "6"].map(|line| format!("docs/guide/a.md:{line}"));
        assert_eq!(lines("docs/guide/a.md"), wanted);
    }

    #[test]
    fn sentences_of_comments_begin_with_their_subject_too() {
        let source = "//! What it is.\n\n/// Who reads\n/// waits. What it\n/// keeps stays.\nfn a() {} // Is that all? \
                      What now?\nlet a = \" // What is\"; /\x2f Who writes goes on.\nlet b = 1;\n// And what\n";
        let findings = found(|findings| check_subjects("a.rs", &comments(source), findings));
        let lines: Vec<_> = findings.iter().map(|line| line.split(": ").next()).collect();
        assert_eq!(lines, ["a.rs:3", "a.rs:7", "a.rs:1", "a.rs:4"].map(Some));
    }

    #[test]
    fn a_first_document_that_has_become_long_is_found() {
        let found_of = |path, words| found(|f| check_length(path, &"word \n".repeat(words), f));
        assert_eq!(found_of("README.md", 900), [""; 0]);
        assert_eq!(found_of("README.md", 901), ["README.md:1: 901 words, and 900 at most"]);
        assert_eq!(found_of("docs/README.md", 9000), [""; 0]);
    }

    #[test]
    fn options_of_the_command_are_known_by_their_fields() {
        let source = "#[arg(long, value_name = \"FILE\",\n        conflicts_with = \"x\")]\n    /// Doc\n    \
                      pub all_of_it: bool,\n#[arg(long = \"as\")]\n    format: X,\n#[arg(short)]\n    no: bool,\n";
        let all = files([("crates/cli/src/a.rs", source)]);
        let text =
            "Run `everleaf get --all-of-it P` or\n    everleaf put --as=x --no\n`cargo x --y`\n";
        let findings = found(|findings| check_options("a.md", text, &options(&all), findings));
        assert_eq!(findings, ["a.md:2: the command has no --no"]);
    }
}
