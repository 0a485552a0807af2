//! Reads the rules of supervision: the tables `[supervision]` and `[safe-mode]`, and `restart` of an app.

use std::time::Duration;

use control::service::ServiceKind;

use super::limits::{Limits, bytes};
use super::value::{Table, Value};
use super::words::{NAME_FORM, is_name};

/// The keys of a restart policy, in `[supervision]`, in its tables, and in `restart` of an app.
pub const RESTART_KEYS: [&str; 4] =
    ["min-run-seconds", "longest-pause-seconds", "restarts", "window-seconds"];

/// The keys of `[supervision]`.
pub const SUPERVISION_KEYS: [&str; 16] = [
    "min-run-seconds",
    "longest-pause-seconds",
    "restarts",
    "window-seconds",
    "kernel",
    "log",
    "storage",
    "broker",
    "ovsdb",
    "history",
    "hang-seconds",
    "leak-growth",
    "leak-window-seconds",
    "failed-services",
    "failed-services-seconds",
    "upgrade-watch-seconds",
];

/// The keys of `[supervision.kernel]`. The kernel is not held, so it has no number of restarts: `[safe-mode]` has.
pub(super) const KERNEL_KEYS: [&str; 3] = ["min-run-seconds", "longest-pause-seconds", "limits"];

/// The keys of `[safe-mode]`.
pub const SAFE_MODE_KEYS: [&str; 4] =
    ["apps", "kernel-restarts", "window-seconds", "health-seconds"];

/// When a program that ended by itself is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestartPolicy {
    /// A program that ran shorter waits until this time after its start.
    pub min_run: Duration,
    /// The longest time from one start to the next, to which the pauses of a program grow that ends early again and again.
    pub longest_pause: Duration,
    /// The most restarts in a `window`, after which the program is held; `None` for a program that is never held.
    pub restarts: Option<u32>,
    /// The time in which restarts are counted.
    pub window: Duration,
}

impl Default for RestartPolicy {
    fn default() -> Self {
        Self {
            min_run: Duration::from_secs(1),
            longest_pause: Duration::from_secs(30),
            restarts: Some(50),
            window: Duration::from_secs(3600),
        }
    }
}

impl RestartPolicy {
    /// The policy of the kernel, which is never held: without it there is no network.
    pub fn of_kernel() -> Self {
        Self { longest_pause: Duration::from_secs(5), restarts: None, ..Self::default() }
    }
}

/// The keys of a restart policy that a table sets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RestartKeys {
    min_run: Option<Duration>,
    longest_pause: Option<Duration>,
    restarts: Option<u32>,
    window: Option<Duration>,
}

impl RestartKeys {
    fn read(table: &Table<'_>) -> Self {
        let count = |it: &Value<'_>| {
            u32::try_from(it.number()?).ok().filter(|n| within(*n, RESTART_COUNTS))
        };
        Self {
            min_run: seconds(table, "min-run-seconds", (0.1, 3600.0)),
            longest_pause: seconds(table, "longest-pause-seconds", (1.0, 3600.0)),
            restarts: table.read("restarts", "a number from 1 to 100000", count),
            window: seconds(table, "window-seconds", (1.0, 604_800.0)),
        }
    }

    /// Reads the table at `key`, if there is one.
    pub(super) fn read_at<'a>(table: &Table<'a>, key: &'a str, name: &str, keys: &[&str]) -> Self {
        let table = table.get(key).and_then(|it| it.table(name, keys));
        table.map_or_else(Self::default, |it| Self::read(&it))
    }

    /// Returns `policy` with the values of these keys.
    pub fn over(self, policy: RestartPolicy) -> RestartPolicy {
        RestartPolicy {
            min_run: self.min_run.unwrap_or(policy.min_run),
            longest_pause: self.longest_pause.unwrap_or(policy.longest_pause),
            restarts: self.restarts.or(policy.restarts),
            window: self.window.unwrap_or(policy.window),
        }
    }
}

/// The rules of supervision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Supervision {
    /// The policy of apps whose own table sets nothing.
    pub apps: RestartPolicy,
    /// The policy of the kernel.
    pub kernel: RestartPolicy,
    /// The limits of the kernel.
    pub kernel_limits: Limits,
    /// The policies of the services, in the order of [`ServiceKind::ALL`].
    services: [RestartPolicy; 5],
    /// Processor time that a service may use without an answer to the monitor.
    pub hang: Duration,
    /// Bytes by which the memory of the kernel or a service may grow steadily in `leak_window`.
    pub leak_growth: u64,
    /// The time over which the growth is measured.
    pub leak_window: Duration,
    /// The number of services that must fail within `failed_services_window` for a restart of Rosemary.
    pub failed_services: usize,
    /// The time in which failed services are counted.
    pub failed_services_window: Duration,
    /// How long an upgraded app is watched. If it fails within this time, its previous version runs again.
    pub upgrade_watch: Duration,
}

