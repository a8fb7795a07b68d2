//! The modules of a crate, and which file defines what a path names.

use std::collections::HashMap;

use proc_macro2::{TokenStream, TokenTree};
use syn::{Expr, Item, Lit, Meta};

use super::cfg::only_for_tests;
use super::paths::{ALL, Import, MACROS, Paths, Space, TYPES, VALUES, attributes};
use crate::tree::Files;

/// The target of a path.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Target {
    Module(usize),
    /// Something that this file defines.
    InFile(usize),
}

/// The meaning of a name in a module.
#[derive(Debug)]
enum Entry {
    Module(usize),
    Own,
    Import(Vec<String>),
}

#[derive(Debug)]
struct Module {
    file: usize,
    parent: Option<usize>,
    names: HashMap<String, Vec<(Space, Entry)>>,
    globs: Vec<Vec<String>>,
}

/// The modules below one `lib.rs` or `main.rs`.
#[derive(Default)]
pub struct Modules {
    /// Paths of the files that were read.
    pub files: Vec<String>,
    modules: Vec<Module>,
    /// The paths that the code of each module names.
    code: Vec<Paths>,
    /// Macros by name, with their files: some are seen without a path.
    macros: HashMap<String, usize>,
}

/// That one file names what another defines.
#[derive(Debug, PartialEq)]
pub struct Arrow {
    pub from: usize,
    pub to: usize,
    pub name: String,
    pub line: usize,
}

impl Modules {
    /// Reads the modules below the file at `root`.
    ///
    /// # Errors
    ///
    /// The path of a file that is not Rust, and why.
    pub fn read(files: &Files, root: &str) -> Result<Self, (String, String)> {
        let mut modules = Modules::default();
        modules.file(files, root.to_owned(), None)?;
        Ok(modules)
    }

    /// Reads a file as a module; `None` if there is none.
    fn file(
        &mut self,
        files: &Files,
        path: String,
        parent: Option<usize>,
    ) -> Result<Option<usize>, (String, String)> {
        let Some(text) = files.get(&path) else { return Ok(None) };
        let parsed = syn::parse_file(text).map_err(|error| (path.clone(), error.to_string()))?;
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", &path));
        let folder = match name {
            "mod.rs" => folder.to_owned(),
            _ if parent.is_none() => folder.to_owned(),
            name => format!("{folder}/{}", name.trim_end_matches(".rs")),
        };
        self.files.push(path);
        let file = self.files.len() - 1;
        self.module(files, &parsed.items, &folder, file, parent).map(Some)
    }

    /// Takes a module's items, and reads the modules inside it, whose files are in `folder`.
    fn module(
        &mut self,
        files: &Files,
        items: &[Item],
        folder: &str,
        file: usize,
        parent: Option<usize>,
    ) -> Result<usize, (String, String)> {
        let module = self.modules.len();
        let (names, globs) = (HashMap::new(), Vec::new());
        self.modules.push(Module { file, parent, names, globs });
        self.code.push(Paths::of(items));
        for item in items.iter().filter(|item| !only_for_tests(attributes(item))) {
            let Item::Mod(child) = item else {
                self.define(module, item);
                continue;
            };
            let inner = format!("{folder}/{}", child.ident);
            let id = match &child.content {
                Some((_, items)) => Some(self.module(files, items, &inner, file, Some(module))?),
                None => {
                    let named = named_path(&child.attrs);
                    let beside = self.files[file].rsplit_once('/').unwrap_or_default().0;
                    let place = match named {
                        Some(named) => format!("{beside}/{named}"),
                        None => Some(format!("{inner}.rs"))
                            .filter(|path| files.contains_key(path))
                            .unwrap_or(format!("{inner}/mod.rs")),
                    };
                    self.file(files, place, Some(module))?
                }
            };
            if let Some(id) = id {
                self.add(module, child.ident.to_string(), TYPES, Entry::Module(id));
            }
        }
        for at in 0..self.code[module].imports.len() {
            let Import { name, path, .. } = &self.code[module].imports[at];
            match (name.clone(), path.clone()) {
                (Some(name), path) => self.add(module, name, ALL, Entry::Import(path)),
                (None, path) => self.modules[module].globs.push(path),
            }
        }
        Ok(module)
    }

    fn add(&mut self, module: usize, name: String, space: Space, entry: Entry) {
        self.modules[module].names.entry(name).or_default().push((space, entry));
    }

    /// Notes what an item defines.
    fn define(&mut self, module: usize, item: &Item) {
        let (name, space) = match item {
            Item::Const(item) => (&item.ident, VALUES),
            Item::Enum(item) => (&item.ident, TYPES),
            Item::Fn(item) => (&item.sig.ident, VALUES),
            Item::Static(item) => (&item.ident, VALUES),
            Item::Struct(item) if matches!(item.fields, syn::Fields::Named(_)) => {
                (&item.ident, TYPES)
            }
            Item::Struct(item) => (&item.ident, TYPES | VALUES),
            Item::Trait(item) => (&item.ident, TYPES),
            Item::Type(item) => (&item.ident, TYPES),
            Item::Union(item) => (&item.ident, TYPES),
            Item::Macro(item) => match &item.ident {
                Some(name) => {
                    self.macros.insert(name.to_string(), self.modules[module].file);
                    // The items that it makes are where it is called, which is mostly the same file.
                    for token in item.mac.tokens.clone() {
                        let TokenTree::Group(group) = token else { continue };
                        for name in made(group.stream()) {
                            self.add(module, name, ALL, Entry::Own);
                        }
                    }
                    (name, MACROS)
                }
                None => {
                    for name in made(item.mac.tokens.clone()) {
                        self.add(module, name, ALL, Entry::Own);
                    }
                    return;
                }
            },
            _ => return,
        };
        self.add(module, name.to_string(), space, Entry::Own);
    }

