//! The paths that code names.

use std::collections::HashSet;

use proc_macro2::{TokenStream, TokenTree};
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{Expr, Ident, Item, Pat, Token, UseTree, Visibility};

use super::cfg::only_for_tests;

/// Where a name is looked up: a module and a function may be called the same.
pub type Space = u8;

/// Types, traits and modules.
pub const TYPES: Space = 1;
/// Functions, constants, constructors.
pub const VALUES: Space = 2;
/// Macros.
pub const MACROS: Space = 4;
/// All of these, as an import takes them.
pub const ALL: Space = TYPES | VALUES | MACROS;

/// A path as it stands in code.
#[derive(Debug, PartialEq)]
pub struct Named {
    pub path: Vec<String>,
    pub space: Space,
    pub line: usize,
}

/// A name, or a glob, that an import brings into its module.
#[derive(Debug, PartialEq)]
pub struct Import {
    /// `None` for a glob.
    pub name: Option<String>,
    pub path: Vec<String>,
    pub line: usize,
    /// Whether it hands the name on to other modules.
    pub exported: bool,
}

/// The imports of a `use` item.
pub fn imports(item: &syn::ItemUse) -> Vec<Import> {
    let mut found = Vec::new();
    let exported = !matches!(item.vis, Visibility::Inherited);
    if item.leading_colon.is_none() {
        flatten(&item.tree, &mut Vec::new(), exported, &mut found);
    }
    found
}

fn flatten(tree: &UseTree, before: &mut Vec<String>, exported: bool, found: &mut Vec<Import>) {
    let mut leaf = |last: Option<&Ident>, name: Option<&Ident>, line| {
        let mut path = before.clone();
        path.extend(last.filter(|last| *last != "self").map(Ident::to_string));
        let name = match name.map(Ident::to_string) {
            Some(name) if name == "self" => path.last().cloned(),
            name => name,
        };
        found.push(Import { name, path, line, exported });
    };
    match tree {
        UseTree::Path(path) => {
            before.push(path.ident.to_string());
            flatten(&path.tree, before, exported, found);
            before.pop();
        }
        UseTree::Name(name) => leaf(Some(&name.ident), Some(&name.ident), line(&name.ident)),
        UseTree::Rename(rename) => {
            leaf(Some(&rename.ident), Some(&rename.rename), line(&rename.ident));
        }
        UseTree::Glob(glob) => leaf(None, None, glob.star_token.span.start().line),
        UseTree::Group(group) => {
            group.items.iter().for_each(|tree| flatten(tree, before, exported, found));
        }
    }
}

fn line(ident: &Ident) -> usize {
    ident.span().start().line
}

/// All that the code of one module names. Modules inside it are for themselves.
#[derive(Default)]
pub struct Paths {
    pub named: Vec<Named>,
    /// Those inside of functions too.
    pub imports: Vec<Import>,
    /// The namespace of the path that comes next.
    space: Option<Space>,
    /// Variables of the function at hand, which hide what the module calls the same.
    variables: HashSet<String>,
}

impl Paths {
    /// The paths that `items` name.
    pub fn of(items: &[Item]) -> Self {
        let mut paths = Paths::default();
        items.iter().for_each(|item| paths.visit_item(item));
        paths
    }

    fn name(&mut self, path: Vec<String>, space: Space, line: usize) {
        let hidden = space == VALUES && path.len() == 1 && self.variables.contains(&path[0]);
        if !hidden {
            self.named.push(Named { path, space, line });
        }
    }

    /// Visits a function, with its variables in mind.
    fn function(&mut self, variables: Variables, visit: impl FnOnce(&mut Self)) {
        let outer = self.variables.clone();
        self.variables.extend(variables.0);
        visit(self);
        self.variables = outer;
    }

