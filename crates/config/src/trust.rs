//! Reads `[[trust]]`: a developer's key, and the most that apps with its signature may request.

use control::hosting::Hosting;
use control::policy::Capability;
use package::PublicKey;

use super::Limit;
use super::app::AppConfig;
use super::limits::Limits;
use super::position::line_of;
use super::rights::{self, Granted};
use super::value::{Table, Value};
use super::words::{is_name, stage_name};

/// The keys of a `[[trust]]`.
pub const TRUST_KEYS: [&str; 9] = [
    "name",
    "key",
    "apps",
    "stages",
    "capabilities",
    "services",
    "limits",
    "revoked",
    "revoked-packages",
];

/// Maximum number of developers.
const MOST_DEVELOPERS: usize = 256;

/// The default stages. Guards are not among them, because they can stop packets of other apps.
const STAGES: [&str; 2] = ["control", "observe"];

/// The apps that ship with Rosemary. A developer's app may have such a name only if the operator lists it in
/// `apps`; otherwise operators could confuse the two.
pub const SHIPPED: [&str; 10] = [
    "firewall",
    "forwarding",
    "hosts",
    "learning-switch",
    "link-monitor",
    "ofctl",
    "operator",
    "protection",
    "stats",
    "topology",
];

/// Returns the app that ships with Rosemary and whose name is similar to `name`.
fn mistaken_for(name: &str) -> Option<&'static str> {
    SHIPPED.into_iter().find(|shipped| shape(shipped) == shape(name))
}

/// Reduces a name to a form in which names that look alike are equal: without case, hyphens and the like, and
/// with one letter for all digits, letters and pairs of letters that resemble it.
fn shape(name: &str) -> String {
    let kept = name.chars().filter(|it| it.is_alphanumeric()).flat_map(char::to_lowercase);
    let folded = kept.map(|it| match it {
        '0' => 'o',
        '1' | 'l' => 'i',
        '5' => 's',
        '9' | 'q' => 'g',
        other => other,
    });
    folded.collect::<String>().replace("vv", "w").replace("rn", "m")
}

/// A developer and the most that their apps may request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trust {
    /// The operator's name for the developer.
    pub name: String,
    /// Their public key.
    pub key: PublicKey,
    /// The names that their apps may have; `None` for any that cannot be mistaken for an app that ships.
    pub apps: Option<Vec<String>>,
    /// The stages that their apps may be in, by name.
    pub stages: Vec<&'static str>,
    /// The grants that their apps may have.
    pub granted: Granted,
    /// The highest limits that their apps may request.
    pub limits: Limits,
    /// Whether the key is revoked.
    pub revoked: bool,
    /// Their revoked packages, by SHA-256 in hexadecimal digits.
    pub revoked_packages: Vec<String>,
}

/// A request that exceeds a developer's `[[trust]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExcessiveRequest {
    /// The request, as a phrase.
    pub what: String,
    /// The key of `[[trust]]` that would have to allow it.
    pub key: &'static str,
    /// The values that this key allows.
    pub allowed: String,
}

impl Trust {
    /// Returns the first request of `app` that this does not allow; `None` if it allows all.
    pub fn too_much(&self, app: &AppConfig) -> Option<ExcessiveRequest> {
        if let Some(apps) = self.apps.as_ref().filter(|apps| !apps.contains(&app.name)) {
            return Some(ExcessiveRequest::new(format!("be called {}", app.name), "apps", apps));
        }
        if self.apps.is_none()
            && let Some(shipped) = mistaken_for(&app.name)
        {
            let what = format!("be called {}, as {shipped}, which ships with Rosemary", app.name);
            return Some(ExcessiveRequest::new(what, "apps", &["any other names"]));
        }
        let stage = stage_name(app.stage);
        if !self.stages.contains(&stage) {
            return Some(ExcessiveRequest::new(
                format!("be in the stage {stage}"),
                "stages",
                &self.stages,
            ));
        }
        let (beyond, most) = (app.granted().beyond(&self.granted), &self.granted);
        if let names @ [_, ..] = beyond.names().as_slice() {
            let what = format!("have {}", names.join(", "));
            return Some(ExcessiveRequest::new(what, "capabilities", &most.names()));
        }
        if let names @ [_, ..] = beyond.service_names().as_slice() {
            let what = format!("reach the services {}", names.join(", "));
            return Some(ExcessiveRequest::new(what, "services", &most.service_names()));
        }
        let hard = |limits: &Limits, limit: Limit| limits.of(limit).hard;
        let beyond = |limit: &Limit| hard(&app.limits, *limit) > hard(&self.limits, *limit);
        let limit = Limit::ALL.into_iter().find(beyond)?;
        let shown = |limits| format!("{} = {}", limit.name(), limit.shown(hard(limits, limit)));
        let what = format!("have the limit {}", shown(&app.limits));
        Some(ExcessiveRequest::new(what, "limits", &[shown(&self.limits)]))
    }
}

