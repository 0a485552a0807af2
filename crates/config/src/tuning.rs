//! Reads the keys of `[controller]` that tune the workers; only measurements need them.

use control::kernel::Tuning;

use super::limits::bytes;
use super::value::{Mistake, Table, Value};

/// Reads the tuning keys; missing keys have their defaults.
pub(super) fn read(controller: &Table<'_>) -> Result<Tuning, Mistake> {
    let usual = Tuning::default();
    let pin = controller.read("pin", "true or false", Value::boolean)?;
    let size = |key, expected, fits: fn(&u32) -> bool| {
        controller.read(key, expected, |it| {
            let amount = it.number().or_else(|| bytes(it.text()?))?;
            u32::try_from(amount).ok().filter(fits)
        })
    };
    let read = size("read-bytes", "bytes, such as \"256 KiB\", from 4 KiB to 1 MiB", |amount| {
        Tuning::READ.contains(amount)
    })?;
    let ring = size(
        "ring-bytes",
        "bytes, such as \"512 KiB\", a power of two from 256 KiB to 4 MiB",
        |amount| Tuning::RING.contains(amount) && amount.is_power_of_two(),
    )?;
    let batch = controller.read("batch", "a number from 1 to 64", |it| {
        u16::try_from(it.number()?).ok().filter(|batch| Tuning::BATCH.contains(batch))
    })?;
    let ports = controller.read("switch-ports", "a number from 0 to 16777216", |it| {
        u32::try_from(it.number()?).ok().filter(|ports| Tuning::PORTS.contains(ports))
    })?;
    Ok(Tuning {
        pin: pin.unwrap_or(usual.pin),
        read: read.unwrap_or(usual.read),
        ring: ring.unwrap_or(usual.ring),
        batch: batch.unwrap_or(usual.batch),
        ports: ports.unwrap_or(usual.ports),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    fn tuning(text: &str) -> Result<Tuning, String> {
        let config = Config::parse("/rosemary.toml".into(), text.into());
        config.map(|it| it.tuning).map_err(|error| error.to_string())
    }

    #[test]
    fn missing_keys_have_the_defaults() {
        let usual = Tuning::default();
        assert_eq!(tuning(""), Ok(usual));
        assert_eq!(tuning("[controller]\nworkers = 1"), Ok(usual));
        let text = "[controller]\npin = false\nread-bytes = 4096\nring-bytes = \"1 MiB\"\nbatch = 1\nswitch-ports = 0";
        let said = Tuning { pin: false, read: 4096, ring: 1 << 20, batch: 1, ports: 0 };
        assert_eq!(tuning(text), Ok(said));
    }

    #[test]
    fn invalid_value_error_names_valid_values() {
        for (line, expected) in [
            ("pin = 1", "true or false"),
            ("read-bytes = 1", "from 4 KiB to 1 MiB"),
            ("read-bytes = \"2 MiB\"", "from 4 KiB to 1 MiB"),
            ("ring-bytes = \"300 KiB\"", "a power of two from 256 KiB to 4 MiB"),
            ("ring-bytes = \"128 KiB\"", "a power of two from 256 KiB to 4 MiB"),
            ("ring-bytes = \"8 GiB\"", "a power of two from 256 KiB to 4 MiB"),
            ("batch = 0", "from 1 to 64"),
            ("batch = 65", "from 1 to 64"),
            ("switch-ports = 16777217", "from 0 to 16777216"),
            ("switch-ports = -1", "from 0 to 16777216"),
        ] {
            let mistake = tuning(&format!("[controller]\n{line}")).unwrap_err();
            assert!(
                mistake.starts_with("/rosemary.toml:2: ") && mistake.contains(expected),
                "{mistake}"
            );
        }
    }
}
