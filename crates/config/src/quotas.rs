//! Reads the quotas of services: the tables `[storage]`, `[log]` and `[history]`.

use control::service::ServiceQuotas;

use super::limits::bytes;
use super::value::{Table, Value};

/// The keys of `[storage]`.
pub const STORAGE_KEYS: [&str; 2] = ["bytes-per-app", "keys-per-app"];

/// The keys of `[log]`.
pub const LOG_KEYS: [&str; 1] = ["bytes-per-program"];

/// The keys of `[history]`.
pub const HISTORY_KEYS: [&str; 4] = ["enabled", "bytes", "series", "interval-seconds"];

/// Valid numbers of series.
const SERIES: (u64, u64) = (1, 1 << 20);

/// Valid times from one sample to the next, in seconds.
const INTERVAL: (u64, u64) = (1, 300);

/// Valid sizes of the history; below, it could not hold a day of a small network.
const HISTORY_BYTES: (u64, u64) = (4 << 20, 1 << 40);

/// Valid numbers of bytes; below, the service could not keep even a few values or lines.
const BYTES: (u64, u64) = (64 << 10, 64 << 30);

/// Valid numbers of keys.
const KEYS: (u64, u64) = (1, 1 << 32);

/// Reads the quotas of the file `top`, and whether a history is kept: the file has the table, and does not switch it off.
pub(super) fn read(top: &Table<'_>) -> (ServiceQuotas, bool) {
    let (mut quotas, mut keeps_history) = (ServiceQuotas::default(), false);
    if let Some(storage) = top.get("storage").and_then(|it| it.table("[storage]", &STORAGE_KEYS)) {
        quotas.storage_bytes = size(&storage, "bytes-per-app").unwrap_or(quotas.storage_bytes);
        let (least, most) = KEYS;
        let expected = format!("a number from {least} to {most}");
        let keys = storage.read("keys-per-app", &expected, |it| it.number().filter(within(KEYS)));
        quotas.storage_keys = keys.unwrap_or(quotas.storage_keys);
    }
    if let Some(log) = top.get("log").and_then(|it| it.table("[log]", &LOG_KEYS)) {
        quotas.log_bytes = size(&log, "bytes-per-program").unwrap_or(quotas.log_bytes);
    }
    if let Some(history) = top.get("history").and_then(|it| it.table("[history]", &HISTORY_KEYS)) {
        let amount = |it: &Value<'_>| {
            it.number().or_else(|| bytes(it.text()?)).filter(within(HISTORY_BYTES))
        };
        let expected = "bytes, such as \"1 GiB\", from 4 MiB to 1024 GiB";
        let number = |key, (least, most), unit: &str| {
            let expected = format!("a number {unit}from {least} to {most}");
            let read = |it: &Value<'_>| it.number().filter(within((least, most)));
            history.read(key, &expected, read).and_then(|it| u32::try_from(it).ok())
        };
        quotas.history_bytes =
            history.read("bytes", expected, amount).unwrap_or(quotas.history_bytes);
        quotas.history_series = number("series", SERIES, "").unwrap_or(quotas.history_series);
        let interval = number("interval-seconds", INTERVAL, "of seconds ");
        quotas.history_interval = interval.unwrap_or(quotas.history_interval);
        let enabled = history.read("enabled", "true or false", Value::boolean);
        keeps_history = enabled.unwrap_or(true);
    }
    (quotas, keeps_history)
}

fn size<'a>(table: &Table<'a>, key: &'a str) -> Option<u64> {
    let amount = |it: &Value<'_>| it.number().or_else(|| bytes(it.text()?)).filter(within(BYTES));
    table.read(key, "bytes, such as \"16 MiB\", from 64 KiB to 64 GiB", amount)
}

fn within((least, most): (u64, u64)) -> impl Fn(&u64) -> bool {
    move |amount| (least..=most).contains(amount)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    fn quotas(text: &str) -> Result<ServiceQuotas, String> {
        let config = Config::parse("/rosemary.toml".into(), text.into());
        config.map(|it| it.quotas).map_err(|error| error.to_string())
    }

    #[test]
    fn missing_quotas_have_the_defaults() {
        assert_eq!(quotas("").unwrap(), ServiceQuotas::default());
        let text = "[storage]\nbytes-per-app = \"1 GiB\"\n[log]\nbytes-per-program = 65536\n";
        let expected = ServiceQuotas {
            storage_bytes: 1 << 30,
            log_bytes: 64 << 10,
            ..ServiceQuotas::default()
        };
        assert_eq!(quotas(text).unwrap(), expected);
        assert_eq!(quotas("[storage]\nkeys-per-app = 7\n").unwrap().storage_keys, 7);
    }

    #[test]
    fn table_alone_switches_the_history_on() {
        let read = |text: &str| {
            let config = Config::parse("/rosemary.toml".into(), text.into()).unwrap();
            let ServiceQuotas { history_bytes, history_series, history_interval, .. } =
                config.quotas;
            (config.keeps_history, history_bytes, history_series, history_interval)
        };
        let defaults = (1 << 30, 16_384, 10);
        assert_eq!(read(""), (false, defaults.0, defaults.1, defaults.2));
        assert_eq!(read("[history]\n"), (true, defaults.0, defaults.1, defaults.2));
        assert!(!read("[history]\nenabled = false\n").0);
        let text = "[history]\nbytes = \"8 MiB\"\nseries = 9\ninterval-seconds = 1\n";
        assert_eq!(read(text), (true, 8 << 20, 9, 1));
    }

    #[test]
    fn mistake_names_found_and_expected_value() {
        for (text, found, expected) in [
            ("[storage]\nbytes-per-app = \"16 MB\"", "\"16 MB\"", "bytes, such as \"16 MiB\""),
            ("[storage]\nbytes-per-app = 7", "is 7", "from 64 KiB to 64 GiB"),
            ("[storage]\nkeys-per-app = 0", "is 0", "a number from 1 to 4294967296"),
            ("[storage]\nbytes = 7", "\"bytes\"", "bytes-per-app, keys-per-app"),
            ("[history]\nbytes = \"1 MiB\"", "\"1 MiB\"", "from 4 MiB to 1024 GiB"),
            ("[history]\nseries = 0", "is 0", "a number from 1 to 1048576"),
            ("[history]\ninterval-seconds = 301", "is 301", "a number of seconds from 1 to 300"),
            ("[history]\nenabled = 1", "is 1", "true or false"),
            ("[log]\nbytes-per-program = true", "true", "bytes"),
            ("[log]\nbytes-per-app = 65536", "\"bytes-per-app\"", "bytes-per-program"),
        ] {
            let error = quotas(text).unwrap_err();
            assert!(error.starts_with("/rosemary.toml:2:"), "{error}");
            assert!(error.contains(found) && error.contains(expected), "{error}");
        }
        assert!(quotas("log = 7").unwrap_err().contains("log is 7"));
    }
}
