//! Traces of caches: the public format, read as a stream, and stand-ins for the three traces of the
//! BD+Tree paper, which are not public by name.
//!
//! A trace is one operation a line, `timestamp,key,key size,value size,client,operation,TTL` (the
//! format of Twitter's cache traces), plain or packed by gzip. Keys are bytes; the trees here get a
//! hash of them in 64 bits. Of the operations, `get` and `gets` read, `delete` removes, and all others
//! write.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::str::FromStr;
use std::sync::LazyLock;

use flate2::bufread::MultiGzDecoder;

use crate::keys::key;
use crate::workload::{OpKind, Skew, Workload};

/// The columns, in their order.
const COLUMNS: [&str; 7] =
    ["timestamp", "key", "key size", "value size", "client", "operation", "TTL"];

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// One operation on a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceStep {
    /// The key.
    pub key: u64,
    /// The kind of operation.
    pub kind: OpKind,
}

/// Why a trace cannot be read on.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// A line is not one of a trace.
    #[error("line {line}: {wrong}")]
    Line {
        /// Which, from 1.
        line: u64,
        /// The error in it.
        wrong: Wrong,
    },
    /// The file is packed in a way that is not understood.
    #[error("the trace is packed by zstd: unpack it, or pack it by gzip")]
    Zstd,
    /// The file cannot be read.
    #[error(transparent)]
    Read(#[from] io::Error),
}

/// An error in a line.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// It has more or fewer columns.
    #[error("{0} columns, not 7")]
    Columns(usize),
    /// A column is no number.
    #[error("the {column} is {text:?}, no number")]
    Number {
        /// Which.
        column: &'static str,
        /// Its text.
        text: String,
    },
    /// There is no such operation.
    #[error("no operation is called {0:?}")]
    Operation(String),
    /// The key is empty.
    #[error("no key")]
    NoKey,
}

/// The operation on a tree for one of a trace.
fn kind(operation: &[u8]) -> Option<OpKind> {
    Some(match operation {
        b"get" | b"gets" => OpKind::Get,
        b"set" | b"add" | b"replace" | b"cas" | b"append" | b"prepend" | b"incr" | b"decr" => {
            OpKind::Put
        }
        b"delete" => OpKind::Remove,
        _ => return None,
    })
}

/// FNV-1a, then spread over all of u64: the same in each run and release.
fn hash(bytes: &[u8]) -> u64 {
    let fnv = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    key(bytes.iter().fold(0xcbf2_9ce4_8422_2325, fnv))
}

fn step(line: &[u8]) -> Result<TraceStep, Wrong> {
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b',').collect();
    if fields.len() != COLUMNS.len() {
        return Err(Wrong::Columns(fields.len()));
    }
    let text = |at: usize| String::from_utf8_lossy(fields[at]).into_owned();
    for at in [0, 2, 3, 4, 6] {
        let number = std::str::from_utf8(fields[at]).ok().map(u64::from_str);
        if !matches!(number, Some(Ok(_))) {
            return Err(Wrong::Number { column: COLUMNS[at], text: text(at) });
        }
    }
    if fields[1].is_empty() {
        return Err(Wrong::NoKey);
    }
    let kind = kind(fields[5]).ok_or_else(|| Wrong::Operation(text(5)))?;
    Ok(TraceStep { key: hash(fields[1]), kind })
}

/// The operations of a trace, one after the other; empty lines are none. The first error ends them.
pub fn read(from: impl Read) -> impl Iterator<Item = Result<TraceStep, TraceError>> {
    let mut is_over = false;
    (1..)
        .zip(BufReader::new(from).split(b'\n'))
        .map_while(move |(line, bytes)| {
            if is_over {
                return None;
            }
            let found = bytes.map_err(TraceError::Read).and_then(|bytes| {
                match bytes.strip_suffix(b"\r").unwrap_or(&bytes) {
                    [] => Ok(None),
                    bytes => {
                        step(bytes).map(Some).map_err(|wrong| TraceError::Line { line, wrong })
                    }
                }
            });
            is_over = found.is_err();
            Some(found.transpose())
        })
        .flatten()
}

/// The operations of a trace in a file, plain or packed by gzip.
///
/// # Errors
/// It cannot be opened, or is packed otherwise.
pub fn open(
    path: &Path,
) -> Result<impl Iterator<Item = Result<TraceStep, TraceError>>, TraceError> {
    let mut file = BufReader::new(File::open(path)?);
    let start = file.fill_buf()?;
    if start.starts_with(ZSTD) {
        return Err(TraceError::Zstd);
    }
    let unpacked: Box<dyn Read> = match start.starts_with(GZIP) {
        true => Box::new(MultiGzDecoder::new(file)),
        false => Box::new(file),
    };
    Ok(read(unpacked))
}

/// The published figures of a trace (BD+Tree, Table 1).
#[derive(Debug, Clone, Copy)]
struct PublishedTrace {
    name: &'static str,
    /// Reads of a hundred operations.
    reads: u32,
    /// α of the Zipfian distribution that was fitted; 0 where it is blank.
    alpha: f64,
    /// After how many operations the working set was taken.
    operations: u64,
    /// The working set in MiB; none where it is blank.
    mib: Option<f64>,
}

