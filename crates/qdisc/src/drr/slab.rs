//! One store for the packets of all queues.
//!
//! A [`List`] holds a queue's packets, which can be removed at both ends. Nodes refer to each other
//! by index. A node's link is the index of the node before it, exclusive-or the index of the node
//! after it (`NIL` beyond the ends): given one neighbour, it yields the other. A packet therefore
//! costs its own size plus eight bytes, and up to an eighth of that in reserve.

use alloc::vec::Vec;

/// No node.
pub(crate) const NIL: u32 = u32::MAX;

/// Up to this length the store doubles, which wastes little; beyond, it grows by an eighth at a
/// time.
const DOUBLING_ENDS: usize = 1024;

/// The packets of any number of lists.
#[derive(Clone, Debug)]
pub(crate) struct Slab<P> {
    nodes: Vec<Node<P>>,
    /// The free node that was used last.
    free: u32,
}

#[derive(Clone, Debug)]
enum Node<P> {
    Free { next: u32 },
    Used { link: u32, packet: P },
}

/// A queue's packets: the first node and the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct List {
    front: u32,
    back: u32,
}

impl List {
    /// No packets.
    pub(crate) const EMPTY: Self = Self { front: NIL, back: NIL };

    /// Returns the node of the first packet, or [`NIL`].
    #[inline]
    pub(crate) const fn front(self) -> u32 {
        self.front
    }

    /// Returns the node of the last packet, or [`NIL`].
    #[inline]
    pub(crate) const fn back(self) -> u32 {
        self.back
    }

    #[inline]
    pub(crate) const fn is_empty(self) -> bool {
        self.front == NIL
    }
}

impl<P> Slab<P> {
    pub(crate) const fn new() -> Self {
        Self { nodes: Vec::new(), free: NIL }
    }

    /// Appends a packet to `list`. All lists together may have at most 2^32 - 2.
    #[inline]
    pub(crate) fn push_back(&mut self, list: &mut List, packet: P) {
        let node = Node::Used { link: list.back ^ NIL, packet };
        let index = self.free;
        let index = if index == NIL {
            self.append(node)
        } else {
            let Node::Free { next } = core::mem::replace(&mut self.nodes[index as usize], node)
            else {
                unreachable!("the chain of free nodes leads to free nodes")
            };
            self.free = next;
            index
        };
        if list.back == NIL {
            list.front = index;
        } else {
            self.relink(list.back, NIL, index);
        }
        list.back = index;
    }

    /// Returns a reference to the packet at the front.
    #[inline]
    pub(crate) fn front(&self, list: List) -> Option<&P> {
        match self.nodes.get(list.front as usize)? {
            Node::Used { packet, .. } => Some(packet),
            Node::Free { .. } => unreachable!("a list holds used nodes"),
        }
    }

    /// Returns the packet of a node at an end of its list, and the node's one neighbour, or `None`
    /// if there is no such node.
    #[inline]
    pub(crate) fn end(&self, index: u32) -> Option<(&P, u32)> {
        match self.nodes.get(index as usize)? {
            Node::Used { link, packet } => Some((packet, link ^ NIL)),
            Node::Free { .. } => unreachable!("a list holds used nodes"),
        }
    }

    /// Reads the node with this index, if there is one.
    #[inline]
    pub(crate) fn prefetch(&self, index: u32) -> u32 {
        match self.nodes.get(index as usize) {
            Some(Node::Used { link, .. }) => *link,
            Some(Node::Free { next }) => *next,
            None => NIL,
        }
    }

    /// Removes the packet at the front.
    #[inline]
    pub(crate) fn pop_front(&mut self, list: &mut List) -> Option<P> {
        let (packet, next) = self.take(list.front)?;
        if next == NIL {
            list.back = NIL;
        } else {
            self.relink(next, list.front, NIL);
        }
        list.front = next;
        Some(packet)
    }

    /// Removes the packet at the back.
    #[inline]
    pub(crate) fn pop_back(&mut self, list: &mut List) -> Option<P> {
        let (packet, before) = self.take(list.back)?;
        if before == NIL {
            list.front = NIL;
        } else {
            self.relink(before, list.back, NIL);
        }
        list.back = before;
        Some(packet)
    }

