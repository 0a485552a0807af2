//! Scheduled bundles, and what a switch can do with bundles. OpenFlow 1.5.1 §7.3.9.4, §7.3.5.22.

use crate::tlv::tlv_enum;
use crate::v1_4::property::{Experimenter, Properties};
use crate::wire::{Pad, wire_struct};

wire_struct! {
    /// A moment or a period (`ofp_time`).
    #[derive(Default)]
    pub struct Time = "time" {
        /// Seconds since the epoch of TAI, or of the period.
        seconds: u64,
        /// Nanoseconds beyond `seconds`.
        nanoseconds: u32,
        /// Padding.
        pad: Pad<4>,
    }

    /// `ofp_bundle_prop_time`.
    pub struct ScheduledTime = "bundle_prop_time" {
        /// Padding.
        pad: Pad<4>,
        /// Time at which the switch applies the bundle.
        scheduled_time: Time,
    }

    /// The body of a request for features of bundles (`ofp_bundle_features_request`).
    pub struct BundleFeaturesRequest<'a> = "bundle_features_request" {
        /// Meaning of the properties: `ofp_bundle_feature_flags`.
        feature_request_flags: u32,
        /// Padding.
        pad: Pad<4>,
        /// Parameters of the controller.
        properties: Properties<'a, BundleFeaturesProperty<'a>>,
    }

    /// Features of bundles (`ofp_bundle_features`).
    pub struct BundleFeatures<'a> = "bundle_features" {
        /// Supported flags: `ofp_bundle_flags`.
        capabilities: u16,
        /// Padding.
        pad: Pad<6>,
        /// Parameters of the switch.
        properties: Properties<'a, BundleFeaturesProperty<'a>>,
    }

    /// `ofp_bundle_features_prop_time`.
    pub struct TimeFeatures = "bundle_features_prop_time" {
        /// Padding.
        pad: Pad<4>,
        /// Accuracy of scheduled times.
        sched_accuracy: Time,
        /// The longest period from now to a scheduled time.
        sched_max_future: Time,
        /// The longest period from a scheduled time in the past to now.
        sched_max_past: Time,
        /// The sender's clock.
        timestamp: Time,
    }
}

tlv_enum! {
    /// A feature of bundles (`ofp_bundle_features_prop_header`).
    pub enum BundleFeaturesProperty<'a> = "bundle_features_prop", align 1 {
        /// Scheduled times.
        Time(TimeFeatures) = 1,
        /// Experimenter-defined.
        Experimenter(Experimenter<'a>) = 0xffff,
    }
}