impl ExcessiveRequest {
    fn new(what: String, key: &'static str, allowed: &[impl AsRef<str>]) -> Self {
        let allowed: Vec<&str> = allowed.iter().map(AsRef::as_ref).collect();
        let allowed = if allowed.is_empty() { "none".into() } else { allowed.join(", ") };
        Self { what, key, allowed }
    }
}

/// Reads all `[[trust]]` tables. Leaves those out that have no valid name and key.
pub(super) fn read(value: Value<'_>, text: &str) -> Vec<Trust> {
    let Some(tables) = value.elements() else {
        value.refuse("tables that begin with [[trust]], in two brackets");
        return Vec::new();
    };
    if let Some(first) = tables.get(MOST_DEVELOPERS) {
        first.refuse_as(format!(
            "this is [[trust]] number {}; expected at most {MOST_DEVELOPERS}",
            MOST_DEVELOPERS + 1
        ));
        return Vec::new();
    }
    let mut all: Vec<(Trust, usize)> = Vec::new();
    for value in tables {
        let Some(table) = value.table("[[trust]]", &TRUST_KEYS) else { continue };
        let Some(one) = read_one(table) else { continue };
        // Compares the ids of the keys, because a signature contains only the id.
        let same = |(it, _): &&(Trust, usize)| it.key.id() == one.key.id() || it.name == one.name;
        if let Some((_, at)) = all.iter().find(same) {
            value.refuse_as(format!(
                "the [[trust]] in line {} has the same name or key; expected one of each",
                line_of(text, *at)
            ));
        }
        all.push((one, table.at));
    }
    all.into_iter().map(|(trust, _)| trust).collect()
}

/// Reads a `[[trust]]`. Returns `None` if it has no valid name or key.
fn read_one(table: Table<'_>) -> Option<Trust> {
    let name_form = "1 to 40 letters, digits, dots, hyphens or at signs";
    let name = table.read("name", name_form, |it| it.text().filter(|name| is_developer(name)));
    let key_form = "a public key of 56 letters that begins with RWQ, as `rosemary key new` or minisign prints it";
    let key = table.read("key", key_form, |it| it.text()?.parse().ok());
    for (key, form) in [("name", name_form), ("key", key_form)] {
        if table.get(key).is_none() {
            let what = format!("a [[trust]] without {key}; expected {key} = {form}");
            table.findings.refuse(table.at, what);
        }
    }
    let app = |it: &Value<'_>| it.text().filter(|name| is_name(name)).map(ToOwned::to_owned);
    let apps = table.list("apps", "an app's name", app);
    let stage = |it: &Value<'_>| {
        let stages = ["guard", "control", "observe"];
        stages.into_iter().find(|stage| Some(*stage) == it.text())
    };
    let stages = table.list("stages", r#""guard", "control" or "observe""#, stage);
    let default = Granted { capabilities: vec![Capability::PacketIn.into()], ..<_>::default() };
    let granted = rights::read(table, Hosting::default(), default);
    let default = Limits::default();
    let limits = table.get("limits").map(|it| Limits::read(it, &default));
    let digest = |it: &Value<'_>| {
        let text = it.text().filter(|text| text.len() == 64)?.to_ascii_lowercase();
        text.bytes().all(|digit| digit.is_ascii_hexdigit()).then_some(text)
    };
    let form = "the SHA-256 of a package, 64 hexadecimal digits, as `sha256sum` prints it";
    let revoked_packages = table.list("revoked-packages", form, digest);
    let revoked = table.read("revoked", "true or false", Value::boolean);
    Some(Trust {
        name: name?.to_owned(),
        key: key?,
        apps,
        stages: stages.unwrap_or(STAGES.into()),
        granted,
        limits: limits.unwrap_or_default(),
        revoked: revoked.unwrap_or(false),
        revoked_packages: revoked_packages.unwrap_or_default(),
    })
}