    /// The targets of `path`, seen from a module. `way` has the names on the way there.
    fn resolve(
        &self,
        module: usize,
        path: &[String],
        space: Space,
        way: &mut Vec<(usize, String)>,
    ) -> Vec<Target> {
        let mut targets = vec![Target::Module(module)];
        for (at, word) in path.iter().enumerate() {
            let space = if at + 1 == path.len() { space } else { TYPES };
            let mut next = Vec::new();
            for target in targets {
                match (target, word.as_str()) {
                    (Target::InFile(_), _) | (_, "self") => next.push(target),
                    (_, "crate") => next.push(Target::Module(0)),
                    (Target::Module(module), "super") => {
                        next.extend(self.modules[module].parent.map(Target::Module));
                    }
                    (Target::Module(module), _) => {
                        next.extend(self.lookup(module, word, space, way));
                    }
                }
            }
            targets = next;
        }
        targets
    }

    /// The targets of a name in a module.
    fn lookup(
        &self,
        module: usize,
        name: &str,
        space: Space,
        way: &mut Vec<(usize, String)>,
    ) -> Vec<Target> {
        if way.iter().any(|(at, known)| *at == module && known == name) {
            return Vec::new();
        }
        way.push((module, name.to_owned()));
        let (here, mut found) = (&self.modules[module], Vec::new());
        for (_, entry) in
            here.names.get(name).into_iter().flatten().filter(|(at, _)| at & space != 0)
        {
            match entry {
                Entry::Module(id) => found.push(Target::Module(*id)),
                Entry::Own => found.push(Target::InFile(here.file)),
                Entry::Import(path) => found.extend(self.resolve(module, path, space, way)),
            }
        }
        if found.is_empty() {
            for glob in &here.globs {
                for target in self.resolve(module, glob, TYPES, way) {
                    if let Target::Module(id) = target {
                        found.extend(self.lookup(id, name, space, way));
                    }
                }
            }
        }
        way.pop();
        found
    }

    /// The files that define what `path` names, each with the name there: `Type` of `Type::new`.
    fn definers(&self, module: usize, path: &[String], space: Space) -> Vec<(usize, String)> {
        for end in 1..=path.len() {
            let space = if end == path.len() { space } else { TYPES };
            let (name, mut found) = (&path[end - 1], Vec::new());
            for target in self.resolve(module, &path[..end], space, &mut Vec::new()) {
                if let Target::InFile(file) = target {
                    found.push((file, name.clone()));
                }
            }
            if found.is_empty() && space & MACROS != 0 {
                found.extend(self.macros.get(name).map(|file| (*file, name.clone())));
            }
            if !found.is_empty() {
                return found;
            }
        }
        Vec::new()
    }

    /// All arrows between files. Importing a name counts, for a trait is used without its name; handing one on
    /// does not.
    pub fn arrows(&self) -> Vec<Arrow> {
        let mut arrows: Vec<Arrow> = Vec::new();
        for (module, code) in self.code.iter().enumerate() {
            let from = self.modules[module].file;
            let imported = code.imports.iter().filter(|import| !import.exported);
            let imported = imported.map(|import| (&import.path, ALL, import.line));
            let named = code.named.iter().map(|named| (&named.path, named.space, named.line));
            for (path, space, line) in imported.chain(named) {
                for (to, name) in self.definers(module, path, space) {
                    let known =
                        |arrow: &Arrow| (arrow.from, arrow.to) == (from, to) && arrow.name == name;
                    if to != from && !arrows.iter().any(known) {
                        arrows.push(Arrow { from, to, name: name.clone(), line });
                    }
                }
            }
        }
        arrows
    }
}

/// The file that `#[path = ".."]` gives to a module.
fn named_path(attrs: &[syn::Attribute]) -> Option<String> {
    attrs.iter().filter(|attr| attr.path().is_ident("path")).find_map(|attr| {
        let Meta::NameValue(pair) = &attr.meta else { return None };
        let Expr::Lit(literal) = &pair.value else { return None };
        let Lit::Str(text) = &literal.lit else { return None };
        Some(text.value())
    })
}

/// The names that a macro such as `thread_local!` seems to define.
fn made(tokens: TokenStream) -> Vec<String> {
    let (mut found, mut after) = (Vec::new(), false);
    for token in tokens {
        let TokenTree::Ident(word) = token else {
            after = false;
            continue;
        };
        if after {
            found.push(word.to_string());
        }
        let word = word.to_string();
        after = ["static", "const", "fn", "struct", "enum", "type"].contains(&word.as_str());
    }
    found
}