impl Default for Supervision {
    fn default() -> Self {
        Self {
            apps: RestartPolicy::default(),
            kernel: RestartPolicy::of_kernel(),
            kernel_limits: Limits::of_kernel(),
            services: [RestartPolicy::default(); 5],
            hang: Duration::from_secs(10),
            leak_growth: 256 << 20,
            leak_window: Duration::from_secs(600),
            failed_services: 2,
            failed_services_window: Duration::from_secs(10),
            upgrade_watch: Duration::from_secs(30),
        }
    }
}

impl Supervision {
    /// The policy of a service.
    pub fn of_service(&self, kind: ServiceKind) -> RestartPolicy {
        let [log, storage, broker, ovsdb, history] = self.services;
        match kind {
            ServiceKind::Log => log,
            ServiceKind::Storage => storage,
            ServiceKind::Broker => broker,
            ServiceKind::Ovsdb => ovsdb,
            ServiceKind::History => history,
        }
    }

    /// Reads `[supervision]` of the file `top`.
    pub(super) fn read(top: &Table<'_>) -> Self {
        let default = Self::default();
        let table =
            top.get("supervision").and_then(|it| it.table("[supervision]", &SUPERVISION_KEYS));
        let Some(table) = table else { return default };
        let all = RestartKeys::read(&table);
        let service = |key| {
            let own = RestartKeys::read_at(&table, key, "a restart policy", &RESTART_KEYS);
            own.over(all.over(RestartPolicy::default()))
        };
        let of_kernel =
            table.get("kernel").and_then(|it| it.table("[supervision.kernel]", &KERNEL_KEYS));
        let pauses = of_kernel.as_ref().map_or_else(RestartKeys::default, RestartKeys::read);
        let kernel_limits = of_kernel.and_then(|it| it.get("limits"));
        let kernel = RestartPolicy {
            min_run: pauses.min_run.or(all.min_run).unwrap_or(default.kernel.min_run),
            ..pauses.over(default.kernel)
        };
        let growth = |it: &Value<'_>| {
            it.number().or_else(|| bytes(it.text()?)).filter(|it| (64 << 10..=1 << 40).contains(it))
        };
        let services =
            |it: &Value<'_>| usize::try_from(it.number()?).ok().filter(|it| within(*it, (2, 4)));
        Self {
            apps: all.over(default.apps),
            kernel,
            kernel_limits: kernel_limits.map_or(default.kernel_limits, Limits::read_of_kernel),
            services: ["log", "storage", "broker", "ovsdb", "history"].map(service),
            hang: seconds(&table, "hang-seconds", (1.0, 3600.0)).unwrap_or(default.hang),
            leak_growth: table
                .read("leak-growth", "bytes, such as \"256 MiB\", from 64 KiB to 1024 GiB", growth)
                .unwrap_or(default.leak_growth),
            leak_window: seconds(&table, "leak-window-seconds", (4.0, 86_400.0))
                .unwrap_or(default.leak_window),
            failed_services: table
                .read("failed-services", "a number of services from 2 to 4", services)
                .unwrap_or(default.failed_services),
            failed_services_window: seconds(&table, "failed-services-seconds", (1.0, 3600.0))
                .unwrap_or(default.failed_services_window),
            upgrade_watch: seconds(&table, "upgrade-watch-seconds", (1.0, 3600.0))
                .unwrap_or(default.upgrade_watch),
        }
    }
}

/// The rules of safe mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SafeMode {
    /// The apps that run in safe mode, in the order of their start; `None` for all, in the order of the file.
    pub apps: Option<Vec<String>>,
    /// The number of restarts of the kernel within `window` that leads to safe mode.
    pub kernel_restarts: u32,
    /// The time in which restarts are counted.
    pub window: Duration,
    /// How long the kernel must go on after the start of an app before the next app is started.
    pub health: Duration,
}

impl Default for SafeMode {
    fn default() -> Self {
        Self {
            apps: None,
            kernel_restarts: 5,
            window: Duration::from_secs(60),
            health: Duration::from_secs(5),
        }
    }
}

