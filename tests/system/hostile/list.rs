//! The hostile apps that run beside others: the rights of each folder of `crates/apps/hostile`, how
//! its apps run without restrictions, and their expected outcome.
//!
//! | folder | attacks | unrestricted by |
//! | --- | --- | --- |
//! | the folder itself | the system and other processes | running it without a sandbox |
//! | `deadly` | programs that share its process | running it in the kernel, as other controllers do |
//! | `greedy` | memory, processor, the system's tables | running it without a sandbox |
//! | `network` | flows and packets of other apps, switches and tables that are not granted | granting the missing capability, or all switches and tables |
//! | `services` | services, and the data of other apps | naming the services and granting the rights |
//! | `rings`, `flood`, `routes` | kernel, monitor and the HTTP interface, through its rings and sockets | nothing: no program trusts these |

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use cli::lab::Lab;

/// The port whose first packet starts the attack.
pub(super) const BEGIN_PORT: u16 = 5;

/// The restriction that contains an app, which an unrestricted run lifts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Free {
    /// The sandbox.
    NoWall,
    /// Hosting in a zone: it runs in the kernel instead.
    InKernel,
    /// A missing capability.
    Granted(&'static str),
    /// The scopes of its capabilities.
    Unscoped,
    /// Missing service grants.
    Served,
    /// Nothing: the attack cannot succeed.
    Never,
}

/// Position of a hostile app among the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Placement {
    /// An observer, for which no packet waits.
    Observer,
    /// The first control app, before the learning switch, which receives each packet after this
    /// app's answer.
    First,
}

/// A hostile app, ready to run.
#[derive(Debug, Clone)]
pub(super) struct Attacker {
    /// Name of the app.
    pub(super) name: String,
    /// The folder, as in the table above.
    pub(super) folder: &'static str,
    object: PathBuf,
    pub(super) free: Free,
    pub(super) placement: Placement,
}

/// Number of variants in `rings/lies.c`.
const LIES: u32 = 9;

const FOLDERS: [&str; 8] =
    ["", "deadly", "greedy", "network", "services", "rings", "flood", "routes"];

/// Apps without a log record: they fill their private `/tmp`, are slow, make a call that this
/// machine does not have, request memory of a kind that is denied, or wait for what never comes.
const SILENT: [&str; 7] =
    ["disk", "inodes", "slow-reader", "other-calls", "stack-leak", "merge", "beyond-packets"];

/// The fast apps of `make test`, at least one of each kind.
pub(super) const QUICK: [&str; 21] = [
    "exit",
    "segfault",
    "endless-loop",
    "fork-bomb",
    "thread-bomb",
    "storm",
    "delete-all",
    "lldp",
    "learn",
    "outrank",
    "beyond-switches",
    "beyond-tables",
    "others-data",
    "fast-open",
    "lie-1",
    "lie-9",
    "control-flood",
    "route-flood",
    "processes",
    "files",
    "mount",
];

/// Those that `make test` also runs without confinement, where they must succeed: one for each way in which a trial notices that.
pub(super) const QUICK_UNCONFINED: [&str; 7] =
    ["exit", "delete-all", "lldp", "others-data", "control-flood", "route-flood", "files"];

/// Those that also run as the first control app in `make test`.
pub(super) const QUICK_FIRST: [&str; 2] = ["exit", "delete-all"];

/// Builds the `wanted` apps.
pub(super) fn attackers(lab: &Lab, wanted: impl Fn(&str) -> bool) -> anyhow::Result<Vec<Attacker>> {
    let mut attackers = Vec::new();
    for folder in FOLDERS {
        let folder_path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/apps/hostile").join(folder);
        let mut sources: Vec<PathBuf> =
            fs::read_dir(&folder_path)?.flatten().map(|entry| entry.path()).collect();
        sources.retain(|path| path.extension().is_some_and(|it| it == "c"));
        sources.sort();
        for source in sources {
            let stem = source.file_stem().context("a file has a name")?.to_string_lossy();
            let lies = if folder == "rings" { LIES } else { 0 };
            for lie in lies.min(1)..=lies {
                let name = if lie > 0 { format!("lie-{lie}") } else { stem.replace('_', "-") };
                if !wanted(&name) {
                    continue;
                }
                let object = lab.files().join(format!("attacker-{name}.so"));
                compile(lab, &source, &object, lie)?;
                let free = free(folder, &name);
                let placement = Placement::Observer;
                attackers.push(Attacker { name, folder, object, free, placement });
            }
        }
    }
    Ok(attackers)
}

