//! Parts of a directed graph in which each point reaches each other.

/// The strongly connected components of more than one point, each in ascending order, by their
/// first points. `to[i]` are the points that `i` has an arrow to.
///
/// This is the path-based algorithm of Gabow (2000), with a stack of its own in place of recursion.
pub fn circles(to: &[Vec<usize>]) -> Vec<Vec<usize>> {
    const NEW: usize = usize::MAX;
    const DONE: usize = usize::MAX - 1;
    let mut place = vec![NEW; to.len()];
    let mut found = Vec::new();
    for start in 0..to.len() {
        if place[start] != NEW {
            continue;
        }
        // The points on the way with the next arrow of each, those that have no part yet, and where
        // in these the parts begin that may still grow together.
        let (mut way, mut open, mut bounds) = (vec![(start, 0)], vec![start], vec![0]);
        place[start] = 0;
        while let Some((point, arrow)) = way.last_mut() {
            if let Some(&next) = to[*point].get(*arrow) {
                *arrow += 1;
                match place[next] {
                    NEW => {
                        place[next] = open.len();
                        bounds.push(open.len());
                        open.push(next);
                        way.push((next, 0));
                    }
                    DONE => {}
                    at => bounds.truncate(bounds.partition_point(|&bound| bound <= at)),
                }
                continue;
            }
            if bounds.last() == Some(&place[*point]) {
                bounds.pop();
                let mut part = open.split_off(place[*point]);
                part.iter().for_each(|&member| place[member] = DONE);
                part.sort_unstable();
                found.extend((part.len() > 1).then_some(part));
            }
            way.pop();
        }
    }
    found.sort_unstable();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles_are_told_from_what_hangs_on_them() {
        // 0 -> 1 -> 2 -> 1, 2 -> 3 -> 4 -> 5 -> 3, 6 -> 0, 7.
        let to = [vec![1], vec![2], vec![1, 3], vec![4], vec![5], vec![3], vec![0], vec![]];
        assert_eq!(circles(&to), [vec![1, 2], vec![3, 4, 5]]);
        assert!(circles(&[vec![1, 2], vec![2], vec![]]).is_empty());
    }

    #[test]
    fn every_graph_of_four_points_has_the_parts_that_reachability_gives() {
        for arrows in 0_u32..1 << 16 {
            let has = |from: usize, to: usize| arrows >> (from * 4 + to) & 1 == 1;
            let to: Vec<Vec<_>> =
                (0..4).map(|from| (0..4).filter(|&to| has(from, to)).collect()).collect();
            let mut reach: [[bool; 4]; 4] =
                std::array::from_fn(|from| std::array::from_fn(|to| from == to || has(from, to)));
            for (via, from, to) in (0..64).map(|i| (i / 16, i / 4 % 4, i % 4)) {
                reach[from][to] |= reach[from][via] && reach[via][to];
            }
            let part = |point: usize| -> Vec<usize> {
                (0..4).filter(|&other| reach[point][other] && reach[other][point]).collect()
            };
            let parts = (0..4).map(|point| (point, part(point)));
            let wanted: Vec<_> = parts
                .filter(|(point, part)| part[0] == *point && part.len() > 1)
                .map(|(_, part)| part)
                .collect();
            assert_eq!(circles(&to), wanted, "{to:?}");
        }
    }
}
