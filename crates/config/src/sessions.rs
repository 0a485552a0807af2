//! Reads the sessions: the table `[sessions]` and the tables `[session.NAME]`.
//!
//! The reader checks each row alone. Whether the machine has as much as all rows reserve is known when Rosemary runs
//! (`supervisor::sessions`).

use control::session::{
    BEST_EFFORT, MOST_SESSIONS, Reservation, SESSION_KEYS, SYSTEM, SessionId, key_range, takes_size,
};

use super::app::AppConfig;
use super::limits::bytes;
use super::suggestion::nearest;
use super::value::{Table, Value};
use super::words::{NAME_FORM, is_name};

/// The keys of `[sessions]`.
pub const SESSIONS_KEYS: [&str; 4] =
    ["partition", "best-effort-percent", "control-bytes-per-second", "packet-outs-per-second"];

/// A configured session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionConfig {
    /// Its name.
    pub name: String,
    /// Its reservation.
    pub reservation: Reservation,
}

/// The sessions of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sessions {
    /// Whether apps with reserved processor time run on processors of their own.
    pub partition: bool,
    /// The percentage of each resource that no session can reserve, so that it stays for best effort.
    pub best_effort_percent: u64,
    /// Bytes per second of all control channels, in each direction.
    pub control_bytes: u64,
    /// Packet-outs per second of all apps.
    pub packet_outs: u64,
    /// The reservation of Rosemary's own programs, if the file has it.
    pub system: Option<Reservation>,
    /// The other sessions, in the order of the file.
    pub rows: Vec<SessionConfig>,
}

impl Default for Sessions {
    fn default() -> Self {
        Self {
            partition: false,
            best_effort_percent: 5,
            control_bytes: 125_000_000,
            packet_outs: 100_000,
            system: None,
            rows: Vec::new(),
        }
    }
}

impl Sessions {
    /// Whether an app may name this session.
    pub fn has(&self, name: &str) -> bool {
        name == BEST_EFFORT || self.rows.iter().any(|row| row.name == name)
    }

    /// The number of the session with this name; that of best effort for `None` and for a name that no session has.
    pub fn id_of(&self, name: Option<&str>) -> SessionId {
        name.filter(|name| self.has(name)).map_or(SessionId::BEST_EFFORT, SessionId::of)
    }

    /// The earlier session, or one of the two that always exist, whose number a session with this name would have.
    fn with_number_of(&self, name: &str) -> Option<&str> {
        let others = self.rows.iter().map(|row| row.name.as_str()).chain([SYSTEM, BEST_EFFORT]);
        others
            .into_iter()
            .find(|other| *other != name && SessionId::of(other) == SessionId::of(name))
    }

    /// Reads the sessions of the file `top`.
    pub(super) fn read(top: &Table<'_>) -> Self {
        let mut all = Self::default();
        if let Some(table) =
            top.get("sessions").and_then(|it| it.table("[sessions]", &SESSIONS_KEYS))
        {
            all.read_settings(&table);
        }
        let Some(value) = top.get("session") else { return all };
        let Some(tables) = value.entries() else {
            value.refuse("tables that begin with [session.NAME]");
            return all;
        };
        for (at, name, value) in tables {
            all.read_one(at, name, &value);
        }
        all
    }

