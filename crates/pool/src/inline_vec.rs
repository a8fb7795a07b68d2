//! A vector with four places of its own; more go to the heap. A step that touches few pages
//! allocates nothing.

use everleaf_pmem::{Result, fallible};

/// Elements that need no heap.
pub(crate) const INLINE: usize = 4;

/// A vector whose first four elements need no heap, and whose growth may fail.
pub(crate) struct InlineVec<T> {
    inline: [Option<T>; INLINE],
    heap: Vec<T>,
    len: usize,
}

impl<T> InlineVec<T> {
    pub fn new() -> Self {
        Self { inline: [const { None }; INLINE], heap: Vec::new(), len: 0 }
    }
    /// Sees to it that one more can be added.
    ///
    /// # Errors
    /// [`Error::NoMemory`](everleaf_pmem::Error::NoMemory).
    #[inline]
    pub fn make_room(&mut self) -> Result<()> {
        if self.len < INLINE {
            Ok(())
        } else {
            fallible::more(&mut self.heap, 1, "the pages of a step")
        }
    }
    /// Adds one, after [`make_room`](Self::make_room), and says where it is. O(1).
    pub fn push(&mut self, value: T) -> usize {
        let at = self.len;
        self.len += 1;
        match self.inline.get_mut(at) {
            Some(place) => *place = Some(value),
            None => {
                debug_assert!(self.heap.len() < self.heap.capacity(), "room was made before");
                self.heap.push(value);
            }
        }
        at
    }
    pub fn len(&self) -> usize {
        self.len
    }
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.inline.iter().flatten().chain(&self.heap)
    }
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.inline.iter_mut().flatten().chain(&mut self.heap)
    }
    /// Takes everything out, first in first out.
    pub fn drain(&mut self) -> impl Iterator<Item = T> + '_ {
        self.len = 0;
        self.inline.iter_mut().filter_map(Option::take).chain(self.heap.drain(..))
    }
}

impl<T> std::ops::Index<usize> for InlineVec<T> {
    type Output = T;
    fn index(&self, at: usize) -> &T {
        match self.inline.get(at) {
            Some(place) => place.as_ref().expect("pushed"),
            None => &self.heap[at - INLINE],
        }
    }
}

impl<T> std::ops::IndexMut<usize> for InlineVec<T> {
    fn index_mut(&mut self, at: usize) -> &mut T {
        match self.inline.get_mut(at) {
            Some(place) => place.as_mut().expect("pushed"),
            None => &mut self.heap[at - INLINE],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_order_across_the_border() {
        let mut list = InlineVec::new();
        for i in 0..10 {
            list.make_room().expect("memory");
            assert_eq!(list.push(i), i);
        }
        list[7] = 70;
        list.iter_mut().for_each(|v| *v += 1);
        assert_eq!((list[0], list[7]), (1, 71));
        assert_eq!(list.iter().count(), 10);
        assert_eq!(list.drain().nth(4), Some(5));
        assert_eq!(list.push(0), 0);
    }
}
