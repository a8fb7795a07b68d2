//! The shell on a terminal: prompt, history, completion, Ctrl-C and Ctrl-D.

use std::env;
use std::fs::DirBuilder;
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use everleaf::Db;
use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::{FileHistory, History};
use rustyline::validate::Validator;
use rustyline::{Behavior, CompletionType, Config, Context, Editor, Helper};
use signal_hook::consts::SIGINT;
use signal_hook::flag;

use super::command::COMMANDS;
use super::session::{Session, Speaker, Then};
use super::words;
use crate::failure::{CommandError, Result};
use crate::message::tell;
use crate::numbers::size;

/// The most lines that the history keeps.
const HISTORY_LINES: usize = 1000;

/// The most bytes of a history that is read.
const HISTORY_BYTES: u64 = 16 << 20;

/// Runs lines until `quit` or Ctrl-D, or until the pool has stopped.
pub fn run(session: &mut Session, with_history: bool) -> Result<()> {
    let mut input = Input::open(&session.db, with_history)
        .map_err(|error| CommandError::Blocked(format!("cannot use the terminal: {error}")))?;
    let stop = watch()?;
    tell(format_args!("everleaf {}; `help` lists the commands", env!("CARGO_PKG_VERSION")));
    loop {
        let Some(text) = input.next(&prompt(session))? else { return Ok(()) };
        stop.store(false, Ordering::Relaxed);
        // Pasted text may have several lines.
        for line in text.split('\n') {
            let mut person = Person { input: &mut input, stop: &stop };
            match session.run(line.as_bytes(), &mut person) {
                Ok(Then::Next) => {}
                Ok(Then::Quit) => return Ok(()),
                Err(failed) if failed.is_final => return Err(failed.error),
                Err(failed) => {
                    failed.error.report();
                    break;
                }
            }
        }
    }
}

/// The person at the terminal.
struct Person<'t> {
    input: &'t mut Input,
    stop: &'t AtomicBool,
}

impl Speaker for Person<'_> {
    fn stops(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Everything but a yes is a no, also Ctrl-C and Ctrl-D.
    fn agrees(&mut self, question: &str) -> Result<bool> {
        match self.input.editor.readline(&format!("{question}? [y/N] ")) {
            Ok(answer) => Ok(["y", "yes"].contains(&&answer.trim().to_ascii_lowercase()[..])),
            Err(ReadlineError::Eof | ReadlineError::Interrupted | ReadlineError::Signal(_)) => {
                Ok(false)
            }
            Err(error) => Err(unreadable(&error)),
        }
    }
}

fn unreadable(error: &ReadlineError) -> CommandError {
    CommandError::Blocked(format!("cannot read from the terminal: {error}"))
}

/// Ctrl-C during a command sets the flag; the second one before the flag is unset ends the process.
fn watch() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    flag::register_conditional_default(SIGINT, Arc::clone(&stop))
        .and_then(|_| flag::register(SIGINT, Arc::clone(&stop)))
        .map_err(|error| CommandError::Blocked(format!("cannot watch for signals: {error}")))?;
    Ok(stop)
}

/// The tree in use, and a star if a transaction is open.
fn prompt(session: &Session) -> String {
    let tree = session.tree.as_deref().map(words::inside_quotes);
    let tree = tree.map(|name| format!(":{name}")).unwrap_or_default();
    let star = if session.in_transaction() { "*" } else { "" };
    format!("everleaf{tree}{star}> ")
}

/// Lines from the terminal.
struct Input {
    editor: Editor<Names, FileHistory>,
    /// Where lines are kept.
    history: Option<PathBuf>,
}

impl Input {
    fn open(db: &Db, with_history: bool) -> rustyline::Result<Self> {
        // The terminal itself, for stdout may be a file.
        let config = Config::builder()
            .behavior(Behavior::PreferTerm)
            .completion_type(CompletionType::List)
            .history_ignore_space(true)
            .max_history_size(HISTORY_LINES)?
            .build();
        let history = FileHistory::with_config(&config);
        let mut editor = Editor::with_history(config, history)?;
        editor.set_helper(Some(Names { db: db.clone() }));
        let mut input = Input { editor, history: with_history.then(history_path).flatten() };
        input.load();
        Ok(input)
    }

    /// The next line that was entered; `None` after Ctrl-D.
    fn next(&mut self, prompt: &str) -> Result<Option<String>> {
        loop {
            match self.editor.readline(prompt) {
                Ok(line) => {
                    self.keep(&line);
                    return Ok(Some(line));
                }
                Err(ReadlineError::Eof) => return Ok(None),
                Err(ReadlineError::Interrupted | ReadlineError::Signal(_)) => {}
                Err(ReadlineError::Io(error)) if error.kind() == ErrorKind::InvalidData => {
                    tell(format_args!("everleaf: that is no UTF-8; \\xHH stands for any byte"));
                }
                Err(error) => return Err(unreadable(&error)),
            }
        }
    }

