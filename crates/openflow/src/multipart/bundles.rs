//! Features of bundles. From OpenFlow 1.5 on.
//!
//! OpenFlow 1.5.1 §7.3.5.22.

use crate::BundleFlags;
use crate::Writer;
use crate::v1_4::property::Properties;
use crate::v1_5::bundle::{self, BundleFeaturesProperty, Time, TimeFeatures};
use crate::wire::{Pad, WireFormat};
use core::time::Duration;

/// Abilities of a switch or controller with scheduled bundles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ScheduleFeatures {
    /// Accuracy of scheduled times.
    pub accuracy: Duration,
    /// The longest period from now to a scheduled time.
    pub max_future: Duration,
    /// The longest period from a scheduled time in the past to now.
    pub max_past: Duration,
    /// The sender's clock, since the epoch of TAI.
    pub timestamp: Duration,
}

/// Features of bundles: a request, in which a controller may set its own, and the reply.
///
/// Experimenters' properties are out; [`v1_5::bundle`](crate::v1_5::bundle) has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct BundleFeaturesRequest {
    /// What `schedule` means (`ofp_bundle_feature_flags`): bit 0, its timestamp is valid; bit 1, the switch takes over its maxima.
    pub flags: u32,
    /// Features of scheduled bundles of the controller.
    pub schedule: Option<ScheduleFeatures>,
}

/// Features of bundles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct BundleFeatures {
    /// Supported flags of bundles.
    pub capabilities: BundleFlags,
    /// Features of scheduled bundles, if the switch supports these.
    pub schedule: Option<ScheduleFeatures>,
}

fn read_time(time: Time) -> Duration {
    Duration::new(time.seconds, time.nanoseconds.min(999_999_999))
}

fn to_time(time: Duration) -> Time {
    Time { seconds: time.as_secs(), nanoseconds: time.subsec_nanos(), pad: Pad::default() }
}

impl ScheduleFeatures {
    fn from_wire(properties: Properties<'_, BundleFeaturesProperty<'_>>) -> Option<Self> {
        properties.iter().find_map(|property| match property.item {
            BundleFeaturesProperty::Time(it) => Some(Self {
                accuracy: read_time(it.sched_accuracy),
                max_future: read_time(it.sched_max_future),
                max_past: read_time(it.sched_max_past),
                timestamp: read_time(it.timestamp),
            }),
            _ => None,
        })
    }

    fn write(self, to: &mut Writer<'_>) {
        BundleFeaturesProperty::Time(TimeFeatures {
            pad: Pad::default(),
            sched_accuracy: to_time(self.accuracy),
            sched_max_future: to_time(self.max_future),
            sched_max_past: to_time(self.max_past),
            timestamp: to_time(self.timestamp),
        })
        .write(to);
    }
}

impl BundleFeaturesRequest {
    pub(super) fn from_v1_5(wire: &bundle::BundleFeaturesRequest<'_>) -> Self {
        let schedule = ScheduleFeatures::from_wire(wire.properties);
        Self { flags: wire.feature_request_flags, schedule }
    }

    pub(super) fn write(&self, to: &mut Writer<'_>) {
        to.u32(self.flags);
        to.zeros(4);
        if let Some(schedule) = self.schedule {
            schedule.write(to);
        }
    }
}

impl BundleFeatures {
    pub(super) fn from_v1_5(wire: &bundle::BundleFeatures<'_>) -> Self {
        let schedule = ScheduleFeatures::from_wire(wire.properties);
        Self { capabilities: BundleFlags(wire.capabilities), schedule }
    }

    pub(super) fn write(&self, to: &mut Writer<'_>) {
        to.u16(self.capabilities.0);
        to.zeros(6);
        if let Some(schedule) = self.schedule {
            schedule.write(to);
        }
    }
}
