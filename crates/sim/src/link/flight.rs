//! Packets under way: a list for each link, by time of arrival, and one store for all lists.
//!
//! The place that a packet has left is the next to be used. So the store is as long as the largest
//! number of packets ever under way at once, and a place that is written was read a moment ago.
//! With a ring for each link, packets would cycle through all of its memory, most of which would no
//! longer be in a cache.
//!
//! It is not the store of `narrows-qdisc`: that one cuts lists only at their ends, and its places
//! would take 48 bytes for a packet and its time, not 44.

use narrows_transport::prefetch::{Prefetch, Step};
use narrows_units::Time;

use crate::maybe_index::MaybeIndex;
use crate::packet::Packet;

/// The packets of all links.
#[derive(Debug)]
pub(crate) struct Flights {
    places: Vec<Place>,
    /// The first free place. Its other neighbour is the next free one.
    free: MaybeIndex,
}

/// A packet and its neighbours on the list. The fields that a neighbour needs come first, so that
/// they mostly share a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Place {
    /// The lower and the upper half of the time. A 64-bit number would round the place up to 48
    /// bytes.
    arrives_at: [u32; 2],
    neighbours: Neighbours,
    packet: Packet,
}

const _: () = assert!(size_of::<Place>() == 44);

impl Place {
    #[inline(always)]
    const fn new(arrives_at: Time, packet: Packet, neighbours: Neighbours) -> Self {
        let ps = arrives_at.as_ps();
        Self { arrives_at: [ps as u32, (ps >> 32) as u32], packet, neighbours }
    }

    #[inline(always)]
    const fn arrives_at(&self) -> Time {
        Time::from_ps((self.arrives_at[1] as u64) << 32 | self.arrives_at[0] as u64)
    }
}

/// The two neighbours of a list entry in one number: their exclusive or. Given one of them, it
/// yields the other.
#[derive(Clone, Copy, Debug)]
struct Neighbours(u32);

impl Neighbours {
    #[inline(always)]
    const fn new(one: MaybeIndex, other: MaybeIndex) -> Self {
        Self(one.bits() ^ other.bits())
    }

    /// Returns the neighbour other than `this`.
    #[inline(always)]
    const fn but(self, this: MaybeIndex) -> MaybeIndex {
        MaybeIndex::from_bits(self.0 ^ this.bits())
    }

    /// Replaces one neighbour with another.
    #[inline(always)]
    const fn replace(&mut self, old: MaybeIndex, new: MaybeIndex) {
        self.0 ^= old.bits() ^ new.bits();
    }
}

/// One link's list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    first: MaybeIndex,
    last: MaybeIndex,
}

const NONE: MaybeIndex = MaybeIndex::NONE;
/// Up to this length the store doubles, which wastes little; beyond, it grows by 1/32 at a time.
const DOUBLING_ENDS: usize = 1024;

impl Flight {
    pub(super) const EMPTY: Self = Self { first: NONE, last: NONE };

    /// Inserts a packet behind all that arrive no later.
    #[inline(always)]
    pub(super) fn push(&mut self, arrives_at: Time, packet: Packet, flights: &mut Flights) {
        let place = Place::new(arrives_at, packet, Neighbours::new(self.last, NONE));
        let index = MaybeIndex::some(flights.put(place));
        if self.last.is_none() {
            self.first = index;
            self.last = index;
        } else {
            let last = &mut flights.places[self.last.place()];
            if last.arrives_at() <= arrives_at {
                last.neighbours.replace(NONE, index);
                self.last = index;
            } else {
                self.overtake(index, arrives_at, flights);
            }
        }
    }

    /// Removes the packet that arrives first. Returns it, and when the next one arrives.
    #[inline(always)]
    pub(super) fn pop(&mut self, flights: &mut Flights) -> Option<(Packet, Option<Time>)> {
        let index = self.first;
        let place = flights.places.get_mut(index.place())?;
        let packet = place.packet;
        self.first = place.neighbours.but(NONE);
        place.neighbours = Neighbours::new(flights.free, NONE);
        flights.free = index;
        Some((
            packet,
            match flights.places.get_mut(self.first.place()) {
                Some(place) => {
                    place.neighbours.replace(index, NONE);
                    Some(place.arrives_at())
                }
                None => {
                    self.last = NONE;
                    None
                }
            },
        ))
    }

    /// Returns the places of the packets that arrive first and last.
    #[inline(always)]
    pub(super) const fn ends(&self) -> (MaybeIndex, MaybeIndex) {
        (self.first, self.last)
    }

