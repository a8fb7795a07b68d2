//! Makes a module of each Rust block of the guide and of the README, and a list of them for
//! `tests/blocks.rs`.
//!
//! A block with functions of its own is taken as it is; its `main`, if it has one, is run. Any other
//! block is the body of a function with `db`, a pool, and `tree`, a tree of it. A block that begins
//! with `rust,no_run` is compiled and not run.

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// The frame of a block without functions.
const BEFORE: &str = "pub fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {\n\
    let db = Db::open(\"pool.ever\")?;\nlet tree = db.tree(\"tree\")?;\n";
const AFTER: &str = "Ok(())\n}\n";

struct Block {
    /// The line of its first line of code, from 1.
    line: usize,
    runs: bool,
    code: String,
}

/// The Rust blocks of a document.
fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = text.lines().zip(1..);
    while let Some((line, at)) = lines.next() {
        if !line.starts_with("```") {
            continue;
        }
        let code: Vec<_> =
            lines.by_ref().map(|(line, _)| line).take_while(|line| *line != "```").collect();
        if line == "```rust" || line == "```rust,no_run" {
            let runs = line == "```rust";
            blocks.push(Block { line: at + 1, runs, code: code.join("\n") + "\n" });
        }
    }
    blocks
}

/// The module of a block, and its line in the list of what is run.
fn module(name: &str, place: &str, block: &Block) -> (String, Option<String>) {
    let Block { code, .. } = block;
    let starts = |word| code.lines().any(|line| line.starts_with(word));
    let is_body = !["fn ", "pub fn ", "async fn ", "struct "].into_iter().any(starts);
    let body = if is_body { format!("{BEFORE}{code}{AFTER}") } else { code.clone() };
    let module = format!(
        "#[allow(unused, clippy::all)]\nmod {name} {{\n\
         {}{body}pub fn run() {{ {} }}\n}}\n",
        if is_body { "use everleaf::*;\n" } else { "" },
        if is_body || starts("fn main") { "crate::Ends::end(main())" } else { "" },
    );
    (module, block.runs.then(|| format!("({place:?}, {name}::run as fn()),\n")))
}

fn main() -> Result<(), Box<dyn Error>> {
    let top = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../..");
    let (guide, readme) = (top.join("docs/guide"), top.join("README.md"));
    println!("cargo::rerun-if-changed={}", guide.display());
    println!("cargo::rerun-if-changed={}", readme.display());
    println!("cargo::rerun-if-changed=build.rs");
    let mut paths: Vec<PathBuf> = fs::read_dir(guide)?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_, std::io::Error>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    // The one in `docs/guide` is contents and has no code.
    paths.retain(|path| !path.ends_with("README.md"));
    paths.push(readme);
    paths.sort();
    let (mut modules, mut list) = (String::new(), String::new());
    for path in paths {
        let stem = path.file_stem().and_then(|stem| stem.to_str()).ok_or("a name in UTF-8")?;
        for block in blocks(&fs::read_to_string(&path)?) {
            let name = format!("{}_{}", stem.to_lowercase().replace('-', "_"), block.line);
            let place = format!("{stem}.md:{}", block.line);
            let (module, listed) = module(&name, &place, &block);
            modules += &module;
            list += &listed.unwrap_or_default();
        }
    }
    write!(modules, "const BLOCKS: &[(&str, fn())] = &[\n{list}];\n")?;
    fs::write(Path::new(&env::var("OUT_DIR")?).join("blocks.rs"), modules)?;
    Ok(())
}
