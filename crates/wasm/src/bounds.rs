//! The limits of an app in WebAssembly, which its `options` can change.

use std::collections::BTreeMap;
use std::time::Duration;

/// The option with the processor time of one call, in milliseconds.
pub const CALL_MS: &str = "call-ms";

/// The option with the size of the memory, in MiB.
pub const MEMORY_MIB: &str = "memory-mib";

/// The limits of an app.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Processor time of one call.
    pub call: Duration,
    /// Processor time of the start.
    pub start: Duration,
    /// Bytes of the memory.
    pub memory: usize,
    /// Elements of each table.
    pub table: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            call: Duration::from_millis(10),
            start: Duration::from_secs(1),
            memory: 64 << 20,
            table: 64 * 1024,
        }
    }
}

impl Bounds {
    /// The limits with these options.
    ///
    /// # Errors
    /// An option is unknown, or its value is out of range; as a phrase.
    pub fn of(options: &BTreeMap<String, String>) -> Result<Self, String> {
        let mut bounds = Self::default();
        for (name, value) in options {
            let number = |most: u32| {
                let number = value.parse().ok().filter(|it| (1..=most).contains(it));
                number
                    .ok_or_else(|| format!("its option {name} is {value:?}; expected 1 to {most}"))
            };
            match name.as_str() {
                CALL_MS => bounds.call = Duration::from_millis(number(10_000)?.into()),
                MEMORY_MIB => bounds.memory = number(4096)? as usize * (1 << 20),
                _ => {
                    return Err(format!(
                        "it has the option {name:?}; the options of such an app are {CALL_MS:?} and {MEMORY_MIB:?}"
                    ));
                }
            }
        }
        Ok(bounds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, value: &str) -> Result<Bounds, String> {
        Bounds::of(&BTreeMap::from([(name.to_owned(), value.to_owned())]))
    }

    #[test]
    fn options_change_the_limits() {
        assert_eq!(Bounds::of(&BTreeMap::new()), Ok(Bounds::default()));
        assert_eq!(of("call-ms", "25").unwrap().call, Duration::from_millis(25));
        assert_eq!(of("memory-mib", "1").unwrap().memory, 1 << 20);
        for (name, value) in
            [("call-ms", "0"), ("call-ms", "10001"), ("memory-mib", "x"), ("x", "1")]
        {
            assert!(of(name, value).unwrap_err().contains(name), "{name} {value}");
        }
    }
}