fn compile(lab: &Lab, source: &Path, object: &Path, lie: u32) -> anyhow::Result<()> {
    let headers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/sdk/c");
    let [source, object, headers] = [source, object, &headers].map(|it| it.display().to_string());
    let (port, lie) = (format!("-DBEGIN_PORT={BEGIN_PORT}"), format!("-DLIE={lie}"));
    let flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", &port, &lie];
    lab.run("cc", &[&flags[..], &["-I", &headers, "-o", &object, &source]].concat())?;
    Ok(())
}

fn free(folder: &str, name: &str) -> Free {
    match (folder, name) {
        // The kernel survives these even inside it, and slow or verbose apps harm nobody. There is
        // no grant for others' bands, numbers, buffers and connections, nor for flows past the checks.
        ("deadly", "failure" | "forged-loaded" | "busy-siblings")
        | ("greedy", "processor-bomb" | "log-bomb" | "drip" | "slow-reader" | "stall")
        | (
            "network",
            "outrank" | "buffers" | "groups" | "other-switches" | "random-ids" | "unknown-switches"
            | "malformed" | "doorbells" | "learn",
        )
        | ("services", "service-flood")
        | ("rings" | "flood" | "routes", _) => Free::Never,
        ("deadly", _) => Free::InKernel,
        ("network", name) if scoped(name, false).is_some() => Free::Unscoped,
        ("network", "delete-all") => Free::Granted("flow.write.any"),
        ("network", "lldp") => Free::Granted("topology.probe"),
        ("network", "controller-loop") => Free::Granted("packet-out.reserved"),
        ("network", "kinds") => Free::Granted("switch.config"),
        // Limits contain these two: without them they reach their goal.
        ("network", "storm" | "flow-flood") => Free::Granted(""),
        ("services", "others-data" | "other-service") => Free::Served,
        _ => Free::NoWall,
    }
}

/// Returns the capabilities of an app that attacks their scopes, with or without these.
fn scoped(name: &str, let_loose: bool) -> Option<String> {
    const SWITCHES: [&str; 11] = [
        "packet-out",
        "packet-out.reserved",
        "flow.read",
        "flow.write",
        "flow.write.any",
        "group.write",
        "meter.write",
        "stats.read",
        "switch.config",
        "topology.probe",
        "experimenter",
    ];
    /// A switch that is not there.
    const OTHER: &str = "dpids = [\"ff:ff:ff:ff:ff:ff:ff:fe\"]";
    let (capabilities, scope, others) = match name {
        "beyond-switches" => (&SWITCHES[..], OTHER, "\"packet-in\""),
        "beyond-packets" => (&["packet-in"][..], OTHER, "\"packet-out\""),
        "beyond-tables" => {
            let tables = &["flow.read", "flow.write", "flow.write.any"][..];
            (tables, "tables = [1]", "\"packet-in\", \"stats.read\"")
        }
        _ => return None,
    };
    let grant = |capability: &&str| match (*capability, let_loose) {
        ("experimenter", false) => format!("{{ experimenter = {{ ids = [0x2320], {scope} }} }}"),
        ("experimenter", true) => "\"experimenter:0x00002320\"".to_owned(),
        (capability, false) => format!("{{ {capability} = {{ {scope} }} }}"),
        (capability, true) => format!("\"{capability}\""),
    };
    let grants: Vec<String> = capabilities.iter().map(grant).collect();
    Some(format!("capabilities = [{others}, {}]", grants.join(", ")))
}

