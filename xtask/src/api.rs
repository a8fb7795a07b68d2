//! `api`: what a program can name of the crate `everleaf`, a line each, beside the list that the repository keeps.
//!
//! rustdoc knows it best, macros and re-exports included, and says it as JSON. The stable compiler writes that only if it
//! is told to be an unstable one, so a script in `target/` tells rustdoc alone: nothing else is built again for it. Items
//! re-exported from other crates of the workspace are listed under the names that they have in `everleaf`. Left out are
//! those that the compiler derives for all types, implementations for all types, and items that are hidden or private.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use serde_json::Value;

use crate::steps::output;

/// The list.
const LIST: &str = "ci/public-api/everleaf.txt";
/// The crates that `everleaf` re-exports something of, and itself.
const CRATES: [&str; 4] = ["everleaf", "everleaf-file", "everleaf-pmem", "everleaf-tree"];
/// The form of rustdoc's JSON that this reads: that of the compiler that rust-toolchain.toml names.
const FORMAT: u64 = 57;

const HEAD: &str = "\
# What a program can name of the crate everleaf. `cargo xtask api` compares it with the code,
# `cargo xtask api --renew` writes it: the diff is what a release note has to say.
# A function of a trait that ends with `;` has no default.
";

/// Compares the public API with the list, or writes the list.
pub fn run(root: &Path, renew: bool) -> ExitCode {
    match compare(root, renew) {
        Ok(changes) if changes.is_empty() => {
            println!("api: {LIST} is that of the code");
            ExitCode::SUCCESS
        }
        Ok(changes) => {
            changes.iter().for_each(|line| println!("{line}"));
            println!("api: if that is meant, `cargo xtask api --renew` writes it to {LIST}");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("api: {error}");
            ExitCode::from(4)
        }
    }
}

/// The lines that are no more, and those that are new.
fn compare(root: &Path, renew: bool) -> Result<Vec<String>, String> {
    let crates = crates(root)?;
    let now = list(&crates)?;
    let path = root.join(LIST);
    if renew {
        let text = format!("{HEAD}{}\n", now.join("\n"));
        fs::write(&path, text).map_err(|e| format!("{LIST}: {e}"))?;
    }
    let text = fs::read_to_string(&path).map_err(|e| format!("{LIST}: {e}"))?;
    let before: Vec<&str> = text.lines().filter(|line| !line.starts_with("# ")).collect();
    let gone = before.iter().filter(|line| !now.iter().any(|other| other == *line));
    let new = now.iter().filter(|line| !before.contains(&line.as_str()));
    Ok(gone.map(|line| format!("- {line}")).chain(new.map(|line| format!("+ {line}"))).collect())
}

/// The JSON that rustdoc writes about each crate, by the name that code has for it.
fn crates(root: &Path) -> Result<BTreeMap<String, Value>, String> {
    let metadata = output(root, "cargo", &["metadata", "--no-deps", "--format-version=1"])?;
    let metadata: Value = serde_json::from_str(&metadata).map_err(|e| e.to_string())?;
    let target = Path::new(metadata["target_directory"].as_str().ok_or("no target directory")?);
    let script = target.join("rustdoc-json");
    let told = "#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec rustdoc \"$@\"\n";
    fs::create_dir_all(target).map_err(|e| e.to_string())?;
    fs::write(&script, told).map_err(|e| format!("{}: {e}", script.display()))?;
    let mut command = Command::new("cargo");
    command.args(["doc", "--quiet", "--no-deps"]).current_dir(root);
    command.args(CRATES.iter().flat_map(|name| ["-p", name]));
    set_executable(&script)?;
    let status = command
        .env("RUSTDOC", &script)
        .env("RUSTDOCFLAGS", "-Z unstable-options --output-format json")
        .status();
    if !status.map_err(|e| format!("starting cargo: {e}"))?.success() {
        return Err("cargo doc has failed".into());
    }
    let read = |name: &&str| {
        let name = name.replace('-', "_");
        let path = target.join("doc").join(format!("{name}.json"));
        let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let json: Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
        match json["format_version"].as_u64() {
            Some(FORMAT) => Ok((name, json)),
            other => {
                Err(format!("rustdoc writes format {other:?}, xtask/src/api.rs reads {FORMAT}"))
            }
        }
    };
    CRATES.iter().map(read).collect()
}

#[cfg(unix)]
fn set_executable(script: &Path) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(script, fs::Permissions::from_mode(0o755)).map_err(|e| e.to_string())
}

