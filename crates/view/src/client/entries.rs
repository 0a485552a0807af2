//! Requests the entries of one switch from the kernel, in the form in which the switch reports them.

use control::app::AppId;
use control::query::{EntryPart, FLOWS_TIMEOUT, KernelQuery, KernelQueryReply};

use super::{ClientError, Kernel, exchange};

/// Multipart replies, one behind the other, and the numbers and names of apps.
pub type Entries = (Vec<u8>, Vec<(AppId, String)>);

impl Kernel {
    /// Requests entries of a switch. Returns `None` if no such switch is connected.
    ///
    /// # Errors
    /// [`ClientError::Failed`] if the switch does not report them; the kernel does not reply.
    pub fn entries(&self, dpid: u64, part: EntryPart) -> Result<Option<Entries>, ClientError> {
        let unexpected = || ClientError::Unexpected { peer: Self::NAME };
        let (mut bytes, mut all_owners) = (Vec::new(), Vec::new());
        let mut query = KernelQuery::Entries { dpid, part };
        loop {
            let (reply, _) = exchange(&self.0, &query, Self::NAME, FLOWS_TIMEOUT)?;
            match reply {
                KernelQueryReply::NoSwitch => return Ok(None),
                KernelQueryReply::Failed { why } => return Err(ClientError::Failed(why)),
                KernelQueryReply::Entries { messages, owners, more } => {
                    // An empty page before the last one would make this loop endless.
                    if more && messages.is_empty() {
                        return Err(unexpected());
                    }
                    bytes.extend(from_digits(&messages).ok_or_else(unexpected)?);
                    all_owners.extend(owners);
                    if !more {
                        return Ok(Some((bytes, all_owners)));
                    }
                }
                _ => return Err(unexpected()),
            }
            query = KernelQuery::MoreEntries;
        }
    }
}

/// Returns the bytes of hexadecimal digits; `None` if they are something else.
fn from_digits(digits: &str) -> Option<Vec<u8>> {
    let pair = |pair: &[u8]| {
        let pair = std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?;
        u8::from_str_radix(pair, 16).ok()
    };
    digits.as_bytes().chunks(2).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_become_bytes() {
        assert_eq!(from_digits("00ff7a"), Some(vec![0, 0xff, 0x7a]));
        assert_eq!(from_digits(""), Some(Vec::new()));
        for wrong in ["0", "0g", "ä"] {
            assert_eq!(from_digits(wrong), None);
        }
    }
}
