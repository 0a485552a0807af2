//! Sends each new switch three barrier requests and a request for table statistics, and logs how each request ends.

#![forbid(unsafe_code)]

use rosemary_sdk::openflow::MultipartRequest;
use rosemary_sdk::{App, Event, Network, SendError, Switch, Xid, export_app};

struct Waiter;

impl App for Waiter {
    fn create() -> Self {
        Self
    }

    fn on_event(&mut self, event: Event<'_>, network: &mut Network<'_>) {
        match event {
            Event::SwitchUp(switch) => {
                if let Err(error) = request(switch, network) {
                    network.error(&format!("could not send: {error}"));
                }
            }
            Event::Reply(reply) => note("answered", reply.xid, network),
            Event::Error(error) => note("failed", error.xid, network),
            Event::RequestLost { switch, xid, .. } => {
                network.info(&format!("request to {}", switch.dpid));
                note("lost", xid, network);
            }
            Event::Refused { message, .. } => {
                if let Some(xid) = Xid::of(message) {
                    note("refused", xid, network);
                }
            }
            _ => {}
        }
    }
}

fn request(to: Switch, network: &mut Network<'_>) -> Result<(), SendError> {
    for _ in 0..3 {
        network.barrier(to)?;
    }
    network.request(to, &MultipartRequest::Table)?;
    Ok(())
}

fn note(how: &str, Xid(xid): Xid, network: &Network<'_>) {
    network.info(&format!("request {xid} {how};"));
}

export_app!(Waiter, name = "waiter");
