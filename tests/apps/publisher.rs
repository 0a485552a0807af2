//! Provides a service with a table: counts in two slots, answers each request in capitals, and reports an incident once.

#![forbid(unsafe_code)]

use std::time::Duration;

use rosemary_sdk::serving::ClientEvent;
use rosemary_sdk::{App, Event, Network, export_app};

const PAUSE: Duration = Duration::from_millis(20);

struct Publisher {
    count: u64,
}

impl App for Publisher {
    fn create() -> Self {
        Self { count: 0 }
    }

    fn on_event(&mut self, event: Event<'_>, network: &mut Network<'_>) {
        if let Event::Client(client) = event {
            match client {
                ClientEvent::Connected { name, app, rights, .. } => {
                    network.info(&format!("client {name} {app} may {rights}"));
                }
                ClientEvent::Request { request, body, .. } => {
                    network.answer(request, false, &body.to_ascii_uppercase());
                }
                ClientEvent::Disconnected(_) => network.info("client has disconnected"),
            }
        }
        if self.count == 0 {
            network.report_incident("counting has begun", "the first event");
        }
        self.on_wake(network);
    }

    fn on_wake(&mut self, network: &mut Network<'_>) {
        self.count += 1;
        for slot in [5, 99_999] {
            if let Err(error) = network.publish(slot, &[self.count; 7]) {
                network.error(&format!("not published: {error}"));
            }
        }
        network.wake_at(network.now() + PAUSE);
    }
}

export_app!(Publisher, name = "publisher");
