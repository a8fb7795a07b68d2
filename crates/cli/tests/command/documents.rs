//! The commands that documents begin with, run as a new user would.

use std::path::Path;

use crate::common::{Place, run};

/// The lines of the first block of a shell in a document that call the command, and what each prints if
/// `# prints: …` says so.
fn first_commands(document: &str) -> Vec<(String, Option<String>)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(document);
    let text = std::fs::read_to_string(path).unwrap();
    let block = text.split("```sh\n").nth(1).unwrap().split("```").next().unwrap();
    let lines = block.lines().filter(|line| line.starts_with("everleaf "));
    let parts = lines.map(|line| match line.split_once('#') {
        Some((command, says)) => {
            let prints = says.trim().strip_prefix("prints: ");
            (command.to_owned(), prints.map(|text| text.replace("<TAB>", "\t") + "\n"))
        }
        None => (line.to_owned(), None),
    });
    parts.collect()
}

#[test]
fn the_first_commands_of_the_documents_do_what_they_say() {
    for document in ["README.md", "../../docs/guide/command.md"] {
        let place = Place::new();
        let commands = first_commands(document);
        assert!(commands.len() >= 5, "{document}: {commands:?}");
        assert!(commands.iter().filter(|(_, prints)| prints.is_some()).count() >= 2, "{document}");
        for (command, prints) in commands {
            let mut shell = std::process::Command::new("sh");
            let binary = Path::new(env!("CARGO_BIN_EXE_everleaf")).parent().unwrap();
            let path = std::env::var("PATH").unwrap_or_default();
            shell.env("PATH", format!("{}:{path}", binary.display()));
            shell.current_dir(place.dir.path()).args(["-c", &command]);
            let ran = run(&mut shell, b"").ended(0);
            assert!(prints.is_none_or(|prints| ran.text() == prints), "{command}: {ran}");
        }
    }
}
