//! What an application may send, and whether it is what it claims to be.
//!
//! An allow-list: message kinds not on it are refused, whatever the codec can carry (design §8).
//! The message is the kernel's private copy; the application cannot change it any more.

use openflow::{FlowMod, Header, Kind, PacketOut, Version};
use sdk::Refusal;

/// A message that may go out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Allowed {
    /// A flow-mod.
    FlowMod,
    /// A packet-out.
    PacketOut,
}

/// Checks a message for a switch that speaks `version`: its kind, and every length inside it.
///
/// # Errors
/// Why it must not go out.
pub(crate) fn check(version: Version, message: &[u8]) -> Result<Allowed, Refusal> {
    let header = Header::decode(message).map_err(|_| Refusal::Shape)?;
    if header.version != version.wire() || usize::from(header.length) != message.len() {
        return Err(Refusal::Shape);
    }
    match Kind::from_wire(version, header.kind) {
        Ok(Kind::FlowMod) => match FlowMod::decode(message) {
            Ok(_) => Ok(Allowed::FlowMod),
            Err(_) => Err(Refusal::Shape),
        },
        Ok(Kind::PacketOut) => match PacketOut::decode(message) {
            Ok(_) => Ok(Allowed::PacketOut),
            Err(_) => Err(Refusal::Shape),
        },
        Ok(_) => Err(Refusal::Kind),
        Err(_) => Err(Refusal::Shape),
    }
}

#[cfg(test)]
mod tests {
    use openflow::{Action, Match, PortNo};

    use super::*;

    fn flow_mod(version: Version) -> Vec<u8> {
        let mut bytes = vec![0; 256];
        let size = FlowMod::add(Match::new().in_port(PortNo(1)))
            .apply(&[Action::output(PortNo(2))])
            .encode(version, 7, &mut bytes)
            .unwrap();
        bytes.truncate(size);
        bytes
    }

    #[test]
    fn flow_mod_and_packet_out_of_the_switchs_version_may_go_out() {
        for version in [Version::V1_0, Version::V1_3] {
            assert_eq!(check(version, &flow_mod(version)), Ok(Allowed::FlowMod));
            let mut bytes = vec![0; 256];
            let actions = [Action::output(PortNo::FLOOD)];
            let packet_out = PacketOut::new(PortNo(1), &actions, &[1, 2, 3]);
            let size = packet_out.encode(version, 7, &mut bytes).unwrap();
            assert_eq!(check(version, &bytes[..size]), Ok(Allowed::PacketOut));
        }
    }

    #[test]
    fn message_of_another_version_or_length_is_refused_by_its_shape() {
        let message = flow_mod(Version::V1_3);
        assert_eq!(check(Version::V1_0, &message), Err(Refusal::Shape));
        for size in 0..message.len() {
            assert_eq!(check(Version::V1_3, &message[..size]), Err(Refusal::Shape));
        }
        let longer = [&message[..], &[0; 8]].concat();
        assert_eq!(check(Version::V1_3, &longer), Err(Refusal::Shape));
    }

    #[test]
    fn kinds_that_are_the_kernels_own_are_refused() {
        for kind in [Kind::Hello, Kind::EchoRequest, Kind::BarrierRequest, Kind::SetConfig] {
            let kind = kind.to_wire(Version::V1_3).unwrap();
            let message = [4, kind, 0, 8, 0, 0, 0, 0];
            assert_eq!(check(Version::V1_3, &message), Err(Refusal::Kind));
        }
        assert_eq!(check(Version::V1_3, &[4, 200, 0, 8, 0, 0, 0, 0]), Err(Refusal::Shape));
    }
}