/// Returns whether this is a valid name of a developer; it becomes part of log lines.
fn is_developer(name: &str) -> bool {
    (1..=40).contains(&name.len())
        && name.bytes().all(|it| it.is_ascii_alphanumeric() || b".-@_".contains(&it))
}

#[cfg(test)]
mod tests {
    use control::policy::Capability;

    use super::*;
    use crate::Config;

    const KEY: &str = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3";

    fn parse(text: &str) -> Result<Vec<Trust>, String> {
        let config = Config::parse("/rosemary.toml".into(), text.into());
        config.map(|config| config.trust).map_err(|error| error.to_string())
    }

    fn acme(keys: &str) -> Trust {
        let text = format!("[[trust]]\nname = \"acme\"\nkey = \"{KEY}\"\n{keys}");
        parse(&text).unwrap().remove(0)
    }

    fn app(keys: &str) -> AppConfig {
        let text = format!("[[app]]\nname = \"hub\"\n{keys}");
        let config = Config::parse("/rosemary.toml".into(), text).unwrap();
        config.app("hub").unwrap().clone()
    }

    #[test]
    fn default_policy_allows_no_capabilities() {
        let acme = acme("");
        assert_eq!(acme.too_much(&app("capabilities = []")), None, "packets are allowed");
        let more = acme.too_much(&app("capabilities = [\"flow.write\", \"experimenter:0x1\"]"));
        let what = "have flow.write, experimenter:0x00000001".into();
        let allowed = "packet-in".into();
        assert_eq!(more.unwrap(), ExcessiveRequest { what, key: "capabilities", allowed });
        let guard = acme.too_much(&app("stage = \"guard\"\ncapabilities = []")).unwrap();
        let (what, allowed) = ("be in the stage guard".into(), "control, observe".into());
        assert_eq!(guard, ExcessiveRequest { what, key: "stages", allowed });
    }

    #[test]
    fn requests_beyond_policy_are_refused() {
        let acme = acme(
            "apps = [\"hub\"]\nstages = [\"guard\"]\ncapabilities = [\"packet-out\", \"flow.write\"]",
        );
        let guard = app("stage = \"guard\"");
        assert_eq!(acme.too_much(&guard), None);
        let other = AppConfig { name: "other".into(), ..guard.clone() };
        assert!(acme.too_much(&other).unwrap().what.contains("be called other"));
        let mut any = guard;
        any.capabilities.push(Capability::FlowWriteAny.into());
        assert!(acme.too_much(&any).unwrap().what.contains("flow.write.any"));
        assert!(acme.too_much(&app("")).unwrap().what.contains("in the stage control"));
    }

    #[test]
    fn developer_is_confined_to_switches_and_tables() {
        let scope = "dpids = [\"0000000000000001\", \"0000000000000002\"]";
        let acme = acme(&format!(
            "capabilities = [\"packet-in\", {{ flow.write = {{ {scope}, tables = [0, 1] }} }}]"
        ));
        let asks = |element: &str| {
            acme.too_much(&app(&format!("capabilities = [\"packet-in\", {element}]")))
        };
        let one = "dpids = [\"00:00:00:00:00:00:00:01\"]";
        assert_eq!(asks(&format!("{{ flow.write = {{ {one}, tables = [1] }} }}")), None);
        for more in [
            format!("{{ flow.write = {{ {one}, tables = [2] }} }}"),
            format!("{{ flow.write = {{ {one} }} }}"),
            "{ flow.write = { tables = [0] } }".into(),
            "{ flow.write = { dpids = [\"00:00:00:00:00:00:00:03\"], tables = [0] } }".into(),
        ] {
            let excess = asks(&more).expect(&more);
            assert_eq!((excess.key, excess.what), ("capabilities", format!("have {more}")));
            assert!(excess.allowed.contains("tables = [0, 1]"), "{}", excess.allowed);
        }
        assert_eq!(asks("\"flow.write\"").unwrap().what, "have flow.write");
    }

