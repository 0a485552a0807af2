//! Decides which apps run: those of the command line or the configuration, operators' decisions, and the providers of their
//! services.

use std::path::Path;

use config::{AppConfig, Config, DEFAULT_APPS, ENV_IN_KERNEL, MOST_APPS};
use control::hosting::Hosting;
use control::northbound::OfctlRest;
use control::policy::Capability;
use sdk::services::Service;
use tracing::warn;

use super::Circumstances;
use crate::error::StartError;
use crate::options::AppChoice;

/// Returns the apps of the command line or of the configuration, as operators' decisions change them, and the providers of
/// the services that they name.
///
/// # Errors
/// The choice is not possible: an app is named twice or cannot run where it should, or there are too many.
pub(super) fn wanted(
    config: &Config,
    around: &Circumstances<'_>,
) -> Result<Vec<AppConfig>, StartError> {
    let chosen = &around.options.apps;
    let mut apps = if chosen.is_empty() {
        config.apps.clone().unwrap_or_else(|| DEFAULT_APPS.map(|name| config.named(name)).into())
    } else {
        named(config, chosen)?
    };
    for (name, enabled) in around.overrides.iter() {
        match apps.iter_mut().find(|app| app.name == name) {
            Some(app) => app.enabled = enabled,
            None if enabled && (config.app(name).is_some() || around.provides(name)) => {
                let app = config.app(name).cloned();
                let mut app = app.unwrap_or_else(|| config.named(name));
                app.enabled = enabled;
                apps.push(app);
            }
            None if enabled => {
                let hint = "install its package, or forget it with `rosemary app disable`";
                warn!(app = name, hint, "an enabled app is neither configured nor installed");
            }
            None => {}
        }
    }
    add_ofctl(config, around.options.ofctl(config), &mut apps);
    add_providers(config, &mut apps);
    if let Some(app) = apps.iter().find(|app| app.host.is_in_kernel() && provides(app)) {
        return Err(StartError::App { app: app.name.clone(), why: PROVIDER_IN_KERNEL });
    }
    if apps.len() > MOST_APPS {
        return Err(StartError::TooManyApps { count: apps.len(), most: MOST_APPS });
    }
    Ok(apps)
}

/// Adds the owner of the flows of Ryu's REST interface, if that is served.
fn add_ofctl(config: &Config, ofctl: OfctlRest, apps: &mut Vec<AppConfig>) {
    let name = Service::Ofctl.name();
    if ofctl == OfctlRest::Off || apps.iter().any(|app| app.name == name) {
        return;
    }
    let mut app = config.app(name).cloned().unwrap_or_else(|| config.named(name));
    app.enabled = true;
    if ofctl == OfctlRest::Read {
        let reads = [Capability::PacketIn, Capability::StatsRead, Capability::FlowRead];
        app.capabilities.retain(|grant| reads.contains(&grant.capability));
        app.band = None;
    }
    apps.push(app);
}

/// Why an app whose object the kernel cannot load is refused.
const NOT_FOR_KERNEL: &str =
    "its host in the configuration runs files that the kernel cannot load; remove :kernel";

/// The hosting of a file on the command line, for which the operator may have `chosen` one.
fn host_of(file: &Path, chosen: Option<Hosting>) -> Hosting {
    chosen.or_else(|| Hosting::of_file(file)).unwrap_or_default()
}

/// The hosting of an app that has the hosting `configured`, and for which the command line has `chosen` one. `None` if that cannot
/// run the app's object.
fn hosted(configured: Hosting, chosen: Hosting) -> Option<Hosting> {
    let outside = configured.outside();
    if outside.extension == chosen.outside().extension {
        return Some(chosen);
    }
    if chosen.is_in_kernel() {
        return outside.inside();
    }
    Some(outside) // the other hosting is in a zone as well
}

/// Why an app that provides a service cannot run in the kernel.
const PROVIDER_IN_KERNEL: &str = "it provides a service to other apps, which only an app in a zone can; remove host = \"kernel\" or :kernel";

/// Whether an app of this name provides a service with a table.
fn provides(app: &AppConfig) -> bool {
    Service::named(&app.name).is_some_and(|service| service.table_slots().is_some())
}

/// Adds the apps that provide services which enabled apps name. An app that is listed and not enabled is left alone.
fn add_providers(config: &Config, apps: &mut Vec<AppConfig>) {
    let mut next = 0;
    while let Some(app) = apps.get(next) {
        let services = if app.enabled { app.services.clone() } else { Vec::new() };
        for service in services.into_iter().filter(|service| service.table_slots().is_some()) {
            let name = service.name();
            // If it is listed and disabled, the status says so.
            if apps.iter().all(|app| app.name != name) {
                let known = config.app(name).cloned();
                let mut provider = known.unwrap_or_else(|| config.named(name));
                provider.enabled = true;
                apps.push(provider);
            }
        }
        next += 1;
    }
}

