//! The files of a release, in `target/dist`: sources, the command for machines without our toolchain, the C library, the
//! Python package, what they are made of, what is new, and sums of all. Part of `release --dry-run`; publishes nothing.
//!
//! Archives are the same bytes whenever the same commit is packed by the same tools: their members have an order, and the time
//! of the commit.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use serde_json::{Value, json};

use crate::install;
use crate::steps::output;

/// Machines for which there is a command that needs nothing of theirs.
const TARGETS: [&str; 2] = ["x86_64-unknown-linux-musl", "aarch64-unknown-linux-musl"];

/// Files that go beside it.
const BESIDE: [&str; 4] = ["LICENSE-APACHE", "LICENSE-MIT", "README.md", "CHANGELOG.md"];

/// Packages that others build on: the needs of these are what a release is made of.
const PRODUCTS: [&str; 5] =
    ["everleaf", "everleaf-cli", "everleaf-capi", "everleaf-crash-check", "everleaf-salvage"];

/// Makes everything that this machine can make, and tells what it cannot.
pub fn make(root: &Path, version: &str) -> Result<Vec<String>, String> {
    let dist = Dist::new(root, version)?;
    let told = output(root, "cargo", &["metadata", "--locked", "--format-version=1"])?;
    let metadata: Value =
        serde_json::from_str(&told).map_err(|e| format!("cargo metadata: {e}"))?;
    let needed = needed(&metadata)?;
    dist.sources(&needed)?;
    dist.write("sbom.cdx.json", &format!("{:#}\n", bill(version, &needed)))?;
    let changes = root.join("CHANGELOG.md");
    let changes = fs::read_to_string(&changes).map_err(|e| format!("CHANGELOG.md: {e}"))?;
    let mut left = Vec::new();
    match notes(&changes, version) {
        Some(notes) => dist.write("notes.md", notes)?,
        None => left.push(format!("CHANGELOG.md says nothing of {version}")),
    }
    for target in TARGETS {
        left.extend(dist.command(target)?);
    }
    dist.library()?;
    left.extend(dist.python()?);
    dist.sums()?;
    Ok(left)
}

/// The folder that all of it goes to.
struct Dist<'r> {
    root: &'r Path,
    version: &'r str,
    folder: PathBuf,
    /// When the commit was made, in seconds.
    time: String,
}