    fn load(&mut self) {
        let Some(path) = &self.history else { return };
        let long = std::fs::metadata(path).is_ok_and(|file| file.len() > HISTORY_BYTES);
        let loaded = match long {
            true => {
                Err(io::Error::other(format!("it is longer than {}", size(HISTORY_BYTES))).into())
            }
            false => self.editor.load_history(path),
        };
        match loaded {
            Err(ReadlineError::Io(error)) if error.kind() == ErrorKind::NotFound => {}
            loaded => self.without_history_if(loaded, "read"),
        }
    }

    fn keep(&mut self, line: &str) {
        let is_new = !line.trim().is_empty()
            && self.editor.history_mut().add(line).is_ok_and(|is_new| is_new);
        let Some(path) = self.history.as_ref().filter(|_| is_new) else { return };
        // At once, for a shell may be killed.
        let made = path.parent().map_or(Ok(()), |dir| {
            DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(ReadlineError::from)
        });
        let kept = made.and_then(|()| self.editor.append_history(path));
        self.without_history_if(kept, "written");
    }

    /// A history that fails is told once and left alone.
    fn without_history_if(&mut self, done: rustyline::Result<()>, what: &str) {
        let Err(error) = done else { return };
        if let Some(path) = self.history.take() {
            let path = path.display();
            tell(format_args!("everleaf: no history is kept: {path} cannot be {what}: {error}"));
        }
    }
}

/// Where the XDG rules put it; nowhere without a home.
fn history_path() -> Option<PathBuf> {
    let dir = |name, below: &str| {
        let dir = env::var_os(name).map(PathBuf::from).filter(|dir| dir.is_absolute());
        dir.map(|dir| dir.join(below))
    };
    let state = dir("XDG_STATE_HOME", "").or_else(|| dir("HOME", ".local/state"));
    state.map(|dir| dir.join("everleaf/history"))
}

/// Completes the names of commands, of trees, and of options.
struct Names {
    db: Db,
}

impl Names {
    /// The words that may stand at the end of `before`, where `start` of a word is; each as it is written.
    fn after(&self, before: &str, start: &str) -> Vec<String> {
        let begun = words::split(before.as_bytes()).unwrap_or_default();
        let Some(name) = begun.first() else {
            let mut names: Vec<_> = COMMANDS.iter().map(|entry| entry.name.to_owned()).collect();
            names.dedup();
            return names;
        };
        let entries = || COMMANDS.iter().filter(|entry| entry.name.as_bytes() == name);
        if start.starts_with('-') {
            return entries().flat_map(|entry| entry.options()).map(str::to_owned).collect();
        }
        let is_tree = begun.len() == 1 && entries().any(|entry| entry.takes_tree());
        // A pool that cannot be read says so to a command.
        let names = if is_tree { self.db.tree_names().unwrap_or_default() } else { Vec::new() };
        names.iter().map(|name| words::write(name)).collect()
    }
}

impl Completer for Names {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        pos: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let (before, start) = line[..pos].split_at(words::last_start(&line.as_bytes()[..pos]));
        let is_quoted = start.starts_with('"');
        let bare = |word: &str| word.trim_matches('"').to_owned();
        let pairs = self.after(before, start).into_iter().filter_map(|word| {
            let text = bare(&word);
            let fits = text.starts_with(start.strip_prefix('"').unwrap_or(start));
            let written = if is_quoted { format!("\"{text}\"") } else { word };
            fits.then(|| Pair { display: text, replacement: written + " " })
        });
        Ok((before.len(), pairs.collect()))
    }
}

impl Hinter for Names {
    type Hint = String;
}

impl Highlighter for Names {}

impl Validator for Names {}

impl Helper for Names {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_trees_and_options_are_completed() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path().join("p.ever")).unwrap();
        for name in ["colours", "colds", "two words", "tab\there"] {
            db.tree(name).unwrap();
        }
        let names = Names { db };
        let complete = |line: &str| {
            let history = FileHistory::new();
            let (start, pairs) = names.complete(line, line.len(), &Context::new(&history)).unwrap();
            pairs.into_iter().map(|pair| line[..start].to_owned() + &pair.replacement).collect()
        };
        let is = |line: &str, to: &[&str]| {
            let completed: Vec<String> = complete(line);
            assert_eq!(completed, to, "{line}");
        };
        is("co", &["count ", "commit "]);
        is("de", &["del "]);
        is("c", &["count ", "clear ", "commit ", "check "]);
        is("  ab", &["  abort "]);
        is("xx", &[]);
        is("use col", &["use colds ", "use colours "]);
        is("get colo", &["get colours "]);
        is("get colours colo", &[]);
        is("begin col", &[]);
        is("use two", &["use \"two words\" "]);
        is("use \"two w", &["use \"two words\" "]);
        is("use \"cold", &["use \"colds\" "]);
        is("use tab", &["use tab\\there "]);
        is("scan --re", &["scan --reverse "]);
        is("scan colours --fr", &["scan colours --from "]);
        is("get 'tw", &[]);
        is("drop colo", &["drop colours "]);
        is("rename colo", &["rename colours "]);
        is("clear --", &["clear --yes "]);
        is("del colours --p", &["del colours --prefix "]);
        is("count --t", &["count --to "]);
        is("stat --", &["stat --walk "]);
        is("put colours --", &[]);
    }
}