    /// Finds the place of a packet that arrives before the last one.
    #[cold]
    #[inline(never)]
    fn overtake(&mut self, index: MaybeIndex, arrives_at: Time, flights: &mut Flights) {
        let places = &mut flights.places;
        let mut next = self.last;
        let mut previous = places[next.place()].neighbours.but(NONE);
        while let Some(place) = places.get(previous.place())
            && place.arrives_at() > arrives_at
        {
            let before = place.neighbours.but(next);
            next = previous;
            previous = before;
        }
        places[next.place()].neighbours.replace(previous, index);
        places[index.place()].neighbours = Neighbours::new(previous, next);
        match places.get_mut(previous.place()) {
            Some(place) => place.neighbours.replace(next, index),
            None => self.first = index,
        }
    }
}

impl Flights {
    pub(crate) const fn new() -> Self {
        Self { places: Vec::new(), free: NONE }
    }

    /// Returns the packet at the first place of a list, and the place that follows.
    #[inline(always)]
    pub(crate) fn first(&self, index: MaybeIndex) -> Option<(&Packet, MaybeIndex)> {
        let place = self.places.get(index.place())?;
        Some((&place.packet, place.neighbours.but(NONE)))
    }

    #[inline(always)]
    fn put(&mut self, place: Place) -> u32 {
        match self.places.get_mut(self.free.place()) {
            Some(free) => {
                let index = self.free.place() as u32;
                self.free = free.neighbours.but(NONE);
                *free = place;
                index
            }
            None => self.grow(place),
        }
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, place: Place) -> u32 {
        let places = self.places.len();
        if places == self.places.capacity() && places >= DOUBLING_ENDS {
            self.places.reserve_exact(places / 32);
        }
        self.places.push(place);
        // 2^32 packets would need 176 GB.
        places as u32
    }
}

/// Reads ahead the packet at a place.
impl Prefetch<MaybeIndex> for Flights {
    #[inline(always)]
    fn prefetch(&self, index: MaybeIndex, _step: Step) -> u32 {
        self.places.get(index.place()).map_or(0, |place| place.neighbours.0)
    }
}

#[cfg(test)]
mod tests {
    use narrows_units::Span;

    use super::*;
    use narrows_apps::Random;

    /// Compares two lists that share a store with sorted ones.
    #[test]
    fn packets_arrive_in_order_of_time_and_then_of_departure() {
        let mut random = Random::new(1, "flights");
        let mut flights = Flights::new();
        let mut lists = [Flight::EMPTY; 2];
        let mut models: [Vec<(Time, u32)>; 2] = Default::default();
        for number in 0..10_000 {
            let which = random.bits() as usize % 2;
            let (list, model) = (&mut lists[which], &mut models[which]);
            if random.bits() % 5 < if number < 5_000 { 3 } else { 2 } {
                let at = Time::ZERO + Span::from_us(u64::from(number / 4 + random.bits() % 20));
                list.push(at, Packet::of_bytes(number, 40), &mut flights);
                model.insert(model.partition_point(|&(other, _)| other <= at), (at, number));
            } else {
                let expected = (!model.is_empty()).then(|| model.remove(0).1);
                let landed = list.pop(&mut flights);
                assert_eq!(landed.map(|(packet, _)| packet.socket()), expected);
                let next = landed.and_then(|(_, next)| next);
                assert_eq!(next, expected.and_then(|_| model.first().map(|&(at, _)| at)));
            }
        }
    }

    #[test]
    fn who_comes_from_one_neighbour_finds_the_other() {
        let (a, b, c) = (MaybeIndex::some(5), NONE, MaybeIndex::some(9));
        let mut neighbours = Neighbours::new(a, b);
        assert_eq!((neighbours.but(a), neighbours.but(b)), (b, a));
        neighbours.replace(b, c);
        assert_eq!((neighbours.but(a), neighbours.but(c)), (c, a));
    }

    #[test]
    fn the_store_is_as_long_as_the_most_packets_at_once() {
        let mut flights = Flights::new();
        let mut lists = [Flight::EMPTY; 50];
        for round in 0..100 {
            for list in &mut lists {
                for _ in 0..30 {
                    list.push(Time::from_ps(round), Packet::of_bytes(0, 40), &mut flights);
                }
                while list.pop(&mut flights).is_some() {}
            }
        }
        assert_eq!(flights.places.len(), 30);
    }
}
