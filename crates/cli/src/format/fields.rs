//! Fields of an object of JSON. Nothing is built of an object but the fields that are asked for, and nothing
//! recurses: an object takes no more memory than its text, however deep it is.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Finds fields of an object by their names; of several with one name the last.
pub struct Fields<'w> {
    pub wanted: &'w [&'w str],
    /// The message about any other field, if others are refused.
    pub other: Option<&'w str>,
}

impl<'de> DeserializeSeed<'de> for Fields<'_> {
    type Value = Vec<Option<&'de RawValue>>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Fields<'_> {
    type Value = Vec<Option<&'de RawValue>>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = vec![None; self.wanted.len()];
        while let Some(at) = map.next_key_seed(Name(self.wanted))? {
            match (at, self.other) {
                (Some(at), _) => found[at] = Some(map.next_value::<&RawValue>()?),
                (None, Some(what)) => return Err(A::Error::custom(what)),
                (None, None) => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(found)
    }
}

/// The name of a field: which of those that are wanted it is.
struct Name<'w>(&'w [&'w str]);

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().position(|wanted| *wanted == name))
    }
}

impl Fields<'_> {
    /// Reads them out of an object.
    pub fn of(self, text: &str) -> Result<Vec<Option<&RawValue>>, String> {
        if !text.starts_with('{') {
            return Err("no object of JSON".into());
        }
        let mut json = serde_json::Deserializer::from_str(text);
        let found = self.deserialize(&mut json).and_then(|found| json.end().map(|()| found));
        found.map_err(|error| {
            let text = error.to_string();
            let what = text.split(" at line ").next().unwrap_or_default();
            match error.is_data() {
                true => what.into(),
                false => format!("no JSON: {what} at column {}", error.column()),
            }
        })
    }
}

/// The content of a string of JSON.
pub fn content(string: &RawValue) -> Result<Cow<'_, str>, String> {
    let (text, inner) = (string.get(), &string.get()[1..string.get().len() - 1]);
    if !inner.contains('\\') {
        return Ok(inner.into());
    }
    let content = serde_json::from_str::<String>(text);
    content.map(Cow::from).map_err(|error| {
        let text = error.to_string();
        format!("no JSON: {}", text.split(" at line ").next().unwrap_or_default())
    })
}

/// The field that a path leads to.
pub fn field<'t>(text: &'t str, path: &[String]) -> Result<&'t RawValue, String> {
    let missing = || format!("no field {:?}", path.join("."));
    let (mut at, mut found) = (text, None);
    for (depth, name) in path.iter().enumerate() {
        if depth > 0 && !at.starts_with('{') {
            return Err(missing());
        }
        let fields = Fields { wanted: &[name], other: None }.of(at)?;
        let field = fields[0].ok_or_else(missing)?;
        (at, found) = (field.get(), Some(field));
    }
    found.ok_or_else(missing)
}
