//! Packets under way: a list for each link, by time of arrival, and one store for all of them.
//!
//! A place that a packet has left is the next to be taken, so the store is as long as the most
//! packets that were ever under way at once, and what is written was read a moment ago. A ring for
//! each link would walk through all of its memory, most of it long out of the caches.

use narrows_units::Time;

use crate::packet::Packet;

/// The packets of all links.
#[derive(Debug)]
pub(crate) struct Flights {
    places: Vec<Place>,
    /// The first free place.
    free: u32,
}

/// A packet, and its neighbours on the list. What a neighbour needs comes first, so that it is mostly on
/// one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Place {
    /// The time's lower and upper half: a number of 64 bits would round the place up to 48 bytes.
    arrives_at: [u32; 2],
    /// The neighbours' numbers, in one: their exclusive or, so that who comes from one finds the
    /// other. Of a free place: the next free one.
    link: u32,
    packet: Packet,
}

const _: () = assert!(size_of::<Place>() == 44);

impl Place {
    #[inline(always)]
    const fn new(arrives_at: Time, packet: Packet, previous: u32, next: u32) -> Self {
        let ps = arrives_at.as_ps();
        Self { arrives_at: [ps as u32, (ps >> 32) as u32], packet, link: previous ^ next }
    }

    #[inline(always)]
    const fn arrives_at(&self) -> Time {
        Time::from_ps((self.arrives_at[1] as u64) << 32 | self.arrives_at[0] as u64)
    }

    /// One neighbour has changed.
    #[inline(always)]
    const fn relink(&mut self, from: u32, to: u32) {
        self.link ^= from ^ to;
    }
}

/// One link's list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    first: u32,
    last: u32,
}

const NONE: u32 = u32::MAX;
/// Up to here doubling wastes little; beyond, the store grows by 1/32 at a time.
const DOUBLING_ENDS: usize = 1024;

impl Flight {
    pub(super) const EMPTY: Self = Self { first: NONE, last: NONE };

    /// Puts a packet behind all that arrive no later.
    #[inline(always)]
    pub(super) fn push(&mut self, arrives_at: Time, packet: Packet, flights: &mut Flights) {
        let index = flights.put(Place::new(arrives_at, packet, self.last, NONE));
        if self.last == NONE {
            self.first = index;
            self.last = index;
        } else {
            let last = &mut flights.places[self.last as usize];
            if last.arrives_at() <= arrives_at {
                last.relink(NONE, index);
                self.last = index;
            } else {
                self.overtake(index, arrives_at, flights);
            }
        }
    }

    /// Takes the packet that arrives first; gives it and when the next one does.
    #[inline(always)]
    pub(super) fn pop(&mut self, flights: &mut Flights) -> Option<(Packet, Option<Time>)> {
        let index = self.first;
        let place = flights.places.get_mut(index as usize)?;
        let packet = place.packet;
        self.first = place.link ^ NONE;
        place.link = flights.free;
        flights.free = index;
        Some((
            packet,
            match flights.places.get_mut(self.first as usize) {
                Some(place) => {
                    place.relink(index, NONE);
                    Some(place.arrives_at())
                }
                None => {
                    self.last = NONE;
                    None
                }
            },
        ))
    }

    /// The places of the packets that arrive first and last.
    #[inline(always)]
    pub(super) const fn ends(&self) -> (u32, u32) {
        (self.first, self.last)
    }

    /// Finds the place of a packet that arrives before the last one.
    #[cold]
    #[inline(never)]
    fn overtake(&mut self, index: u32, arrives_at: Time, flights: &mut Flights) {
        let mut next = self.last;
        let mut previous = flights.places[next as usize].link ^ NONE;
        while previous != NONE && flights.places[previous as usize].arrives_at() > arrives_at {
            let before = flights.places[previous as usize].link ^ next;
            next = previous;
            previous = before;
        }
        flights.places[next as usize].relink(previous, index);
        flights.places[index as usize].link = previous ^ next;
        if previous == NONE {
            self.first = index;
        } else {
            flights.places[previous as usize].relink(next, index);
        }
    }
}

impl Flights {
    pub(crate) const fn new() -> Self {
        Self { places: Vec::new(), free: NONE }
    }

    /// The packet at a place that is the first of a list, and the place that follows; `None`: no place.
    #[inline(always)]
    pub(crate) fn first(&self, index: u32) -> Option<(&Packet, u32)> {
        let place = self.places.get(index as usize)?;
        Some((&place.packet, place.link ^ NONE))
    }

    /// Reads what a packet needs of the one behind or before it, at `index`, if there is one.
    #[inline(always)]
    pub(crate) fn touch(&self, index: u32) -> u32 {
        self.places.get(index as usize).map_or(0, |place| place.link)
    }

    #[inline(always)]
    fn put(&mut self, place: Place) -> u32 {
        match self.places.get_mut(self.free as usize) {
            Some(free) => {
                let index = self.free;
                self.free = free.link;
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

#[cfg(test)]
mod tests {
    use narrows_units::Span;

    use super::*;
    use crate::random::Random;

    /// Two lists that share a store, against sorted ones.
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
