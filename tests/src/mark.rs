//! The mark by which tests and their apps know a packet again: the last 24 bytes of its frame.
//!
//! ```text
//! 0          8         16         24
//! +----------+---------+----------+
//! | MAGIC    | task    | sequence | end of the frame
//! +----------+---------+----------+
//! ```
//!
//! At the end, so that it does not matter what carries it. Compiled into the tests and, from the same
//! file, into each of their apps, which link nothing but the SDK.

/// No other traffic of a test ends like this.
const MAGIC: [u8; 8] = *b"ROSEMARK";

/// What the app that gets it is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Send it on.
    Pass = 0,
    /// Log what was counted.
    Report = 1,
    /// End the process by `exit(0)`, unless it is delivered for the second time.
    Exit = 2,
    /// Panic, unless it is delivered for the second time.
    Panic = 3,
    /// Panic however often it is delivered.
    PanicAlways = 4,
}

/// A marked packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// What it is for.
    pub task: Task,
    /// Which it is, from 1.
    pub sequence: u64,
}

impl Mark {
    /// Its size in bytes.
    pub const SIZE: usize = 24;

    /// The mark of a frame or of its payload; `None` if it has none.
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

    /// Its bytes.
    pub fn bytes(self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&(self.task as u64).to_be_bytes());
        bytes[16..].copy_from_slice(&self.sequence.to_be_bytes());
        bytes
    }
}

/// Which packets were seen, and how often: the same whoever counts them.
#[derive(Debug, Default)]
pub struct Tally {
    seen: Vec<u64>,
    /// Different ones.
    pub different: u64,
    /// Those that had been seen before.
    pub again: u64,
    /// Those that came behind a later one.
    pub late: u64,
    latest: u64,
    /// Of all sequence numbers together, so that two tallies of as many different ones that agree in
    /// this are of the same.
    pub digest: u64,
}

impl Tally {
    /// Sequence numbers from here on are left out: a bound on memory.
    const END: u64 = 1 << 24;

    /// Counts one.
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
        // Mixed by a multiplication and a rotation, so that no two sets are alike by accident.
        self.digest ^= (sequence + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }

    /// Whether this one was seen.
    pub fn has(&self, sequence: u64) -> bool {
        let word = usize::try_from(sequence / 64).ok().and_then(|word| self.seen.get(word));
        word.is_some_and(|word| word >> (sequence % 64) & 1 == 1)
    }

    /// What an app logs of it.
    pub fn text(&self) -> String {
        let Self { different, again, late, digest, .. } = self;
        format!("different={different} again={again} late={late} digest={digest:016x}")
    }
}
