//! `install --prefix P [--destdir D] [--features LIST]`: the C library, what finds it, and the command, as a system has them;
//! with `--index`, the C library of the trees by name, its headers and its wrapper for PiBench instead.
//!
//! Files go to D and P together; what they say counts from P, or from where they are themselves, so that the tree may be
//! moved. Each file is written beside its place and renamed: a program that runs keeps the library that it has, and a second
//! install over the first one is right. The size of the shared library is printed.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use serde_json::Value;

/// The profile that cargo builds with.
const PROFILE: &str = "packaged";

/// The text before the flags that the linker needs beside the static library.
const NATIVE: &str = "native-static-libs: ";

/// Where shells look for what completes a command.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/everleaf"),
    ("zsh", "share/zsh/site-functions/_everleaf"),
    ("fish", "share/fish/vendor_completions.d/everleaf.fish"),
];

/// The parts that are installed.
pub enum What<'f> {
    /// The C library of a `Db`, with features, and the command.
    Db(Option<&'f str>),
    /// The C library of the trees by name.
    Index,
}

/// Installs everything, and says what was done.
pub fn run(root: &Path, prefix: &Path, destdir: Option<&Path>, what: &What<'_>) -> ExitCode {
    let done = place(prefix, destdir).map(Place).and_then(|place| match what {
        What::Db(features) => install(root, &place, *features),
        What::Index => install_index(root, &place),
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("install: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Where files go.
fn place(prefix: &Path, destdir: Option<&Path>) -> Result<PathBuf, String> {
    match destdir {
        None => std::path::absolute(prefix).map_err(|e| format!("{}: {e}", prefix.display())),
        // D/usr/local, not /usr/local, which `join` would say.
        Some(destdir) => match prefix.strip_prefix("/") {
            Ok(below) => Ok(destdir.join(below)),
            Err(_) => {
                Err(format!("with --destdir, --prefix {} must begin with /", prefix.display()))
            }
        },
    }
}

fn install(root: &Path, place: &Place, features: Option<&str>) -> Result<(), String> {
    let mut built = build(root, &DB, features.unwrap_or_default())?;
    built.note(&cargo(root, &["build", "-p", "everleaf-cli", "--bin", "everleaf"], &[])?);
    if built.command.as_os_str().is_empty() {
        return Err(format!("cargo has not told of the command: {built:?}"));
    }
    let version = env!("CARGO_PKG_VERSION");
    let [soname, shared] = libraries(&built, &DB, place)?;
    for header in ["everleaf.h", "everleaf.hpp"] {
        let source = root.join("crates/capi/include").join(header);
        place.copy(&source, &format!("include/{header}"), 0o644)?;
    }
    let private: Vec<&str> = built.native.split_whitespace().collect();
    let texts = [
        ("lib/pkgconfig/everleaf.pc", pkg_config(&DB, version, &private)),
        ("lib/cmake/everleaf/everleaf-config.cmake", cmake(&shared, &soname, &private)),
        ("lib/cmake/everleaf/everleaf-config-version.cmake", cmake_version(version)),
    ];
    for (to, text) in texts {
        place.write(to, text.as_bytes(), 0o644)?;
    }
    place.copy(&built.command, "bin/everleaf", 0o755)?;
    tell_of_command(&built.command, place)?;

    installed(&built, &shared, place)
}

fn install_index(root: &Path, place: &Place) -> Result<(), String> {
    let built = build(root, &INDEX, "")?;
    let [_, shared] = libraries(&built, &INDEX, place)?;
    for (from, to) in [
        ("include/everleaf_index.h", "include/everleaf_index.h"),
        ("pibench/tree_api.hpp", "share/everleaf_index/pibench/tree_api.hpp"),
        ("pibench/everleaf_wrapper.cpp", "share/everleaf_index/pibench/everleaf_wrapper.cpp"),
    ] {
        place.copy(&root.join("research/index").join(from), to, 0o644)?;
    }
    let private: Vec<&str> = built.native.split_whitespace().collect();
    let text = pkg_config(&INDEX, env!("CARGO_PKG_VERSION"), &private);
    place.write("lib/pkgconfig/everleaf_index.pc", text.as_bytes(), 0o644)?;
    installed(&built, &shared, place)
}

/// A library, as those know it that look for it.
struct Library {
    package: &'static str,
    name: &'static str,
    what: &'static str,
}

const DB: Library = Library {
    package: "everleaf-capi",
    name: "everleaf",
    what: "A crash-safe ordered store of byte strings on an ordinary file",
};

const INDEX: Library = Library {
    package: "everleaf-index",
    name: "everleaf_index",
    what: "Persistent indexes of the literature, by name",
};

/// Puts a library where linkers and programs find it; says the name that programs ask for, and that of the file.
fn libraries(built: &Built, of: &Library, place: &Place) -> Result<[String; 2], String> {
    let version = env!("CARGO_PKG_VERSION");
    let (major, _) = version.split_once('.').unwrap_or((version, ""));
    let [plain, archive] = ["so", "a"].map(|end| format!("lib{}.{end}", of.name));
    let (soname, shared) = (format!("{plain}.{major}"), format!("{plain}.{version}"));
    place.copy(&built.shared, &format!("lib/{shared}"), 0o755)?;
    place.link(&shared, &format!("lib/{soname}"))?;
    place.link(&soname, &format!("lib/{plain}"))?;
    place.copy(&built.archive, &format!("lib/{archive}"), 0o644)?;
    strip_debug(&place.0.join("lib").join(archive));
    Ok([soname, shared])
}

fn installed(built: &Built, shared: &str, place: &Place) -> Result<(), String> {
    let bytes = fs::metadata(&built.shared).map_err(|e| e.to_string())?.len();
    println!("{shared}: {bytes} bytes, stripped");
    println!("installed: {}", place.0.display());
    Ok(())
}

/// Manual pages and completions, as the command itself makes them.
fn tell_of_command(command: &Path, place: &Place) -> Result<(), String> {
    let pages = place.0.join("share/man/man1");
    fs::create_dir_all(&pages).map_err(|e| format!("{}: {e}", pages.display()))?;
    said(Command::new(command).arg("man").arg(&pages))?;
    for (shell, to) in COMPLETIONS {
        place.write(to, &said(Command::new(command).args(["completions", shell]))?, 0o644)?;
    }
    Ok(())
}

/// The output of a command.
fn said(command: &mut Command) -> Result<Vec<u8>, String> {
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|e| format!("{command:?}: {e}"))?;
    let succeeded = output.status.success();
    succeeded.then_some(output.stdout).ok_or_else(|| format!("{command:?}: {}", output.status))
}

/// Takes out of a static library what debuggers read: most of it is the standard library's. Without the tool for it the file
/// is larger, and as good.
fn strip_debug(archive: &Path) {
    let status = Command::new("strip")
        .args(["--strip-debug", "--enable-deterministic-archives"])
        .arg(archive)
        .status();
    if !status.is_ok_and(|status| status.success()) {
        let archive = archive.display();
        println!("{archive} keeps its debug sections: there is no strip that takes them out");
    }
}

/// The results of cargo's builds.
#[derive(Debug, Default, PartialEq)]
struct Built {
    shared: PathBuf,
    archive: PathBuf,
    command: PathBuf,
    /// The flags that the linker needs beside the static library.
    native: String,
}

fn build(root: &Path, of: &Library, features: &str) -> Result<Built, String> {
    let library = ["rustc", "-p", of.package, "--lib", "--features", features];
    let print = ["--", "--print", "native-static-libs"];
    let mut built = Built::default();
    built.note(&cargo(root, &library, &print)?);
    match &built {
        Built { shared, archive, native, .. }
            if [shared, archive].iter().any(|path| path.as_os_str().is_empty())
                || native.is_empty() =>
        {
            Err(format!("cargo has not told all that it made: {built:?}"))
        }
        _ => Ok(built),
    }
}

/// Builds, and returns what cargo tells as lines of JSON.
fn cargo(root: &Path, what: &[&str], last: &[&str]) -> Result<String, String> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root).args(what);
    command.args(["--locked", "--profile", PROFILE, "--message-format=json"]).args(last);
    command.env("CARGO_ENCODED_RUSTFLAGS", flags(root));
    Ok(String::from_utf8_lossy(&said(&mut command)?).into_owned())
}

/// The compiler's flags: those of the environment, and ours, since the messages of panics name source files and are not
/// to name the machine on which they were compiled.
fn flags(root: &Path) -> String {
    let encoded = std::env::var("CARGO_ENCODED_RUSTFLAGS").ok();
    let plain = std::env::var("RUSTFLAGS").unwrap_or_default();
    let given =
        encoded.unwrap_or_else(|| plain.split_whitespace().collect::<Vec<_>>().join("\x1f"));
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let cargo = std::env::var_os("CARGO_HOME").map_or_else(|| home.join(".cargo"), PathBuf::from);
    // The last one that fits counts.
    let folders = [(root.to_owned(), "everleaf"), (cargo.join("registry/src"), "crates")];
    let remapped = folders.map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display()));
    let all =
        given.split('\x1f').filter(|flag| !flag.is_empty()).map(str::to_owned).chain(remapped);
    all.collect::<Vec<_>>().join("\x1f")
}

