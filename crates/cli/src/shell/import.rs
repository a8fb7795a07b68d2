//! `import` in the shell: many pairs from a file.

use std::path::Path;

use crate::escape::escaped;
use crate::failure::{CommandError, Result};
use crate::format::{InputItem, InputPair};
use crate::load::{InputArgs, tell_hint};
use crate::message::tell;
use crate::numbers::{counted, grouped};
use crate::skipped::Skipped;
use crate::{pool, progress};

/// Puts the pairs of a file by `put`, in their order; what cannot be understood is told and passed over.
///
/// # Errors
/// Those of the file, with the line, and of `put`; Usage, if something was skipped. What came before is there.
pub fn import<E: From<CommandError>>(
    file: &Path,
    args: &InputArgs,
    mut put: impl FnMut(&InputPair) -> Result<(), E>,
) -> Result<(), E> {
    let input = args.open(file)?;
    let bar = progress::input(input.bytes);
    let mut source = input.begin()?;
    let (mut pair, mut skipped) = (InputPair::default(), Skipped::default());
    let (mut count, mut taken, mut databases) = (0_u64, 0, 0);
    loop {
        match source.next(&mut pair)? {
            InputItem::End => break,
            InputItem::Tree(_) if databases == 0 => databases = 1,
            InputItem::Tree(_) => {
                let what =
                    "another database begins: `everleaf load --all` gives each a tree of its own";
                let at = format!("line {}", source.line());
                return Err(CommandError::Usage(what.into()).context(at).into());
            }
            InputItem::Bad(reason) => skipped.add(source.line(), reason),
            InputItem::Pair => match pool::check_pair(&pair.key, &pair.value) {
                Err(CommandError::Usage(reason)) => skipped.add(source.line(), reason),
                checked => {
                    checked?;
                    put(&pair)?;
                    count += 1;
                }
            },
        }
        bar.inc(source.bytes() - taken);
        taken = source.bytes();
        if count.is_multiple_of(4096) {
            bar.set_message(grouped(count));
        }
    }
    bar.finish_and_clear();
    tell_hint(&*source);
    skipped.tell();
    let name = escaped(file.as_os_str().as_encoded_bytes());
    tell(format_args!("{name}: {}", counted(count, "pair")));
    Ok(args.judge(&skipped)?)
}
