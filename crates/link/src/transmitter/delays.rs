//! How long packets waited in a queue, by the ECN field with which they arrived, and by their class:
//! from their arrival until their transmission began, without the transmission itself.

use alloc::string::String;
use alloc::vec::Vec;

use narrows_qdisc::{AnyConfig, Ecn, Packet};
use narrows_units::{Span, Time};

use super::histogram::Histogram;

/// The waiting times, marks and drops of one queue within a window of time.
#[derive(Clone, Debug)]
pub struct Delays {
    from: Time,
    to: Time,
    by_ecn: [Waits; 4],
    queue: AnyConfig,
    /// The classes of this queue, and of those before it that had others.
    by_class: Vec<(String, Waits)>,
    /// The place in that list of each class of this queue.
    places: Vec<u8>,
}

/// The packets that arrived with one ECN field, or that were in one class.
#[derive(Clone, Debug, Default)]
pub struct Waits {
    /// How long the packets that left have waited.
    pub times: Histogram,
    /// Of these, those that were marked.
    pub marked: u64,
    /// Packets that were dropped.
    pub dropped: u64,
}

impl Delays {
    /// Creates the state for packets that leave `queue` or are dropped at or after `from` and before
    /// `to`.
    pub fn new(from: Time, to: Time, queue: &AnyConfig) -> Self {
        let mut delays = Self {
            from,
            to,
            by_ecn: <[Waits; 4]>::default(),
            queue: queue.clone(),
            by_class: Vec::new(),
            places: Vec::new(),
        };
        delays.change_queue(queue);
        delays
    }

    /// Notes that packets which arrive from now on wait in another queue.
    pub(super) fn change_queue(&mut self, queue: &AnyConfig) {
        self.queue = queue.clone();
        self.places.clear();
        for mut name in queue.classes() {
            // The last place is for all classes of later queues that have no place of their own.
            let is_new = self.by_class.iter().all(|(other, _)| *other != name);
            if is_new && self.by_class.len() + 1 >= usize::from(NO_CLASS) {
                name = REST.into();
            }
            let known = self.by_class.iter().position(|(other, _)| *other == name);
            let place = known.unwrap_or_else(|| {
                self.by_class.push((name, Waits::default()));
                self.by_class.len() - 1
            });
            self.places.push(place as u8);
        }
    }

    /// Returns the place of the class of a packet that arrives, at most [`NO_CLASS`].
    #[inline]
    pub(super) fn place_of(&self, packet: &impl Packet) -> u8 {
        if self.places.is_empty() { NO_CLASS } else { self.places[self.queue.class_of(packet)] }
    }

    /// Notes that a packet whose transmission begins at `at` has waited for `wait`. `before` and
    /// `after` are its ECN fields on arrival and when it leaves; `place` is that of its class.
    #[inline]
    pub(super) fn note_sent(&mut self, at: Time, wait: Span, before: Ecn, after: Ecn, place: u8) {
        for waits in self.of(at, before, place) {
            waits.times.note(wait);
            waits.marked += u64::from(before != after);
        }
    }

    /// Notes that a packet was dropped at `at`.
    #[inline]
    pub(super) fn note_dropped(&mut self, at: Time, before: Ecn, place: u8) {
        for waits in self.of(at, before, place) {
            waits.dropped += 1;
        }
    }

    /// Returns where a packet counts.
    #[inline]
    fn of(&mut self, at: Time, ecn: Ecn, place: u8) -> impl Iterator<Item = &mut Waits> {
        let covers = self.covers(at);
        let class = self.by_class.get_mut(usize::from(place)).map(|(_, waits)| waits);
        [Some(&mut self.by_ecn[ecn as usize]), class].into_iter().flatten().filter(move |_| covers)
    }

    fn covers(&self, at: Time) -> bool {
        self.from <= at && at < self.to
    }

    /// Returns the ECN fields that packets had, each with the RFCs' name.
    pub fn by_ecn(&self) -> impl Iterator<Item = (&str, &Waits)> {
        [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce]
            .map(Ecn::name)
            .into_iter()
            .zip(&self.by_ecn)
            .filter(|(_, waits)| waits.any())
    }

    /// Returns the classes that had packets, each with its name.
    pub fn by_class(&self) -> impl Iterator<Item = (&str, &Waits)> {
        self.by_class.iter().map(|(name, waits)| (&**name, waits)).filter(|(_, waits)| waits.any())
    }

    /// Returns whether its queue, or one of those before it, has classes.
    pub fn has_classes(&self) -> bool {
        !self.by_class.is_empty()
    }
}

impl Waits {
    fn any(&self) -> bool {
        self.times.count() + self.dropped > 0
    }
}

/// The place of packets in queues without classes. A packet that waits has seven bits for its place.
pub(super) const NO_CLASS: u8 = 127;