impl Built {
    /// Takes the results from the lines of cargo. Other messages of the compiler go to stderr.
    fn note(&mut self, lines: &str) {
        let lines = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        for line in lines {
            let text = line["message"]["message"].as_str().unwrap_or_default();
            match text.strip_prefix(NATIVE) {
                Some(native) => self.native = native.trim().to_owned(),
                None if !text.is_empty() && line["message"]["level"] != "note" => {
                    eprint!("{}", line["message"]["rendered"].as_str().unwrap_or(text));
                }
                None => {}
            }
            let files =
                line["filenames"].as_array().into_iter().flatten().filter_map(Value::as_str);
            for file in files.chain(line["executable"].as_str()).map(Path::new) {
                match file.file_name().and_then(|name| name.to_str()) {
                    Some("libeverleaf.so" | "libeverleaf_index.so") => {
                        self.shared = file.to_owned()
                    }
                    Some("libeverleaf.a" | "libeverleaf_index.a") => self.archive = file.to_owned(),
                    Some("everleaf") => self.command = file.to_owned(),
                    _ => {}
                }
            }
        }
    }
}

/// Where everything goes.
struct Place(PathBuf);

impl Place {
    /// Makes `to` in one step out of a new file beside it.
    fn make(
        &self,
        to: &str,
        make: impl FnOnce(&Path) -> std::io::Result<()>,
    ) -> Result<(), String> {
        let to = self.0.join(to);
        let mut beside = to.clone().into_os_string();
        beside.push(".new");
        let beside = PathBuf::from(beside);
        let made = || {
            fs::create_dir_all(to.parent().expect("below the prefix"))?;
            if beside.symlink_metadata().is_ok() {
                fs::remove_file(&beside)?;
            }
            make(&beside)?;
            fs::rename(&beside, &to)
        };
        made().map_err(|e| format!("{}: {e}", to.display()))
    }

