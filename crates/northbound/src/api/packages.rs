//! Receives the package of an app for an upgrade. A package is never named by a path.

use std::os::fd::AsFd as _;
use std::sync::Arc;

use axum::http::StatusCode;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use control::change::{Change, ChangeReport, ChangeRequest};

use super::{apps, changes, config};
use crate::call::Call;
use crate::limits;
use crate::problem::Problem;
use crate::route::{Answer, Route, Verb};
use crate::state::Api;

/// The header with the signature.
const SIGNATURE: &str = "Rosemary-Signature";

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::new(Verb::Put, "/api/v1/apps/{name}/package", "uploadPackage", upload)
            .about("Puts a signed package beside the installed one; POST .../upgrade then runs it")
            .header(SIGNATURE, "The file of the signature (minisign), in base64")
            .raw_body("application/octet-stream", limits::PACKAGE)
            .change()
            .time(Some(limits::UPLOAD_TIME)),
    ]
}

async fn upload(api: Arc<Api>, call: Call) -> Answer {
    let app = call.path("name").to_owned();
    let hint =
        "send the content of the .minisig file in base64, as `base64 -w0 FILE.minisig` prints it";
    let signature =
        call.headers().get(SIGNATURE).and_then(|it| STANDARD.decode(it.as_bytes()).ok());
    let missing =
        || Problem::invalid(format!("the header {SIGNATURE} is missing or no base64"), hint);
    let signature = signature.ok_or_else(missing)?;
    apps::must_exist(&api, &app).await?;
    let busy = || Problem::unavailable("other packages are being received", "try again later");
    let _turn = api.uploads.try_acquire().map_err(|_| busy())?;
    let package = call.body().await?;
    let (who, request) = (
        call.principal.who.clone(),
        ChangeRequest { change: Change::Stage { app }, confirmed: false },
    );
    let report = api
        .wait(move |api| -> Result<ChangeReport, Problem> {
            let package = config::sealed("package", &package)?;
            let signature = config::sealed("signature", &signature)?;
            let fds = [package.as_fd(), signature.as_fd()];
            Ok(api.ask_monitor(|monitor| monitor.change_with(&who, request, &fds))?)
        })
        .await;
    let report = report.map_err(|problem| match problem.status() {
        StatusCode::SERVICE_UNAVAILABLE => problem.into_conflict(),
        _ => problem,
    })?;
    changes::answer(&api, &call, report).await
}