const fn published(
    name: &'static str,
    reads: u32,
    alpha: f64,
    operations: u64,
    mib: Option<f64>,
) -> PublishedTrace {
    PublishedTrace { name, reads, alpha, operations, mib }
}

/// Both columns of the table. Of t2 no working set is given but that it fits the last cache, and of
/// t3 no α; §4.2 calls it uniform.
const TABLE_1: [PublishedTrace; 6] = [
    published("t1", 85, 0.6372, 10_000_000, Some(97.0)),
    published("t2", 50, 1.7366, 10_000_000, None),
    published("t3", 50, 0.0, 10_000_000, Some(126.0)),
    published("t1-long", 85, 0.6372, 100_000_000, Some(303.0)),
    published("t2-long", 50, 1.7366, 100_000_000, None),
    published("t3-long", 50, 0.0, 100_000_000, Some(750.0)),
];

/// Bytes of a pair: what the working set is taken to consist of. Both columns of t1 then come from
/// one key space: of 21.8 and of 21.5 million keys. With twice as many bytes they would differ by a
/// factor of 2.4.
const PAIR: f64 = 16.0;

/// The key space of t2, half of which its operations never touch: they are that skewed.
const T2_KEYS: u64 = 100_000;

/// How many of `items` keys so many Zipfian operations touch. The sum over keys is taken as an
/// integral, so that only operations a key matter; α is less than 1.
fn touched(items: f64, alpha: f64, operations: f64) -> f64 {
    const PARTS: u32 = 4000;
    let part = |i: u32| {
        let at = (f64::from(i) + 0.5) / f64::from(PARTS);
        1.0 - (-operations / items * (1.0 - alpha) * at.powf(-alpha)).exp()
    };
    items * (0..PARTS).map(part).sum::<f64>() / f64::from(PARTS)
}

impl PublishedTrace {
    /// The size of the key space of which the operations touch the published working set.
    fn items(&self) -> f64 {
        let Some(mib) = self.mib else { return T2_KEYS as f64 };
        let (keys, operations) = (mib * f64::from(1 << 20) / PAIR, self.operations as f64);
        // More keys are touched the more there are.
        let (mut low, mut high) = (keys, 1000.0 * keys);
        while high / low > 1.000_001 {
            let middle = (low * high).sqrt();
            match touched(middle, self.alpha, operations) < keys {
                true => low = middle,
                false => high = middle,
            }
        }
        low
    }
}

/// The key spaces of the traces, as [`PublishedTrace::items`] derives them. Each check of a cell asks for
/// one.
static ITEMS: LazyLock<[f64; TABLE_1.len()]> = LazyLock::new(|| TABLE_1.map(|of| of.items()));

