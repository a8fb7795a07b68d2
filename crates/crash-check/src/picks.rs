//! Which images of a crash point are built: all of them where that is affordable, else those near
//! the two extremes first and uniformly random ones after; and before those, on demand, all that
//! differ from an extreme in one page only.

use std::ops::Range;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// For each line, which of its contents: a walk over combinations. `sizes` are all at least 1.
#[derive(Debug)]
pub(crate) enum ImagePicks {
    All {
        started: bool,
    },
    Sampled {
        done: usize,
        wanted: usize,
        singles: usize,
        rng: Box<Xoshiro256PlusPlus>,
    },
    /// All contents of the lines of one page after the other, with the others at their floors and
    /// then with all that was stored to them; the rest after that.
    Pages {
        pages: Vec<Range<usize>>,
        turn: usize,
        started: bool,
        rest: Box<ImagePicks>,
    },
}

/// The number of combinations, if it is at most `limit`.
pub(crate) fn product(sizes: &[usize], limit: usize) -> Option<usize> {
    sizes.iter().try_fold(1usize, |all, &n| all.checked_mul(n).filter(|&p| p <= limit))
}

impl ImagePicks {
    pub fn all() -> Self {
        ImagePicks::All { started: false }
    }

    /// The two extremes, the images one line off them, then half of what is left two or three
    /// lines off, and half anywhere.
    pub fn sampled(sizes: &[usize], wanted: usize, seed: u64) -> Self {
        let singles = 2 * sizes.iter().map(|n| n - 1).sum::<usize>();
        debug_assert!(!sizes.is_empty(), "without lines there is one image, which is not sampled");
        let rng = Box::new(Xoshiro256PlusPlus::seed_from_u64(seed));
        ImagePicks::Sampled { done: 0, wanted, singles, rng }
    }

    /// `pages` are the lines of each page that is tried in full.
    pub fn by_page(pages: Vec<Range<usize>>, rest: ImagePicks) -> Self {
        ImagePicks::Pages { pages, turn: 0, started: false, rest: Box::new(rest) }
    }

    /// Sets `picks` to the next combination; false at the end.
    pub fn next(&mut self, sizes: &[usize], picks: &mut Vec<usize>) -> bool {
        debug_assert!(sizes.iter().all(|n| *n > 0), "a line has at least one content");
        match self {
            ImagePicks::All { started } => {
                if !*started {
                    *started = true;
                    picks.clear();
                    picks.resize(sizes.len(), 0);
                    return true;
                }
                count_up(sizes, picks)
            }
            ImagePicks::Sampled { done, wanted, singles, rng } => {
                if *done == *wanted {
                    return false;
                }
                pick_sample(*done, *singles, sizes, picks, rng);
                *done += 1;
                true
            }
            ImagePicks::Pages { pages, turn, started, rest } => {
                while let Some(page) = pages.get(*turn / 2) {
                    if !*started {
                        *started = true;
                        let extreme = |&n: &usize| if turn.is_multiple_of(2) { 0 } else { n - 1 };
                        picks.clear();
                        picks.extend(sizes.iter().map(extreme));
                        picks[page.clone()].fill(0);
                        return true;
                    }
                    if count_up(&sizes[page.clone()], &mut picks[page.clone()]) {
                        return true;
                    }
                    (*turn, *started) = (*turn + 1, false);
                }
                rest.next(sizes, picks)
            }
        }
    }
}

/// The mixed-radix successor; false after the last.
fn count_up(sizes: &[usize], picks: &mut [usize]) -> bool {
    debug_assert_eq!(picks.len(), sizes.len());
    for (pick, &size) in picks.iter_mut().zip(sizes) {
        debug_assert!(*pick < size);
        *pick += 1;
        if *pick < size {
            return true;
        }
        *pick = 0;
    }
    false
}

fn pick_sample(
    done: usize,
    singles: usize,
    sizes: &[usize],
    picks: &mut Vec<usize>,
    rng: &mut Xoshiro256PlusPlus,
) {
    picks.clear();
    // Even samples start from the floors, odd ones from everything written.
    let from_floor = done.is_multiple_of(2);
    picks.extend(sizes.iter().map(|&n| if from_floor { 0 } else { n - 1 }));
    let Some(near) = done.checked_sub(2) else { return };
    if near < singles {
        let (line, off) = nth_single(sizes, near / 2);
        picks[line] = if from_floor { off } else { sizes[line] - 1 - off };
    } else if (near - singles) % 4 < 2 {
        for _ in 0..rng.random_range(2..=3) {
            let line = rng.random_range(0..sizes.len());
            picks[line] = rng.random_range(0..sizes[line]);
        }
    } else {
        for (pick, &size) in picks.iter_mut().zip(sizes) {
            *pick = rng.random_range(0..size);
        }
    }
}

/// The `n`-th pair of a line and a content of it that is not the extreme.
fn nth_single(sizes: &[usize], mut n: usize) -> (usize, usize) {
    for (line, &size) in sizes.iter().enumerate() {
        if n < size - 1 {
            return (line, n + 1);
        }
        n -= size - 1;
    }
    unreachable!("callers stay below the number of singles")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn collect(mut plan: ImagePicks, sizes: &[usize]) -> Vec<Vec<usize>> {
        let (mut all, mut picks) = (Vec::new(), Vec::new());
        while plan.next(sizes, &mut picks) {
            all.push(picks.clone());
        }
        all
    }

    #[test]
    fn all_means_each_combination_once() {
        let all = collect(ImagePicks::all(), &[2, 3, 4]);
        assert_eq!((all.len(), all.iter().collect::<HashSet<_>>().len()), (24, 24));
        assert_eq!(collect(ImagePicks::all(), &[]), [Vec::<usize>::new()]);
        assert_eq!((product(&[2, 3, 4], 24), product(&[2, 3, 4], 23)), (Some(24), None));
        assert_eq!(product(&[usize::MAX, 3], usize::MAX), None);
    }

    #[test]
    fn a_page_is_tried_in_full_between_both_extremes_of_the_others() {
        let sizes = [2, 2, 3];
        let all = collect(
            ImagePicks::by_page(vec![0..2, 2..3], ImagePicks::sampled(&sizes, 1, 1)),
            &sizes,
        );
        let first: Vec<Vec<usize>> =
            [[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]].map(Vec::from).into();
        assert_eq!(all[..4], first);
        assert!(all[4..8].iter().zip(&first).all(|(a, b)| (&a[..2], a[2]) == (&b[..2], 2)));
        assert_eq!(all[8..14].iter().filter(|p| p[..2] == [1, 1]).count(), 3);
        assert_eq!((all.len(), &all[14]), (15, &vec![0; 3]));
    }

    #[test]
    fn samples_begin_with_the_extremes_and_what_is_one_line_off() {
        let sizes = [3; 20];
        let all = collect(ImagePicks::sampled(&sizes, 300, 1), &sizes);
        assert_eq!((all.len(), &all[0], &all[1]), (300, &vec![0; 20], &vec![2; 20]));
        let off = |p: &Vec<usize>, v| p.iter().filter(|&&x| x != v).count();
        let singles: HashSet<_> = all[2..82].iter().collect();
        assert_eq!(singles.len(), 80);
        assert!(singles.iter().all(|p| off(p, 0) == 1 || off(p, 2) == 1));
        assert!(all.iter().any(|p| off(p, 0) > 5 && off(p, 2) > 5));
        assert_eq!(all, collect(ImagePicks::sampled(&sizes, 300, 1), &sizes));
    }
}
