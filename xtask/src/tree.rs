//! The repository's text files, as git would list them.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Contents by path; paths are relative to the root, with `/`. Files that are not UTF-8 have empty
/// contents: only that they exist matters.
pub type Files = BTreeMap<String, String>;

/// Tracked files, and new ones that are not ignored.
///
/// # Errors
///
/// If git cannot list the files.
pub fn read(root: &Path) -> Result<Files, String> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .map_err(|error| format!("cannot run git: {error}"))?;
    if !output.status.success() {
        return Err(format!("git ls-files: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    let names = String::from_utf8_lossy(&output.stdout).into_owned();
    let contents = |name: &str| {
        let bytes = std::fs::read(root.join(name)).ok()?; // deleted, not yet committed
        Some((name.to_owned(), String::from_utf8(bytes).unwrap_or_default()))
    };
    Ok(names.split('\0').filter(|name| !name.is_empty()).filter_map(contents).collect())
}

/// The Rust files.
pub fn rust(files: &Files) -> impl Iterator<Item = (&str, &str)> {
    with_suffix(files, ".rs")
}

/// Files whose names end so.
pub fn with_suffix<'a>(
    files: &'a Files,
    suffix: &'a str,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    files.iter().filter(move |(name, _)| name.ends_with(suffix)).map(|(n, t)| (&n[..], &t[..]))
}

/// A finding at a line, counted from 1.
pub fn finding(path: &str, line: usize, what: impl std::fmt::Display) -> String {
    format!("{path}:{line}: {what}")
}

/// Files for a test.
#[cfg(test)]
pub fn files<const N: usize>(files: [(&str, &str); N]) -> Files {
    files.into_iter().map(|(name, text)| (name.to_owned(), text.to_owned())).collect()
}
