//! Converts an application's priorities, groups and meters to the numbers on switches.
//!
//! An application counts its priorities, groups and meters from 0. On the switch they lie in the
//! ranges that its host states, so that two applications never share one. Numbers above
//! those that groups and meters can have mean all or none of them and do not change.

use openflow::{Action, Actions, Bucket, FlowMod, GroupMod, MeterMod, MultipartRequest};

use crate::network::SendError;

/// The highest number a group can have (`OFPG_MAX`, OpenFlow 1.3.5 §7.3.4.2).
const MAX_GROUP: u32 = 0xffff_ff00;

/// The priorities of an application that may not write flows.
const NO_PRIORITIES: (u16, u16) = (0, 0);

/// An application's ranges on switches, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Own {
    /// Priorities of flows; both 0 if the application may write none.
    pub priorities: (u16, u16),
    /// Groups.
    pub groups: (u32, u32),
    /// Meters.
    pub meters: (u32, u32),
}

impl Own {
    /// Converts a priority. The default of [`FlowMod`] becomes the middle of a range that ends below it.
    ///
    /// An application without `flow.write` has no range. Its priorities do not change, because the kernel's refusal names
    /// the missing capability, and an error about the range would hide it.
    ///
    /// # Errors
    /// [`SendError`]: the number is above the application's range.
    #[inline]
    pub fn priority(&self, is: u16) -> Result<u16, SendError> {
        let (lowest, highest) = self.priorities;
        let most = highest.saturating_sub(lowest);
        match lowest.checked_add(is).filter(|it| *it <= highest) {
            Some(priority) => Ok(priority),
            None if self.priorities == NO_PRIORITIES => Ok(is),
            None if is == FlowMod::DEFAULT_PRIORITY => Ok(lowest + most / 2),
            None => Err(SendError::Priority { is, most }),
        }
    }

    /// Converts a group's number.
    ///
    /// # Errors
    /// [`SendError`]: the number is above the application's range.
    pub fn group(&self, is: u32) -> Result<u32, SendError> {
        if is > MAX_GROUP {
            return Ok(is);
        }
        let (first, last) = self.groups;
        let group = first.checked_add(is).filter(|it| *it <= last);
        group.ok_or(SendError::Group { is, most: last.saturating_sub(first) })
    }

    /// Converts a meter's number.
    ///
    /// # Errors
    /// [`SendError`]: the number is above the application's range.
    pub fn meter(&self, is: u32) -> Result<u32, SendError> {
        if is > MeterMod::MAX_METER {
            return Ok(is);
        }
        let (first, last) = self.meters;
        let meter = first.checked_add(is).filter(|it| *it <= last);
        meter.ok_or(SendError::Meter { is, most: last.saturating_sub(first) })
    }

    /// Converts the groups in actions; returns `None` if they name none.
    ///
    /// # Errors
    /// [`SendError`]: the number is above the application's range.
    pub fn actions(&self, actions: Actions<'_>) -> Result<Option<Vec<Action>>, SendError> {
        if !actions.name_a_group() {
            return Ok(None);
        }
        actions.iter().map(|action| self.action(action)).collect::<Result<_, _>>().map(Some)
    }

    fn action(&self, action: Action) -> Result<Action, SendError> {
        match action {
            Action::Group(group) => self.group(group).map(Action::Group),
            other => Ok(other),
        }
    }

    /// Returns whether a flow-mod has numbers to convert besides its priority.
    #[inline]
    pub fn has_other_numbers(flow_mod: &FlowMod<'_>) -> bool {
        let instructions = &flow_mod.instructions;
        flow_mod.out_group != FlowMod::ANY_GROUP
            || instructions.meter.is_some()
            || instructions.apply.name_a_group()
            || instructions.write.name_a_group()
    }

    /// Calls `send` with the flow-mod converted, except for its priority.
    ///
    /// # Errors
    /// [`SendError`]: the number is above the application's range.
    #[cold]
    pub fn flow_mod<T>(
        &self,
        flow_mod: &FlowMod<'_>,
        send: impl FnOnce(&FlowMod<'_>) -> Result<T, SendError>,
    ) -> Result<T, SendError> {
        let apply = self.actions(flow_mod.instructions.apply)?;
        let write = self.actions(flow_mod.instructions.write)?;
        let out_group = self.group(flow_mod.out_group)?;
        let mut on_switch = FlowMod { out_group, ..flow_mod.clone() };
        let instructions = &mut on_switch.instructions;
        instructions.meter = instructions.meter.map(|meter| self.meter(meter)).transpose()?;
        if let Some(apply) = &apply {
            instructions.apply = apply.into();
        }
        if let Some(write) = &write {
            instructions.write = write.into();
        }
        send(&on_switch)
    }

    /// Converts a group-mod.
    ///
    /// # Errors
    /// [`SendError`]: the number is above the application's range.
    pub fn group_mod(&self, group_mod: &GroupMod) -> Result<GroupMod, SendError> {
        let bucket = |bucket: &Bucket| {
            let actions = bucket.actions.iter().cloned().map(|action| self.action(action));
            Ok(Bucket {
                watch_group: self.group(bucket.watch_group)?,
                actions: actions.collect::<Result<_, SendError>>()?,
                ..bucket.clone()
            })
        };
        Ok(GroupMod {
            command: group_mod.command,
            kind: group_mod.kind,
            group_id: self.group(group_mod.group_id)?,
            buckets: group_mod.buckets.iter().map(bucket).collect::<Result<_, SendError>>()?,
        })
    }

    /// Converts a request.
    ///
    /// # Errors
    /// [`SendError`]: the number is above the application's range.
    pub fn request<'r>(
        &self,
        request: &MultipartRequest<'r>,
    ) -> Result<MultipartRequest<'r>, SendError> {
        let mut request = request.clone();
        match &mut request {
            MultipartRequest::Flow(flows) | MultipartRequest::Aggregate(flows) => {
                flows.out_group = self.group(flows.out_group)?;
            }
            MultipartRequest::Group(group) => *group = self.group(*group)?,
            MultipartRequest::Meter(meter) | MultipartRequest::MeterConfig(meter) => {
                *meter = self.meter(*meter)?;
            }
            _ => {}
        }
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use openflow::{FlowStatsRequest, GroupKind, GroupModCommand, Match, Version};

