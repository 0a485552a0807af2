//! Clients on other machines: TLS 1.3, with tokens or with certificates of the users' authority, and nothing else.

mod certificates;
mod handshakes;
mod revocation;

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use anyhow::ensure;
use cli::lab::{Lab, Rosemary};
use control::northbound::Role;
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, Issuer, KeyPair, SanType};
use rosemary_tests::apps::{configure, in_rust};
use rosemary_tests::developer::rosemary;
use rosemary_tests::pki::Pki;
use rosemary_tests::rosemary_binary;
use serde_json::Value;

use super::wait_for_api;

/// An address that is not loopback. Connections of this machine to it have it as their source, too.
const OTHER: &str = "192.0.2.1";

/// The address of the interface with TLS.
const TLS: &str = "https://192.0.2.1:8443";

const DAY: Duration = Duration::from_secs(24 * 3600);

/// The key and the certificate that a client presents.
#[derive(Debug, Clone)]
struct Certificate {
    key: PathBuf,
    cert: PathBuf,
}

/// Rosemary with both sets of keys.
struct Instance<'lab> {
    lab: &'lab Lab,
    pki: Pki<'lab>,
    rosemary: Rosemary<'lab>,
}

impl<'lab> Instance<'lab> {
    fn start(lab: &'lab Lab) -> anyhow::Result<Self> {
        lab.run("ip", &["address", "add", &format!("{OTHER}/32"), "dev", "lo"])?;
        let pki = Pki::init(lab, "pki")?;
        rosemary(lab, &["pki", "api", OTHER, "localhost", "--dir", pki.dir()])?;
        configure(&[&in_rust("observer", "stage = \"observe\"")])?;
        let addresses = ["--api", "127.0.0.1:8181", "--api", "0.0.0.0:8443"];
        let args = [&["--tls-dir", pki.dir()], &addresses[..]].concat();
        let rosemary = Rosemary::start(lab, &rosemary_binary(), &args)?;
        wait_for_api()?;
        Ok(Self { lab, pki, rosemary })
    }

    /// Makes a user with `rosemary pki user`.
    fn user(&self, name: &str, role: Role) -> anyhow::Result<Certificate> {
        let args = ["pki", "user", name, "--role", role.name(), "--dir", self.pki.dir()];
        let printed = rosemary(self.lab, &args)?;
        ensure!(printed.starts_with("curl --cacert "), "{printed}");
        Ok(self.shown(&format!("users/{name}")))
    }

    /// The files of a directory.
    fn shown(&self, dir: &str) -> Certificate {
        let dir = self.pki.file(dir);
        Certificate { key: dir.join("key.pem"), cert: dir.join("cert.pem") }
    }

    /// Sends a request; returns the status and the body, or how the connection failed.
    fn curl(
        &self,
        path: &str,
        shown: Option<&Certificate>,
        more: &[&str],
    ) -> Result<(u16, Value), String> {
        let authority = self.pki.file("api/ca-cert.pem");
        let mut command = self.lab.command("curl");
        command.args(["-sS", "-m", "20", "-w", "\n%{http_code}", "--cacert"]).arg(authority);
        if let Some(Certificate { key, cert }) = shown {
            command.arg("--key").arg(key).arg("--cert").arg(cert);
        }
        let output = command.args(more).arg(format!("{TLS}{path}")).output();
        let output = output.map_err(|error| error.to_string())?;
        if !output.status.success() {
            let error = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{}: {error}", output.status));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let (body, status) = text.trim().rsplit_once('\n').unwrap_or(("", text.trim()));
        let status = status.parse().map_err(|_| text.to_string())?;
        Ok((status, serde_json::from_str(body).unwrap_or(Value::Null)))
    }

    fn status(
        &self,
        path: &str,
        shown: Option<&Certificate>,
        more: &[&str],
    ) -> Result<u16, String> {
        self.curl(path, shown, more).map(|(status, _)| status)
    }

    /// Issues a certificate that `rosemary pki` would not: with these URIs, this purpose and this end, by the authority in `dir`.
    fn issue(
        &self,
        (dir, name): (&str, &str),
        uris: &[&str],
        purpose: ExtendedKeyUsagePurpose,
        end: SystemTime,
    ) -> anyhow::Result<Certificate> {
        let read = |file: &str| fs::read_to_string(self.pki.file(dir).join(file));
        let authority = KeyPair::from_pem(&read("ca-key.pem")?)?;
        let authority = Issuer::from_ca_cert_pem(&read("ca-cert.pem")?, authority)?;
        let mut params = CertificateParams::default();
        params.not_before = (end - 9 * DAY).into();
        params.not_after = end.into();
        params.extended_key_usages = vec![purpose];
        for uri in uris {
            params.subject_alt_names.push(SanType::URI((*uri).try_into()?));
        }
        let key = KeyPair::generate()?;
        let file = |part: &str| self.lab.files().join(format!("{name}-{part}.pem"));
        let shown = Certificate { key: file("key"), cert: file("cert") };
        fs::write(&shown.key, key.serialize_pem())?;
        fs::write(&shown.cert, params.signed_by(&key, &authority)?.pem())?;
        Ok(shown)
    }
}

fn client() -> ExtendedKeyUsagePurpose {
    ExtendedKeyUsagePurpose::ClientAuth
}

fn soon() -> SystemTime {
    SystemTime::now() + DAY
}
