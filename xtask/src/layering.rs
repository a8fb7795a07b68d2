//! A crate may name only crates above it.

use crate::tree::{Files, finding};

/// The product's crates, top first, with those that they may name.
const LAYERS: [(&str, &[&str]); 9] = [
    ("pmem", &[]),
    ("file", &["pmem"]),
    ("pool", &["pmem"]),
    ("tree", &["pmem", "file", "pool"]),
    ("everleaf", &["pmem", "file", "pool", "tree"]),
    ("crash-check", &["pmem", "pool", "tree"]),
    ("salvage", &["pmem", "file", "pool", "tree", "everleaf"]),
    ("cli", &["everleaf", "salvage"]),
    ("capi", &["everleaf"]),
];

/// Reports dependencies that point the wrong way. Development dependencies are free.
pub fn check(files: &Files, findings: &mut Vec<String>) {
    for (name, allowed) in LAYERS {
        let path = format!("crates/{name}/Cargo.toml");
        let Some(text) = files.get(&path) else {
            findings.push(finding(&path, 1, "a crate of this list is not there"));
            continue;
        };
        for (line, dependency) in dependencies(text) {
            if !allowed.contains(&dependency) {
                let what = format!("{name} may not depend on {dependency}, only on {allowed:?}");
                findings.push(finding(&path, line, what));
            }
        }
    }
}

/// The product's crates among the dependencies, each with its line.
fn dependencies(manifest: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut inside = false;
    for (at, line) in manifest.lines().enumerate() {
        let line = line.trim();
        if let Some(table) = line.strip_prefix('[') {
            let table = table.trim_end_matches(']');
            inside = table.ends_with("dependencies") && !table.ends_with("dev-dependencies");
            if let Some((before, name)) = table.rsplit_once('.')
                && before.ends_with("dependencies")
                && !before.ends_with("dev-dependencies")
            {
                found.extend(product(name).map(|name| (at + 1, name)));
            }
        } else if inside {
            let name = line.split(['.', '=', ' ']).next().unwrap_or_default();
            found.extend(product(name).map(|name| (at + 1, name)));
        }
    }
    found
}

/// The crate's folder, if the package is one of the product's.
fn product(package: &str) -> Option<&str> {
    if package == "everleaf" { Some(package) } else { package.strip_prefix("everleaf-") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_crates_above_may_be_named() {
        let all = LAYERS.map(|(name, _)| (format!("crates/{name}/Cargo.toml"), String::new()));
        let mut there: Files = all.into();
        let mut findings = Vec::new();
        let manifest = "[package]\nname = \"everleaf-pool\"\n[dependencies]\n\
                        everleaf-pmem.workspace = true\neverleaf-tree = { path = \"../tree\" }\n\
                        serde = \"1\"\n[dev-dependencies]\neverleaf-crash-check.workspace = true\n\
                        [target.x.dependencies]\neverleaf.workspace = true\n";
        there.insert("crates/pool/Cargo.toml".to_owned(), manifest.to_owned());
        there.remove("crates/cli/Cargo.toml");
        check(&there, &mut findings);
        assert_eq!(findings.len(), 3, "{findings:?}");
        assert!(findings[0].starts_with("crates/pool/Cargo.toml:5: pool may not depend on tree"));
        assert!(findings[1].starts_with("crates/pool/Cargo.toml:10: "));
        assert!(findings[2].starts_with("crates/cli/Cargo.toml:1: a crate of this list"));
    }

    #[test]
    fn a_table_of_its_own_counts_too() {
        assert_eq!(dependencies("[dependencies.everleaf-pool]\npath = \"x\""), [(1, "pool")]);
        assert!(dependencies("[dev-dependencies.everleaf-pool]").is_empty());
    }
}
