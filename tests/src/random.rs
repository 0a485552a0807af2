//! Reproducible random numbers for tests.

use std::env;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Environment variable with the seed of an earlier run.
const VARIABLE: &str = "ROSEMARY_SEED";

/// A random number generator for tests (xorshift64*), unsuitable for secrets.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// Seeds from `ROSEMARY_SEED` or else the time; prints the seed.
    ///
    /// # Panics
    /// If the variable is not a number.
    #[expect(clippy::print_stdout, reason = "the seed is shown with the test's result")]
    pub fn seeded() -> Self {
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let seed = env::var(VARIABLE).map_or_else(
            |_| u64::from(now().subsec_nanos()) ^ now().as_secs() << 30,
            |seed| seed.parse().expect("ROSEMARY_SEED is a number"),
        );
        println!("{VARIABLE}={seed}");
        Self::from(seed)
    }

    /// Returns the next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns a duration below `most`, in whole microseconds.
    pub fn up_to(&mut self, most: Duration) -> Duration {
        let most = u64::try_from(most.as_micros()).unwrap_or(u64::MAX).max(1);
        Duration::from_micros(self.bits() % most)
    }

    /// Returns `size` random bytes.
    pub fn bytes(&mut self, size: usize) -> Vec<u8> {
        (0..size).map(|_| self.bits().to_be_bytes()[0]).collect()
    }
}

impl From<u64> for Random {
    /// Creates a generator with this seed.
    fn from(seed: u64) -> Self {
        Self(seed.max(1)) // 0 would stay 0
    }
}
