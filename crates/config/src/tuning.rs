//! Reads what tunes the workers: keys of `[controller]`, and environment variables for measurements.

use control::kernel::Tuning;
use openflow::{OfferedVersions, Version};
use thiserror::Error;

use super::limits::bytes;
use super::value::{Table, Value};

/// Keys that only measurements need, and the environment variables that replace them.
pub(super) const DEPRECATED: [(&str, &str); 3] =
    [("pin", "ROSEMARY_PIN"), ("read-bytes", "ROSEMARY_READ_BYTES"), ("batch", "ROSEMARY_BATCH")];

/// An environment variable that tunes the workers has an invalid value.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{name} is {value:?}; expected {expected}")]
pub struct InvalidVariable {
    name: &'static str,
    value: String,
    expected: &'static str,
}

/// Replaces values by those of the environment variables `ROSEMARY_PIN` (`true` or `false`), `ROSEMARY_READ_BYTES` (bytes)
/// and `ROSEMARY_BATCH` (records per call of an app). `variable` returns the value of one, if it is set.
///
/// # Errors
/// [`InvalidVariable`]: a value is not valid.
pub fn with_environment(
    tuning: Tuning,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Tuning, InvalidVariable> {
    let pin = read_variable(&variable, "ROSEMARY_PIN", "true or false", |it| it.parse().ok())?;
    let expected = "a number of bytes from 4096 to 1048576";
    let read = read_variable(&variable, "ROSEMARY_READ_BYTES", expected, |it| {
        it.parse().ok().filter(|amount| Tuning::READ.contains(amount))
    })?;
    let batch = read_variable(&variable, "ROSEMARY_BATCH", "a number from 1 to 64", |it| {
        it.parse().ok().filter(|batch| Tuning::BATCH.contains(batch))
    })?;
    Ok(Tuning {
        pin: pin.unwrap_or(tuning.pin),
        read: read.unwrap_or(tuning.read),
        batch: batch.unwrap_or(tuning.batch),
        ..tuning
    })
}

/// Converts the value of an environment variable with `convert`, if it is set.
fn read_variable<T>(
    variable: impl Fn(&str) -> Option<String>,
    name: &'static str,
    expected: &'static str,
    convert: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, InvalidVariable> {
    let Some(value) = variable(name) else { return Ok(None) };
    match convert(&value) {
        None => Err(InvalidVariable { name, value, expected }),
        converted => Ok(converted),
    }
}

/// Reads the tuning keys; missing keys have their defaults. Adds a notice for each deprecated key.
pub(super) fn read(controller: &Table<'_>) -> Tuning {
    for (key, variable) in DEPRECATED {
        if let Some(value) = controller.get(key) {
            value.advise(format!(
                "{key} is deprecated and will go: remove it, or set the environment variable {variable} for measurements"
            ));
        }
    }
    let usual = Tuning::default();
    let pin = controller.read("pin", "true or false", Value::boolean);
    let size = |key, expected, fits: fn(&u32) -> bool| {
        controller.read(key, expected, |it| {
            let amount = it.number().or_else(|| bytes(it.text()?))?;
            u32::try_from(amount).ok().filter(fits)
        })
    };
    let read = size("read-bytes", "bytes, such as \"256 KiB\", from 4 KiB to 1 MiB", |amount| {
        Tuning::READ.contains(amount)
    });
    let ring = size(
        "ring-bytes",
        "bytes, such as \"512 KiB\", a power of two from 256 KiB to 4 MiB",
        |amount| Tuning::RING.contains(amount) && amount.is_power_of_two(),
    );
    let batch = controller.read("batch", "a number from 1 to 64", |it| {
        u16::try_from(it.number()?).ok().filter(|batch| Tuning::BATCH.contains(batch))
    });
    let ports = controller.read("switch-ports", "a number from 0 to 16777216", |it| {
        u32::try_from(it.number()?).ok().filter(|ports| Tuning::PORTS.contains(ports))
    });
    Tuning {
        openflow: read_versions(controller),
        pin: pin.unwrap_or(usual.pin),
        read: read.unwrap_or(usual.read),
        ring: ring.unwrap_or(usual.ring),
        batch: batch.unwrap_or(usual.batch),
        ports: ports.unwrap_or(usual.ports),
    }
}

/// Reads the versions of OpenFlow that are offered to switches.
fn read_versions(controller: &Table<'_>) -> Option<OfferedVersions> {
    let expected = format!("a version of OpenFlow in quotes: {}", Version::NAMES.join(", "));
    let versions = controller.list("openflow", &expected, |it| it.text()?.parse().ok())?;
    let offered = OfferedVersions::only(&versions);
    if offered.is_none()
        && let Some(value) = controller.get("openflow")
    {
        value.refuse("one or more versions of OpenFlow, each once");
    }
    offered
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
        let said =
            Tuning { pin: false, read: 4096, ring: 1 << 20, batch: 1, ports: 0, openflow: None };
        assert_eq!(tuning(text), Ok(said));
    }

    #[test]
    fn versions_of_openflow_are_a_list() {
        let tuning = tuning("[controller]\nopenflow = [\"1.3\", \"1.0\"]").unwrap();
        assert_eq!(tuning.openflow.unwrap().to_string(), "1.0, 1.3");
    }

    #[test]
    fn deprecated_keys_work_with_a_notice() {
        let text = "[controller]\npin = false\nring-bytes = \"1 MiB\"\nbatch = 1";
        let config = Config::parse("/rosemary.toml".into(), text.into()).unwrap();
        assert_eq!((config.tuning.pin, config.tuning.batch), (false, 1));
        let expected = [
            ("/rosemary.toml:2:7: pin", "ROSEMARY_PIN"),
            ("/rosemary.toml:4:9: batch", "ROSEMARY_BATCH"),
        ];
        assert_eq!(config.notices.len(), expected.len());
        for (notice, (key, variable)) in config.notices.iter().zip(expected) {
            assert!(notice.starts_with(key) && notice.contains(variable), "{notice}");
        }
    }

    #[test]
    fn environment_replaces_the_keys() {
        let with = |variables: &[(&str, &str)]| {
            with_environment(Tuning::default(), |name| {
                let found = variables.iter().find(|(variable, _)| *variable == name)?;
                Some(found.1.to_owned())
            })
        };
        assert_eq!(with(&[]), Ok(Tuning::default()));
        let all =
            [("ROSEMARY_PIN", "false"), ("ROSEMARY_READ_BYTES", "4096"), ("ROSEMARY_BATCH", "3")];
        let expected = Tuning { pin: false, read: 4096, batch: 3, ..Tuning::default() };
        assert_eq!(with(&all), Ok(expected));
        for (name, value) in
            [("ROSEMARY_PIN", "1"), ("ROSEMARY_READ_BYTES", "1"), ("ROSEMARY_BATCH", "65")]
        {
            let error = with(&[(name, value)]).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{name} is {value:?}; expected ")), "{error}");
        }
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
            ("openflow = [\"1.6\"]", "a version of OpenFlow in quotes: 1.0, 1.1"),
            ("openflow = [1.3]", "a version of OpenFlow in quotes"),
            ("openflow = []", "one or more versions of OpenFlow, each once"),
            ("openflow = [\"1.3\", \"1.3\"]", "one or more versions of OpenFlow, each once"),
        ] {
            let mistake = tuning(&format!("[controller]\n{line}")).unwrap_err();
            assert!(
                mistake.starts_with("/rosemary.toml:2:") && mistake.contains(expected),
                "{mistake}"
            );
        }
    }
}
