//! What of a series goes out.
//!
//! As if its messages had come one by one. But of flow-mods without packets what is the same for all that go out
//! together is asked once, and they are appended in one loop; why one does not is found out where that stops.

use openflow::{Blanks, FlowModTemplate};
use sdk::abi::series::Series;
use sdk::{FlowAndPacket, Refusal};

use crate::app_port::Account;
use crate::buffer_table::Buffers;
use crate::check::{ActionContext, Outputs, check_in_port};

/// What decides it.
pub(super) struct Gate<'s, P> {
    /// Why the flow-mod may not go out, whatever its blanks are.
    pub(super) refused: Option<Refusal>,
    pub(super) flow_mods: Account<'s>,
    pub(super) packet_outs: Account<'s>,
    /// Bytes of output above which the next message is refused.
    pub(super) limit: usize,
    /// Whether the quota of flows allows one more.
    pub(super) has_flows: bool,
    /// Those that the app may use.
    pub(super) buffers: Buffers<'s>,
    /// Which ports the app may output to.
    pub(super) outputs: Outputs,
    /// Whether this packet may go out.
    pub(super) packet: P,
}

/// How many messages of a series went out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Passed {
    pub(super) flow_mods: u32,
    pub(super) packet_outs: u32,
    /// How many flow-mods the quota of flows has kept from it.
    pub(super) kept: u32,
}