    fn copy(&self, from: &Path, to: &str, mode: u32) -> Result<(), String> {
        let bytes = fs::read(from).map_err(|e| format!("{}: {e}", from.display()))?;
        self.write(to, &bytes, mode)
    }

    fn write(&self, to: &str, bytes: &[u8], mode: u32) -> Result<(), String> {
        self.make(to, |beside| {
            fs::write(beside, bytes)?;
            fs::set_permissions(beside, fs::Permissions::from_mode(mode))
        })
    }

    fn link(&self, target: &str, to: &str) -> Result<(), String> {
        self.make(to, |beside| symlink(target, beside))
    }
}

/// The file that `pkg-config` reads. The prefix counts from the file, so that the tree may be moved.
fn pkg_config(of: &Library, version: &str, private: &[&str]) -> String {
    let Library { name, what, .. } = of;
    format!(
        "prefix=${{pcfiledir}}/../..\n\
         libdir=${{prefix}}/lib\n\
         includedir=${{prefix}}/include\n\
         \n\
         Name: {name}\n\
         Description: {what}\n\
         Version: {version}\n\
         Cflags: -I${{includedir}}\n\
         Libs: -L${{libdir}} -l{name}\n\
         Libs.private: {}\n",
        private.join(" ")
    )
}

/// The file that `find_package(everleaf)` of CMake reads.
fn cmake(shared: &str, soname: &str, private: &[&str]) -> String {
    format!(
        r#"# find_package(everleaf) makes the targets everleaf::everleaf, which is shared, and everleaf::static.
get_filename_component(_everleaf_prefix "${{CMAKE_CURRENT_LIST_DIR}}/../../.." REALPATH)

if(NOT TARGET everleaf::everleaf)
  add_library(everleaf::everleaf SHARED IMPORTED)
  set_target_properties(everleaf::everleaf PROPERTIES
    IMPORTED_LOCATION "${{_everleaf_prefix}}/lib/{shared}"
    IMPORTED_SONAME "{soname}"
    INTERFACE_INCLUDE_DIRECTORIES "${{_everleaf_prefix}}/include")
endif()

if(NOT TARGET everleaf::static)
  add_library(everleaf::static STATIC IMPORTED)
  set_target_properties(everleaf::static PROPERTIES
    IMPORTED_LOCATION "${{_everleaf_prefix}}/lib/libeverleaf.a"
    IMPORTED_LINK_INTERFACE_LANGUAGES "C"
    INTERFACE_INCLUDE_DIRECTORIES "${{_everleaf_prefix}}/include"
    INTERFACE_LINK_LIBRARIES "{}")
endif()

unset(_everleaf_prefix)
"#,
        private.join(";")
    )
}

