//! Pages that are anything: nothing panics, nothing goes on for ever, and what passes the check can be
//! changed.

use std::cell::Cell;
use std::cmp::Ordering;

use everleaf_pmem::{Change, Error, Medium, Page, PageNo};
use everleaf_pool::kind;
use everleaf_testing::{Rng, seed_or, times};
use everleaf_tree::blink::gap;
use everleaf_tree::slotted::Slotted;
use everleaf_tree::slotted::{
    self, Asking, Edit, Even, LeafCopy, Merge, Split, Value, View, check_page, compact, flaw,
    gap_of, remove,
};

use super::keys::{STYLES, key};
use super::medium::{Noted, bytes, set_bytes};
use super::world::World;

const SLOTTED: u16 = 3;
const PAGE_BYTES: usize = 1024;

/// An order for keys that are nowhere.
fn anywhere(record: u64) -> everleaf_pmem::Result<Ordering> {
    Ok([Ordering::Less, Ordering::Equal, Ordering::Greater][(record % 3) as usize])
}

/// Asks a node everything that reads.
fn ask_all(page: Page<'_>, keys: &[Vec<u8>]) {
    let view = View::read(page);
    let mut to = Vec::new();
    let n = view.count();
    for pos in [0, 1, n / 2, n.saturating_sub(1), n, 70_000] {
        let _ = view.key_into(pos, &mut to);
        let _ = view.value_into(pos, &mut to);
        let entry = view.entry(pos);
        let _ = (view.child(pos), view.far_of(&entry), view.reference_of(&entry), entry.end());
    }
    for fence in [view.low(), view.high()].into_iter().flatten() {
        let _ = view.fence_into(fence, &mut to);
    }
    let mut copy = LeafCopy::default();
    let _ = copy.fill(&view);
    for pos in [0, 1, n / 2, n.saturating_sub(1), n, 70_000] {
        let _ = (copy.go(pos), copy.key(), copy.value(), copy.record_at(pos));
    }
    for key in keys {
        let rank = view.rank(key, anywhere);
        assert!(rank.is_err() || rank.is_ok_and(|rank| rank.le <= n));
        let _ = view.cmp_high(key, anywhere);
        let _ = view.room_for(key, everleaf_tree::slotted::ValueSize::Inline(9));
    }
    let _ = (view.gap(), view.free_bytes(), view.used_bytes(), view.sibling(), view.run());
    let _ = view.split_point(n / 2, 50);
    if n > 1 {
        let _ = view.separator(n / 2);
        let _ = Split::new(&view, n / 2, b"s".to_vec());
    }
    let (other, asking) =
        (view, Asking { in_left: true, key: b"k", pos: 0, bytes: 40, replaces: n > 0 });
    let _ = Even::plan(&view, &other, &asking);
    let _ = Even::plan(&view, &other, &Asking { in_left: false, ..asking });
    let _ = Merge::plan(&view, &other, 0);
    let _ = flaw(&view);
    ask_gap(page);
}

/// A gap is in the page and behind its header, and what is sound without it was sound with it.
fn ask_gap(page: Page<'_>) {
    let mut all = bytes(page);
    for len in [0, 7, 63, 64, 65, 511, 512, 513, all.len()] {
        let Some(gap) = gap::<Slotted>(&all[..len]) else { continue };
        assert!(gap.is_empty() || 64 <= gap.start && gap.end <= len, "{gap:?} of {len}");
    }
    if View::of(page).is_some_and(|view| flaw(&view).is_none()) {
        let view = View::read(page);
        assert_eq!(gap_of(&all).len(), view.gap());
        let (no, m) = (page.no(), Noted::new(all.len(), page.no() + 1));
        let copy = m.page(no).expect("inside");
        let gap = gap_of(&all);
        all[gap].fill(0);
        set_bytes(&m, copy, &all);
        check_page(copy).expect("the gap means nothing");
    }
}