/// The stand-in for a trace of so many operations: its ratio of reads and its α, and as many keys for
/// each operation as the published working set says. All its writes are puts.
pub fn stand_in(name: &str, operations: u64, seed: u64) -> Option<Workload> {
    let at = TABLE_1.iter().position(|published| published.name == name)?;
    let of = TABLE_1[at];
    let share = match of.mib {
        Some(_) => operations as f64 / of.operations as f64,
        None => 1.0,
    };
    let items = ((ITEMS[at] * share) as u64).max(1);
    let picks = if of.alpha == 0.0 { Skew::Uniform } else { Skew::Zipf(of.alpha) };
    Some(Workload { items, picks, reads: of.reads, puts_only: true, seed })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::io::Write;

    use super::*;

    fn steps(text: &str) -> Result<Vec<TraceStep>, TraceError> {
        read(text.as_bytes()).collect()
    }

    const GOOD: &str =
        "0,nz:u:eeW,8,0,1,get,0\n0,\"x,8,4,22,set,2600\n\n5,nz:u:eeW,8,0,1,delete,0\n";

    #[test]
    fn lines_are_operations_on_hashed_keys() {
        let of = |key: &[u8], kind| TraceStep { key: hash(key), kind };
        let expected = [
            of(b"nz:u:eeW", OpKind::Get),
            of(b"\"x", OpKind::Put),
            of(b"nz:u:eeW", OpKind::Remove),
        ];
        assert_eq!(steps(GOOD).expect("a trace"), expected);
        assert_eq!(steps(&GOOD.replace('\n', "\r\n")).expect("a trace"), expected);
        assert_eq!(steps("").expect("an empty trace"), []);
        let all = "gets set add replace cas append prepend incr decr";
        for name in all.split(' ') {
            let found = steps(&format!("0,k,1,1,1,{name},0")).expect("an operation")[0].kind;
            assert_eq!(found, if name == "gets" { OpKind::Get } else { OpKind::Put });
        }
    }

    #[test]
    fn a_bad_line_is_refused_with_its_number_and_its_fault() {
        let first = "0,k,1,1,1,get,0\n";
        let fault = |line: &str| match steps(&format!("{first}{line}\n{first}")) {
            Err(TraceError::Line { line, wrong }) => (line, wrong),
            other => panic!("{other:?}"),
        };
        let number = |column, text: &str| Wrong::Number { column, text: text.into() };
        assert_eq!(fault("0,k,1,1,1,get"), (2, Wrong::Columns(6)));
        assert_eq!(fault("0,k,l,1,1,1,get,0"), (2, Wrong::Columns(8)));
        assert_eq!(fault("\n0,,0,1,1,get,0"), (3, Wrong::NoKey));
        assert_eq!(fault("x,k,1,1,1,get,0"), (2, number("timestamp", "x")));
        assert_eq!(fault("0,k,1,-1,1,get,0"), (2, number("value size", "-1")));
        assert_eq!(fault("0,k,1,1,1,get,"), (2, number("TTL", "")));
        assert_eq!(fault("0,k,1,1,1,touch,0"), (2, Wrong::Operation("touch".into())));
        let shown = steps("0,k,1,1,1,GET,0").expect_err("no operation").to_string();
        assert_eq!(shown, "line 1: no operation is called \"GET\"");
        let mut reading = read("bad\n0,k,1,1,1,get,0".as_bytes());
        assert!(reading.next().is_some_and(|step| step.is_err()) && reading.next().is_none());
    }

    #[test]
    fn files_are_plain_or_packed_by_gzip() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("trace");
        let found = || open(&path)?.collect::<Result<Vec<_>, _>>();
        std::fs::write(&path, GOOD).expect("room");
        let plain = found().expect("a trace");
        assert_eq!(plain, steps(GOOD).expect("a trace"));
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), Default::default());
        gzip.write_all(GOOD.as_bytes()).expect("memory");
        let packed = gzip.finish().expect("memory");
        // Two members, as `cat a.gz b.gz` makes.
        std::fs::write(&path, [&packed[..], &packed[..]].concat()).expect("room");
        assert_eq!(found().expect("a trace"), [&plain[..], &plain[..]].concat());
        std::fs::write(&path, &packed[..packed.len() - 4]).expect("room");
        assert!(matches!(found(), Err(TraceError::Read(_))), "it is cut off");
        std::fs::write(&path, ZSTD).expect("room");
        assert!(matches!(found(), Err(TraceError::Zstd)));
        std::fs::remove_file(&path).expect("it is there");
        assert!(matches!(found(), Err(TraceError::Read(_))));
    }

    /// The α under which the ranks of a stream are the most likely ones: theirs is the mean of ln r.
    fn alpha(ranks: &[f64], items: u64) -> f64 {
        let found = ranks.iter().map(|r| r.ln()).sum::<f64>() / ranks.len() as f64;
        let mean = |alpha: f64| {
            let weights = (1..=items).map(|r| (r as f64, (r as f64).powf(-alpha)));
            let (sum, all) = weights.fold((0.0, 0.0), |(s, a), (r, w)| (s + w * r.ln(), a + w));
            sum / all
        };
        let (mut low, mut high) = (0.0, 3.0);
        for _ in 0..16 {
            let middle = (low + high) / 2.0;
            if mean(middle) > found { low = middle } else { high = middle }
        }
        low
    }

    #[test]
    fn stand_ins_have_the_published_ratio_alpha_and_working_set() {
        for of in TABLE_1 {
            let part = of.operations / 100_000;
            let workload = stand_in(of.name, 100_000, 5).expect("a trace");
            let rank_of: HashMap<u64, f64> =
                (0..workload.items).map(|item| (key(item), item as f64 + 1.0)).collect();
            let stream = workload.stream(100_000).expect("valid");
            let reads = stream.iter().filter(|op| op.kind == OpKind::Get).count() as f64 / 1000.0;
            assert!((reads - f64::from(of.reads)).abs() < 0.5, "{}: {reads} % reads", of.name);
            assert!(stream.iter().all(|op| op.kind != OpKind::Remove));
            let ranks: Vec<f64> = stream.iter().map(|op| rank_of[&op.key()]).collect();
            let alpha = alpha(&ranks, workload.items);
            assert!((alpha - of.alpha).abs() < 0.01, "{}: α is {alpha}", of.name);
            let mut keys: Vec<u64> = stream.iter().map(|op| op.key()).collect();
            keys.sort_unstable();
            keys.dedup();
            let mib = keys.len() as f64 * PAIR / f64::from(1 << 20);
            match of.mib {
                Some(published) => {
                    let all = mib * part as f64;
                    assert!((all / published - 1.0).abs() < 0.01, "{}: {all} MiB", of.name);
                }
                None => assert!(mib < 1.0, "{}: {mib} MiB is more than a cache", of.name),
            }
        }
        assert!(stand_in("t4", 1, 1).is_none());
    }

    #[test]
    fn both_columns_of_t1_are_of_one_key_space() {
        let of = |name: &str| TABLE_1.iter().find(|of| of.name == name).map(PublishedTrace::items);
        let (short, long) = (of("t1").expect("a trace"), of("t1-long").expect("a trace"));
        assert!((short / long - 1.0).abs() < 0.02, "{short} and {long}");
    }
}