/// Returns the apps that the command line names, with their settings in the configuration.
fn named(config: &Config, chosen: &[AppChoice]) -> Result<Vec<AppConfig>, StartError> {
    if chosen.len() > MOST_APPS {
        return Err(StartError::TooManyApps { count: chosen.len(), most: MOST_APPS });
    }
    let app = |(i, choice): (usize, &AppChoice)| {
        let refuse = |why| Err(StartError::App { app: choice.to_string(), why });
        if chosen.iter().take(i).any(|before| before.name == choice.name) {
            return refuse("it is given twice; remove one of them");
        }
        let known = config.app(&choice.name).cloned();
        // A file is not the app that ships under its name.
        let mut app = known.unwrap_or_else(|| match &choice.file {
            Some(file) => AppConfig::hosted_by(&choice.name, host_of(file, choice.host)),
            None => config.named(&choice.name),
        });
        app.enabled = true; // the command line overrides the configuration
        if let Some(file) = &choice.file {
            app.object = Some(std::path::absolute(file).unwrap_or_else(|_| file.clone()));
            app.host_keys.module = None;
            if !app.host.has_file(file) {
                app.host = host_of(file, choice.host);
            }
        }
        if let Some(host) = choice.host {
            match hosted(app.host, host) {
                Some(host) => app.host = host,
                None => return refuse(NOT_FOR_KERNEL),
            }
        }
        if let Some(why) = app.needs_a_zone().filter(|_| app.host.is_in_kernel()) {
            return refuse(why);
        }
        if app.host.is_in_kernel() && !app.env.is_empty() {
            return refuse(ENV_IN_KERNEL);
        }
        Ok(app)
    };
    chosen.iter().enumerate().map(app).collect()
}

#[cfg(test)]
mod tests {
    use control::policy::{Grant, Stage};

    use super::*;
    use crate::installation::Installation;
    use crate::overrides::Overrides;
    use crate::packages::Store;

    fn chosen(text: &str, choice: &[(&str, Option<Hosting>)]) -> Result<Vec<AppConfig>, String> {
        let config = Config::parse("/rosemary.toml".into(), text.into()).unwrap();
        let choice: Vec<_> =
            choice.iter().map(|(name, host)| AppChoice::named(name, *host)).collect();
        named(&config, &choice).map_err(|error| error.to_string())
    }

    #[test]
    fn named_apps_have_their_configuration() {
        let text = "[[app]]\nname = \"a\"\n\
                    [[app]]\nname = \"b\"\nstage = \"observe\"\nenabled = false\nhost = \"kernel\"";
        let apps = chosen(text, &[("b", None), ("c", None)]).unwrap();
        assert_eq!(apps.len(), 2);
        assert_eq!((apps[0].stage, apps[0].host), (Stage::Observe, Hosting::KERNEL));
        assert!(apps[0].enabled);
        assert_eq!(apps[1], AppConfig::named("c"));
        let apps =
            chosen(text, &[("b", Some(Hosting::USER)), ("c", Some(Hosting::KERNEL))]).unwrap();
        assert_eq!([apps[0].host, apps[1].host], [Hosting::USER, Hosting::KERNEL]);
    }

    #[test]
    fn file_of_an_app_of_ryu_has_what_the_command_grants() {
        let config = Config::parse("/rosemary.toml".into(), String::new()).unwrap();
        let app = |text: &str| {
            let options = crate::options::tests::parse(&["--app", text]).unwrap();
            named(&config, &options.apps).unwrap().remove(0)
        };
        let ryu = app("/srv/my_app.py:ryu");
        assert_eq!(ryu.capabilities, Grant::unscoped(Hosting::RYU.capabilities));
        assert_eq!(ryu.host, Hosting::RYU);
        let python = app("/srv/my_app.py");
        assert_eq!(python.capabilities, AppConfig::defaults("my-app").capabilities);
        assert_eq!(python.host, Hosting::PYTHON);
    }

    #[test]
    fn module_is_moved_into_the_kernel_and_out_of_it() {
        let host = |keys: &str, choice| {
            let text = format!("[[app]]\nname = \"w\"\nobject = \"/w.wasm\"\n{keys}");
            chosen(&text, &[("w", Some(choice))]).unwrap()[0].host.name
        };
        assert_eq!(host("", Hosting::KERNEL), "kernel-wasm");
        assert_eq!(host("host = \"kernel\"", Hosting::USER), "wasm");
    }