impl<P: Fn(&[u8]) -> Result<(), Refusal>> Gate<'_, P> {
    /// Appends those that may go out, with transaction ids that count up from `first`, also where one may not, which
    /// `refuse` is told.
    pub(super) fn append(
        &mut self,
        series: &Series<'_>,
        first: u32,
        out: &mut Vec<u8>,
        refuse: impl FnMut(usize, Refusal),
    ) -> Passed {
        if series.has_packets() {
            self.append_with_packets(series, first, out, refuse)
        } else {
            self.append_flow_mods(series, first, out, refuse)
        }
    }

    fn append_flow_mods(
        &mut self,
        series: &Series<'_>,
        first: u32,
        out: &mut Vec<u8>,
        mut refuse: impl FnMut(usize, Refusal),
    ) -> Passed {
        let (count, size) = (series.len(), series.template().message().len());
        let (mut next, mut passed) = (0_usize, Passed::default());
        loop {
            let room = self.limit.checked_sub(out.len()).map_or(0, |left| left / size + 1);
            let may = self.has_flows && self.refused.is_none();
            let may = if may { room.min(self.flow_mods.left() as usize) } else { 0 };
            let numbers = next..next.saturating_add(may).min(count);
            let xid = first.wrapping_add(to_u32(next));
            let Self { buffers, outputs, .. } = self;
            let may = |flow: &Blanks| {
                // The buffer last: one that may be used is used.
                series.template().has_ports(flow)
                    && outputs.allow(ActionContext::Flow, flow.output)
                    && flow.buffer_id.is_none_or(|buffer| buffers.take(buffer))
            };
            let appended = series.append(numbers, xid, may, out);
            self.flow_mods.spend(to_u32(appended));
            (next, passed.flow_mods) = (next + appended, passed.flow_mods + to_u32(appended));
            let Some(flow) = series.flow(next) else { return passed };
            if let Err(why_not) = self.flow_mod(series.template(), &flow, out.len()) {
                passed.kept += u32::from(why_not == Refusal::Flows);
                refuse(next, why_not);
                next += 1;
            } // else with what may be sent beyond
        }
    }

    fn append_with_packets(
        &mut self,
        series: &Series<'_>,
        first: u32,
        out: &mut Vec<u8>,
        mut refuse: impl FnMut(usize, Refusal),
    ) -> Passed {
        let template = series.template();
        let (mut next, mut passed) = (0_usize, Passed::default());
        for FlowAndPacket { flow, packet } in series.flows_and_packets() {
            match self.flow_mod(template, &flow, out.len()) {
                Ok(()) => {
                    template.append_all([flow], first.wrapping_add(to_u32(next)), out);
                    flow.buffer_id.map(|buffer| self.buffers.take(buffer));
                    self.flow_mods.spend(1);
                    passed.flow_mods += 1;
                }
                Err(why_not) => {
                    passed.kept += u32::from(why_not == Refusal::Flows);
                    refuse(next, why_not);
                }
            }
            next += 1;
            if packet.is_empty() {
                continue;
            }
            let xid = first.wrapping_add(to_u32(next));
            let sent = self.packet_out(template, &flow, packet, out.len()).and_then(|()| {
                template.append_packet_out(&flow, packet, xid, out).map_err(|_| Refusal::Shape)
            });
            match sent {
                Ok(()) => {
                    self.packet_outs.spend(1);
                    passed.packet_outs += 1;
                }
                Err(why_not) => refuse(next, why_not),
            }
            next += 1;
        }
        passed
    }

    /// Whether a flow-mod may go out behind so many bytes.
    #[inline]
    fn flow_mod(
        &mut self,
        template: &FlowModTemplate,
        flow: &Blanks,
        waits: usize,
    ) -> Result<(), Refusal> {
        if let Some(why_not) = self.refused {
            Err(why_not)
        } else if !flow.buffer_id.is_none_or(|buffer| self.buffers.has(buffer)) {
            Err(Refusal::Buffer)
        } else if !template.has_ports(flow) {
            Err(Refusal::Shape)
        } else if !self.outputs.allow(ActionContext::Flow, flow.output) {
            Err(Refusal::Capability)
        } else if waits > self.limit {
            Err(Refusal::Full)
        } else if !self.has_flows {
            Err(Refusal::Flows)
        } else if !self.flow_mods.refill() {
            Err(Refusal::Quota)
        } else {
            Ok(())
        }
    }

    /// Whether the packet-out of its packet may.
    #[inline]
    fn packet_out(
        &mut self,
        template: &FlowModTemplate,
        flow: &Blanks,
        packet: &[u8],
        waits: usize,
    ) -> Result<(), Refusal> {
        if !template.has_ports(flow) {
            return Err(Refusal::Shape);
        }
        check_in_port(flow.in_port)?;
        (self.packet)(packet)?;
        let context = ActionContext::PacketOut { in_port: flow.in_port };
        if !self.outputs.allow(context, flow.output) {
            Err(Refusal::Capability)
        } else if waits > self.limit {
            Err(Refusal::Full)
        } else if !self.packet_outs.refill() {
            Err(Refusal::Quota)
        } else {
            Ok(())
        }
    }
}

