//! Which apps run, and where their objects are: from the configuration and the command line.

use std::path::PathBuf;
use std::time::Duration;

use kernel::control::Host;
use kernel::policy::Policy;
use sdk::services::Service;

use crate::config::{AppConfig, Config, DEFAULT_APP, IN_KERNEL, Limits, MOST_APPS, ServiceRight};
use crate::error::StartError;
use crate::options::AppChoice;
use crate::places::Places;
use crate::progress::DEFAULT_BOUND;

/// An app that is to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct App {
    /// Its name.
    pub(crate) name: String,
    /// The file of its object, which is there.
    pub(crate) object: PathBuf,
    /// The file of its configuration, if it has one.
    pub(crate) config: Option<PathBuf>,
    /// Its rights and place.
    pub(crate) policy: Policy,
    /// What is to run it.
    pub(crate) host: Host,
    /// How much it may use.
    pub(crate) limits: Limits,
    /// What it may read of the machine's files.
    pub(crate) read: Vec<PathBuf>,
    /// What one of its calls may last.
    pub(crate) hang: Duration,
    /// The services that it reaches.
    pub(crate) services: Vec<Service>,
    /// What it may with them, beyond what is its own there.
    pub(crate) service_rights: Vec<ServiceRight>,
}

/// The apps that run: those on the command line, or else those of the configuration, or else the
/// learning switch.
///
/// # Errors
/// An app cannot run as it is wanted, or its object is missing.
pub(crate) fn apps(
    config: &Config,
    chosen: &[AppChoice],
    places: &Places,
) -> Result<Vec<App>, StartError> {
    let apps = if chosen.is_empty() {
        config.apps.clone().unwrap_or_else(|| vec![AppConfig::named(DEFAULT_APP)])
    } else {
        named(config, chosen)?
    };
    let policies = config.policies(&apps)?;
    let running = apps.into_iter().zip(policies).filter(|(app, _)| app.enabled);
    running
        .map(|(app, policy)| {
            let object = places.object(&app.name, app.object.as_deref())?;
            let hang = app.hang.or(config.hang).unwrap_or(DEFAULT_BOUND);
            let AppConfig { name, config: file, host, read, limits, .. } = app;
            let (services, service_rights) = (app.services, app.service_rights);
            let app = App {
                name,
                object,
                config: file,
                policy,
                host,
                read,
                limits,
                hang,
                services,
                service_rights,
            };
            Ok(app)
        })
        .collect()
}

fn named(config: &Config, chosen: &[AppChoice]) -> Result<Vec<AppConfig>, StartError> {
    if chosen.len() > MOST_APPS {
        return Err(StartError::TooManyApps { count: chosen.len(), most: MOST_APPS });
    }
    let app = |(i, choice): (usize, &AppChoice)| {
        let refuse = |why| Err(StartError::App { app: choice.to_string(), why });
        if chosen.iter().take(i).any(|before| before.name == choice.name) {
            return refuse("it is given twice; leave one of them out");
        }
        let known = config.app(&choice.name).cloned();
        let mut app = known.unwrap_or_else(|| AppConfig::named(&choice.name));
        app.enabled = true; // who names it wants it
        app.host = choice.host.unwrap_or(app.host);
        if app.host == Host::Kernel && app.needs_a_zone() {
            return refuse(IN_KERNEL);
        }
        Ok(app)
    };
    chosen.iter().enumerate().map(app).collect()
}

#[cfg(test)]
mod tests {
    use kernel::policy::Stage;

    use super::*;

    fn chosen(text: &str, choice: &[(&str, Option<Host>)]) -> Result<Vec<AppConfig>, String> {
        let config = Config::parse("/rosemary.toml".into(), text.into()).unwrap();
        let choice: Vec<_> = choice
            .iter()
            .map(|(name, host)| AppChoice { name: (*name).into(), host: *host })
            .collect();
        named(&config, &choice).map_err(|error| error.to_string())
    }

    #[test]
    fn command_line_names_the_apps_and_the_configuration_says_what_they_are() {
        let text = "[[app]]\nname = \"a\"\n\
                    [[app]]\nname = \"b\"\nstage = \"observe\"\nenabled = false\nhost = \"kernel\"";
        let apps = chosen(text, &[("b", None), ("c", None)]).unwrap();
        assert_eq!(apps.len(), 2);
        assert_eq!((apps[0].stage, apps[0].host), (Stage::Observe, Host::Kernel));
        assert!(apps[0].enabled);
        assert_eq!(apps[1], AppConfig::named("c"));
        let apps = chosen(text, &[("b", Some(Host::User)), ("c", Some(Host::Kernel))]).unwrap();
        assert_eq!([apps[0].host, apps[1].host], [Host::User, Host::Kernel]);
    }

    #[test]
    fn app_given_twice_is_refused() {
        let error = chosen("", &[("a", None), ("a", Some(Host::User))]).unwrap_err();
        assert!(error.starts_with("--app a:user: it is given twice"), "{error}");
        let many: Vec<String> = (0..65).map(|i| format!("a{i}")).collect();
        let many: Vec<_> = many.iter().map(|name| (name.as_str(), None)).collect();
        assert!(chosen("", &many).unwrap_err().contains("64 is the most"));
    }
}
