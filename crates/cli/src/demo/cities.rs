//! The demo's real data: 135,233 cities of the world, from GeoNames (CC BY 4.0).
//!
//! `data/README.md` names source, licence and conversion. Each line of the file is
//! `country TAB name TAB id TAB latitude TAB longitude TAB population`, sorted by the first three.

use std::io::Read;

use flate2::read::GzDecoder;

use crate::failure::{CommandError, Result};

static PACKED: &[u8] = include_bytes!("../../data/cities.tsv.gz");

/// One line of the data.
#[derive(Debug, Clone, Copy)]
pub struct City<'a> {
    /// Two letters of ISO 3166.
    pub country: &'a str,
    /// The local name, in Latin letters mostly.
    pub name: &'a str,
    /// The number of the place in GeoNames; no two are the same.
    pub id: u32,
    /// Degrees, as written in the data.
    pub latitude: &'a str,
    /// Degrees, as written in the data.
    pub longitude: &'a str,
    /// Inhabitants; 0 if unknown.
    pub population: u32,
}

impl City<'_> {
    /// The key that sorts by place.
    pub fn place_key(&self) -> String {
        format!("{}/{}/{}", self.country, self.name, self.id)
    }

    /// The value under [`place_key`](City::place_key).
    pub fn place_value(&self) -> String {
        format!("{},{} population {}", self.latitude, self.longitude, self.population)
    }

    /// The key that sorts by population, with as many digits for each city.
    pub fn population_key(&self) -> String {
        format!("{:08}/{}", self.population, self.id)
    }

    /// The value under [`population_key`](City::population_key): the key in the other tree.
    pub fn population_value(&self) -> String {
        self.place_key()
    }
}

/// The text of the data.
pub fn unpack() -> Result<String> {
    let mut text = String::new();
    GzDecoder::new(PACKED)
        .read_to_string(&mut text)
        .map_err(|error| CommandError::Blocked(format!("the built-in data is damaged: {error}")))?;
    Ok(text)
}

/// The cities in `text`; lines of another form are passed over.
pub fn cities(text: &str) -> impl Iterator<Item = City<'_>> {
    text.lines().filter_map(|line| {
        let mut fields = line.split('\t');
        Some(City {
            country: fields.next()?,
            name: fields.next()?,
            id: fields.next()?.parse().ok()?,
            latitude: fields.next()?,
            longitude: fields.next()?,
            population: fields.next()?.parse().ok()?,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_is_whole() {
        let text = unpack().unwrap();
        assert_eq!(text.lines().count(), 135_233);
        assert_eq!(cities(&text).count(), 135_233);
        let keys: Vec<_> = cities(&text).map(|city| (city.country, city.name, city.id)).collect();
        assert!(keys.is_sorted());
        let shanghai = cities(&text).find(|city| city.id == 1_796_236).unwrap();
        assert_eq!((shanghai.name, shanghai.country), ("Shanghai", "CN"));
        assert_eq!(shanghai.population_key(), "22315474/1796236");
        assert!(cities(&text).all(|city| city.population < 100_000_000));
    }
}