/// Changes a page that passed the check. Records that are nowhere can say of an insert's place what the
/// other keys of the node do not: such a node may be refused, and is then as it was before.
fn change_all(m: &Noted, no: PageNo, rng: &mut Rng, keys: &[Vec<u8>]) {
    let page = m.page(no).expect("inside");
    let _held = page.latch().lock();
    for key in keys.iter().filter(|key| key.len() < PAGE_BYTES / 8) {
        let view = View::read(page);
        let level = view.level();
        let asked = Cell::new(false);
        let anywhere = |record| {
            asked.set(true);
            anywhere(record)
        };
        let Ok((rank, old)) = view.locate(key, anywhere) else { continue };
        let value =
            rng.bytes::<Vec<u8>>(if level == 0 { rng.clone().below(40) as usize } else { 4 });
        // Only keys between the fences come to a node.
        let mut low = Vec::new();
        if let Some(fence) = view.low() {
            view.fence_into(fence, &mut low).expect("checked");
        }
        let is_inside = *key >= low && view.cmp_high(key, anywhere).expect("checked").is_lt();
        let mut edit = Edit::default();
        let is_first = level > 0 && rank.lt() == 0 || old.is_some_and(|old| old.cut);
        let at = (rank, old.as_ref());
        if is_inside && !is_first && edit.put(&view, at, key, Value::Inline(&value)) {
            let before = asked.get().then(|| bytes(page));
            edit.apply(m, &mut (), &view);
            if let (Some(before), Err(error)) = (before, check_page(page)) {
                assert!(error.to_string().contains("its keys do not ascend"), "{error}");
                set_bytes(m, page, &before);
            }
        }
        check_page(page).expect("sound before, sound after");
        let n = View::read(page).count();
        if n > 1 && rng.one_in(4) {
            remove(m, &mut (), &View::read(page), 1 + rng.below(n as u64 - 1) as usize);
            check_page(page).expect("sound before, sound after");
        }
        if rng.one_in(4) {
            compact(m, &mut (), &View::read(page), None);
            check_page(page).expect("sound before, sound after");
        }
    }
}

/// A sound page of some world, and the notes that made it.
fn sound(rng: &mut Rng) -> (World, PageNo) {
    let level = rng.below(2) as u8;
    let style = rng.pick(&STYLES);
    let mut world = World::new(PAGE_BYTES, level, rng);
    for i in 0..rng.below(60) as u32 {
        let key = key(rng, style, PAGE_BYTES);
        if !key.is_empty() && !world.model.contains_key(&key) {
            let value = if level == 0 {
                rng.bytes(i as usize % 30)
            } else {
                (i + 50).to_le_bytes().to_vec()
            };
            world.put(&key, &value);
            if rng.one_in(4) {
                world.remove(&key);
            }
        }
    }
    let no = rng.pick(&world.nodes);
    (world, no)
}

fn is_corrupt<T: std::fmt::Debug>(result: everleaf_pmem::Result<T>) {
    if let Err(error) = result {
        assert!(matches!(error, Error::Corrupt { .. }), "{error}");
    }
}

fn turns() -> u64 {
    times(if cfg!(feature = "heavy") { 20_000 } else { 400 })
}

#[test]
fn a_page_of_any_bytes_is_refused_or_behaves() {
    let m = Noted::new(PAGE_BYTES, 1);
    let page = m.page(0).expect("inside");
    let mut rng = Rng(seed_or(11));
    println!("seed {}", rng.0);
    let (mut turn, mut sound) = (0, 0);
    while turn < 20 * turns() {
        turn += 1;
        let mut all: Vec<u8> = rng.bytes(PAGE_BYTES);
        let prefix = if rng.one_in(2) { 0 } else { rng.below(140) as u32 };
        let kind = kind::pack(kind::NODE, rng.below(3) as u8, SLOTTED, prefix);
        all[40..48].copy_from_slice(&kind.to_le_bytes());
        if rng.one_in(2) {
            // An empty node, or nearly.
            let count = rng.below(4);
            let heap = PAGE_BYTES as u64 - rng.below(60);
            let run = count | heap << 16 | rng.below(3) << 32;
            let fences = if rng.one_in(2) { 0xffff_0000_ffff_0000 } else { rng.next() };
            for (word, value) in [run, 0, fences, 0, 0].into_iter().enumerate() {
                all[8 * word..][..8].copy_from_slice(&value.to_le_bytes());
            }
        }
        set_bytes(&m, page, &all);
        let keys: Vec<_> = STYLES.iter().map(|style| key(&mut rng, *style, PAGE_BYTES)).collect();
        ask_all(page, &keys);
        if check_page(page).is_ok() {
            sound += 1;
            change_all(&m, 0, &mut rng, &keys);
        }
    }
    println!("{sound} of {turn} pages are nodes");
    assert!(sound > 0);
}