/// Of those in a series, which are few.
fn to_u32(count: usize) -> u32 {
    u32::try_from(count).expect("a series is short")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use openflow::{FlowMod, MacAddr, Match, PortNo, Version};
    use sdk::abi::series::MAX_SERIES;

    use super::*;
    use crate::app_port::Spent;
    use crate::buffer_table::BufferTable;
    use crate::connection::FULL;
    use crate::plan::Set;
    use crate::policy::{Capability, Policy, Quota};
    use crate::pool::SharedQuota;

    /// A buffer that the app was given, and one that it was not.
    const OWN: u32 = 7;
    const FOREIGN: u32 = 8;

    /// What a packet that may not go out begins with.
    const SECRET: u8 = 9;

    type Random<'r> = &'r mut dyn FnMut(u32) -> u32;

    /// Flows, of which some use a buffer, and some a port that is only in 1.3; with packets or without.
    fn flows(count: u32, with_packets: bool, random: Random<'_>) -> Vec<(Blanks, Vec<u8>)> {
        let mut flow = || {
            let buffer_id = [None, Some(OWN), Some(FOREIGN)][random(9).saturating_sub(6) as usize];
            // Beside usual ports one that 1.0 has not, and reserved ones: any may be where the usual one is.
            let port = |usual: u32, random: Random<'_>| match random(30) {
                0 | 1 => PortNo(0x1_0000),
                2 => PortNo::CONTROLLER,
                3 => PortNo::NORMAL,
                4 => PortNo::IN_PORT,
                _ => PortNo(usual),
            };
            let (in_port, output) = (port(1, random), port(2, random));
            let (eth_dst, eth_src) = (MacAddr([3; 6]), MacAddr([4; 6]));
            let first = [5, SECRET][usize::from(random(9) == 0)];
            let size = if with_packets { random(70) } else { 0 };
            let packet = (0..size).map(|_| first).collect();
            (Blanks { in_port, eth_dst, eth_src, buffer_id, output }, packet)
        };
        (0..count).map(|_| flow()).collect()
    }

    /// As an app writes them.
    fn said(
        template: &FlowModTemplate,
        flows: &[(Blanks, Vec<u8>)],
        with_packets: bool,
    ) -> Vec<u8> {
        let mut said = template.message().to_vec();
        for (blanks, packet) in flows {
            let numbers = [blanks.in_port.0, blanks.output.0, blanks.buffer_id.unwrap_or(u32::MAX)];
            said.extend(numbers.into_iter().flat_map(u32::to_le_bytes));
            said.extend(blanks.eth_dst.0.iter().chain(&blanks.eth_src.0));
            if with_packets {
                said.extend(to_u32(packet.len()).to_le_bytes());
                said.extend(packet);
            }
        }
        said
    }

    /// What decides it, for a model.
    struct Limits {
        refused: Option<Refusal>,
        has_flows: bool,
        /// Whether the app has `packet-out.reserved`.
        reserved: bool,
        /// What the quota still allows.
        flow_mods: u32,
        packet_outs: u32,
        /// Whether the app's buffer was used.
        is_used: bool,
    }

    /// What goes out if each message is decided alone, and which do not and why.
    fn one_by_one(
        template: &FlowModTemplate,
        flows: &[(Blanks, Vec<u8>)],
        first: u32,
        limits: &mut Limits,
        out: &mut Vec<u8>,
    ) -> Vec<(usize, Refusal)> {
        let version = template.version();
        let (mut number, mut refused) = (0, Vec::new());
        for (flow, packet) in flows {
            let is_sayable = version == Version::V1_3
                || ![flow.in_port, flow.output].contains(&PortNo(0x1_0000));
            let is_normal = flow.output == PortNo::NORMAL;
            let comes_back = flow.output == PortNo::CONTROLLER
                || flow.output == PortNo::IN_PORT && flow.in_port == PortNo::CONTROLLER;
            let xid = first.wrapping_add(to_u32(number));
            let why_not = if let Some(why) = limits.refused {
                Some(why)
            } else if flow.buffer_id.is_some_and(|buffer| limits.is_used || buffer == FOREIGN) {
                Some(Refusal::Buffer)
            } else if !is_sayable {
                Some(Refusal::Shape)
            } else if is_normal && !limits.reserved {
                Some(Refusal::Capability)
            } else if out.len() > FULL {
                Some(Refusal::Full)
            } else if !limits.has_flows {
                Some(Refusal::Flows)
            } else if limits.flow_mods == 0 {
                Some(Refusal::Quota)
            } else {
                limits.flow_mods -= 1;
                limits.is_used |= flow.buffer_id.is_some();
                let mut message = [0; 128];
                let size = template.fill(flow, xid, &mut message).unwrap();
                out.extend(&message[..size]);
                None
            };
            refused.extend(why_not.map(|why| (number, why)));
            number += 1;
            if packet.is_empty() {
                continue;
            }
            let is_forged = [PortNo::NORMAL, PortNo::IN_PORT].contains(&flow.in_port);
            let why_not = if !is_sayable || is_forged {
                Some(Refusal::Shape)
            } else if packet[0] == SECRET || (is_normal || comes_back) && !limits.reserved {
                Some(Refusal::Capability)
            } else if out.len() > FULL {
                Some(Refusal::Full)
            } else if limits.packet_outs == 0 {
                Some(Refusal::Quota)
            } else {
                limits.packet_outs -= 1;
                template.append_packet_out(flow, packet, xid.wrapping_add(1), out).unwrap();
                None
            };
            refused.extend(why_not.map(|why| (number, why)));
            number += 1;
        }
        refused
    }

    #[test]
    fn series_goes_out_as_its_messages_would_one_by_one() {
        let mut state = 1_u64;
        let mut random = |below: u32| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            u32::try_from((state >> 33) % u64::from(below)).unwrap()
        };
        let (first, mut seen) = (u32::MAX - 9, Vec::new());
        for round in 0..1200 {
            let version = [Version::V1_0, Version::V1_3][random(2) as usize];
            let template = FlowModTemplate::new(&FlowMod::add(Match::new()), version).unwrap();
            let (count, with_packets) = (1 + random(to_u32(MAX_SERIES)), random(2) == 0);
            let flows = flows(count, with_packets, &mut random);
            let said = said(&template, &flows, with_packets);
            let series = Series::read(&said, count).unwrap();
            assert_eq!(series.has_packets(), with_packets);
            let near = FULL - random(4000) as usize;
            let waits = [0, near, FULL + 1][random(8).saturating_sub(5) as usize];
            let quota = Quota { flow_mods: random(100), packet_outs: random(100), requests: 0 };
            let refused = (random(9) == 0).then_some(Refusal::Cookie);
            let Quota { flow_mods, packet_outs, .. } = quota;
            let (has_flows, reserved) = (random(8) > 0, random(2) == 0);
            let mut limits =
                Limits { refused, has_flows, reserved, flow_mods, packet_outs, is_used: false };
            let mut expected = vec![0; waits];
            let not_sent = one_by_one(&template, &flows, first, &mut limits, &mut expected);
            // With the quota in one portion, and in several.
            let mut spent = Spent::new(Arc::new(SharedQuota::new(1 + round % 3)));
            let [flow_mods, packet_outs] = spent.accounts(quota);
            let mut given = BufferTable::default();
            given.kept(OWN, Set::of(3));
            let buffers = Buffers::of(&mut given, 3);
            let packet = |packet: &[u8]| match packet[0] {
                SECRET => Err(Refusal::Capability),
                _ => Ok(()),
            };
            let mut policy = Policy::default();
            policy.capabilities.extend(reserved.then_some(Capability::PacketOutReserved));
            let outputs = Outputs::of(&policy);
            let limit = FULL;
            let mut gate = Gate {
                refused,
                flow_mods,
                packet_outs,
                limit,
                has_flows,
                buffers,
                outputs,
                packet,
            };
            let (mut out, mut told) = (vec![0; waits], Vec::new());
            let passed =
                gate.append(&series, first, &mut out, |number, why| told.push((number, why)));
            assert_eq!(told, not_sent, "round {round}");
            assert!(out == expected, "round {round}");
            let kept = not_sent.iter().filter(|(_, why)| *why == Refusal::Flows).count();
            let gone = [quota.flow_mods - limits.flow_mods, quota.packet_outs - limits.packet_outs];
            let [flow_mods, packet_outs] = gone;
            assert_eq!(passed, Passed { flow_mods, packet_outs, kept: to_u32(kept) }, "{round}");
            assert_eq!(spent.sent()[..2], gone.map(u64::from));
            seen.extend(not_sent.into_iter().map(|(_, why)| why));
        }
        for why in [
            Refusal::Buffer,
            Refusal::Shape,
            Refusal::Full,
            Refusal::Flows,
            Refusal::Quota,
            Refusal::Cookie,
            Refusal::Capability,
        ] {
            assert!(seen.contains(&why), "{why:?}");
        }
    }
}