/// Returns the service rights of an app that attacks services.
fn served(name: &str, let_loose: bool) -> &'static str {
    match (name, let_loose) {
        ("fast-open", _) => {
            "services = [\"broker\"]\ncapabilities = [\"net.connect:127.0.0.1:7007\"]"
        }
        ("other-service", true) => "services = [\"storage\", \"broker\"]",
        ("others-data", true) => {
            "services = [\"storage\"]\n\
             capabilities = [\"storage.read:vault\", \"storage.write:vault\"]"
        }
        _ => "services = [\"storage\"]",
    }
}

impl Attacker {
    /// Returns the same app as first control app; `None` if its position makes no difference,
    /// because the system rejects its calls in every position.
    pub(super) fn as_first(&self) -> Option<Self> {
        let placement = Placement::First;
        (!self.folder.is_empty()).then(|| Self { placement, ..self.clone() })
    }

    /// Whether it answers each packet too late.
    pub(super) fn is_late(&self) -> bool {
        self.name == "slow-reader" && self.placement == Placement::First
    }

    /// Whether the log must name it.
    pub(super) fn leaves_a_record(&self) -> bool {
        self.is_late() || !SILENT.contains(&&*self.name)
    }

    /// Returns its configuration entry.
    pub(super) fn config(&self, let_loose: bool) -> String {
        let (name, object) = (&self.name, self.object.display());
        let mut lines = vec![
            "[[app]]".to_owned(),
            format!("name = \"{name}\"\nobject = \"{object}\""),
            "hang-seconds = 1".to_owned(),
        ];
        let observer = self.placement == Placement::Observer;
        lines.push(format!("stage = \"{}\"", if observer { "observe" } else { "control" }));
        if self.folder == "routes" {
            lines.push("capabilities = [\"packet-in\", \"http.serve\"]".to_owned());
        } else if !["network", "services"].contains(&self.folder) {
            lines.push("capabilities = [\"packet-in\"]".to_owned());
        }
        if let Some(capabilities) = scoped(&self.name, let_loose) {
            lines.push(capabilities);
        } else if self.folder == "network" {
            let more = match self.free {
                Free::Granted(more) if let_loose && !more.is_empty() => format!(", \"{more}\""),
                _ => String::new(),
            };
            lines.push(format!(
                "capabilities = [\"packet-in\", \"packet-out\", \"flow.write\"{more}]"
            ));
            if !(let_loose && self.free == Free::Granted("")) {
                let limits = "flow-mods-per-second = 500, packet-outs-per-second = 500";
                lines.push(format!("limits = {{ {limits} }}"));
            }
        }
        if self.folder == "services" {
            let served = served(&self.name, let_loose);
            lines.push(served.to_owned());
            if !served.contains("capabilities") {
                lines.push("capabilities = [\"packet-in\"]".to_owned());
            }
        }
        if self.folder == "greedy" && !let_loose {
            // It may use idle CPU time; the operator is informed.
            lines.push("limits = { memory = \"64 MiB\", cpu = { soft = 0.1 } }".to_owned());
        }
        if let_loose && self.free == Free::InKernel {
            lines.push("host = \"kernel\"".to_owned());
        }
        lines.join("\n") + "\n"
    }

    /// Whether the test waits for its end instead of its report.
    pub(super) fn ends(&self) -> bool {
        ["deadly", "rings", "flood"].contains(&self.folder)
    }

    /// Whether it keeps the machine busy, so that its impact on others is measured.
    pub(super) fn is_a_bomb(&self) -> bool {
        const FLOODS: [&str; 5] =
            ["storm", "flow-flood", "unknown-switches", "malformed", "doorbells"];
        if self.placement == Placement::First {
            return self.is_late();
        }
        self.folder == "greedy" || FLOODS.contains(&&*self.name)
    }
}
