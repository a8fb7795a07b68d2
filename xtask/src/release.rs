//! `release --dry-run`: everything of a release but the publishing, so that the day itself brings nothing new.
//! docs/RELEASING.md is the list for the person who does it.
//!
//! Each finding is something that a person must mend or fill in. All are told, not only the first.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, ExitCode};

use serde_json::Value;

use crate::dist;
use crate::steps::{self, Step, output};

/// Files that each package must have beside its sources.
const FILES: [&str; 3] = ["LICENSE-APACHE", "LICENSE-MIT", "README.md"];

/// Tools that look at what a release changes, if they are installed: how each is found, and what it runs.
const TOOLS: [(&str, &str); 3] = [
    ("semver-checks", "semver-checks check-release"),
    ("public-api", "public-api -p everleaf --simplified"),
    ("deny", "deny check licenses bans sources"),
];

/// Looks at everything; fails if something is left to do.
pub fn dry_run(root: &Path) -> ExitCode {
    match look(root) {
        Ok(left) if left.is_empty() => {
            println!("release: nothing is left but to publish");
            ExitCode::SUCCESS
        }
        Ok(left) => {
            left.iter().for_each(|what| println!("TO DO: {what}"));
            println!("release: {} left to do", left.len());
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("release: {error}");
            ExitCode::from(4)
        }
    }
}

fn look(root: &Path) -> Result<Vec<String>, String> {
    let told = output(root, "cargo", &["metadata", "--no-deps", "--format-version=1"])?;
    let workspace: Value =
        serde_json::from_str(&told).map_err(|e| format!("cargo metadata: {e}"))?;
    let packages = published(&workspace)?;
    let names: Vec<&str> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    println!("in this order: {}", names.join(", "));
    let version = version(&packages)?;
    let mut left = manifests(&packages, &version);
    let changes = std::fs::read_to_string(root.join("CHANGELOG.md"));
    left.extend(changelog(&changes.map_err(|e| format!("CHANGELOG.md: {e}"))?, &version));
    left.extend(tag(root, &version)?);
    for name in &names {
        let listed = output(root, "cargo", &["package", "--list", "--allow-dirty", "-p", name])?;
        let listed: BTreeSet<_> = listed.lines().collect();
        let missing = FILES.iter().filter(|file| !listed.contains(**file));
        left.extend(missing.map(|file| format!("{name}: the package has no {file}")));
    }
    let of_all: String = names.iter().map(|name| format!(" -p {name}")).collect();
    let mut steps = vec![
        // Each is made against those before it, which need not be published yet.
        Step::cargo(&format!("package --no-verify --allow-dirty{of_all}")),
        Step::cargo(&format!("doc --no-deps{of_all}")).env("RUSTDOCFLAGS", "-D warnings"),
    ];
    for (tool, command) in TOOLS {
        match is_installed(tool) {
            true => steps.push(Step::cargo(command)),
            false => println!("skipped: there is no cargo-{tool} (cargo install cargo-{tool})"),
        }
    }
    if steps::run(root, &steps) != ExitCode::SUCCESS {
        left.push("the step above has failed".into());
    }
    left.extend(dist::make(root, &version)?);
    Ok(left)
}

fn is_installed(tool: &str) -> bool {
    Command::new(format!("cargo-{tool}")).arg("--version").output().is_ok()
}

/// The packages that go to the registry, each behind those that it needs.
fn published(workspace: &Value) -> Result<Vec<&Value>, String> {
    let packages = workspace["packages"].as_array().ok_or("cargo metadata names no packages")?;
    // `publish = false` is an empty list of registries.
    let is_published =
        |package: &&Value| package["publish"].as_array().is_none_or(|to| !to.is_empty());
    let mut left: Vec<&Value> = packages.iter().filter(is_published).collect();
    let mut sorted: Vec<&Value> = Vec::new();
    while !left.is_empty() {
        let is_waiting = |package: &Value| {
            own(package).any(|needed| left.iter().any(|one| one["name"] == needed["name"]))
        };
        let next = left.iter().position(|package| !is_waiting(package));
        let next = next.ok_or("packages need each other in a circle")?;
        sorted.push(left.remove(next));
    }
    Ok(sorted)
}

/// The packages of this repository that a package needs when it is used.
fn own(package: &Value) -> impl Iterator<Item = &Value> {
    let needed = package["dependencies"].as_array().into_iter().flatten();
    needed.filter(|needed| needed["path"].is_string() && needed["kind"] != "dev")
}

