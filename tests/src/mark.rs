//! Marks test packets, so that tests and their apps recognise them: the last 24 bytes of the frame.
//!
//! ```text
//! 0          8         16         24
//! +----------+---------+----------+
//! | MAGIC    | task    | sequence | end of the frame
//! +----------+---------+----------+
//! ```
//!
//! At the end, so that the encapsulation does not matter. Compiled into the tests and, from the
//! same file, into each of their apps, which link only the SDK.

/// No other traffic of a test ends with this value.
const MAGIC: [u8; 8] = *b"ROSEMARK";

/// Task for the app that receives the packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Forward it.
    Pass = 0,
    /// Log the counters.
    Report = 1,
    /// Exit with `exit(0)`, unless the packet is repeated.
    Exit = 2,
    /// Panic, unless the packet is repeated.
    Panic = 3,
    /// Panic on every delivery.
    PanicAlways = 4,
}

/// A marked packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The task.
    pub task: Task,
    /// Sequence number, from 1.
    pub sequence: u64,
}

impl Mark {
    /// Its size in bytes.
    pub const SIZE: usize = 24;

    /// Returns the mark of a frame or its payload; `None` if it has none.
    pub fn of(frame: &[u8]) -> Option<Self> {
        let mark = frame.last_chunk::<{ Self::SIZE }>()?;
        let (magic, numbers) = mark.split_first_chunk::<8>()?;
        let (task, sequence) = numbers.split_first_chunk::<8>()?;
        let task = u64::from_be_bytes(*task);
        let tasks = [Task::Pass, Task::Report, Task::Exit, Task::Panic, Task::PanicAlways];
        let task = tasks.into_iter().find(|known| *known as u64 == task)?;
        let sequence = u64::from_be_bytes(*sequence.first_chunk()?);
        (*magic == MAGIC).then_some(Self { task, sequence })
    }

    /// Returns the bytes of the mark.
    pub fn bytes(self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&(self.task as u64).to_be_bytes());
        bytes[16..].copy_from_slice(&self.sequence.to_be_bytes());
        bytes
    }
}

/// Counts received sequence numbers, identically in tests and apps.
#[derive(Debug, Default)]
pub struct SequenceCounter {
    seen: Vec<u64>,
    /// Number of different sequence numbers.
    pub different: u64,
    /// Number of repetitions.
    pub again: u64,
    /// Number of packets that arrived after a later one.
    pub late: u64,
    latest: u64,
    /// Digest of the set of sequence numbers: counters with equal `different` and `digest` have
    /// received the same set.
    pub digest: u64,
}

impl SequenceCounter {
    /// Sequence numbers from here on are ignored, to bound the memory.
    const END: u64 = 1 << 24;

    /// Counts a sequence number.
    pub fn count(&mut self, sequence: u64) {
        let (Ok(word), bit) = (usize::try_from(sequence / 64), sequence % 64) else { return };
        if sequence >= Self::END {
            return;
        }
        if self.seen.len() <= word {
            self.seen.resize(word + 1, 0);
        }
        if self.seen[word] >> bit & 1 == 1 {
            self.again += 1;
            return;
        }
        self.seen[word] |= 1 << bit;
        self.different += 1;
        self.late += u64::from(sequence < self.latest);
        self.latest = self.latest.max(sequence);
        // Multiplication and rotation make accidental collisions of sets unlikely.
        self.digest ^= (sequence + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }

    /// Whether a sequence number was received.
    pub fn has(&self, sequence: u64) -> bool {
        let word = usize::try_from(sequence / 64).ok().and_then(|word| self.seen.get(word));
        word.is_some_and(|word| word >> (sequence % 64) & 1 == 1)
    }

    /// Returns the text that an app logs.
    pub fn text(&self) -> String {
        let Self { different, again, late, digest, .. } = self;
        format!("different={different} again={again} late={late} digest={digest:016x}")
    }
}