/// Which requests of `find_package(everleaf VERSION)` this version answers: before 1.0 those of the same second number.
fn cmake_version(version: &str) -> String {
    let numbers: Vec<&str> = version.split('.').collect();
    let same = match numbers[..] {
        ["0", minor, ..] => format!(r"^0\\.{minor}(\\.|$)"),
        _ => format!(r"^{}(\\.|$)", numbers[0]),
    };
    format!(
        r#"set(PACKAGE_VERSION "{version}")
if(PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION
    OR (PACKAGE_FIND_VERSION AND NOT PACKAGE_FIND_VERSION MATCHES "{same}"))
  set(PACKAGE_VERSION_COMPATIBLE FALSE)
else()
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
  if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
    set(PACKAGE_VERSION_EXACT TRUE)
  endif()
endif()
if(CMAKE_SIZEOF_VOID_P AND NOT CMAKE_SIZEOF_VOID_P EQUAL {})
  set(PACKAGE_VERSION_UNSUITABLE TRUE)
endif()
"#,
        size_of::<usize>()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_go_to_destdir_and_prefix_together() {
        let at =
            |prefix: &str, destdir: Option<&str>| place(prefix.as_ref(), destdir.map(Path::new));
        assert_eq!(at("/usr", Some("/tmp/d")), Ok("/tmp/d/usr".into()));
        assert_eq!(at("/opt/e", None), Ok("/opt/e".into()));
        assert!(at("opt", None).is_ok_and(|path| path.is_absolute() && path.ends_with("opt")));
        at("opt", Some("/tmp/d")).expect_err("no prefix of a system");
    }

    #[test]
    fn a_file_is_put_over_an_older_one_and_over_what_a_broken_install_left() {
        let dir = tempfile::tempdir().expect("a folder");
        let place = Place(dir.path().join("p"));
        place.write("lib/x.1", b"one", 0o755).expect("a file");
        place.link("x.1", "lib/x").expect("a link");
        symlink("nowhere", dir.path().join("p/lib/x.new")).expect("a link");
        place.write("lib/x.1", b"two", 0o644).expect("again");
        place.link("x.1", "lib/x").expect("again");
        let lib = dir.path().join("p/lib");
        assert_eq!(fs::read(lib.join("x")).expect("a file"), b"two");
        let mode = fs::metadata(lib.join("x.1")).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o644);
        assert_eq!(fs::read_dir(&lib).expect("a folder").count(), 2);
        fs::create_dir(lib.join("dir")).expect("a folder");
        let told = place.write("lib/dir", b"", 0o644).expect_err("a folder is in the way");
        assert!(told.contains("lib/dir: "), "{told}");
    }

    #[test]
    fn cargo_tells_what_it_made_and_what_the_linker_needs() {
        let mut built = Built::default();
        built.note(concat!(
            r#"{"reason":"compiler-message","message":{"message":"native-static-libs: -lgcc_s -lc","level":"note"}}"#,
            "\n",
            r#"{"reason":"compiler-artifact","filenames":["/t/libeverleaf.so","/t/libeverleaf.a"],"executable":null}"#,
            "\nnoise\n",
            r#"{"reason":"compiler-artifact","filenames":["/t/everleaf"],"executable":"/t/everleaf"}"#,
        ));
        let wanted = Built {
            shared: "/t/libeverleaf.so".into(),
            archive: "/t/libeverleaf.a".into(),
            command: "/t/everleaf".into(),
            native: "-lgcc_s -lc".into(),
        };
        assert_eq!(built, wanted);
    }

    #[test]
    fn panics_do_not_name_the_machine() {
        let flags = flags(Path::new("/a folder"));
        assert!(flags.split('\x1f').any(|flag| flag == "--remap-path-prefix=/a folder=everleaf"));
        assert!(flags.ends_with("registry/src=crates"), "{flags}");
    }
}