impl SafeMode {
    /// Reads `[safe-mode]` of the file `top`.
    pub(super) fn read(top: &Table<'_>) -> Self {
        let default = Self::default();
        let table = top.get("safe-mode").and_then(|it| it.table("[safe-mode]", &SAFE_MODE_KEYS));
        let Some(table) = table else { return default };
        let name = |it: &Value<'_>| it.text().filter(|name| is_name(name)).map(ToOwned::to_owned);
        let count = |it: &Value<'_>| {
            u32::try_from(it.number()?).ok().filter(|n| within(*n, RESTART_COUNTS))
        };
        Self {
            apps: table.list("apps", NAME_FORM, name),
            kernel_restarts: table
                .read("kernel-restarts", "a number from 1 to 100000", count)
                .unwrap_or(default.kernel_restarts),
            window: seconds(&table, "window-seconds", (1.0, 604_800.0)).unwrap_or(default.window),
            health: seconds(&table, "health-seconds", (0.1, 600.0)).unwrap_or(default.health),
        }
    }
}

/// Valid numbers of restarts.
const RESTART_COUNTS: (u32, u32) = (1, 100_000);

fn within<T: PartialOrd + Copy>(number: T, (least, most): (T, T)) -> bool {
    least <= number && number <= most
}

fn seconds<'a>(table: &Table<'a>, key: &'a str, bounds: (f64, f64)) -> Option<Duration> {
    let expected = format!("seconds, {} to {}", bounds.0, bounds.1);
    table.read(key, &expected, |it| {
        it.decimal().filter(|it| within(*it, bounds)).map(Duration::from_secs_f64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse("/rosemary.toml".into(), text.into()).map_err(|error| error.to_string())
    }

    #[test]
    fn tables_override_the_common_policy() {
        let text = "[supervision]\nmin-run-seconds = 0.5\nrestarts = 7\nkernel = { longest-pause-seconds = 2 }\n\
                    storage = { restarts = 3, window-seconds = 60 }\nleak-growth = \"1 MiB\"\n\
                    [[app]]\nname = \"a\"\nrestart = { restarts = 9 }\n";
        let config = parse(text).unwrap();
        let rules = config.supervision;
        let ms = Duration::from_millis;
        assert_eq!((rules.apps.min_run, rules.apps.restarts), (ms(500), Some(7)));
        assert_eq!((rules.kernel.min_run, rules.kernel.longest_pause), (ms(500), ms(2_000)));
        assert_eq!(rules.kernel.restarts, None, "the kernel is never held");
        let [log, storage] = [ServiceKind::Log, ServiceKind::Storage];
        assert_eq!(rules.of_service(log).restarts, Some(7));
        let storage = rules.of_service(storage);
        assert_eq!((storage.restarts, storage.window), (Some(3), ms(60_000)));
        assert_eq!(rules.leak_growth, 1 << 20);
        let app = config.app("a").unwrap().restart.over(rules.apps);
        assert_eq!((app.restarts, app.min_run), (Some(9), ms(500)));
    }

    #[test]
    fn missing_tables_have_the_defaults() {
        let config = parse("").unwrap();
        assert_eq!((config.supervision, config.safe_mode), Default::default());
        let list = parse("[safe-mode]\napps = [\"b\", \"a\"]\n").unwrap().safe_mode.apps;
        assert_eq!(list, Some(vec!["b".to_owned(), "a".to_owned()]));
    }

    #[test]
    fn mistake_names_found_and_expected_value() {
        for (text, found, expected) in [
            ("[supervision]\nrestarts = 0", "is 0", "from 1 to 100000"),
            ("[supervision]\nmin-run-seconds = \"1\"", "\"1\"", "seconds, 0.1 to 3600"),
            ("[supervision]\nkernel = { restarts = 1 }", "\"restarts\"", "longest-pause-seconds"),
            ("[supervision]\nleak-growth = 1", "is 1", "\"256 MiB\""),
            ("[supervision]\nfailed-services = 1", "is 1", "from 2 to 4"),
            ("[safe-mode]\napps = [\"A\"]", "\"A\"", "lower-case"),
            ("[safe-mode]\nhealth-seconds = 0", "is 0", "0.1 to 600"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with("/rosemary.toml:2:"), "{error}");
            assert!(error.contains(found) && error.contains(expected), "{error}");
        }
    }
}