/// The one version of all packages.
fn version(packages: &[&Value]) -> Result<String, String> {
    let versions: BTreeSet<_> =
        packages.iter().filter_map(|package| package["version"].as_str()).collect();
    match Vec::from_iter(versions)[..] {
        [version] => Ok(version.to_owned()),
        ref several => Err(format!("the packages have the versions {}", several.join(", "))),
    }
}

/// The faults of manifests: what they lack or say wrongly.
fn manifests(packages: &[&Value], version: &str) -> Vec<String> {
    let mut left = Vec::new();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        for field in ["description", "license", "readme", "documentation", "repository"] {
            if package[field].as_str().is_none_or(str::is_empty) {
                left.push(format!("{name}: fill in `{field}` in its Cargo.toml"));
            }
        }
        for (field, most) in [("keywords", 5), ("categories", 5)] {
            let count = package[field].as_array().map_or(0, Vec::len);
            if count == 0 || count > most {
                left.push(format!("{name}: {count} {field}, not 1 to {most}"));
            }
        }
        for needed in own(package).filter(|needed| needed["req"] != format!("^{version}")) {
            left.push(format!("{name}: needs {} {}, not {version}", needed["name"], needed["req"]));
        }
    }
    left
}

/// The fault of the changelog, if it has one.
fn changelog(text: &str, version: &str) -> Option<String> {
    let start = format!("## [{version}]");
    let Some(heading) = text.lines().find(|line| line.starts_with(&start)) else {
        return Some(format!("CHANGELOG.md has no section `{start} - DATE`"));
    };
    let date = heading[start.len()..].trim_start_matches(" - ");
    let is_date =
        date.len() == 10 && date.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    (!is_date).then(|| format!("CHANGELOG.md: put the date into `{heading}`"))
}

/// The obstacles to the tag.
fn tag(root: &Path, version: &str) -> Result<Vec<String>, String> {
    let tag = format!("v{version}");
    let mut left = Vec::new();
    if !output(root, "git", &["tag", "--list", &tag])?.is_empty() {
        left.push(format!("the tag {tag} is there: raise the version"));
    }
    if !output(root, "git", &["status", "--porcelain"])?.is_empty() {
        left.push("commit what is not committed".into());
    }
    println!("tag: {tag}");
    Ok(left)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn package(name: &str, needs: &[&str]) -> Value {
        let needs = needs
            .iter()
            .map(|name| json!({ "name": name, "path": "/r", "req": "^0.1.0", "kind": null }));
        json!({
            "name": name, "version": "0.1.0", "publish": null, "dependencies": needs.collect::<Value>(),
            "description": "d", "license": "l", "readme": "r", "documentation": "u", "repository": "u",
            "keywords": ["k"], "categories": ["c"],
        })
    }

    #[test]
    fn packages_come_behind_those_that_they_need() {
        let mut tool = package("tool", &[]);
        tool["publish"] = json!([]);
        let workspace = json!({ "packages": [package("c", &["b", "a"]), tool, package("b", &["a"]), package("a", &[])] });
        let sorted = published(&workspace).expect("no circle");
        assert_eq!(sorted.iter().map(|one| &one["name"]).collect::<Vec<_>>(), ["a", "b", "c"]);
        let circle = json!({ "packages": [package("a", &["b"]), package("b", &["a"])] });
        assert!(published(&circle).is_err());
    }

    #[test]
    fn what_a_manifest_lacks_is_told() {
        let sound = package("a", &["b"]);
        assert_eq!(manifests(&[&sound], "0.1.0"), [""; 0]);
        let mut bad = sound.clone();
        bad["repository"] = Value::Null;
        bad["keywords"] = json!(["1", "2", "3", "4", "5", "6"]);
        bad["dependencies"][0]["req"] = "^0.0.9".into();
        let left = manifests(&[&bad], "0.1.0");
        assert_eq!(left.len(), 3, "{left:?}");
        assert_eq!(left[0], "a: fill in `repository` in its Cargo.toml");
        // One that only tests need is not looked at.
        bad["dependencies"][0]["kind"] = "dev".into();
        assert_eq!(manifests(&[&bad], "0.1.0").len(), 2);
        let mut other = sound.clone();
        other["version"] = "0.2.0".into();
        assert!(version(&[&sound, &other]).is_err());
    }

    #[test]
    fn a_changelog_has_the_version_and_its_date() {
        assert_eq!(changelog("# C\n## [0.1.0] - 2026-11-26\n", "0.1.0"), None);
        assert!(
            changelog("## [0.1.0] - not released\n", "0.1.0")
                .is_some_and(|what| what.contains("date"))
        );
        assert!(changelog("## [0.0.9] - 2026-11-26\n", "0.1.0").is_some());
    }
}
