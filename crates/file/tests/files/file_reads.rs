//! Large values that are read whole and in parts, from the disk and before they are there, sound and damaged.

use everleaf_file::FileOptions;
use everleaf_file::io::{Access, Io, SimIo};
use everleaf_pmem::Error;

use crate::toy::{Rng, Toy, options, path};

const PAGE: usize = 4096;
const FIRST: u32 = 2048;
const PAGES: usize = 10;

fn open_large(io: &SimIo) -> Toy {
    let options = FileOptions { slots: 252, max_pages: 1 << 14, ..options() };
    Toy::open_with(io, &path(), &options).expect("sound")
}

/// A value of ten pages and a part of one, whose bytes occur nowhere else.
fn value() -> Vec<u8> {
    Rng(5).bytes(PAGES * PAGE + 100)
}

fn written(io: &SimIo) -> (Toy, Vec<u8>) {
    let (toy, bytes) = (open_large(io), value());
    toy.file.extent_write(FIRST, 0, &bytes).expect("write");
    toy.adopt(FIRST, PAGES as u32 + 1).expect("adopt");
    (toy, bytes)
}

fn read_parts(toy: &Toy, bytes: &[u8], when: &str) {
    for from in [0, 1, PAGE - 1, PAGE, 3 * PAGE, 9 * PAGE + 7, PAGES * PAGE, bytes.len() - 1] {
        for len in [1, 99, PAGE - 1, PAGE, PAGE + 1, 2 * PAGE, 5 * PAGE, 5 * PAGE + 1, bytes.len()]
        {
            let wanted = &bytes[from..bytes.len().min(from + len)];
            let mut found = vec![0; wanted.len()];
            toy.file.extent_read(FIRST, from as u64, &mut found).expect("read");
            assert!(found == wanted, "{when}: {len} bytes from {from}");
        }
    }
}

#[test]
fn any_part_of_a_value_is_read() {
    let io = SimIo::new(1);
    let (toy, bytes) = written(&io);
    read_parts(&toy, &bytes, "before it is written");
    toy.file.sync().expect("sync");
    read_parts(&toy, &bytes, "from the disk");
    toy.checkpoint().expect("checkpoint");
    toy.close().expect("close");
    read_parts(&open_large(&io), &bytes, "after an open");
}

#[test]
fn a_damaged_page_is_an_error_and_the_others_are_read() {
    let io = SimIo::new(1);
    let (toy, bytes) = written(&io);
    toy.file.sync().expect("sync");
    let file = io.open(&path(), Access::Write).expect("there");
    let mut disk = vec![0; file.len().expect("length") as usize];
    file.read_at(&mut disk, 0).expect("read");
    for page in 0..=PAGES {
        let begin = page * PAGE;
        let body = &bytes[begin..bytes.len().min(begin + PAGE)];
        let place = disk.windows(body.len()).position(|b| b == body).expect("on the disk");
        // In the head, at the begin and at the end of what it holds.
        for at in [place - 30, place, place + body.len() - 1] {
            file.write_at(&[disk[at] ^ 4], at as u64).expect("damage");
            let mut found = vec![0; bytes.len()];
            let read = toy.file.extent_read(FIRST, 0, &mut found);
            let Err(Error::Corrupt { what, .. }) = read else { panic!("page {page}: {read:?}") };
            let name = format!("page {}", FIRST as usize + page);
            assert!(what.contains(&name), "{name}: {what}");
            toy.file.extent_read(FIRST, 0, &mut found[..begin]).expect("the pages before it");
            assert!(found[..begin] == bytes[..begin]);
            let after = bytes.len().min(begin + PAGE);
            toy.file.extent_read(FIRST, after as u64, &mut found[after..]).expect("those after it");
            assert!(found[after..] == bytes[after..]);
            file.write_at(&[disk[at]], at as u64).expect("mended");
        }
    }
    read_parts(&toy, &bytes, "mended");
}

#[test]
fn while_all_pages_stay_large_values_take_the_memory_that_is_left_and_no_more() {
    let most = 1 << 20;
    let options = FileOptions { memory_bytes: most, evicts_small: true, ..options() };
    let toy = Toy::open_with(&SimIo::new(1), &path(), &options).expect("new");
    let _kept = toy.file.keep_pages();
    let mut kept = 0;
    for name in 1..=100 {
        if let Some(copy) = toy.file.value_copy([b"", &[1; 60_000]]) {
            toy.file.value_keep(name, None, copy);
            kept += 1;
        }
    }
    let stats = toy.file.stats();
    assert!(kept >= 8 && stats.value_bytes <= most, "{kept} values, {stats:?}");
}
