//! Changes of inputs, by a seed: for bounded runs on a stable toolchain, without coverage.

/// splitmix64.
#[derive(Debug, Clone)]
pub struct Random(pub u64);

impl Random {
    /// The next number.
    pub fn draw(&mut self) -> u64 {
        everleaf_testing::splitmix64(&mut self.0)
    }
    /// A number below `n`; 0 if `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        (self.draw() % n.max(1) as u64) as usize
    }
}

/// A new input: one of `corpus` with some changes, or some of two of them, or random bytes.
pub fn next(random: &mut Random, corpus: &[Vec<u8>], most: usize) -> Vec<u8> {
    let mut input = match corpus.get(random.below(corpus.len() + 1)) {
        Some(old) => old.clone(),
        None => (0..random.below(300)).map(|_| random.draw() as u8).collect(),
    };
    for _ in 0..=random.below(6) {
        mutate(random, corpus, &mut input);
    }
    input.truncate(most);
    input
}

fn mutate(random: &mut Random, corpus: &[Vec<u8>], input: &mut Vec<u8>) {
    let at = random.below(input.len() + 1);
    let most = 1 << random.below(7);
    let n = 1 + random.below(most);
    let end = (at + n).min(input.len());
    match random.below(8) {
        0 => input.iter_mut().skip(at).take(1).for_each(|b| *b ^= 1 << (random.draw() % 8)),
        1 => input.iter_mut().skip(at).take(1).for_each(|b| *b = random.draw() as u8),
        2 => input[at..end].iter_mut().for_each(|b| *b = random.draw() as u8),
        3 => drop(input.drain(at..end)),
        4 => drop(input.splice(at..at, (0..n).map(|_| random.draw() as u8))),
        5 => {
            let copy = input[at..end].to_vec();
            let to = random.below(input.len() + 1);
            drop(input.splice(to..to, copy));
        }
        6 => {
            if let Some(other) = corpus.get(random.below(corpus.len())) {
                let from = random.below(other.len() + 1);
                let part: Vec<u8> = other[from..].iter().take(4 * n).copied().collect();
                drop(input.splice(at..end, part));
            }
        }
        _ => input.iter_mut().skip(at).take(1).for_each(|b| *b = b.wrapping_add(1)),
    }
}
