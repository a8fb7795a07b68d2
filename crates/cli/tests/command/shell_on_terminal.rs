//! `everleaf shell` on a terminal, which `script` makes; without that program the tests say so and pass.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::common::Place;

/// A shell that a test talks with.
struct Terminal {
    child: Child,
    keys: Option<ChildStdin>,
    screen: Arc<Mutex<Vec<u8>>>,
    /// How much of what was shown a test has waited for.
    seen: usize,
}

impl Terminal {
    /// Starts `everleaf shell ARGS POOL` with its history below the place.
    fn start(place: &Place, args: &str) -> Option<Terminal> {
        let (everleaf, pool) = (env!("CARGO_BIN_EXE_everleaf"), place.pool.display());
        let mut script = Command::new("script");
        // In place of the shell that `script` starts, which Ctrl-C would end, too.
        let line = format!("exec '{everleaf}' shell {args} '{pool}'");
        script.args(["-qec", &line, "/dev/null"]);
        script.env("TERM", "xterm").env("XDG_STATE_HOME", place.dir.path().join("state"));
        script.stdin(Stdio::piped()).stdout(Stdio::piped());
        let Ok(mut child) = script.spawn() else {
            println!("skipped: no `script`");
            return None;
        };
        let screen = Arc::new(Mutex::new(Vec::new()));
        let (mut out, shown) = (child.stdout.take().unwrap(), Arc::clone(&screen));
        std::thread::spawn(move || {
            let mut some = [0; 4096];
            while let Ok(n @ 1..) = out.read(&mut some) {
                shown.lock().unwrap().extend(&some[..n]);
            }
        });
        let keys = child.stdin.take();
        Some(Terminal { child, keys, screen, seen: 0 })
    }

    /// The text that was shown and not yet waited for.
    fn unseen(&self) -> String {
        String::from_utf8_lossy(&self.screen.lock().unwrap()[self.seen..]).into_owned()
    }