    fn read_settings(&mut self, table: &Table<'_>) {
        let within = |range: std::ops::RangeInclusive<u64>| {
            move |it: &Value<'_>| it.number().filter(|number| range.contains(number))
        };
        if let Some(partition) = table.read("partition", "true or false", Value::boolean) {
            self.partition = partition;
        }
        let percent = table.read("best-effort-percent", "percent, from 1 to 90", within(1..=90));
        self.best_effort_percent = percent.unwrap_or(self.best_effort_percent);
        let expected = "bytes per second, such as \"100 MiB\", from 1 KiB";
        let amount = |it: &Value<'_>| {
            let amount = it.number().or_else(|| bytes(it.text()?))?;
            (1 << 10..=1 << 50).contains(&amount).then_some(amount)
        };
        let bytes = table.read("control-bytes-per-second", expected, amount);
        self.control_bytes = bytes.unwrap_or(self.control_bytes);
        let expected = "packet-outs per second, 1 to 4294967295";
        let outs = table.read("packet-outs-per-second", expected, within(1..=u32::MAX.into()));
        self.packet_outs = outs.unwrap_or(self.packet_outs);
    }

    fn read_one(&mut self, at: usize, name: &str, value: &Value<'_>) {
        if name == BEST_EFFORT {
            value.refuse_as(
                "best-effort reserves nothing; best-effort-percent in [sessions] sets what always stays for it",
            );
            return;
        }
        if !is_name(name) {
            value.findings.refuse(at, format!("a session is named {name:?}; expected {NAME_FORM}"));
            return;
        }
        if let Some(other) = self.with_number_of(name) {
            let what =
                format!("the names {name:?} and {other:?} have the same number; rename a session");
            value.findings.refuse(at, what);
            return;
        }
        let shown = format!("[session.{name}]");
        let Some(table) = value.table(&shown, &SESSION_KEYS) else { return };
        let mut values = Vec::new();
        let before = table.findings.count();
        for key in SESSION_KEYS {
            let Some((unit, most)) = key_range(key) else { continue };
            let amount = |it: &Value<'_>| {
                let amount =
                    it.number().or_else(|| bytes(it.text()?).filter(|_| takes_size(key)))?;
                (amount <= most).then_some(amount)
            };
            if name == SYSTEM
                && key == "processors"
                && let Some(value) = table.get(key)
            {
                value.refuse_as(
                    "the virtual processors of system are the workers and the monitor; remove processors",
                );
            } else if let Some(amount) = table.read(key, &format!("{unit}, at most {most}"), amount)
            {
                values.push((key, amount));
            }
        }
        if table.findings.count() > before {
            return;
        }
        match Reservation::default().with(values) {
            Err(why) => value.refuse_as(format!("{shown}: {why}")),
            Ok(reservation) if name == SYSTEM => self.system = Some(reservation),
            Ok(_) if self.rows.len() == MOST_SESSIONS => {
                value.refuse_as(format!(
                    "this is session number {}; expected at most {MOST_SESSIONS}",
                    1 + MOST_SESSIONS
                ));
            }
            Ok(reservation) => self.rows.push(SessionConfig { name: name.to_owned(), reservation }),
        }
    }

    /// Returns what is wrong with the sessions that apps name: the position of each app, and the mistake.
    pub(super) fn unknown(&self, apps: &[AppConfig]) -> Vec<(usize, String)> {
        let unknown = apps.iter().filter_map(|app| {
            let session = app.session.as_deref().filter(|name| !self.has(name))?;
            let names = self.rows.iter().map(|row| row.name.as_str());
            let meant = nearest(session, names);
            let hint = match meant {
                Some(name) => format!("did you mean {name:?}?"),
                None if session == SYSTEM => "system is for Rosemary's own programs".to_owned(),
                None => format!("add [session.{session}]"),
            };
            let what = format!(
                "the app {} names the session {session:?}, which does not exist; {hint}",
                app.name
            );
            Some((app.session_at, what))
        });
        unknown.collect()
    }
}

#[cfg(test)]
mod tests {
    use control::session::{CpuReservation, Resource};

    use super::*;
    use crate::Config;

    fn sessions(text: &str) -> Result<Sessions, String> {
        let config = Config::parse("/rosemary.toml".into(), text.into());
        config.map(|it| it.sessions).map_err(|error| error.to_string())
    }

    #[test]
    fn file_without_sessions_has_the_defaults() {
        assert_eq!(sessions("").unwrap(), Sessions::default());
    }