#[test]
fn a_node_with_other_bytes_is_refused_or_behaves() {
    let mut rng = Rng(seed_or(12));
    println!("seed {}", rng.0);
    let (mut refused, mut passed) = (0, 0);
    for _ in 0..turns() / 8 {
        let (world, no) = sound(&mut rng);
        let page = world.m.page(no).expect("inside");
        let before = bytes(page);
        let keys: Vec<_> = world
            .model
            .keys()
            .take(5)
            .cloned()
            .chain(STYLES.iter().map(|style| key(&mut rng, *style, PAGE_BYTES)))
            .collect();
        for _ in 0..32 {
            let mut all = before.clone();
            for _ in 0..1 + rng.below(4) {
                let most = rng.pick(&[40, 64, 120, PAGE_BYTES as u64]);
                let at = rng.below(most) as usize;
                let by = rng.pick(&[1, 0x80, 0xff, rng.clone().next() as u8]);
                all[at] = all[at].wrapping_add(by);
            }
            all[40..44].copy_from_slice(&before[40..44]);
            set_bytes(&*world.m, page, &all);
            ask_all(page, &keys);
            match check_page(page) {
                Ok(()) => {
                    passed += 1;
                    change_all(&world.m, no, &mut rng, &keys);
                }
                Err(error) => {
                    refused += 1;
                    assert!(matches!(error, Error::Corrupt { .. }));
                }
            }
        }
    }
    println!("{refused} refused, {passed} passed");
    assert!(refused > 0 && passed > 0);
}

#[test]
fn every_bit_of_the_header_and_the_slots_counts() {
    let mut rng = Rng(seed_or(13));
    println!("seed {}", rng.0);
    let mut unnoticed = 0;
    for _ in 0..turns() / 40 {
        let (world, no) = sound(&mut rng);
        let page = world.m.page(no).expect("inside");
        let before = bytes(page);
        let view = View::of(page).expect("a node");
        let (slots_end, low, high) = (view.slots_end(), view.low(), view.high());
        let is_record = |at: usize| {
            let holds = |fence: slotted::FenceAt| {
                fence.record.is_some() && (fence.at + fence.kept..).take(8).any(|byte| byte == at)
            };
            low.is_some_and(holds) || high.is_some_and(holds)
        };
        for bit in
            (0..8 * slots_end).filter(|bit| !(48..64).contains(&(bit / 8)) && !is_record(bit / 8))
        {
            let mut all = before.clone();
            all[bit / 8] ^= 1 << (bit % 8);
            set_bytes(&*world.m, page, &all);
            ask_all(page, &[]);
            if check_page(page).is_ok() {
                // Changes that go unnoticed: how many inserts were in a row, another sibling, another level, a key
                // that is as good, another prefix that is as good.
                let byte = bit / 8;
                let is_known = [7, 41].contains(&byte)
                    || (8..12).contains(&byte)
                    || byte == 44 && is_same_behind(&view, View::read(page).prefix_len());
                assert!(is_known || is_key_byte(&view, byte), "byte {byte}");
                unnoticed += 1;
            }
        }
    }
    assert!(unnoticed > 0);
}

/// Whether a byte of the page is one that a slot has of its key. The first one stands last.
fn is_key_byte(view: &View<'_>, byte: usize) -> bool {
    let Some(at) = byte.checked_sub(64) else { return false };
    let head = 7 - at % 8;
    head < view.entry(at / 8).suffix.min(6)
}

/// Whether the header's head of the high fence is right behind a prefix of another length, too. The fence
/// is then one byte again and again, as `yyyyyyyyyy`, and the page is a sound node of other keys: how long
/// the prefix is, its fences do not decide alone, because a cut key, even one that is gone, may shorten it.
fn is_same_behind(view: &View<'_>, prefix: usize) -> bool {
    let Some(high) = view.high() else { return false };
    let mut fence = Vec::new();
    view.fence_into(high, &mut fence).expect("a sound node");
    let head = |prefix: usize| fence.iter().skip(prefix).chain(&[0; 8]).take(8);
    prefix != view.prefix_len() && head(prefix).eq(head(view.prefix_len()))
}

