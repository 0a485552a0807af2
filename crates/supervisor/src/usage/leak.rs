//! Detects a leak: memory of one program that grows steadily.
//!
//! The window is divided into [`PARTS`]. The least memory in each part is its low-water mark, which short peaks do not
//! raise. A program leaks if the mark has risen from each part to the next for a whole window, and by the configured
//! amount in all. A program that grows with its work, as a kernel to which switches connect, stops growing in some part.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use names::Limit;

/// The number of parts of a window.
const PARTS: u32 = 8;

/// A program that leaks, with the low-water marks as evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leak {
    /// The marks in bytes, the oldest first.
    pub marks: Vec<u64>,
    /// The time between two marks.
    pub part: Duration,
    /// The growth that is allowed.
    pub growth: u64,
}

impl std::fmt::Display for Leak {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let marks: Vec<String> = self.marks.iter().map(|mark| Limit::Memory.shown(*mark)).collect();
        let (part, growth) = (self.part.as_secs_f64(), Limit::Memory.shown(self.growth));
        let marks = marks.join(", ");
        write!(f, "it leaks memory: {marks}, {part:.1} s apart; leak-growth allows {growth}")
    }
}

/// Watches the memory of one program.
#[derive(Debug)]
pub struct LeakDetector {
    growth: u64,
    part: Duration,
    /// The beginning of the present part, and the least memory in it.
    present: Option<(Instant, u64)>,
    /// The marks of the parts before, at most one more than [`PARTS`].
    marks: VecDeque<u64>,
}

impl LeakDetector {
    /// Allows a growth of `growth` bytes in `window`.
    pub fn new(growth: u64, window: Duration) -> Self {
        Self { growth, part: window / PARTS, present: None, marks: VecDeque::new() }
    }

    /// The growth in bytes that is a leak, and its window.
    pub fn rule(&self) -> (u64, Duration) {
        (self.growth, self.part * PARTS)
    }

    /// A new process runs.
    pub fn restart(&mut self) {
        self.present = None;
        self.marks.clear();
    }

    /// Whether the mark has risen from the last part but one to the last.
    pub fn is_rising(&self) -> bool {
        let mut last = self.marks.iter().rev();
        last.next().zip(last.next()).is_some_and(|(last, before)| last > before)
    }

    /// Takes a measurement of `memory` bytes.
    pub fn measure(&mut self, now: Instant, memory: u64) -> Option<Leak> {
        let Some((begin, least)) = &mut self.present else {
            self.present = Some((now, memory));
            return None;
        };
        *least = memory.min(*least);
        if now.saturating_duration_since(*begin) < self.part {
            return None;
        }
        self.marks.push_back(*least);
        self.present = Some((now, memory));
        if self.marks.len() <= PARTS as usize {
            return None;
        }
        let rises = self.marks.iter().zip(self.marks.iter().skip(1)).all(|(one, next)| one < next);
        let grown = self
            .marks
            .back()
            .zip(self.marks.front())
            .map(|(last, first)| last.saturating_sub(*first));
        if rises && grown.is_some_and(|grown| grown >= self.growth) {
            let marks = self.marks.iter().copied().collect();
            return Some(Leak { marks, part: self.part, growth: self.growth });
        }
        self.marks.pop_front();
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const WINDOW: Duration = Duration::from_secs(80);

    /// Measures each second. Returns the second of the leak, and the leak.
    fn leak(seconds: u64, memory: impl Fn(u64) -> u64) -> Option<(u64, Leak)> {
        let begin = Instant::now();
        let mut detector = LeakDetector::new(8 * MIB, WINDOW);
        (0..seconds).find_map(|second| {
            let now = begin + Duration::from_secs(second);
            Some((second, detector.measure(now, memory(second))?))
        })
    }

    #[test]
    fn steady_growth_is_a_leak() {
        let (second, leak) = leak(1_000, |second| 20 * MIB + second * MIB / 10).unwrap();
        assert!((80..=100).contains(&second), "{second}");
        assert_eq!(leak.marks.len(), 9);
        let text = leak.to_string();
        assert!(
            text.starts_with("it leaks memory: 20.0 MiB, 21.0 MiB")
                || text.starts_with("it leaks memory: 20 MiB, 21 MiB"),
            "{text}"
        );
        assert!(text.contains("10.0 s apart; leak-growth allows 8"), "{text}");
    }

    #[test]
    fn growth_is_noticed_after_two_parts() {
        let begin = Instant::now();
        let mut detector = LeakDetector::new(8 * MIB, WINDOW);
        let mut noticed = Vec::new();
        for second in 0..80 {
            let memory = second.min(45) * MIB;
            detector.measure(begin + Duration::from_secs(second), memory);
            noticed.push(detector.is_rising());
        }
        let first = noticed.iter().position(|it| *it);
        let end = noticed.iter().rposition(|it| *it);
        assert_eq!((first, end), (Some(20), Some(69)), "{noticed:?}");
    }

    #[test]
    fn slow_growth_is_no_leak() {
        assert_eq!(leak(10_000, |second| second * MIB / 11), None);
    }

    #[test]
    fn growth_that_pauses_is_no_leak() {
        let stairs = |second: u64| (second / 60) * 60 * MIB;
        assert_eq!(leak(10_000, stairs), None);
        let start = |second: u64| second.min(70) * 100 * MIB;
        assert_eq!(leak(10_000, start), None);
    }

    #[test]
    fn peaks_hide_no_leak_and_make_none() {
        let peak = |second: u64| if second.is_multiple_of(5) { 500 * MIB } else { 0 };
        assert_eq!(leak(10_000, peak), None);
        let both = |second: u64| peak(second) + second * MIB / 5;
        assert!(leak(10_000, both).is_some());
    }

    #[test]
    fn new_process_begins_a_new_window() {
        let begin = Instant::now();
        let mut detector = LeakDetector::new(MIB, WINDOW);
        for second in 0..10_000_u64 {
            if second.is_multiple_of(70) {
                detector.restart();
            }
            let now = begin + Duration::from_secs(second);
            assert_eq!(detector.measure(now, second * MIB), None);
        }
    }
}