/// The name of classes without a place of their own. No class can have it, because of the @.
const REST: &str = "@others";

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::vec::Vec;

    use narrows_qdisc::fifo::PfifoConfig;
    use narrows_qdisc::traffic::TestPacket;
    use narrows_qdisc::{dualpi2, prio};

    use super::*;

    #[test]
    fn quantiles_and_means_are_of_the_window() {
        let at = |ms| Time::ZERO + Span::from_ms(ms);
        let mut delays = Delays::new(at(10), at(2000), &PfifoConfig::default().into());
        delays.note_sent(at(9), Span::from_ms(500), Ecn::Ect0, Ecn::Ect0, NO_CLASS);
        delays.note_sent(at(2000), Span::from_ms(500), Ecn::Ect0, Ecn::Ect0, NO_CLASS);
        for ms in 1..=100 {
            let after = if ms % 10 == 0 { Ecn::Ce } else { Ecn::Ect0 };
            delays.note_sent(at(10 + ms), Span::from_ms(ms), Ecn::Ect0, after, NO_CLASS);
        }
        delays.note_dropped(at(11), Ecn::NotEct, NO_CLASS);
        let classes: Vec<_> = delays.by_ecn().collect();
        assert_eq!(classes.iter().map(|class| class.0).collect::<Vec<_>>(), ["not-ect", "ect0"]);
        let (lost, ect0) = (classes[0].1, classes[1].1);
        assert_eq!((lost.times.count(), lost.dropped), (0, 1));
        assert!(lost.times.mean_ms().is_nan() && lost.times.quantile_ms(0.5).is_nan());
        assert_eq!((ect0.times.count(), ect0.marked, ect0.dropped), (100, 10, 0));
        assert_eq!((ect0.times.mean_ms(), ect0.times.longest_ms()), (50.5, 100.0));
        let bins: Vec<_> = ect0.times.bins().collect();
        assert_eq!(bins.iter().map(|bin| bin.packets).sum::<u64>(), 100);
        for ms in 1..=100 {
            let ms = f64::from(ms);
            assert!(bins.iter().any(|bin| bin.from_ms <= ms && ms < bin.to_ms), "{ms}");
        }
        assert!(bins.iter().all(|bin| bin.to_ms / bin.from_ms < 1.0 + 1.01 / 64.0));
        for (share, ms) in [(0.0, 1.0), (0.5, 50.0), (0.99, 99.0), (1.0, 100.0)] {
            let quantile = ect0.times.quantile_ms(share);
            assert!((quantile / ms - 1.0).abs() < 0.01, "{share}: {quantile}");
        }
    }

    #[test]
    fn classes_of_several_queues_are_told_apart_by_name() {
        let at = |ms| Time::ZERO + Span::from_ms(ms);
        let mut delays = Delays::new(at(0), at(100), &dualpi2::Config::default().into());
        let packet = |ecn| TestPacket { ecn, ..TestPacket::default() };
        let [low, classic] = [Ecn::Ect1, Ecn::Ect0].map(|ecn| delays.place_of(&packet(ecn)));
        delays.note_sent(at(1), Span::from_ms(1), Ecn::Ect1, Ecn::Ce, low);
        delays.note_sent(at(2), Span::from_ms(9), Ecn::Ect0, Ecn::Ect0, classic);
        let band = |name: &str| prio::Band { name: name.into(), ..prio::Band::default() };
        delays.change_queue(&prio::Config { bands: [band("classic")].into() }.into());
        let place = delays.place_of(&packet(Ecn::Ect1));
        assert_eq!(place, classic, "a class of the same name goes on");
        delays.note_dropped(at(3), Ecn::Ect1, place);
        // One that came before the change leaves after it.
        delays.note_sent(at(4), Span::from_ms(2), Ecn::Ect1, Ecn::Ect1, low);
        let found: Vec<_> = delays
            .by_class()
            .map(|(name, waits)| (name, waits.times.count(), waits.marked, waits.dropped))
            .collect();
        assert_eq!(found, [("l4s", 2, 1, 0), ("classic", 1, 0, 1)]);
        delays.change_queue(&PfifoConfig::default().into());
        assert_eq!(delays.place_of(&packet(Ecn::Ect1)), NO_CLASS);
        assert!(delays.has_classes());
    }

    #[test]
    fn classes_beyond_the_places_do_not_count_for_others() {
        let queue = |first| {
            let band = |number| prio::Band { name: format!("b{number}"), ..prio::Band::default() };
            AnyConfig::from(prio::Config { bands: (first..first + 64).map(band).collect() })
        };
        let mut delays = Delays::new(Time::ZERO, Time::MAX, &queue(0));
        // All packets are in the last band.
        for first in [64, 128, 1000, 0] {
            delays.change_queue(&queue(first));
            let place = delays.place_of(&TestPacket::default());
            delays.note_dropped(Time::ZERO, Ecn::NotEct, place);
        }
        let found: Vec<_> = delays.by_class().map(|(name, waits)| (name, waits.dropped)).collect();
        assert_eq!(found, [("b63", 1), ("@others", 3)]);
    }
}
