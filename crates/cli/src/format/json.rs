//! Pairs as objects of JSON, one a line. Strings of JSON are Unicode: other bytes have no form here.

use serde_json::Value;

use super::source::{InputPair, OutputLine};

pub fn read(line: &[u8], pair: &mut InputPair) -> Result<(), String> {
    let object = match serde_json::from_slice(line) {
        Ok(Value::Object(object)) => object,
        Ok(_) => return Err("no object of JSON".into()),
        Err(error) => {
            let text = error.to_string();
            let what = text.split(" at line ").next().unwrap_or_default();
            return Err(format!("no JSON: {what} at column {}", error.column()));
        }
    };
    let (mut key, mut value) = (None, None);
    for (name, content) in object {
        let place = match &name[..] {
            "key" => &mut key,
            "value" => &mut value,
            _ => return Err("a field that is neither \"key\" nor \"value\"".into()),
        };
        let Value::String(content) = content else {
            return Err(format!("{name:?} is no string"));
        };
        *place = Some(content.into_bytes());
    }
    pair.key = key.ok_or("no field \"key\"")?;
    pair.value = value.ok_or("no field \"value\"")?;
    Ok(())
}

/// A text as a string of JSON, on one line and without control characters.
pub fn string(text: &str) -> String {
    let mut string = Value::from(text).to_string();
    // JSON itself asks only for those below a blank.
    if string.contains(char::is_control) {
        let escape = |char: char| match char.is_control() {
            true => format!("\\u{:04x}", u32::from(char)),
            false => char.to_string(),
        };
        string = string.chars().map(escape).collect();
    }
    string
}

pub fn write(key: &[u8], value: &[u8], out: &mut OutputLine) -> Result<(), String> {
    let text = |bytes, what: &str| {
        let text = std::str::from_utf8(bytes);
        let text = text.map_err(|_| format!("the {what} is not UTF-8, and JSON has no other"))?;
        Ok::<_, String>(string(text))
    };
    let (key, value) = (text(key, "key")?, text(value, "value")?);
    out.extend(format!("{{\"key\":{key},\"value\":{value}}}\n").bytes());
    Ok(())
}
