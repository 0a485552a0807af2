//! Uses the service topology: logs its table, one change, and the answer to a request.

#![forbid(unsafe_code)]

use rosemary_sdk::services::Service;
use rosemary_sdk::services::table::{Table as _, TableEvent, TableWatch};
use rosemary_sdk::{App, Event, Network, export_app};

struct Subscriber {
    watch: TableWatch,
    has_logged: bool,
}

impl App for Subscriber {
    fn create() -> Self {
        Self { watch: TableWatch::new(Service::Topology), has_logged: false }
    }

    fn on_event(&mut self, event: Event<'_>, network: &mut Network<'_>) {
        if let Event::Served { answer, .. } = event {
            let answer = answer.map(|it| String::from_utf8_lossy(it).into_owned());
            network.info(&format!("answer {answer:?}"));
        }
        match self.watch.on_event(&event) {
            Some(TableEvent::Reread) => {
                let Some(table) = self.watch.table(network) else { return };
                let slots: Vec<u32> = table.records().map(|(slot, _)| slot).collect();
                let same = table.read(5) == [table.read(5)[0]; 7];
                let last = table.slots() - 1;
                let line =
                    format!("attached: slots {slots:?}, whole {same}, last {:?}", table.read(last));
                network.info(&line);
                self.has_logged = false;
                if let Err(error) = network.ask_service(Service::Topology, b"hello") {
                    network.error(&format!("not asked: {error}"));
                }
            }
            Some(TableEvent::Changed(changes)) if !self.has_logged => {
                self.has_logged = true;
                let next = changes.iter().all(|it| it.after[6] == it.before[6] + 1);
                let Some(table) = self.watch.table(network) else { return };
                let slots: Vec<u32> = table.records().map(|(slot, _)| slot).collect();
                let slot = changes[0].slot;
                network.info(&format!("changed: slot {slot}, next {next}, slots {slots:?}"));
            }
            Some(TableEvent::Gone) => {
                let is_gone = self.watch.table(network).is_none();
                network.info(&format!("gone: {is_gone}"));
            }
            Some(TableEvent::Changed(_)) | None => {}
        }
    }
}

export_app!(Subscriber, name = "subscriber");
