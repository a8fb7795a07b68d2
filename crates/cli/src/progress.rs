//! Progress on a terminal; nothing elsewhere.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar over `bytes` of input, or a spinner when the length is unknown. It shows itself only if
/// stderr is a terminal.
pub fn input(bytes: Option<u64>) -> ProgressBar {
    let (bar, template) = match bytes {
        Some(bytes) => (ProgressBar::new(bytes), "{bar:40} {percent:>3} %  {msg}  {eta} left"),
        None => (ProgressBar::new_spinner(), "{spinner} {elapsed}  {msg}"),
    };
    shown(bar, template)
}

/// A bar over so many things.
pub fn count(things: u64, unit: &'static str) -> ProgressBar {
    let bar = ProgressBar::new(things).with_message(unit);
    shown(bar, "   {bar:40} {human_pos} of {human_len} {msg}")
}

fn shown(bar: ProgressBar, template: &str) -> ProgressBar {
    bar.set_style(ProgressStyle::with_template(template).expect("a sound template"));
    // Ticking takes a thread, and a system that grants none ends the process: only where it shows.
    if !bar.is_hidden() {
        bar.enable_steady_tick(Duration::from_millis(200));
    }
    bar
}
