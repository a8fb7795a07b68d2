//! The settings of an open, as Java gives them: one number each, in the order of `Options.numbers` there.

use std::time::Duration;

use jni::sys::{jint, jlong};
use store::{Compression, Durability, Error, Options, Storage};

use crate::budget::Memory;
use crate::failure::Result;
use crate::table::find;

/// A setting that the program has not made. No setting may have this number.
const UNSET: jlong = jlong::MIN;
/// How many settings there are.
pub(crate) const SETTINGS: usize = 16;

/// The settings that the numbers stand for.
pub(crate) struct Settings {
    pub(crate) options: Options,
    /// The program ends epochs: what it has not ended may not become durable.
    pub(crate) ends_epochs: bool,
}

/// Reads the numbers.
pub(crate) fn read(numbers: &[jlong; SETTINGS]) -> Result<Settings> {
    let mut settings = Settings { options: Options::new(), ends_epochs: false };
    for (index, number) in numbers.iter().enumerate().filter(|(_, number)| **number != UNSET) {
        settings.set(index, *number)?;
    }
    Ok(settings)
}

impl Settings {
    fn set(&mut self, index: usize, number: jlong) -> Result<()> {
        let options = std::mem::take(&mut self.options);
        let (bytes, is_on) = (number as u64, number != 0);
        self.options = match index {
            0 => options.interval(Duration::from_micros(bytes)),
            1 => match durability(number as jint)? {
                Some(durability) => options.durability(durability),
                None => options,
            },
            2 => options.journal_bytes(bytes),
            3 => options.pending_bytes(bytes),
            4 => options.page_bytes(u32::try_from(number).unwrap_or(u32::MAX)),
            5 => options.max_bytes(bytes),
            6 => options.create(is_on),
            7 => options.read_only(is_on),
            8 => options.storage(match number {
                0 => Storage::File,
                1 => Storage::Dax,
                2 => Storage::EmulatedDax,
                other => return Err(no_choice("storage", other)),
            }),
            9 => {
                self.ends_epochs |= is_on;
                options.manual_epochs(is_on)
            }
            10 => {
                self.ends_epochs |= !is_on;
                options.background(is_on)
            }
            11 => options.compression(match number {
                0 => Compression::None,
                1 => Compression::Lz4,
                other => return Err(no_choice("compression", other)),
            }),
            12 => options.memory(bytes),
            13 => options.snapshot_memory(bytes),
            14 => options.transaction_memory(bytes),
            _ => options.budget(&find::<Memory>(number)?.budget),
        };
        Ok(())
    }
}

#[cold]
fn no_choice(option: &'static str, number: jlong) -> crate::failure::Failure {
    Error::InvalidOption { option, what: format!("there is no choice {number}") }.into()
}

/// A durability, or that of the pool.
pub(crate) fn durability(number: jint) -> Result<Option<Durability>> {
    match number {
        0 => Ok(None),
        1 => Ok(Some(Durability::Buffered)),
        2 => Ok(Some(Durability::Sync)),
        other => Err(no_choice("durability", other.into())),
    }
}