    /// Waits until `text` is shown, and returns what was shown before it.
    #[track_caller]
    fn wait_for(&mut self, text: &str) -> String {
        let start = Instant::now();
        loop {
            let unseen = self.unseen();
            if let Some(at) = unseen.find(text) {
                self.seen += at + text.len();
                return unseen[..at].to_owned();
            }
            assert!(start.elapsed() < Duration::from_secs(120), "no {text:?} in {unseen:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn press(&mut self, keys: &str) {
        let pipe = self.keys.as_mut().unwrap();
        pipe.write_all(keys.as_bytes()).and_then(|()| pipe.flush()).unwrap();
    }

    /// Waits for a prompt, and enters a line.
    #[track_caller]
    fn enter(&mut self, prompt: &str, line: &str) {
        self.wait_for(prompt);
        self.press(&format!("{line}\r"));
    }

    /// Waits for the end; its exit code.
    fn end(mut self) -> Option<i32> {
        let code = self.child.wait().unwrap().code();
        drop(self.keys);
        code
    }
}

#[test]
fn the_prompt_shows_the_tree_and_the_transaction_and_errors_end_nothing() {
    let place = Place::new();
    let Some(mut terminal) = Terminal::start(&place, "") else { return };
    terminal.enter("everleaf> ", "put fruit plum blue");
    terminal.enter("everleaf> ", "use fruit");
    terminal.enter("everleaf:fruit> ", "get plum");
    terminal.wait_for("\r\nblue\r\n");
    terminal.enter("everleaf:fruit> ", "get pear");
    terminal.wait_for("everleaf: no such key\r\n");
    terminal.enter("everleaf:fruit> ", "frob");
    terminal.wait_for("everleaf: unknown command");
    terminal.enter("everleaf:fruit> ", "begin");
    terminal.enter("everleaf:fruit*> ", "put pear green");
    terminal.enter("everleaf:fruit*> ", "commit");
    // Ctrl-C drops what was typed.
    terminal.wait_for("everleaf:fruit> ");
    terminal.press("del plum\x03");
    terminal.wait_for("everleaf:fruit> ");
    terminal.press("begin\r");
    terminal.enter("everleaf:fruit*> ", "del pear");
    terminal.wait_for("everleaf:fruit*> ");
    terminal.press("\x04");
    terminal.wait_for("the open transaction was aborted");
    assert_eq!(terminal.end(), Some(0));
    place.run("scan", ["fruit"]).ended(0).says("pear\tgreen\nplum\tblue\n");
}

#[test]
fn words_are_completed_and_lines_come_back() {
    let place = Place::new();
    place.run("put", ["fruit", "plum", "blue"]).ended(0);
    let Some(mut terminal) = Terminal::start(&place, "") else { return };
    terminal.wait_for("everleaf> ");
    // `get ` is completed by one key, and so is the tree.
    terminal.press("ge\tfr\tplum\r");
    terminal.wait_for("\r\nblue\r\n");
    terminal.enter("everleaf> ", " get fruit plum");
    terminal.wait_for("\r\nblue\r\n");
    terminal.enter("everleaf> ", "quit");
    assert_eq!(terminal.end(), Some(0));
    let history = place.dir.path().join("state/everleaf/history");
    // A line that begins with a blank is not kept.
    assert_eq!(std::fs::read_to_string(&history).unwrap(), "#V2\nget fruit plum\nquit\n");
    let mode = std::os::unix::fs::PermissionsExt::mode;
    assert_eq!(mode(&history.metadata().unwrap().permissions()) & 0o777, 0o600);
    let dir = history.parent().unwrap();
    assert_eq!(mode(&dir.metadata().unwrap().permissions()) & 0o777, 0o700);

    // The next shell has them: up twice.
    let mut terminal = Terminal::start(&place, "").unwrap();
    terminal.wait_for("everleaf> ");
    terminal.press("\x1b[A\x1b[A\r");
    terminal.wait_for("\r\nblue\r\n");
    terminal.enter("everleaf> ", "quit");
    assert_eq!(terminal.end(), Some(0));
    let lines = std::fs::read_to_string(&history).unwrap();

    let mut terminal = Terminal::start(&place, "--no-history").unwrap();
    terminal.wait_for("everleaf> ");
    terminal.press("\x1b[A\r");
    terminal.enter("everleaf> ", "trees");
    terminal.wait_for("\r\nfruit\r\n");
    terminal.enter("everleaf> ", "quit");
    assert_eq!(terminal.end(), Some(0));
    assert_eq!(std::fs::read_to_string(&history).unwrap(), lines);
}

#[test]
fn ctrl_c_ends_a_scan_and_not_the_shell() {
    let place = Place::new();
    let value = "v".repeat(500);
    let lines: String = (0..20_000).map(|i| format!("k{i:05}\t{value}\n")).collect();
    place.run_with("load", ["t"], lines.as_bytes()).ended(0);
    let Some(mut terminal) = Terminal::start(&place, "") else { return };
    // A scan may have ended before the key is pressed.
    let was_interrupted = (0..10).any(|_| {
        terminal.enter("everleaf> ", "scan t");
        terminal.wait_for("k00010");
        terminal.press("\x03");
        terminal.wait_for("everleaf> ").contains("everleaf: interrupted\r\n") || {
            terminal.press("\r");
            false
        }
    });
    assert!(was_interrupted);
    terminal.press("trees\r");
    terminal.wait_for("\r\nt\r\n");
    terminal.enter("everleaf> ", "quit");
    assert_eq!(terminal.end(), Some(0));
}

#[test]
fn a_history_that_cannot_be_kept_is_told_once() {
    let place = Place::new();
    std::fs::write(place.dir.path().join("state"), "a file where a folder must be").unwrap();
    let Some(mut terminal) = Terminal::start(&place, "") else { return };
    terminal.enter("everleaf> ", "put t k v");
    terminal.enter("everleaf> ", "get t k");
    terminal.wait_for("\r\nv\r\n");
    terminal.enter("everleaf> ", "quit");
    let screen = Arc::clone(&terminal.screen);
    assert_eq!(terminal.end(), Some(0));
    let screen = String::from_utf8_lossy(&screen.lock().unwrap()).into_owned();
    assert_eq!(screen.matches("no history is kept").count(), 1, "{screen}");
}
