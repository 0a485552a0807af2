//! Makes the kernel's policies of apps: who receives a packet in which order, and who has which priorities.

use control::policy::{Band, Policy};
use control::session::SessionId;

use super::app::AppConfig;
use super::band;
use super::findings::Finding;
use super::position::line_of;

/// Returns the policies of `apps`, in the same order. Only enabled apps run. `text` is the content of their file.
///
/// # Errors
/// Two bands overlap.
pub(super) fn policies(apps: &[AppConfig], text: &str) -> Result<Vec<Policy>, Finding> {
    if let Some(overlap) = overlaps(apps, text).next() {
        return Err(overlap);
    }
    let mut bands = bands(apps);
    let runs = |app: &AppConfig| app.enabled && app.writes_flows();
    let mut writers = apps.iter().zip(&mut bands).filter(|(app, _)| runs(app));
    if let (Some((app, band)), None) = (writers.next(), writers.next())
        && app.band.is_none()
    {
        *band = band::ALL;
    }
    let policy = |(order, (app, band)): (usize, (&AppConfig, Band))| Policy {
        stage: app.stage,
        order: u16::try_from(order).unwrap_or(u16::MAX), // there are 64 at most
        filter: app.filter.clone(),
        band,
        capabilities: app.capabilities.clone(),
        has_other_rights: !app.read.is_empty() || !app.service_rights.is_empty(),
        quota: app.quota(),
        flows: app.flows,
        pace: app.pace,
        session: SessionId::default(), // `Config` knows the sessions
    };
    Ok(apps.iter().zip(bands).enumerate().map(policy).collect())
}

/// Returns a mistake for each of `apps` whose band overlaps that of an earlier one.
pub(super) fn overlaps(apps: &[AppConfig], text: &str) -> impl Iterator<Item = Finding> {
    let bands = bands(apps);
    apps.iter().enumerate().filter_map(move |(i, app)| {
        let band = bands[i];
        let overlaps = |(other, its): &(&AppConfig, &Band)| {
            (app.band.is_some() || other.band.is_some()) && band.overlaps(**its)
        };
        let (other, its) = apps.iter().zip(&bands).take(i).find(overlaps)?;
        let (given, band, other, its) =
            if app.band.is_some() { (app, band, other, *its) } else { (other, *its, app, band) };
        let whose = if other.band.is_some() {
            format!("given in line {}", line_of(text, other.at))
        } else {
            "assigned by its position among the apps".to_owned()
        };
        let what = format!(
            "band is [{}, {}], which overlaps [{}, {}] of the app {:?}, {whose}; expected \
             priorities of its own",
            band.lowest, band.highest, its.lowest, its.highest, other.name
        );
        Some(Finding { at: given.at, what })
    })
}

/// Returns the band of each of `apps`: the configured one, or that of its position.
fn bands(apps: &[AppConfig]) -> Vec<Band> {
    let stage = |app: &AppConfig| std::mem::discriminant(&app.stage);
    let band = |(i, app): (usize, &AppConfig)| {
        let place = apps.iter().take(i).filter(|other| stage(other) == stage(app)).count();
        let given = if app.writes_flows() { app.band } else { Some(Band::NONE) };
        given.unwrap_or_else(|| band::slot(app.stage, place))
    };
    apps.iter().enumerate().map(band).collect()
}
