//! Faults of tshark's dissectors, each with the messages that it concerns.

use rosemary_openflow::Version;

use super::{Class, Sample};

/// Returns the name of the dissector of a version.
pub fn dissector(version: Version) -> Option<&'static str> {
    match version {
        Version::V1_0 => Some("openflow_v1"),
        Version::V1_1 | Version::V1_2 => None,
        Version::V1_3 => Some("openflow_v4"),
        Version::V1_4 => Some("openflow_v5"),
        Version::V1_5 => Some("openflow_v6"),
    }
}

/// Messages that a dissector calls malformed although they follow the specification.
pub struct Fault {
    versions: &'static [Version],
    /// The kinds of message; every kind if there are none.
    kinds: &'static [&'static str],
    /// The types of multipart messages; empty for other messages.
    multiparts: &'static [u16],
    /// The message's debug output contains one of these; every message of the kinds if there are none.
    signs: &'static [&'static str],
    /// The mistake of the dissector.
    pub reason: &'static str,
}

const MULTIPARTS: &[&str] = &["multipart_request", "multipart_reply"];
const SINCE_1_3: &[Version] = &[Version::V1_3, Version::V1_4, Version::V1_5];
const SINCE_1_4: &[Version] = &[Version::V1_4, Version::V1_5];

/// Every known fault of tshark 4.0.17. The first that fits is reported.
pub const FAULTS: &[Fault] = &[
    Fault {
        versions: &[Version::V1_0],
        kinds: &["flow_mod", "packet_out"],
        multiparts: &[],
        signs: &["actions: []"],
        reason: "it reads an action although the list is empty",
    },
    Fault {
        versions: SINCE_1_3,
        kinds: &["multipart_reply"],
        multiparts: &[65535],
        signs: &[],
        reason: "it reads on behind the body of an experimenter's reply",
    },
    Fault {
        versions: SINCE_1_3,
        kinds: &["meter_mod", "multipart_reply"],
        multiparts: &[10],
        signs: &["Experimenter("],
        reason: "it reads on behind an experimenter's band",
    },
    Fault {
        versions: SINCE_1_3,
        kinds: MULTIPARTS,
        multiparts: &[12],
        signs: &["kind: 65535", "experimenter: Some", "Experimenter("],
        reason: "it expects 4 or 8 bytes of every id in table features",
    },
    Fault {
        versions: SINCE_1_4,
        kinds: &["multipart_request"],
        multiparts: &[16],
        signs: &["FlowMonitor([])"],
        reason: "it reads a flow monitor although there is none",
    },
    Fault {
        versions: SINCE_1_4,
        kinds: &["multipart_reply"],
        multiparts: &[15],
        signs: &["QueueDesc {"],
        reason: "it reads the port of a queue behind its id and length",
    },
    Fault {
        versions: SINCE_1_4,
        kinds: &["multipart_reply"],
        multiparts: &[5],
        signs: &["QueueStats {"],
        reason: "it expects two bytes of padding in place of six",
    },
    Fault {
        versions: &[Version::V1_5],
        kinds: &[],
        multiparts: &[1, 2, 7, 16, 17],
        signs: &["Oxm { class: 32768", "CopyField"],
        reason: "it stops at the number of a match field of the basic class",
    },
    Fault {
        versions: &[Version::V1_5],
        kinds: &["packet_in"],
        multiparts: &[],
        signs: &[],
        reason: "it stops at the in-port, which every packet-in has",
    },
    Fault {
        versions: &[Version::V1_5],
        kinds: &["group_mod", "multipart_reply"],
        multiparts: &[7],
        signs: &["Bucket {", "GroupDesc {"],
        reason: "it expects buckets and groups of OpenFlow 1.4",
    },
    Fault {
        versions: &[Version::V1_5],
        kinds: &["multipart_reply"],
        multiparts: &[4, 13],
        signs: &["Port {", "PortStats {"],
        reason: "it fails at ports and their statistics, except for some with an Ethernet property",
    },
    Fault {
        versions: &[Version::V1_5],
        kinds: &["error", "requestforward", "bundle_add_message"],
        multiparts: &[],
        signs: &["[6, 14, ", "[6, 15, "],
        reason: "it fails at the quoted flow-mod or group-mod, for the reasons above",
    },
    Fault {
        versions: &[Version::V1_5],
        kinds: &["bundle_add_message"],
        multiparts: &[],
        signs: &["properties: [Padded"],
        reason: "it does not skip the padding between the message and the properties",
    },
    Fault {
        versions: &[Version::V1_5],
        kinds: &["controller_status"],
        multiparts: &[],
        signs: &[],
        reason: "it reads on behind the properties",
    },
    Fault {
        versions: &[Version::V1_5],
        kinds: &["multipart_reply"],
        multiparts: &[18, 19],
        signs: &[],
        reason: "it does not know the type of the reply",
    },
    Fault {
        versions: &[Version::V1_5],
        kinds: &["multipart_reply"],
        multiparts: &[1, 17],
        signs: &[],
        reason: "it reads table and reason in another place, and does not know lists of statistics",
    },
    Fault {
        versions: SINCE_1_4,
        kinds: &["flow_mod", "packet_out", "group_mod", "multipart_reply"],
        multiparts: &[1, 7, 16],
        signs: &["Experimenter("],
        reason: "it calls an experimenter's action without data too short",
    },
    Fault {
        versions: SINCE_1_4,
        kinds: &[
            "bundle_control",
            "port_mod",
            "table_mod",
            "group_mod",
            "set_async",
            "multipart_reply",
        ],
        multiparts: &[4],
        signs: &["Experimenter"],
        reason: "it reads the length of an experimenter's property in another place, or reads on behind its body",
    },
];

impl Fault {
    fn concerns(&self, version: Version, class: Class) -> bool {
        let has_kind = self.kinds.is_empty() || self.kinds.contains(&class.kind);
        let has_type = class.multipart.is_none_or(|multipart| self.multiparts.contains(&multipart));
        self.versions.contains(&version) && has_kind && has_type
    }
}

/// Returns the fault that explains why a message is called malformed.
pub fn of(version: Version, sample: &Sample) -> Option<&'static Fault> {
    FAULTS.iter().find(|fault| {
        let has_sign = fault.signs.iter().any(|sign| sample.text.contains(sign));
        fault.concerns(version, sample.class) && (fault.signs.is_empty() || has_sign)
    })
}

/// Whether a fault concerns every message of a class.
pub fn is_whole(version: Version, class: Class) -> bool {
    FAULTS.iter().any(|fault| fault.signs.is_empty() && fault.concerns(version, class))
}