    use super::*;

    const OWN: Own =
        Own { priorities: (100, 199), groups: (0x7_0000, 0x7_ffff), meters: (0x700, 0x7ff) };

    #[test]
    fn numbers_stay_within_the_range() {
        assert_eq!(OWN.priority(99), Ok(199));
        assert_eq!(OWN.priority(100), Err(SendError::Priority { is: 100, most: 99 }));
        let wide = Own { priorities: (1, 0xffff), ..OWN };
        assert_eq!(OWN.priority(FlowMod::DEFAULT_PRIORITY), Ok(149));
        assert_eq!(wide.priority(FlowMod::DEFAULT_PRIORITY), Ok(0x8001));
        assert_eq!(OWN.group(0xffff), Ok(0x7_ffff));
        assert_eq!(OWN.group(0x1_0000), Err(SendError::Group { is: 0x1_0000, most: 0xffff }));
        assert_eq!(OWN.meter(0xff), Ok(0x7ff));
        assert_eq!(OWN.meter(0x100), Err(SendError::Meter { is: 0x100, most: 0xff }));
    }

    #[test]
    fn kernel_decides_about_priorities_without_a_range() {
        let none = Own { priorities: NO_PRIORITIES, ..OWN };
        for priority in [0, 100, FlowMod::DEFAULT_PRIORITY, u16::MAX] {
            assert_eq!(none.priority(priority), Ok(priority));
        }
    }

    #[test]
    fn numbers_for_all_or_none_do_not_change() {
        for group in [GroupMod::ALL_GROUPS, FlowMod::ANY_GROUP] {
            assert_eq!(OWN.group(group), Ok(group));
        }
        assert_eq!(OWN.meter(MeterMod::ALL_METERS), Ok(MeterMod::ALL_METERS));
    }

    #[test]
    fn groups_and_meters_are_converted_everywhere() {
        let to = [Action::Group(1)];
        let mut flow_mod = FlowMod::add(Match::new()).priority(1).apply(&to).meter(2);
        flow_mod.instructions.write = (&to).into();
        assert!(Own::has_other_numbers(&flow_mod));
        let message = OWN.flow_mod(&flow_mod, |flow_mod| {
            let mut out = vec![0; 256];
            let priority = OWN.priority(flow_mod.priority)?;
            let size = flow_mod.encode_with_priority(priority, Version::V1_3, 0, &mut out)?;
            out.truncate(size);
            Ok(out)
        });
        let message = message.unwrap();
        let flow_mod = FlowMod::decode(&message).unwrap();
        let group = [Action::Group(0x7_0001)];
        assert_eq!((flow_mod.priority, flow_mod.instructions.meter), (101, Some(0x702)));
        assert!(flow_mod.instructions.apply.iter().eq(group.clone()));
        assert!(flow_mod.instructions.write.iter().eq(group.clone()));
        assert_eq!(flow_mod.out_group, FlowMod::ANY_GROUP);

        let group_mod = GroupMod {
            command: GroupModCommand::Add,
            kind: GroupKind::FastFailover,
            group_id: 3,
            buckets: vec![Bucket { watch_group: 4, ..Bucket::new(to) }],
        };
        let group_mod = OWN.group_mod(&group_mod).unwrap();
        assert_eq!((group_mod.group_id, group_mod.buckets[0].watch_group), (0x7_0003, 0x7_0004));
        assert_eq!(group_mod.buckets[0].actions, group);

        let flows = FlowStatsRequest { out_group: 5, ..FlowStatsRequest::new(Match::new()) };
        let asked = OWN.request(&MultipartRequest::Flow(flows)).unwrap();
        assert!(matches!(asked, MultipartRequest::Flow(flows) if flows.out_group == 0x7_0005));
        let asked = OWN.request(&MultipartRequest::MeterConfig(6)).unwrap();
        assert_eq!(asked, MultipartRequest::MeterConfig(0x706));
    }
}