    #[test]
    fn command_line_chooses_among_hostings_of_the_object() {
        let text = "[[app]]\nname = \"so\"\nhost = \"kernel\"\n[[app]]\nname = \"l2\"\nhost = \"ryu\"\nobject = \"l2.py\"";
        let apps = chosen(text, &[("so", Some(Hosting::USER)), ("l2", Some(Hosting::USER))]);
        let hosts = |apps: Vec<AppConfig>| apps.iter().map(|it| it.host).collect::<Vec<_>>();
        assert_eq!(hosts(apps.unwrap()), [Hosting::USER, Hosting::RYU], "Ryu is in a zone already");
        let error = chosen(text, &[("l2", Some(Hosting::KERNEL))]).unwrap_err();
        assert!(error.contains("remove :kernel"), "{error}");
        let config = Config::parse("/rosemary.toml".into(), text.into()).unwrap();
        let of_file = |file: &str| {
            let options = crate::options::tests::parse(&["--app", file]).unwrap();
            named(&config, &options.apps).unwrap().remove(0)
        };
        // The file takes the place of the configured object.
        assert_eq!(of_file("/srv/so.py").host, Hosting::PYTHON);
        assert_eq!(of_file("/srv/so.py:ryu").host, Hosting::RYU);
        assert_eq!(of_file("/srv/l2.py").host, Hosting::RYU);
        assert_eq!(of_file("/srv/l2.py:python").host, Hosting::PYTHON);
    }

    #[test]
    fn app_with_an_environment_does_not_go_into_the_kernel() {
        let text = "[[app]]\nname = \"a\"\nenv = { TZ = \"UTC\" }";
        let error = chosen(text, &[("a", Some(Hosting::KERNEL))]).unwrap_err();
        assert!(error.contains("can have no env") && error.contains("\"user\""), "{error}");
        assert_eq!(chosen(text, &[("a", None)]).unwrap()[0].env["TZ"], "UTC");
    }

    #[test]
    fn decisions_of_operators_override_the_configuration() {
        let text = "[[app]]\nname = \"a\"\n[[app]]\nname = \"b\"\nenabled = false";
        let config = Config::parse("/rosemary.toml".into(), text.into()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let enabled = |overrides: &Overrides| -> Vec<(String, bool)> {
            let around = Circumstances {
                options: &crate::options::tests::parse(&[]).unwrap(),
                installation: &Installation::of("/nowhere"),
                store: &Store::of(dir.path()),
                overrides,
                version: None,
            };
            let apps = wanted(&config, &around).unwrap();
            apps.into_iter().map(|app| (app.name, app.enabled)).collect()
        };
        let app = |name: &str, enabled| (name.to_owned(), enabled);
        let none = Overrides::default();
        assert_eq!(enabled(&none), [app("a", true), app("b", false)]);
        let some = none.with("a", false).with("b", true).with("not-installed", true);
        assert_eq!(enabled(&some), [app("a", false), app("b", true)]);
    }

    #[test]
    fn providers_of_named_services_run_too() {
        let names = |text: &str| -> Vec<(String, bool)> {
            let config = Config::parse("/rosemary.toml".into(), text.into()).unwrap();
            let mut apps = config.apps.clone().unwrap();
            add_providers(&config, &mut apps);
            apps.into_iter().map(|app| (app.name, app.enabled)).collect()
        };
        let runs = |name: &str| (name.to_owned(), true);
        let uses_hosts = "[[app]]\nname = \"a\"\nservices = [\"hosts\", \"storage\"]\n\
                          capabilities = [\"packet-in\", \"hosts.read\"]\n";
        assert_eq!(
            names(uses_hosts),
            [runs("a"), runs("hosts"), runs("topology")],
            "hosts needs topology"
        );
        assert_eq!(names("[[app]]\nname = \"a\"\n"), [runs("a")], "no service without a client");
        let disabled = format!("{uses_hosts}enabled = false\n");
        assert_eq!(names(&disabled), [("a".to_owned(), false)]);
        let own = format!("{uses_hosts}[[app]]\nname = \"topology\"\nenabled = false\n");
        let topology = ("topology".to_owned(), false);
        assert_eq!(names(&own), [runs("a"), topology, runs("hosts")], "the operator decides");
    }

    #[test]
    fn provider_does_not_go_into_the_kernel() {
        let config = Config::parse("/rosemary.toml".into(), String::new()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        for (app, is_refused) in [("stats:kernel", true), ("stats", false), ("a:kernel", false)] {
            let options = crate::options::tests::parse(&["--app", app]).unwrap();
            let around = Circumstances {
                options: &options,
                installation: &Installation::of("/nowhere"),
                store: &Store::of(dir.path()),
                overrides: &Overrides::default(),
                version: None,
            };
            let wanted = wanted(&config, &around);
            let refused = wanted.is_err_and(|error| error.to_string().contains("in a zone"));
            assert_eq!(refused, is_refused, "{app}");
        }
    }

    #[test]
    fn app_given_twice_is_refused() {
        let error = chosen("", &[("a", None), ("a", Some(Hosting::USER))]).unwrap_err();
        assert!(error.starts_with("--app a:user: it is given twice"), "{error}");
        let many: Vec<String> = (0..65).map(|i| format!("a{i}")).collect();
        let many: Vec<_> = many.iter().map(|name| (name.as_str(), None)).collect();
        assert!(chosen("", &many).unwrap_err().contains("at most 64"));
    }
}