    /// Returns the packets of a list, oldest first.
    pub(crate) fn iter(&self, list: List) -> impl Iterator<Item = &P> {
        let mut before = NIL;
        let mut at = list.front;
        core::iter::from_fn(move || match self.nodes.get(at as usize)? {
            Node::Used { link, packet } => {
                (before, at) = (at, link ^ before);
                Some(packet)
            }
            Node::Free { .. } => unreachable!("a list holds used nodes"),
        })
    }

    /// Removes the packet with this position in its list, if there is one. The time for it grows
    /// with the position.
    pub(crate) fn remove(&mut self, list: &mut List, position: usize) -> Option<P> {
        let (mut before, mut at) = (NIL, list.front);
        for _ in 0..position {
            let Node::Used { link, .. } = self.nodes.get(at as usize)? else {
                unreachable!("a list holds used nodes")
            };
            (before, at) = (at, link ^ before);
        }
        let (packet, neighbours) = self.take(at)?;
        // `take` assumes an end, where one neighbour is `NIL`.
        let after = neighbours ^ NIL ^ before;
        match before {
            NIL => list.front = after,
            _ => self.relink(before, at, after),
        }
        match after {
            NIL => list.back = before,
            _ => self.relink(after, at, before),
        }
        Some(packet)
    }

    /// Frees a node at an end of its list. Returns its packet and its one neighbour.
    #[inline]
    fn take(&mut self, index: u32) -> Option<(P, u32)> {
        let node = self.nodes.get_mut(index as usize)?;
        let Node::Used { link, packet } = core::mem::replace(node, Node::Free { next: self.free })
        else {
            unreachable!("a list holds used nodes")
        };
        self.free = index;
        Some((packet, link ^ NIL))
    }

    /// Replaces the neighbour `old` of a node by `new`.
    #[inline]
    fn relink(&mut self, index: u32, old: u32, new: u32) {
        match &mut self.nodes[index as usize] {
            Node::Used { link, .. } => *link ^= old ^ new,
            Node::Free { .. } => unreachable!("a used node's neighbours are used"),
        }
    }

    #[cold]
    fn grow(&mut self) {
        let capacity = self.nodes.capacity();
        if capacity >= DOUBLING_ENDS {
            self.nodes.reserve_exact(capacity / 8);
        }
    }

    #[inline]
    fn append(&mut self, node: Node<P>) -> u32 {
        if self.nodes.len() == self.nodes.capacity() {
            self.grow();
        }
        let index = self.nodes.len() as u32;
        self.nodes.push(node);
        index
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::VecDeque;

    use rand_core::{Rng, SeedableRng};
    use rand_pcg::Pcg32;

    use super::*;

    /// As large as a packet of 32 bytes with its time of arrival, and without a niche.
    type Forty = [u64; 5];

    #[test]
    fn a_packet_of_forty_bytes_costs_at_most_sixty_four() {
        assert_eq!(size_of::<Node<Forty>>(), 48);
        let mut slab = Slab::<Forty>::new();
        let mut list = List::EMPTY;
        for count in 1..100_000 {
            slab.push_back(&mut list, [0; 5]);
            let bytes = slab.nodes.capacity() * size_of::<Node<Forty>>();
            assert!(count <= DOUBLING_ENDS || bytes <= 64 * count, "{bytes} for {count}");
        }
    }

    #[test]
    fn lists_are_queues_with_two_ends() {
        let mut random = Pcg32::seed_from_u64(1);
        let mut slab = Slab::new();
        let mut lists = [List::EMPTY; 3];
        let mut models: [VecDeque<u32>; 3] = Default::default();
        for number in 0..20_000 {
            let which = random.next_u32() as usize % 3;
            let (list, model) = (&mut lists[which], &mut models[which]);
            assert!(slab.iter(*list).eq(model.iter()));
            match random.next_u32() % 6 {
                0 | 1 => {
                    slab.push_back(list, number);
                    model.push_back(number);
                }
                2 | 3 => assert_eq!(slab.pop_front(list), model.pop_front()),
                4 => assert_eq!(slab.pop_back(list), model.pop_back()),
                _ => {
                    let position = random.next_u32() as usize % 5;
                    assert_eq!(slab.remove(list, position), model.remove(position));
                }
            }
            assert_eq!(slab.front(*list), model.front());
            assert_eq!(list.is_empty(), model.is_empty());
        }
        // Nodes are used again.
        assert!(slab.nodes.len() < 1_000);
    }
}