impl<'r> Dist<'r> {
    /// The folder, emptied.
    fn new(root: &'r Path, version: &'r str) -> Result<Self, String> {
        let folder = root.join("target/dist");
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        }
        fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let time = output(root, "git", &["log", "-1", "--format=%ct"])?.trim().to_owned();
        Ok(Self { root, version, folder, time })
    }

    /// `everleaf-VERSION-` and what follows.
    fn named(&self, what: &str) -> PathBuf {
        self.folder.join(format!("everleaf-{}-{what}", self.version))
    }

    fn write(&self, what: &str, text: &str) -> Result<(), String> {
        let to = self.named(what);
        fs::write(&to, text).map_err(|e| format!("{}: {e}", to.display()))
    }

    /// The sources of the commit, and which crates `cargo vendor` puts beside them. The archive of the Python package has the
    /// name without a word behind the version: PyPI asks for that.
    fn sources(&self, needed: &[&Value]) -> Result<(), String> {
        let to = self.named("src.tar.gz");
        let prefix = format!("--prefix=everleaf-{}/", self.version);
        let to = to.to_string_lossy();
        output(self.root, "git", &["archive", "--format=tar.gz", &prefix, "-o", &to, "HEAD"])?;
        let line =
            |package: &&&Value| format!("{} {}\n", text(package, "name"), text(package, "version"));
        let others = needed.iter().filter(|package| package["source"].is_string());
        self.write("vendor.txt", &others.map(|package| line(&package)).collect::<String>())
    }

    /// The command of a target, or what is missing for it.
    fn command(&self, target: &str) -> Result<Option<String>, String> {
        let libraries = output(self.root, "rustc", &["--print=target-libdir", "--target", target])?;
        if !Path::new(libraries.trim()).exists() {
            return Ok(Some(format!("{target}: rustup target add {target}")));
        }
        let linker = format!("target.{target}.linker=\"rust-lld\"");
        let build =
            ["build", "--locked", "--profile=packaged", "-p", "everleaf-cli", "--target", target];
        let mut cargo = Command::new("cargo");
        cargo.args(build).args(["--config", &linker]).current_dir(self.root);
        let status = cargo.status().map_err(|e| format!("starting cargo: {e}"))?;
        if !status.success() {
            return Err(format!("the command cannot be built for {target}"));
        }
        let stage = Stage::new(self, target)?;
        let program = built(self.root).join(target).join("packaged/everleaf");
        stage.add(&program, "everleaf")?;
        BESIDE.iter().try_for_each(|file| stage.add(&self.root.join(file), file))?;
        stage.pack().map(|()| None)
    }

    /// The C library as it is installed, to be unpacked anywhere.
    fn library(&self) -> Result<(), String> {
        let stage = Stage::new(self, &format!("c-{}-linux-gnu", std::env::consts::ARCH))?;
        if install::run(self.root, &stage.folder, None, &install::What::Db(None))
            != ExitCode::SUCCESS
        {
            return Err("the C library cannot be installed".into());
        }
        BESIDE.iter().try_for_each(|file| stage.add(&self.root.join(file), file))?;
        stage.pack()
    }

    /// The wheel and the sources of the Python package, or what is missing for them.
    fn python(&self) -> Result<Option<String>, String> {
        let script = self.root.join("bindings/python/run.sh");
        let ran = Command::new("sh").arg(&script).arg("wheel").current_dir(self.root).status();
        if !ran.map_err(|e| format!("starting sh: {e}"))?.success() {
            return Ok(Some("bindings/python/run.sh wheel makes no Python package here".into()));
        }
        let made = built(self.root).join("python/dist");
        for entry in fs::read_dir(&made).map_err(|e| format!("{}: {e}", made.display()))?.flatten()
        {
            let to = self.folder.join(entry.file_name());
            if to.exists() {
                return Err(format!("{}: two files of the release have this name", to.display()));
            }
            fs::copy(entry.path(), &to).map_err(|e| format!("{}: {e}", to.display()))?;
        }
        Ok(None)
    }

    /// `SHA256SUMS` of all files, and what they are.
    fn sums(&self) -> Result<(), String> {
        let entries = fs::read_dir(&self.folder).map_err(|e| e.to_string())?.flatten();
        let names: BTreeSet<_> = entries.filter_map(|e| e.file_name().into_string().ok()).collect();
        let args: Vec<&str> = names.iter().map(String::as_str).collect();
        let sums = output(&self.folder, "sha256sum", &args)?;
        fs::write(self.folder.join("SHA256SUMS"), &sums).map_err(|e| e.to_string())?;
        for name in names {
            let bytes = fs::metadata(self.folder.join(&name)).map_err(|e| e.to_string())?.len();
            println!("{bytes:10} bytes  target/dist/{name}");
        }
        Ok(())
    }
}

/// A folder that becomes an archive of its name.
struct Stage<'d> {
    dist: &'d Dist<'d>,
    name: String,
    folder: PathBuf,
}

impl<'d> Stage<'d> {
    fn new(dist: &'d Dist<'d>, what: &str) -> Result<Self, String> {
        let name = format!("everleaf-{}-{what}", dist.version);
        let folder = dist.folder.join(&name);
        fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        Ok(Self { dist, name, folder })
    }

    fn add(&self, from: &Path, to: &str) -> Result<(), String> {
        let to = self.folder.join(to);
        fs::copy(from, to).map(drop).map_err(|e| format!("{}: {e}", from.display()))
    }

    /// Makes the archive, and takes the folder away.
    fn pack(&self) -> Result<(), String> {
        let mtime = format!("--mtime=@{}", self.dist.time);
        let to = format!("{}.tar.gz", self.name);
        let same = ["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mode=go-w"];
        let args = [&same[..], &[&mtime, "--use-compress-program=gzip -n", "-cf", &to, &self.name]];
        output(&self.dist.folder, "tar", &args.concat())?;
        fs::remove_dir_all(&self.folder).map_err(|e| format!("{}: {e}", self.folder.display()))
    }
}

/// Where cargo builds.
fn built(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_default()
}

