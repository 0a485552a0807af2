//! Wants a `QoS` with two queues, and a mirror, in each database, and logs what it reads.
//!
//! Its configuration is the name of the port, `p1` if there is none.

#![forbid(unsafe_code)]

use rosemary_sdk::services::ovsdb::{Answer, Atom, Database, RowId, Value, WantedRow};
use rosemary_sdk::services::{RequestId, Service};
use rosemary_sdk::{App, Event, Network, export_app};

#[derive(Default)]
struct Shaper {
    port: String,
    /// The requests for tables, with the database and the table.
    reads: Vec<(RequestId, String, &'static str)>,
    watches: Vec<(RequestId, String)>,
}

impl Shaper {
    fn rows(&self) -> Vec<WantedRow> {
        let queues = [(0_i64, "fast"), (1, "slow")];
        let queues = queues.map(|(number, key)| (number, Atom::Wanted(key.into())));
        let qos = WantedRow::new("QoS", "shape")
            .with("type", "linux-htb")
            .with("other_config", Value::map([("max-rate", "1000000")]))
            .with("queues", Value::map(queues))
            .under("Port", self.port.as_str(), "qos");
        let queue = |key: &str, rate: &str| {
            WantedRow::new("Queue", key).with("other_config", Value::map([("max-rate", rate)]))
        };
        let mirror = WantedRow::new("Mirror", "watch")
            .with("name", "watch")
            .with("select_dst_port", Atom::Port(self.port.clone()))
            .under("Bridge", "s1", "mirrors");
        vec![qos, queue("fast", "1000000"), queue("slow", "200000"), mirror]
    }

    fn read(
        &mut self,
        database: &str,
        table: &'static str,
        after: RowId,
        network: &mut Network<'_>,
    ) {
        match network.database_rows(database, table, after) {
            Ok(request) => self.reads.push((request, database.to_owned(), table)),
            Err(error) => network.warn(&format!("not read: {error}")),
        }
    }

    fn listed(&mut self, databases: &[Database], network: &mut Network<'_>) {
        for Database { name, is_connected, .. } in databases {
            network.info(&format!("database {name}: connected {is_connected}"));
            match network.watch_database(name) {
                Ok(request) => self.watches.push((request, name.clone())),
                Err(error) => network.warn(&format!("not watched: {error}")),
            }
            if let Err(error) = network.want_rows(name, &self.rows()) {
                network.warn(&format!("not wanted: {error}"));
            }
            self.read(name, "Interface", RowId::default(), network);
        }
    }

    fn answered(&mut self, request: RequestId, answer: Answer, network: &mut Network<'_>) {
        match answer {
            Answer::Databases { owner, databases } => {
                network.info(&format!("owner {owner}"));
                self.listed(&databases, network);
            }
            Answer::Rows { rows, more } => {
                let Some(at) = self.reads.iter().position(|(id, ..)| *id == request) else {
                    return;
                };
                let (_, database, table) = self.reads.swap_remove(at);
                for row in &rows {
                    let name = row.text("name").unwrap_or_default();
                    let ofport = row.integer("ofport");
                    network.info(&format!("{database} has {table} {name}: {ofport:?}"));
                }
                if let Some(last) = rows.last().filter(|_| more) {
                    self.read(&database, table, last.id, network);
                }
            }
            Answer::Wanted { is_done, refused } => {
                network.info(&format!("wanted: done {is_done}, {} refused", refused.len()));
                for one in refused {
                    network.info(&format!("refused {}: {}", one.key, one.why));
                }
            }
            Answer::Changed { is_connected, tables } => {
                let watch = self.watches.iter().find(|(id, _)| *id == request);
                let Some(database) = watch.map(|(_, database)| database.clone()) else { return };
                network.info(&format!("{database} changed: {is_connected} {}", tables.join(" ")));
                if is_connected && tables.iter().any(|it| it == "Interface") {
                    self.read(&database, "Interface", RowId::default(), network);
                }
            }
            other => network.info(&format!("answer {other:?}")),
        }
    }
}

impl App for Shaper {
    fn create() -> Self {
        Self { port: "p1".to_owned(), ..Self::default() }
    }

    fn configure(&mut self, text: &str) -> Result<(), String> {
        if !text.trim().is_empty() {
            text.trim().clone_into(&mut self.port);
        }
        Ok(())
    }

    fn on_event(&mut self, event: Event<'_>, network: &mut Network<'_>) {
        match event {
            Event::ServiceUp(Service::Ovsdb) => {
                if let Err(error) = network.databases() {
                    network.warn(&format!("not listed: {error}"));
                }
            }
            Event::Served { service: Service::Ovsdb, request, answer } => {
                match answer.map(Answer::decode) {
                    Ok(Some(answer)) => self.answered(request, answer, network),
                    Ok(None) => network.warn("a malformed answer"),
                    Err(error) => network.info(&format!("{error}")),
                }
            }
            _ => {}
        }
    }
}

export_app!(Shaper, name = "shaper");
