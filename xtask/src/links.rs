//! Links in documents lead to a file and a heading that are there, and nothing names a path of one machine.

use crate::tree::{Files, finding, rust, with_suffix};

/// Starts of paths that exist on one machine only. In two parts, so that this file passes.
const MACHINE_PATHS: [&str; 2] = [concat!("/", "work/"), concat!("/", "root/")];

/// Reports relative links to files that do not exist, and paths of one machine.
pub fn check(files: &Files, findings: &mut Vec<String>) {
    for (path, text) in with_suffix(files, ".md") {
        for (line, target) in targets(text) {
            let (place, anchor) = target.split_once('#').unwrap_or((target, ""));
            if !exists(files, path, place) {
                findings.push(finding(path, line, format_args!("no file at {place}")));
            } else if !anchor.is_empty() && !has_heading(files, &resolve(path, place), anchor) {
                findings.push(finding(path, line, format_args!("no heading at {target}")));
            }
        }
    }
    let texts = rust(files).chain(with_suffix(files, ".md")).chain(with_suffix(files, ".toml"));
    for (path, text) in texts {
        for (at, line) in text.lines().enumerate() {
            for start in MACHINE_PATHS.iter().filter(|start| names(line, start)) {
                findings.push(finding(path, at + 1, format_args!("{start} is one machine's")));
            }
        }
    }
}

/// Whether a path in `line` starts so: at the start of a word, not inside a longer path.
fn names(line: &str, start: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || "_-.}".contains(c);
    line.match_indices(start).any(|(at, _)| !line[..at].ends_with(inside))
}

/// The relative targets of inline links and of `[name]: target` lines, outside of code blocks.
fn targets(text: &str) -> Vec<(usize, &str)> {
    let (mut found, mut in_code) = (Vec::new(), false);
    for (at, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        let inline = line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
        let named = line.strip_prefix('[').and_then(|line| line.split_once("]: "));
        for target in inline.chain(named.map(|(_, target)| target.trim())) {
            let foreign = target.contains("://") || target.starts_with("mailto:");
            if !target.is_empty() && !foreign {
                found.push((at + 1, target));
            }
        }
    }
    found
}

/// Where `target` is, seen from the file at `path`; nothing if that is outside of the repository.
fn resolve(path: &str, target: &str) -> Option<String> {
    let mut parts: Vec<_> = path.split('/').collect();
    if !target.is_empty() {
        parts.pop();
    }
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Whether a document has a heading that a link to `#anchor` finds. Other files have lines only.
fn has_heading(files: &Files, path: &Option<String>, anchor: &str) -> bool {
    let Some(path) = path.as_ref().filter(|path| path.ends_with(".md")) else { return true };
    let slug = |heading: &str| -> String {
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    let mut in_code = false;
    files.get(path).is_some_and(|text| {
        text.lines().any(|line| {
            in_code ^= line.trim_start().starts_with("```");
            !in_code && line.starts_with('#') && slug(line) == anchor
        })
    })
}

/// Whether `target`, seen from the file at `path`, is a file or a folder with files.
fn exists(files: &Files, path: &str, target: &str) -> bool {
    let Some(file) = resolve(path, target) else { return false };
    let folder = format!("{file}/");
    file.is_empty() || files.contains_key(&file) || files.keys().any(|key| key.starts_with(&folder))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::files;

    #[test]
    fn broken_links_are_found_with_their_lines() {
        let text = "[a](A.md) [b](../src/x.rs)\n[c](gone.md) [d](https://x.y/z)\n\
                    ```\n[f](code.md)\n```\n[g]: ../src\n[h]: nowhere\n[i](../../up.md)\n";
        let mut findings = Vec::new();
        let all = [("docs/A.md", text), ("src/x.rs", "")];
        check(&files(all), &mut findings);
        let wanted =
            ["2: no file at gone.md", "7: no file at nowhere", "8: no file at ../../up.md"];
        assert_eq!(findings, wanted.map(|end| format!("docs/A.md:{end}")));
    }

    #[test]
    fn headings_that_are_gone_are_found() {
        let text = "# The Top: `a_b`\n[a](#the-top-a_b) [b](#bottom) [c](B.md#2-dump) [d](B.md#3-dump)\n\
                    [e](x.rs#L3)\n```\n# Bottom\n```\n";
        let mut findings = Vec::new();
        let all = [("A.md", text), ("B.md", "## 3. Dump\n"), ("x.rs", "")];
        check(&files(all), &mut findings);
        let wanted = ["no heading at #bottom", "no heading at B.md#2-dump"];
        assert_eq!(findings, wanted.map(|what| format!("A.md:2: {what}")));
    }

    #[test]
    fn paths_of_one_machine_are_found() {
        let text = ["// see ", "/work", "/x\n// frame", "/work", "/x"].concat();
        let mut findings = Vec::new();
        check(&files([("a.rs", &text)]), &mut findings);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].starts_with("a.rs:1: "));
    }
}