#[test]
fn notes_of_any_bytes_are_refused_or_done() {
    let mut rng = Rng(seed_or(14));
    println!("seed {}", rng.0);
    let (mut refused, mut done) = (0, 0);
    for _ in 0..turns() / 8 {
        let (world, no) = sound(&mut rng);
        let page = world.m.page(no).expect("inside");
        let before = bytes(page);
        let _held = page.latch().lock();
        let notes = some_notes(&mut rng, &before, page);
        for (i, (tag, mut operands)) in notes.into_iter().cycle().take(64).enumerate() {
            let mut all = before.clone();
            if rng.one_in(4) {
                let at = rng.below(120) as usize;
                all[at] = rng.next() as u8;
                all[40..44].copy_from_slice(&before[40..44]);
            }
            set_bytes(&*world.m, page, &all);
            if i >= 16 && !operands.is_empty() {
                let at = rng.below(operands.len().min(60) as u64) as usize;
                operands[at] = rng.next() as u8;
                if rng.one_in(4) {
                    operands.truncate(rng.below(operands.len() as u64) as usize);
                }
            }
            let result = slotted::redo(&*world.m, page, Change { tag, bytes: &operands });
            if result.is_ok() {
                done += 1
            } else {
                refused += 1
            }
            is_corrupt(result);
            ask_all(page, &[]);
            let _ = check_page(page);
        }
    }
    println!("{refused} refused, {done} done");
    assert!(refused > 0 && done > 0);
}

/// Notes that fit the page, more or less.
fn some_notes(rng: &mut Rng, page_bytes: &[u8], page: Page<'_>) -> Vec<(u8, Vec<u8>)> {
    let view = View::read(page);
    let n = view.count() as u64;
    let pos = |rng: &mut Rng| (rng.below(n + 1) as u16).to_le_bytes();
    let level = view.level();
    let code = if level == 0 { 0x38 } else { 0x48 };
    let entry = |rng: &mut Rng| {
        let mut entry: Vec<u8> = rng.bytes(2 + if level == 0 { 3 } else { 4 });
        entry.insert(0, code);
        entry.extend(rng.bytes::<Vec<u8>>(6));
        entry
    };
    let fence = |rng: &mut Rng| {
        let mut fence = vec![3, 0];
        fence.extend(rng.bytes::<Vec<u8>>(3));
        fence
    };
    let entries = |rng: &mut Rng, n: u16| {
        let (mut slots, mut heap) = (n.to_le_bytes().to_vec(), vec![]);
        for i in (0..n).rev() {
            let entry = entry(rng);
            let (parts, head) = entry.split_at(entry.len() - 6);
            slots.extend((parts.len() as u16 * i).to_le_bytes());
            slots.extend(head);
            heap.extend_from_slice(parts);
        }
        [slots, heap].concat()
    };
    let mut notes = vec![
        (7, [&pos(rng)[..], &entry(rng)].concat()),
        (
            8,
            [
                &pos(rng)[..],
                &[if level == 0 { 0x30 } else { 0x40 }, 1, 2, 3, 4][..4 + usize::from(level)],
            ]
            .concat(),
        ),
        (9, pos(rng).to_vec()),
        (10, vec![]),
        (12, [&pos(rng)[..], &9u32.to_le_bytes(), &fence(rng)].concat()),
        (13, [&pos(rng)[..], &fence(rng)].concat()),
        (14, [fence(rng), entries(rng, 2)].concat()),
        (15, [fence(rng), entries(rng, 3)].concat()),
    ];
    // The node as it is.
    let heap = view.heap_start();
    let mut image = page_bytes[..8].to_vec();
    image[4..6].copy_from_slice(&[0, 0]);
    image.extend(&page_bytes[8..12]);
    image.extend(&page_bytes[16..32]);
    image.extend(&page_bytes[40..48]);
    image.extend(&page_bytes[64..view.slots_end()]);
    image.extend(&page_bytes[heap..]);
    notes.push((11, image));
    notes.push((rng.next() as u8, rng.bytes(20)));
    notes
}
