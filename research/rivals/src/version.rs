//! A rival as its source has it, or mended.

/// Which of the two a rival is. Every rival has a parameter of this, and only the steps in which the two differ ask
/// it.
pub trait Version: Send + Sync + 'static {
    /// Whether the rival does what its published code or text does, with its bugs: what the papers measured, and
    /// what the verdict of the crash checker is about. Otherwise it has the smallest change that the checker lets
    /// pass.
    const PUBLISHED: bool;
    /// The name in tables.
    const NAME: &'static str;

    /// Whether the rival has one bug of its source. Each rival gives its bugs letters, in the text at its head.
    fn has(_bug: char) -> bool {
        Self::PUBLISHED
    }
}

/// With the bugs of the source.
#[derive(Debug, Clone, Copy)]
pub struct AsPublished;

/// With the smallest change that survives every crash.
#[derive(Debug, Clone, Copy)]
pub struct Sound;

/// With one bug of the source alone, so that a test can show what it does.
#[derive(Debug, Clone, Copy)]
pub struct Only<const BUG: char>;

impl Version for AsPublished {
    const PUBLISHED: bool = true;
    const NAME: &'static str = "as published";
}

impl Version for Sound {
    const PUBLISHED: bool = false;
    const NAME: &'static str = "sound";
}

impl<const BUG: char> Version for Only<BUG> {
    const PUBLISHED: bool = true;
    const NAME: &'static str = "with one bug";

    fn has(bug: char) -> bool {
        bug == BUG
    }
}