    /// Takes what can be told from a macro's words that are no list of expressions.
    fn tokens(&mut self, tokens: TokenStream) {
        let (mut path, mut at): (Vec<String>, usize) = (Vec::new(), 0);
        let (mut colons, mut member) = (0, false);
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.words(&mut path, at, false);
                        at = line(&ident);
                    }
                    if !(member && path.is_empty()) {
                        path.push(ident.to_string());
                    }
                    (colons, member) = (0, false);
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' && !path.is_empty() => {
                    colons += 1;
                }
                TokenTree::Group(group) => {
                    let call = group.delimiter() == proc_macro2::Delimiter::Parenthesis;
                    self.words(&mut path, at, call);
                    (colons, member) = (0, false);
                    self.tokens(group.stream());
                }
                TokenTree::Punct(punct) => {
                    self.words(&mut path, at, false);
                    (colons, member) = (0, punct.as_char() == '.');
                }
                TokenTree::Literal(_) => self.words(&mut path, at, false),
            }
        }
        self.words(&mut path, at, false);
    }

    /// Names a row of words of a macro, if it can only be a path, a type or a call.
    fn words(&mut self, path: &mut Vec<String>, line: usize, call: bool) {
        let path = std::mem::take(path);
        let big = path.first().is_some_and(|word| word.starts_with(char::is_uppercase));
        if path.len() > 1 || big {
            self.name(path, ALL, line);
        } else if call && !path.is_empty() {
            self.name(path, VALUES, line);
        }
    }
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_item(&mut self, item: &'ast Item) {
        let attrs = attributes(item);
        if only_for_tests(attrs) {
            return;
        }
        match item {
            Item::Mod(_) => {}
            Item::Use(item) => self.imports.extend(imports(item)),
            Item::Macro(item) if item.ident.is_some() => self.tokens(item.mac.tokens.clone()),
            Item::Fn(function) => self.function(Variables::of_block(&function.block), |paths| {
                visit::visit_item_fn(paths, function);
            }),
            _ => visit::visit_item(self, item),
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !only_for_tests(&item.attrs) {
            self.function(Variables::of_block(&item.block), |paths| {
                visit::visit_impl_item_fn(paths, item);
            });
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        let variables = item.default.as_ref().map(Variables::of_block).unwrap_or_default();
        self.function(variables, |paths| visit::visit_trait_item_fn(paths, item));
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        if !only_for_tests(&local.attrs) {
            visit::visit_local(self, local);
        }
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if !only_for_tests(&field.attrs) {
            visit::visit_field(self, field);
        }
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        if !only_for_tests(&arm.attrs) {
            visit::visit_arm(self, arm);
        }
    }

    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_visibility(&mut self, _: &'ast Visibility) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let space = self.space.take().unwrap_or(TYPES);
        if path.leading_colon.is_none()
            && let Some(first) = path.segments.first()
        {
            let words = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            self.name(words, space, line(&first.ident));
        }
        visit::visit_path(self, path);
    }

    fn visit_expr_path(&mut self, path: &'ast syn::ExprPath) {
        if let Some(qself) = &path.qself {
            self.visit_qself(qself);
        }
        self.space = Some(VALUES);
        self.visit_path(&path.path);
    }

    fn visit_pat_tuple_struct(&mut self, pattern: &'ast syn::PatTupleStruct) {
        self.space = Some(VALUES);
        visit::visit_pat_tuple_struct(self, pattern);
    }

    fn visit_pat_ident(&mut self, pattern: &'ast syn::PatIdent) {
        let name = pattern.ident.to_string();
        if name.starts_with(char::is_uppercase) {
            self.name(vec![name], VALUES, line(&pattern.ident));
        }
        visit::visit_pat_ident(self, pattern);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.space = Some(MACROS);
        self.visit_path(&call.path);
        let list = Punctuated::<Expr, Token![,]>::parse_terminated;
        match list.parse2(call.tokens.clone()) {
            // It does not live as long as the file's own code: another visitor takes it.
            Ok(list) => {
                let variables = std::mem::take(&mut self.variables);
                let mut inner = Paths { variables, ..Paths::default() };
                list.iter().for_each(|expression| Visit::visit_expr(&mut inner, expression));
                self.named.extend(inner.named);
                self.imports.extend(inner.imports);
                self.variables = inner.variables;
            }
            Err(_) => self.tokens(call.tokens.clone()),
        }
    }
}

/// The names that patterns bind.
#[derive(Default)]
struct Variables(HashSet<String>);

impl Variables {
    fn of_block(block: &syn::Block) -> Self {
        let mut variables = Variables::default();
        variables.visit_block(block);
        variables
    }
}

impl<'ast> Visit<'ast> for Variables {
    fn visit_pat(&mut self, pattern: &'ast Pat) {
        if let Pat::Ident(ident) = pattern {
            self.0.insert(ident.ident.to_string());
        }
        visit::visit_pat(self, pattern);
    }
}

/// The attributes of an item.
pub fn attributes(item: &Item) -> &[syn::Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}
