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
}

/// With the bugs of the source.
#[derive(Debug, Clone, Copy)]
pub struct AsPublished;

/// With the smallest change that survives every crash.
#[derive(Debug, Clone, Copy)]
pub struct Sound;

impl Version for AsPublished {
    const PUBLISHED: bool = true;
    const NAME: &'static str = "as published";
}

impl Version for Sound {
    const PUBLISHED: bool = false;
    const NAME: &'static str = "sound";
}
