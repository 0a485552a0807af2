//! An app, as the event loop calls it: a shared object behind the C ABI, or Python code in this interpreter.

use sdk::abi::host::{Answer, HostedApp, WholeRecord};

use super::ZoneError;
use crate::host::ZoneHost;

/// An app, as the event loop calls it.
pub trait Guest {
    /// Returns what carries out the app's calls.
    fn host(&mut self) -> &mut ZoneHost;

    /// Calls the app with a batch of records, or with none as a wake-up.
    ///
    /// # Errors
    /// The app must not be called again, and the messages of this call must not be sent.
    fn on_records(&mut self, now_ns: u64, records: &[WholeRecord<'_>])
    -> Result<Answer, ZoneError>;
}

impl Guest for HostedApp<ZoneHost> {
    fn host(&mut self) -> &mut ZoneHost {
        Self::host(self)
    }

    fn on_records(
        &mut self,
        now_ns: u64,
        records: &[WholeRecord<'_>],
    ) -> Result<Answer, ZoneError> {
        Ok(Self::on_records(self, now_ns, records)?)
    }
}
