//! A list that is nearly always short: four places inside, the rest on the heap. A step that
//! touches few pages thereby allocates nothing.

use everleaf_pmem::{Result, fallible};

const NEAR: usize = 4;

pub(crate) struct Few<T> {
    near: [Option<T>; NEAR],
    more: Vec<T>,
    len: usize,
}

impl<T> Few<T> {
    pub fn new() -> Self {
        Self { near: [const { None }; NEAR], more: Vec::new(), len: 0 }
    }
    /// Sees to it that one more can be added.
    ///
    /// # Errors
    /// [`Error::NoMemory`](everleaf_pmem::Error::NoMemory).
    #[inline]
    pub fn make_room(&mut self) -> Result<()> {
        if self.len < NEAR {
            Ok(())
        } else {
            fallible::more(&mut self.more, 1, "the pages of a step")
        }
    }
    /// Adds one, after [`make_room`](Self::make_room), and says where it is. O(1).
    pub fn push(&mut self, value: T) -> usize {
        let at = self.len;
        self.len += 1;
        match self.near.get_mut(at) {
            Some(place) => *place = Some(value),
            None => self.more.push(value),
        }
        at
    }
    pub fn len(&self) -> usize {
        self.len
    }
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.near.iter().flatten().chain(&self.more)
    }
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.near.iter_mut().flatten().chain(&mut self.more)
    }
    /// Takes everything out, first in first out.
    pub fn drain(&mut self) -> impl Iterator<Item = T> + '_ {
        self.len = 0;
        self.near.iter_mut().filter_map(Option::take).chain(self.more.drain(..))
    }
}

impl<T> std::ops::Index<usize> for Few<T> {
    type Output = T;
    fn index(&self, at: usize) -> &T {
        match self.near.get(at) {
            Some(place) => place.as_ref().expect("pushed"),
            None => &self.more[at - NEAR],
        }
    }
}

impl<T> std::ops::IndexMut<usize> for Few<T> {
    fn index_mut(&mut self, at: usize) -> &mut T {
        match self.near.get_mut(at) {
            Some(place) => place.as_mut().expect("pushed"),
            None => &mut self.more[at - NEAR],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_order_across_the_border() {
        let mut few = Few::new();
        for i in 0..10 {
            assert_eq!(few.push(i), i);
        }
        few[7] = 70;
        few.iter_mut().for_each(|v| *v += 1);
        assert_eq!((few[0], few[7]), (1, 71));
        assert_eq!(few.iter().count(), 10);
        assert_eq!(few.drain().nth(4), Some(5));
        assert_eq!(few.push(0), 0);
    }
}
