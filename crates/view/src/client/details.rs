//! Requests the details of one switch from the kernel.

use control::details::{DetailPart, Details, PortDetails, SwitchDescription, TableStatus};
use control::query::{FLOWS_TIMEOUT, KernelQuery, KernelQueryReply};

use super::{ClientError, Kernel, exchange};

impl Kernel {
    /// Requests a switch's description of itself. Returns `None` if no such switch is connected.
    ///
    /// # Errors
    /// [`ClientError::Failed`] if the switch does not report it; the kernel does not reply.
    pub fn description(&self, dpid: u64) -> Result<Option<SwitchDescription>, ClientError> {
        let part = DetailPart::Description;
        let mut descriptions = Vec::new();
        let found = self.details(dpid, part, |details| match details {
            Details::Description(description) => {
                descriptions.push(description);
                true
            }
            Details::Tables(_) | Details::Ports(_) => false,
        })?;
        match (found, descriptions.pop()) {
            (true, Some(description)) => Ok(Some(description)),
            (true, None) => Err(ClientError::Unexpected { peer: Self::NAME }),
            (false, _) => Ok(None),
        }
    }

    /// Requests the tables of a switch. Returns `None` if no such switch is connected.
    ///
    /// # Errors
    /// As [`description`](Self::description).
    pub fn tables(&self, dpid: u64) -> Result<Option<Vec<TableStatus>>, ClientError> {
        let mut all = Vec::new();
        let found = self.details(dpid, DetailPart::Tables, |details| match details {
            Details::Tables(tables) => {
                all.extend(tables);
                true
            }
            Details::Description(_) | Details::Ports(_) => false,
        })?;
        Ok(found.then_some(all))
    }

    /// Requests the ports of a switch. Returns `None` if no such switch is connected.
    ///
    /// # Errors
    /// As [`description`](Self::description).
    pub fn ports(&self, dpid: u64) -> Result<Option<Vec<PortDetails>>, ClientError> {
        let mut all = Vec::new();
        let found = self.details(dpid, DetailPart::Ports, |details| match details {
            // An empty page before the last one would make this loop endless.
            Details::Ports(ports) => {
                let grew = !ports.is_empty() || all.is_empty();
                all.extend(ports);
                grew
            }
            Details::Description(_) | Details::Tables(_) => false,
        })?;
        Ok(found.then_some(all))
    }

    /// Requests a part of a switch's details, and passes each page to `take`, which returns whether it has the expected
    /// type. Returns whether the switch is connected.
    fn details(
        &self,
        dpid: u64,
        part: DetailPart,
        mut take: impl FnMut(Details) -> bool,
    ) -> Result<bool, ClientError> {
        let mut query = KernelQuery::Details { dpid, part };
        loop {
            let (reply, _) = exchange(&self.0, &query, Self::NAME, FLOWS_TIMEOUT)?;
            match reply {
                KernelQueryReply::NoSwitch => return Ok(false),
                KernelQueryReply::Failed { why } => return Err(ClientError::Failed(why)),
                KernelQueryReply::Details { details, more } => {
                    if !take(details) {
                        return Err(ClientError::Unexpected { peer: Self::NAME });
                    }
                    if !more {
                        return Ok(true);
                    }
                }
                _ => return Err(ClientError::Unexpected { peer: Self::NAME }),
            }
            query = KernelQuery::MoreDetails;
        }
    }
}
