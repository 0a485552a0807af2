//! Calls the app for other reasons than records of the kernel: answers of services, alerts, lost requests, and its timer.
//!
//! The app's messages go into the first ring.

use sdk::abi::MAX_BATCH;
use sdk::abi::host::{Gathered, Host as _};
use sys::clock::now_ns;

use super::{Guest, Turn, Zone, ZoneError, call};

impl<A: Guest> Zone<A> {
    /// Calls the app if services have answered.
    pub(super) fn turn_of_services(&mut self) -> Result<bool, ZoneError> {
        if self.app.host().services.answers().is_empty() || self.snapshot_of.is_some() {
            return Ok(false);
        }
        let Some(ring) = self.rings.first_mut() else { return Ok(false) };
        self.app.host().ring = 0;
        let had = self.app.host().room();
        if had == 0 {
            ring.turn = Turn::NeedsRoom { had };
            return Ok(false);
        }
        // Taken out of the host, which the app uses during the call to take descriptors of answers.
        let answers = self.app.host().services.lend_answers();
        self.app.host().aside = true;
        let records: Vec<_> = answers.records().take(MAX_BATCH).collect();
        let handled = call(&mut self.app, &mut self.times, now_ns(), &records);
        self.app.host().aside = false;
        let handled = handled?;
        self.app.host().services.give_back(answers, handled);
        if let Some(messages) = self.app.host().messages.first_mut()
            && messages.done(&mut ring.records, 0)
        {
            ring.down_bell.ring();
        }
        if handled == 0 {
            ring.turn = Turn::NeedsRoom { had };
        }
        Ok(handled > 0)
    }

    /// Calls the app if clients of the service that it provides have sent requests.
    pub(super) fn turn_of_clients(&mut self) -> Result<bool, ZoneError> {
        let server = &mut self.app.host().server;
        if server.records().is_empty() {
            return Ok(false);
        }
        // Taken out of the host, which the app uses during the call to answer them.
        self.requests = server.lend();
        let handled = self.deliver(|zone| &mut zone.requests);
        let left = std::mem::take(&mut self.requests);
        self.app.host().server.give_back(left);
        handled
    }

    /// Calls the app with the oldest of these records, which came by no ring.
    pub(super) fn deliver(
        &mut self,
        which: fn(&mut Self) -> &mut Gathered,
    ) -> Result<bool, ZoneError> {
        if which(self).is_empty() || self.snapshot_of.is_some() || self.rings.is_empty() {
            return Ok(false); // the snapshot comes before every other event
        }
        self.app.host().ring = 0;
        if self.app.host().room() == 0 {
            return Ok(false);
        }
        let mut gathered = std::mem::take(which(self));
        self.app.host().aside = true;
        let records: Vec<_> = gathered.records().take(MAX_BATCH).collect();
        let handled = call(&mut self.app, &mut self.times, now_ns(), &records);
        self.app.host().aside = false;
        let handled = handled?;
        gathered.drop_oldest(handled);
        *which(self) = gathered;
        if let Some(ring) = self.rings.first_mut()
            && let Some(messages) = self.app.host().messages.first_mut()
            && messages.done(&mut ring.records, 0)
        {
            ring.down_bell.ring();
        }
        Ok(handled > 0)
    }

    /// Calls the app without records if its timer has expired, or if a descriptor that it watches has news.
    pub(super) fn wake(&mut self) -> Result<bool, ZoneError> {
        let is_time = self.times.wake_at_ns.is_some_and(|wake_at| now_ns() >= wake_at);
        if !is_time && !self.app.host().watched.has_news() {
            return Ok(false);
        }
        let Some(ring) = self.rings.first_mut() else { return Ok(false) };
        self.app.host().ring = 0;
        if self.app.host().room() == 0 {
            ring.turn = Turn::NeedsRoom { had: 0 };
            return Ok(false);
        }
        call(&mut self.app, &mut self.times, now_ns(), &[])?;
        self.has_woken = true;
        if let Some(messages) = self.app.host().messages.first_mut()
            && messages.done(&mut ring.records, 0)
        {
            ring.down_bell.ring();
        }
        Ok(true)
    }
}