/// The packages that the products are built of, themselves among them, in the order of their names. Without what only tests
/// need, and what only other systems do.
fn needed(metadata: &Value) -> Result<Vec<&Value>, String> {
    let packages = metadata["packages"].as_array().ok_or("cargo metadata names no packages")?;
    let nodes = metadata["resolve"]["nodes"].as_array().ok_or("cargo metadata resolves nothing")?;
    let by_id = |list: &'_ [Value]| -> BTreeMap<String, usize> {
        list.iter().enumerate().map(|(i, one)| (text(one, "id").to_owned(), i)).collect()
    };
    let (package_of, node_of) = (by_id(packages), by_id(nodes));
    let is_product = |package: &&Value| PRODUCTS.contains(&text(package, "name"));
    let mut next: Vec<&str> = packages.iter().filter(is_product).map(|p| text(p, "id")).collect();
    let mut met = BTreeSet::new();
    while let Some(id) = next.pop() {
        if !met.insert(id) {
            continue;
        }
        let node = node_of.get(id).ok_or_else(|| format!("{id} is not resolved"))?;
        let needs = nodes[*node]["deps"].as_array().into_iter().flatten();
        next.extend(needs.filter(|need| is_built(need)).map(|need| text(need, "pkg")));
    }
    let mut needed: Vec<&Value> = met.into_iter().map(|id| &packages[package_of[id]]).collect();
    needed.sort_by_key(|package| (text(package, "name"), text(package, "version")));
    Ok(needed)
}

/// Whether a package is needed to build, here.
fn is_built(need: &Value) -> bool {
    let other = ["windows", "macos", "wasm", "wasi", "redox", "hermit"];
    let kinds = need["dep_kinds"].as_array().into_iter().flatten();
    kinds.filter(|kind| kind["kind"] != "dev").any(|kind| {
        let target = text(kind, "target");
        !other.iter().any(|system| target.contains(system)) || target.contains("not(")
    })
}

/// The components of a release, as CycloneDX 1.5 has them.
fn bill(version: &str, needed: &[&Value]) -> Value {
    let place = |package: &Value| {
        format!("pkg:cargo/{}@{}", text(package, "name"), text(package, "version"))
    };
    let components = needed.iter().map(|package| {
        json!({
            "type": "library",
            "bom-ref": place(package),
            "name": package["name"],
            "version": package["version"],
            "licenses": [{ "expression": text(package, "license").replace('/', " OR ") }],
            "purl": place(package),
        })
    });
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": { "type": "application", "name": "everleaf", "version": version },
        },
        "components": components.collect::<Vec<_>>(),
    })
}

/// The changelog's section on a version, without its heading.
fn notes<'t>(changes: &'t str, version: &str) -> Option<&'t str> {
    let start = changes.find(&format!("\n## [{version}]"))? + 1;
    let body = changes[start..].split_once('\n')?.1;
    let notes = body.split("\n## ").next().unwrap_or_default().trim_start();
    (!notes.trim().is_empty()).then_some(notes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_those_of_the_version() {
        let changes = "# C\n\n## [0.2.0] - 2027-01-01\n\nNew.\n\n- a\n\n## [0.1.0] - x\n\nOld.\n";
        assert_eq!(notes(changes, "0.2.0"), Some("New.\n\n- a\n"));
        assert_eq!(notes(changes, "0.1.0"), Some("Old.\n"));
        assert_eq!(notes(changes, "0.3.0"), None);
        assert_eq!(notes("\n## [0.1.0]\n\n## [0.0.1]\n", "0.1.0"), None, "nothing is said");
    }

    #[test]
    fn a_release_is_made_of_what_its_products_need() {
        let package = |name: &str, source: Option<&str>| json!({ "id": name, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0", "source": source });
        let need = |name: &str, kind: Option<&str>, target: Option<&str>| json!({ "pkg": name, "dep_kinds": [{ "kind": kind, "target": target }] });
        let metadata = json!({
            "packages": [
                package("everleaf", None), package("used", Some("r")), package("made", Some("r")),
                package("tried", Some("r")), package("elsewhere", Some("r")), package("here", Some("r")),
            ],
            "resolve": { "nodes": [
                { "id": "everleaf", "deps": [
                    need("used", None, None), need("tried", Some("dev"), None),
                    need("elsewhere", None, Some("cfg(windows)")), need("here", None, Some("cfg(not(windows))")),
                ] },
                { "id": "used", "deps": [need("made", Some("build"), None), need("everleaf", Some("dev"), None)] },
                { "id": "made", "deps": [] }, { "id": "tried", "deps": [] },
                { "id": "elsewhere", "deps": [] }, { "id": "here", "deps": [] },
            ] },
        });
        let needed = needed(&metadata).expect("resolved");
        let names: Vec<&str> = needed.iter().map(|one| text(one, "name")).collect();
        assert_eq!(names, ["everleaf", "here", "made", "used"]);
        let bill = bill("1.0.0", &needed);
        assert_eq!(bill["components"][3]["purl"], "pkg:cargo/used@1.0.0");
        assert_eq!(bill["components"][3]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(bill["components"].as_array().map(Vec::len), Some(4));
    }
}
