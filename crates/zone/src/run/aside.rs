//! Calls of the application that are for no record of the kernel's: services have answered, the monitor
//! has something to tell, or it is time.

use sdk::abi::MAX_BATCH;
use sdk::abi::host::Host as _;
use sys::clock::now_ns;

use super::{Turn, Zone, ZoneError, call};

impl Zone {
    /// Calls the application if services have answered. What it sends goes by the first ring.
    pub(super) fn turn_of_services(&mut self) -> Result<bool, ZoneError> {
        if self.app.host().services.answers().is_empty() || self.telling.is_some() {
            return Ok(false);
        }
        let Some(ring) = self.rings.first_mut() else { return Ok(false) };
        self.app.host().ring = 0;
        let had = self.app.host().room();
        if had == 0 {
            ring.turn = Turn::NeedsRoom { had };
            return Ok(false);
        }
        // Out of the host, which the application uses meanwhile, to take what came with them.
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

    /// Calls the application with what the monitor had to tell. What it sends goes by the first ring.
    pub(super) fn tell_alerts(&mut self) -> Result<bool, ZoneError> {
        if self.alerts.is_empty() || self.telling.is_some() {
            return Ok(false); // behind the snapshot, with which everything begins
        }
        let Some(ring) = self.rings.first_mut() else { return Ok(false) };
        self.app.host().ring = 0;
        if self.app.host().room() == 0 {
            return Ok(false);
        }
        self.app.host().aside = true;
        let records: Vec<_> = self.alerts.records().take(MAX_BATCH).collect();
        let handled = call(&mut self.app, &mut self.times, now_ns(), &records);
        self.app.host().aside = false;
        let handled = handled?;
        self.alerts.drop_oldest(handled);
        if let Some(messages) = self.app.host().messages.first_mut()
            && messages.done(&mut ring.records, 0)
        {
            ring.down_bell.ring();
        }
        Ok(handled > 0)
    }

    /// Calls the application without records, if it is time. What it sends goes by the first ring.
    pub(super) fn wake(&mut self) -> Result<bool, ZoneError> {
        if self.times.wake_at_ns.is_none_or(|wake_at| now_ns() < wake_at) {
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