#[cfg(not(unix))]
fn set_executable(_: &Path) -> Result<(), String> {
    Ok(())
}

/// The lines of the crate `everleaf`, in order.
fn list(crates: &BTreeMap<String, Value>) -> Result<Vec<String>, String> {
    let mut lines = Vec::new();
    let of = &crates["everleaf"];
    let root = of["root"].as_u64().ok_or("the crate has no root")?;
    Lister { crates, lines: &mut lines }.item(of, root, "everleaf")?;
    lines.sort();
    lines.dedup();
    Ok(lines)
}

struct Lister<'a> {
    crates: &'a BTreeMap<String, Value>,
    lines: &'a mut Vec<String>,
}

fn ids(list: &Value) -> impl Iterator<Item = u64> {
    list.as_array().into_iter().flatten().filter_map(Value::as_u64)
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

impl<'a> Lister<'a> {
    /// The lines of an item that is called `path`.
    fn item(&mut self, of: &'a Value, id: u64, path: &str) -> Result<(), String> {
        let item = &of["index"][id.to_string()];
        let Some((kind, inner)) = item["inner"].as_object().and_then(|inner| inner.iter().next())
        else {
            return self.elsewhere(of, id, path);
        };
        let attrs = items(&item["attrs"]).map(Value::to_string).collect::<String>();
        let open = if attrs.contains("non_exhaustive") { "#[non_exhaustive] " } else { "" };
        let generics = generics(&inner["generics"]);
        match kind.as_str() {
            "module" => {
                self.lines.push(format!("mod {path}"));
                for child in ids(&inner["items"]) {
                    let item = &of["index"][child.to_string()];
                    let (name, id) = match item["inner"].get("use") {
                        Some(of_use) => (&of_use["name"], of_use["id"].as_u64().unwrap_or(child)),
                        None => (&item["name"], child),
                    };
                    self.item(of, id, &format!("{path}::{}", name.as_str().unwrap_or("?")))?;
                }
            }
            "struct" => {
                self.lines.push(format!("{open}struct {path}{generics}"));
                let kind = &inner["kind"];
                self.fields(of, kind, path);
                self.impls(of, inner, path)?;
            }
            "enum" => {
                self.lines.push(format!("{open}enum {path}{generics}"));
                for id in ids(&inner["variants"]) {
                    let variant = &of["index"][id.to_string()];
                    let path = format!("{path}::{}", variant["name"].as_str().unwrap_or("?"));
                    self.lines.push(format!("variant {path}"));
                    self.fields(of, &variant["inner"]["variant"]["kind"], &path);
                }
                self.impls(of, inner, path)?;
            }
            "trait" => {
                let bounds = bounds(&inner["bounds"]);
                let bounds = if bounds.is_empty() { bounds } else { format!(": {bounds}") };
                self.lines.push(format!("trait {path}{generics}{bounds}"));
                self.members(of, &inner["items"], path)?;
            }
            _ => self.lines.extend(member(item, path)),
        }
        Ok(())
    }

    /// An item of another crate.
    fn elsewhere(&mut self, of: &'a Value, id: u64, path: &str) -> Result<(), String> {
        let known = &of["paths"][id.to_string()];
        let number = known["crate_id"].as_u64().unwrap_or_default().to_string();
        let name = of["external_crates"][number]["name"].as_str().unwrap_or("?");
        let Some(other) = self.crates.get(name) else {
            self.lines.push(format!("use {path} of {name}"));
            return Ok(());
        };
        let is_it =
            |(_, one): &(&String, &Value)| one["path"] == known["path"] && one["crate_id"] == 0;
        let found = other["paths"].as_object().into_iter().flatten().find(is_it);
        let (id, _) = found.ok_or_else(|| format!("{path}: nothing is known of it in {name}"))?;
        self.item(other, id.parse().map_err(|_| "an id is no number")?, path)
    }

    fn fields(&mut self, of: &Value, kind: &Value, path: &str) {
        let fields = match kind.get("struct").or(kind.get("plain")) {
            Some(named) => &named["fields"],
            None => &kind["tuple"],
        };
        for id in ids(fields) {
            let field = &of["index"][id.to_string()];
            if let (Some(name), Some(of_field)) =
                (field["name"].as_str(), field["inner"].get("struct_field"))
            {
                self.lines.push(format!("field {path}.{name}: {}", ty(of_field)));
            }
        }
    }

    /// The implementations for a type, by hand or by a derive of its own.
    fn impls(&mut self, of: &'a Value, inner: &Value, path: &str) -> Result<(), String> {
        for id in ids(&inner["impls"]) {
            let one = &of["index"][id.to_string()]["inner"]["impl"];
            if one["is_synthetic"] == true || !one["blanket_impl"].is_null() || one.is_null() {
                continue;
            }
            if one["trait"]["path"] == "StructuralPartialEq" {
                continue; // A mark of the compiler's own.
            }
            if one["trait"].is_null() {
                self.members(of, &one["items"], path)?;
            } else {
                let (of_trait, for_type) = (path_of(&one["trait"]), ty(&one["for"]));
                let generics = generics(&one["generics"]);
                self.lines.push(format!("impl{generics} {of_trait} for {for_type}"));
            }
        }
        Ok(())
    }

    fn members(&mut self, of: &Value, list: &Value, path: &str) -> Result<(), String> {
        for id in ids(list) {
            let item = &of["index"][id.to_string()];
            if let Some(name) = item["name"].as_str() {
                self.lines.extend(member(item, &format!("{path}::{name}")));
            }
        }
        Ok(())
    }
}

/// The line of a function, a constant or a type.
fn member(item: &Value, path: &str) -> Option<String> {
    let (kind, inner) = item["inner"].as_object()?.iter().next()?;
    let generics = generics(&inner["generics"]);
    Some(match kind.as_str() {
        "function" => {
            let (sig, header) = (&inner["sig"], &inner["header"]);
            let words = ["const", "async", "unsafe"].map(|word| {
                if header[format!("is_{word}")] == true {
                    format!("{word} ")
                } else {
                    String::new()
                }
            });
            let words = words.concat();
            let args: Vec<String> = items(&sig["inputs"]).map(argument).collect();
            let provided = if inner["has_body"] == true { "" } else { ";" };
            format!(
                "{words}fn {path}{generics}({}){}{provided}",
                args.join(", "),
                answer(&sig["output"])
            )
        }
        "constant" => {
            let value = inner["const"]["value"].as_str().or(inner["const"]["expr"].as_str());
            format!("const {path}: {} = {}", ty(&inner["type"]), value.unwrap_or("_"))
        }
        "assoc_const" => format!("const {path}: {}", ty(&inner["type"])),
        "type_alias" => format!("type {path}{generics} = {}", ty(&inner["type"])),
        "assoc_type" => format!("type {path}{generics}: {}", bounds(&inner["bounds"])),
        other => format!("{other} {path}"),
    })
}

fn argument(one: &Value) -> String {
    let (name, of) = (one[0].as_str().unwrap_or("_"), ty(&one[1]));
    match (name, of.as_str()) {
        ("self", "Self") => "self".into(),
        ("self", "&Self") => "&self".into(),
        ("self", "&mut Self") => "&mut self".into(),
        _ => format!("{name}: {of}"),
    }
}

fn answer(output: &Value) -> String {
    if output.is_null() { String::new() } else { format!(" -> {}", ty(output)) }
}

/// Parameters and conditions.
fn generics(generics: &Value) -> String {
    let is_written = |param: &&Value| param["kind"]["type"]["is_synthetic"] != true;
    let params: Vec<String> = items(&generics["params"])
        .filter(is_written)
        .map(|param| {
            let name = param["name"].as_str().unwrap_or("_");
            let kind = &param["kind"];
            match (kind.get("const"), bounds(&kind["type"]["bounds"])) {
                (Some(of), _) => format!("const {name}: {}", ty(&of["type"])),
                (None, bounds) if bounds.is_empty() => name.into(),
                (None, bounds) => format!("{name}: {bounds}"),
            }
        })
        .collect();
    let mut text =
        if params.is_empty() { String::new() } else { format!("<{}>", params.join(", ")) };
    for condition in items(&generics["where_predicates"]) {
        let of = &condition["bound_predicate"];
        let _ = write!(text, " where {}: {}", ty(&of["type"]), bounds(&of["bounds"]));
    }
    text
}

fn bounds(list: &Value) -> String {
    let one = |bound: &Value| match bound.get("trait_bound") {
        Some(of) => {
            let maybe = if of["modifier"] == "maybe" { "?" } else { "" };
            format!("{maybe}{}", path_of(&of["trait"]))
        }
        None => bound["outlives"].as_str().unwrap_or("_").to_owned(),
    };
    items(list).map(one).collect::<Vec<_>>().join(" + ")
}

/// A type or a trait with its arguments, by the last part of its name.
fn path_of(path: &Value) -> String {
    let name = path["path"].as_str().unwrap_or("_");
    let name = name.rsplit("::").next().unwrap_or(name);
    let args = &path["args"];
    if let Some(of) = args.get("parenthesized") {
        let inputs: Vec<String> = items(&of["inputs"]).map(ty).collect();
        return format!("{name}({}){}", inputs.join(", "), answer(&of["output"]));
    }
    let of = &args["angle_bracketed"];
    let argument = |one: &Value| match (one.get("type"), one.get("lifetime")) {
        (Some(of), _) => ty(of),
        (None, Some(life)) => life.as_str().unwrap_or("'_").to_owned(),
        (None, None) => one["const"]["expr"].as_str().unwrap_or("_").to_owned(),
    };
    let constraint = |one: &Value| {
        let name = one["name"].as_str().unwrap_or("_");
        match one["binding"].get("equality") {
            Some(of) => format!("{name} = {}", ty(&of["type"])),
            None => format!("{name}: {}", bounds(&one["binding"]["constraint"])),
        }
    };
    let all = items(&of["args"]).map(argument).chain(items(&of["constraints"]).map(constraint));
    let all: Vec<String> = all.collect();
    if all.is_empty() { name.into() } else { format!("{name}<{}>", all.join(", ")) }
}

/// A type as it is written.
fn ty(of: &Value) -> String {
    let Some((kind, inner)) = of.as_object().and_then(|of| of.iter().next()) else {
        return "_".into();
    };
    let list = |list: &Value| items(list).map(ty).collect::<Vec<_>>().join(", ");
    let life =
        |of: &Value| of["lifetime"].as_str().map_or(String::new(), |life| format!("{life} "));
    let mutable = |of: &Value| if of["is_mutable"] == true { "mut " } else { "" };
    match kind.as_str() {
        "resolved_path" => path_of(inner),
        "generic" | "primitive" => inner.as_str().unwrap_or("_").replace("never", "!"),
        "tuple" => format!("({})", list(inner)),
        "slice" => format!("[{}]", ty(inner)),
        "array" => format!("[{}; {}]", ty(&inner["type"]), inner["len"].as_str().unwrap_or("_")),
        "borrowed_ref" => format!("&{}{}{}", life(inner), mutable(inner), ty(&inner["type"])),
        "raw_pointer" => format!("*{}{}", mutable(inner), ty(&inner["type"])),
        "impl_trait" => format!("impl {}", bounds(inner)),
        "dyn_trait" => {
            let traits = items(&inner["traits"]).map(|one| path_of(&one["trait"]));
            format!("dyn {}", traits.collect::<Vec<_>>().join(" + "))
        }
        "qualified_path" => {
            format!("{}::{}", ty(&inner["self_type"]), inner["name"].as_str().unwrap_or("_"))
        }
        "function_pointer" => {
            let sig = &inner["sig"];
            let args: Vec<String> = items(&sig["inputs"]).map(|one| ty(&one[1])).collect();
            format!("fn({}){}", args.join(", "), answer(&sig["output"]))
        }
        _ => inner.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn path(name: &str, args: &[Value]) -> Value {
        let args: Vec<Value> = args.iter().map(|of| json!({ "type": of })).collect();
        json!({ "path": name, "args": { "angle_bracketed": { "args": args, "constraints": [] } } })
    }

    #[test]
    fn a_function_is_a_line_as_it_is_written() {
        let bytes = json!({ "slice": { "primitive": "u8" } });
        let inputs = json!([
            ["self", { "borrowed_ref": { "lifetime": null, "is_mutable": true, "type": { "generic": "Self" } } }],
            ["key", { "impl_trait": [{ "trait_bound": { "trait": path("a::AsBytes", &[]), "modifier": "none" } }] }],
            ["to", { "borrowed_ref": { "lifetime": "'a", "is_mutable": false, "type": bytes } }],
        ]);
        let output = json!({ "resolved_path": path("Option", &[json!({ "generic": "T" })]) });
        let params =
            json!([{ "name": "T", "kind": { "type": { "bounds": [], "is_synthetic": false } } }]);
        let function = json!({
            "sig": { "inputs": inputs, "output": output },
            "generics": { "params": params, "where_predicates": [] },
            "header": { "is_const": true, "is_async": false, "is_unsafe": false },
            "has_body": true,
        });
        let item = json!({ "name": "get", "inner": { "function": function } });
        assert_eq!(
            member(&item, "everleaf::Tree::get").as_deref(),
            Some(
                "const fn everleaf::Tree::get<T>(&mut self, key: impl AsBytes, to: &'a [u8]) -> Option<T>"
            )
        );
    }
}