    #[test]
    fn names_like_shipped_apps_need_permission() {
        let named = |name: &str| AppConfig { name: name.into(), ..app("capabilities = []") };
        for name in [
            "firewall",
            "f1rewa1l",
            "fire-wall",
            "FireWall",
            "learning-switch",
            "learningswitch",
            "learning_switch",
            "learning--switch-",
            "1ink-m0nitor",
            "firevvall",
            "fire-v-vall",
            "learning-svvitch",
            "learnin9-switch",
            "link-rnonitor",
            "LINK-RNONITOR",
        ] {
            let more = acme("").too_much(&named(name)).expect(name);
            assert!(more.what.contains("which ships with Rosemary"), "{more:?}");
            assert_eq!((more.key, &*more.allowed), ("apps", "any other names"));
        }
        assert_eq!(acme("apps = [\"firewall\"]").too_much(&named("firewall")), None);
        assert_eq!(acme("").too_much(&named("firewall2")), None);
    }

    #[test]
    fn list_of_shipped_apps_is_complete() {
        let manifest = include_str!("../../apps/Cargo.toml");
        let examples = manifest.split("[[example]]").skip(1);
        let name = |entry: &str| {
            let (name, _) = entry.split_once("name = \"")?.1.split_once('"')?;
            Some(name.replace('_', "-"))
        };
        let mut built: Vec<String> = examples.filter_map(name).collect();
        built.sort();
        assert_eq!(built, SHIPPED);
    }

    #[test]
    fn limits_above_policy_are_refused() {
        let asks = |trust: &str, limits: &str| {
            let app = app(&format!("capabilities = []\nlimits = {{ {limits} }}"));
            acme(trust).too_much(&app).map(|it| (it.what, it.allowed))
        };
        assert_eq!(asks("", "memory = \"512 MiB\""), None);
        let (what, allowed) = asks("", "memory = \"513 MiB\"").unwrap();
        assert_eq!(what, "have the limit memory = 513 MiB");
        assert_eq!(allowed, "memory = 512 MiB");
        assert_eq!(asks("limits = { memory = \"1 GiB\" }", "memory = \"513 MiB\""), None);
    }

    #[test]
    fn granted_path_includes_paths_below() {
        let acme = acme("capabilities = [\"fs.read:/usr/share/geo\"]");
        let asks = |path: &str| {
            acme.too_much(&app(&format!("capabilities = [\"fs.read:{path}\"]"))).map(|it| it.what)
        };
        assert_eq!(asks("/usr/share/geo"), None);
        assert_eq!(asks("/usr/share/geo/ip"), None);
        assert_eq!(asks("/usr/share/geode").as_deref(), Some("have fs.read:/usr/share/geode"));
        assert_eq!(asks("/usr/share").as_deref(), Some("have fs.read:/usr/share"));
    }

    #[test]
    fn services_and_rights_are_granted_separately() {
        let acme = acme("services = [\"broker\"]\ncapabilities = [\"net.connect:a.example:80\"]");
        let asks = |services: &str, rights: &str| {
            let app = app(&format!("services = [{services}]\ncapabilities = [{rights}]"));
            acme.too_much(&app).map(|it| it.what)
        };
        assert_eq!(asks("\"broker\"", "\"net.connect:a.example:80\""), None);
        let other = asks("\"broker\"", "\"net.connect:a.example:81\"").unwrap();
        assert_eq!(other, "have net.connect:a.example:81");
        assert_eq!(asks("\"storage\"", "").unwrap(), "reach the services storage");
    }

    #[test]
    fn mistake_names_its_line() {
        let second = format!("[[trust]]\nname = \"b\"\nkey = \"{KEY}\"\n");
        for (text, line, part) in [
            ("[[trust]]\nname = \"a\"".into(), 1, "without key"),
            (format!("[[trust]]\nkey = \"{KEY}\""), 1, "without name"),
            ("[[trust]]\nname = \"a\"\nkey = \"RWQ\"".into(), 3, "56 letters"),
            (format!("{second}{}", second.replace('b', "c")), 4, "line 1 has the same"),
            (format!("{second}revoked-packages = [\"abc\"]"), 4, "64 hexadecimal"),
            (format!("{second}stages = [\"kernel\"]"), 4, "\"observe\""),
            (format!("{second}host = \"kernel\""), 4, "unknown key"),
        ] {
            let error = parse(&text).unwrap_err();
            assert!(error.starts_with(&format!("/rosemary.toml:{line}:")), "{text}: {error}");
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn capability_names_parse_and_print_alike() {
        for (name, known) in Capability::NAMED {
            assert_eq!(known.to_string(), name);
        }
    }
}