    #[test]
    fn rows_and_settings_are_read() {
        let text = "[sessions]\npartition = true\nbest-effort-percent = 10\n\
             control-bytes-per-second = \"1 MiB\"\npacket-outs-per-second = 9\n\
             [session.b]\nruntime-us = 2000\nperiod-us = 10_000\nprocessors = 2\nextra = 50\n\
             memory = \"64 MiB\"\npacket-ins-percent = 30\n[session.a]\ndescriptors = 7\n\
             [session.system]\nruntime-us = 1000\nperiod-us = 10000\n";
        let read = sessions(text).unwrap();
        assert!(read.partition);
        assert_eq!(
            (read.best_effort_percent, read.control_bytes, read.packet_outs),
            (10, 1 << 20, 9)
        );
        let names: Vec<&str> = read.rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["b", "a"], "in the order of the file");
        let cpu = CpuReservation { processors: 2, extra: 50, ..CpuReservation::new(2_000, 10_000) };
        assert_eq!(read.rows[0].reservation.cpu, Some(cpu));
        assert_eq!(read.rows[0].reservation.of(Resource::Memory), 64 << 20);
        assert_eq!(read.rows[1].reservation.of(Resource::Descriptors), 7);
        assert_eq!(read.system.unwrap().cpu, Some(CpuReservation::new(1_000, 10_000)));
    }

    #[test]
    fn mistake_names_line_key_and_remedy() {
        let app = "[[app]]\nname = \"a\"\nsession = \"vidoe\"\n";
        for (text, line, expected) in [
            ("session = 7".to_owned(), 1, "[session.NAME]"),
            ("[session.best-effort]\nmemory = 1".to_owned(), 1, "best-effort-percent"),
            ("[session.\"A b\"]\nmemory = 1".to_owned(), 1, "lower-case"),
            ("[session.a]\ncpu = 1".to_owned(), 2, "the valid keys are: runtime-us"),
            ("[session.a]\nmemory = \"1 MB\"".to_owned(), 2, "bytes, such as"),
            ("[session.a]\ndescriptors = \"1 MiB\"".to_owned(), 2, "descriptors"),
            ("[session.a]\nruntime-us = 5".to_owned(), 1, "period-us"),
            ("[session.system]\nprocessors = 2".to_owned(), 2, "workers and the monitor"),
            ("[sessions]\nbest-effort-percent = 0".to_owned(), 2, "from 1 to 90"),
            ("[sessions]\npartition = 1".to_owned(), 2, "true or false"),
            (format!("[session.video]\n{app}"), 4, "did you mean \"video\"?"),
            (app.to_owned(), 3, "add [session.vidoe]"),
            (app.replace("vidoe", "system"), 3, "Rosemary's own"),
            (app.replace("\"vidoe\"", "7"), 3, "the name of a session"),
        ] {
            let error = sessions(&text).unwrap_err();
            assert!(error.starts_with(&format!("/rosemary.toml:{line}:")), "{error}");
            assert!(error.contains(expected), "{error}");
        }
        let best_effort = app.replace("vidoe", "best-effort");
        assert!(sessions(&best_effort).is_ok());
    }

    #[test]
    fn number_of_a_session_depends_on_its_name_alone() {
        let both = sessions("[session.a]\n[session.b]\n").unwrap();
        let one = sessions("[session.b]\n").unwrap();
        assert_eq!(both.id_of(Some("b")), one.id_of(Some("b")));
        assert_ne!(both.id_of(Some("a")), both.id_of(Some("b")));
        assert_eq!(one.id_of(Some("a")), SessionId::BEST_EFFORT);
        assert_eq!(one.id_of(None), SessionId::BEST_EFFORT);
    }

    #[test]
    fn names_with_the_same_number_are_refused() {
        // A known pair of words with the same FNV-1a of 32 bits.
        assert_eq!(SessionId::of("costarring"), SessionId::of("liquid"));
        let error = sessions("[session.costarring]\n[session.liquid]\n").unwrap_err();
        assert!(error.contains("rename a session"), "{error}");
    }

    #[test]
    fn session_33_is_one_too_many() {
        let rows = |count: usize| {
            (0..count).map(|i| format!("[session.s{i}]\n")).collect::<Vec<_>>().concat()
        };
        assert_eq!(sessions(&rows(32)).unwrap().rows.len(), 32);
        assert!(sessions(&rows(33)).unwrap_err().contains("session number 33"));
    }
}
