//! Which flow-mods of a series go out.
//!
//! As if they had come one by one, but what is the same for all that go out together is asked once, and they are
//! appended in one loop; why one does not is found out where that stops.

use sdk::Refusal;
use sdk::abi::series::Series;

use crate::connection::Connection;
use crate::link::Account;

/// What decides it.
pub(super) struct Gate<'s, M> {
    pub(super) account: Account<'s>,
    /// Whether the quota of flows allows one more.
    pub(super) has_flows: bool,
    /// Whether the app was given the packet in this buffer.
    pub(super) may_use: M,
}

impl<M: Fn(u32) -> bool> Gate<'_, M> {
    /// Appends those that may go out, with transaction ids that count up from `first`, also where one may not. Returns
    /// how many went out, and how many the quota of flows has kept from it.
    pub(super) fn append(
        &mut self,
        series: &Series<'_>,
        first: u32,
        out: &mut Vec<u8>,
        mut refuse: impl FnMut(usize, Refusal),
    ) -> (u32, u32) {
        let (count, size) = (series.len(), series.size_of_each());
        let (mut next, mut sent, mut kept) = (0, 0, 0);
        while next < count {
            let room = Connection::room_for(size, out.len());
            let may = if self.has_flows { room.min(self.account.left() as usize) } else { 0 };
            let numbers = next..next.saturating_add(may).min(count);
            let xid = first.wrapping_add(to_u32(next));
            let appended = series.append(numbers, xid, &self.may_use, out);
            self.account.spend(to_u32(appended));
            (next, sent) = (next + appended, sent + to_u32(appended));
            if next == count {
                break;
            }
            let why_not = if !series.buffer(next).is_none_or(&self.may_use) {
                Refusal::Buffer
            } else if !series.has_ports(next) {
                Refusal::Shape
            } else if Connection::room_for(size, out.len()) == 0 {
                Refusal::Full
            } else if !self.has_flows {
                Refusal::Flows
            } else if !self.account.refill() {
                Refusal::Quota
            } else {
                continue; // with what may be sent beyond
            };
            kept += u32::from(why_not == Refusal::Flows);
            refuse(next, why_not);
            next += 1;
        }
        (sent, kept)
    }
}

/// Of those in a series, which are few.
fn to_u32(count: usize) -> u32 {
    u32::try_from(count).expect("at most MAX_SERIES")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use openflow::{FlowMod, FlowModTemplate, Match, Version};
    use sdk::abi::series::MAX_SERIES;

    use super::*;
    use crate::check::Allowed;
    use crate::connection::FULL;
    use crate::crew::Purse;
    use crate::link::Spent;
    use crate::policy::Quota;

    /// A buffer that the app was not given.
    const FOREIGN: u32 = 8;

    /// A series of which some use a buffer, and some a port that is only in 1.3.
    fn said(version: Version, count: u32, random: &mut impl FnMut(u32) -> u32) -> Vec<u8> {
        let template = FlowModTemplate::new(&FlowMod::add(Match::new()), version).unwrap();
        let mut said = template.message().to_vec();
        for _ in 0..count {
            let buffer = [u32::MAX, 7, FOREIGN][random(9).saturating_sub(6) as usize];
            let output = if random(10) == 0 { 0x1_0000 } else { 2 };
            said.extend([1, output, buffer, 3, 4, 5].into_iter().flat_map(u32::to_le_bytes));
        }
        said
    }

    /// What goes out if each is decided alone, and which do not and why; `left` is what the quota still allows.
    fn one_by_one(
        series: &Series<'_>,
        first: u32,
        has_flows: bool,
        left: &mut u32,
        out: &mut Vec<u8>,
    ) -> Vec<(usize, Refusal)> {
        let mut refused = Vec::new();
        for number in 0..series.len() {
            let why = match series.message(number) {
                _ if series.buffer(number) == Some(FOREIGN) => Refusal::Buffer,
                None => Refusal::Shape,
                Some(_) if out.len() > FULL => Refusal::Full,
                Some(_) if !has_flows => Refusal::Flows,
                Some(_) if *left == 0 => Refusal::Quota,
                Some(mut message) => {
                    *left -= 1;
                    let xid = first.wrapping_add(to_u32(number));
                    message[4..8].copy_from_slice(&xid.to_be_bytes());
                    out.extend(message);
                    continue;
                }
            };
            refused.push((number, why));
        }
        refused
    }

    #[test]
    fn series_goes_out_as_its_flow_mods_would_one_by_one() {
        let mut state = 1_u64;
        let mut random = |below: u32| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            u32::try_from((state >> 33) % u64::from(below)).unwrap()
        };
        let (first, mut seen) = (u32::MAX - 9, Vec::new());
        for round in 0..600 {
            let version = [Version::V1_0, Version::V1_3][random(2) as usize];
            let count = 1 + random(to_u32(MAX_SERIES));
            let said = said(version, count, &mut random);
            let series = Series::read(&said, count).unwrap();
            let near = FULL - random(4000) as usize;
            let waits = [0, near, FULL + 1][random(8).saturating_sub(5) as usize];
            let (flow_mods, has_flows) = (random(100), random(8) > 0);
            let (mut expected, mut left) = (vec![0; waits], flow_mods);
            let refused = one_by_one(&series, first, has_flows, &mut left, &mut expected);
            // With the quota in one portion, and in several.
            let mut spent = Spent::new(Arc::new(Purse::new(1 + round % 3)));
            let quota = Quota { flow_mods, packet_outs: 0, requests: 0 };
            let account = spent.account(Allowed::FlowMod { sweeps: false }, quota);
            let mut gate = Gate { account, has_flows, may_use: |buffer| buffer != FOREIGN };
            let (mut out, mut told) = (vec![0; waits], Vec::new());
            let counted =
                gate.append(&series, first, &mut out, |number, why| told.push((number, why)));
            assert_eq!(told, refused, "round {round}");
            assert!(out == expected, "round {round}");
            let kept = refused.iter().filter(|(_, why)| *why == Refusal::Flows).count();
            assert_eq!(counted, (flow_mods - left, to_u32(kept)), "round {round}");
            assert_eq!(spent.sent()[0], u64::from(flow_mods - left));
            seen.extend(refused.into_iter().map(|(_, why)| why));
        }
        for why in [Refusal::Buffer, Refusal::Shape, Refusal::Full, Refusal::Flows, Refusal::Quota]
        {
            assert!(seen.contains(&why), "{why:?}");
        }
    }
}
