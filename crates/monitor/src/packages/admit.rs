//! Admits or refuses a package: compares the findings of `rosemary-security` with the operator's trust policy.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use control::security::{SecurityReply, SecurityRequest, SignedPackage};
use sys::digest::sealed_with_sha256;

use super::{PackageFiles, Refused};
use crate::error::StartError;
use crate::installation::Installation;
use crate::one_shot;
use crate::users::Users;
use config::{AppConfig, Manifest, Trust};

/// Admits packages by the operator's trust policy.
#[derive(Debug)]
pub struct Gate<'a> {
    program: PathBuf,
    users: Users,
    trust: &'a [Trust],
}

/// An admitted package.
#[derive(Debug)]
pub struct Admitted<'a> {
    /// Its manifest, whose requests the trust policy allows.
    pub manifest: Manifest,
    /// The trust policy of its developer.
    pub trust: &'a Trust,
    /// The SHA-256 of the package, in hexadecimal digits.
    pub sha256: String,
    /// The object, sealed.
    pub object: OwnedFd,
    /// The SHA-256 of the object, in hexadecimal digits.
    pub object_sha256: String,
}

impl<'a> Gate<'a> {
    /// Creates a gate with these trust policies.
    ///
    /// # Errors
    /// [`StartError`]: `rosemary-security` is missing, or the available users cannot be determined.
    pub fn new(trust: &'a [Trust]) -> Result<Self, StartError> {
        Ok(Self { program: Installation::security()?, users: Users::find()?, trust })
    }

    /// Admits a package that is not installed, of any app.
    ///
    /// # Errors
    /// [`Refused`] with the reason.
    pub fn admit_new(&self, files: &PackageFiles) -> Result<Admitted<'a>, Refused> {
        self.admit(files, None)
    }

    /// Admits the installed package of the app `name`. Its signature must have the form that the installation writes, so
    /// that every change of the file is noticed.
    ///
    /// # Errors
    /// [`Refused`] with the reason.
    pub fn admit_installed(
        &self,
        files: &PackageFiles,
        name: &str,
    ) -> Result<Admitted<'a>, Refused> {
        self.admit(files, Some(name))
    }

    /// Admits the installed package of an app, or a new package if none is named.
    fn admit(
        &self,
        files: &PackageFiles,
        installed: Option<&str>,
    ) -> Result<Admitted<'a>, Refused> {
        let request = SecurityRequest::InspectPackage {
            run_as: self.users.for_nobody(),
            keys: self.trust.iter().map(|trust| trust.key.to_string()).collect(),
            installed: installed.is_some(),
        };
        let fds = [files.package.as_fd(), files.signature.as_fd()];
        let signed = match one_shot::request(&self.program, &request, &fds)
            .map_err(Refused::Unknown)?
        {
            SecurityReply::Signed(signed) => signed,
            SecurityReply::Refused { why } => return Err(Refused::Package(why)),
            SecurityReply::Failed { why } => return Err(Refused::Unknown(io::Error::other(why))),
            SecurityReply::KeysUsable { .. }
            | SecurityReply::KeysUnusable { .. }
            | SecurityReply::Backtrace { .. } => {
                return Err(unexpected("it replied to another request"));
            }
        };
        let trust = self.trust.get(signed.key);
        let trust = trust
            .ok_or_else(|| unexpected("it was signed with a key that is not in the request"))?;
        let manifest = allowed(trust, &signed, installed)?;
        let (object, object_sha256) = object(files, &signed).map_err(Refused::Unknown)?;
        Ok(Admitted { manifest, trust, sha256: signed.sha256, object, object_sha256 })
    }
}

impl Admitted<'_> {
    /// The name of its developer, as the trust policy gives it.
    pub fn developer(&self) -> &str {
        &self.trust.name
    }

    /// Refuses an app whose rights in the operator's configuration exceed its developer's trust policy.
    ///
    /// The operator's configuration may set any resource limits.
    ///
    /// # Errors
    /// [`Refused::ExcessiveRequest`].
    pub fn check(&self, app: &AppConfig) -> Result<(), Refused> {
        let mut app = app.clone();
        app.limits.clone_from(&self.manifest.app.limits);
        within(self.trust, &app)
    }
}

fn within(trust: &Trust, app: &AppConfig) -> Result<(), Refused> {
    match trust.too_much(app) {
        Some(more) => Err(Refused::ExcessiveRequest { trust: trust.name.clone(), more }),
        None => Ok(()),
    }
}

/// Returns the manifest of a signed package that the trust policy allows.
fn allowed(trust: &Trust, signed: &SignedPackage, name: Option<&str>) -> Result<Manifest, Refused> {
    if trust.revoked {
        let (trust, key) = (trust.name.clone(), trust.key.id().to_string());
        return Err(Refused::RevokedKey { trust, key });
    }
    if trust.revoked_packages.contains(&signed.sha256) {
        let (trust, sha256) = (trust.name.clone(), signed.sha256.clone());
        return Err(Refused::RevokedPackage { trust, sha256 });
    }
    let manifest = Manifest::parse(&signed.manifest)?;
    if let Some(expected) = name.filter(|name| *name != manifest.app.name) {
        let found = manifest.app.name;
        return Err(Refused::OtherApp { found, expected: expected.into() });
    }
    within(trust, &manifest.app)?;
    Ok(manifest)
}

/// Returns the object of a signed package in sealed memory, and its digest, which must match the reported one.
fn object(files: &PackageFiles, signed: &SignedPackage) -> io::Result<(OwnedFd, String)> {
    let (at, size) = signed.object;
    let package = File::from(files.package.try_clone()?);
    let (object, found) = sealed_with_sha256("object", &range(&package, at, size)?)?;
    if found != signed.object_sha256 {
        return Err(io::Error::other("rosemary-security reported a wrong digest of the object"));
    }
    Ok((object, found))
}

/// Reads `size` bytes of `file` from offset `at`. Fails if the file is shorter.
fn range(file: &File, at: usize, size: usize) -> io::Result<Vec<u8>> {
    let there = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
    if at.checked_add(size).is_none_or(|end| end > there) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut bytes = vec![0; size];
    file.read_exact_at(&mut bytes, at as u64)?;
    Ok(bytes)
}

/// The error about a report that cannot be true.
fn unexpected(what: &str) -> Refused {
    Refused::Unknown(io::Error::other(format!("rosemary-security reported that {what}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::Config;

    const MANIFEST: &str = "name = \"hub\"\nversion = \"1.0.0\"\ncapabilities = [\"flow.write\"]";

    fn trust(keys: &str) -> Trust {
        let text = format!(
            "[[trust]]\nname = \"acme\"\n\
             key = \"RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3\"\n{keys}"
        );
        Config::parse("/rosemary.toml".into(), text).unwrap().trust.remove(0)
    }

    fn signed(manifest: &str) -> SignedPackage {
        SignedPackage {
            key: 0,
            sha256: "ab".repeat(32),
            manifest: manifest.into(),
            object: (2, 6),
            object_sha256: package::sha256(b"object"),
        }
    }

    #[test]
    fn each_refusal_names_its_reason() {
        let says = |keys: &str, manifest: &str, name| {
            allowed(&trust(keys), &signed(manifest), name).unwrap_err().to_string()
        };
        let granted = "capabilities = [\"flow.write\"]";
        assert!(allowed(&trust(granted), &signed(MANIFEST), Some("hub")).is_ok());
        let text = says("revoked = true", MANIFEST, None);
        assert!(text.contains("E7620F1842B4E81F, which was revoked"), "{text}");
        let revoked = format!("{granted}\nrevoked-packages = [\"{}\"]", "AB".repeat(32));
        let text = says(&revoked, MANIFEST, None);
        assert!(text.contains("this package was revoked"), "{text}");
        let text = says(granted, MANIFEST, Some("firewall"));
        assert!(text.contains("of the app hub, not of firewall"), "{text}");
        let text = says("", MANIFEST, None);
        assert!(text.contains("flow.write") && text.contains("\"acme\" allows"), "{text}");
        let text = says(granted, "name = \"hub\"", None);
        assert!(text.contains("app.toml:1:1: version is missing"), "{text}");
    }

    #[test]
    fn object_that_differs_from_report_is_refused() {
        let sealed = |bytes: &[u8]| sys::shm::sealed_copy("package", bytes).unwrap();
        let files = PackageFiles { package: sealed(b"..object"), signature: sealed(b"") };
        let (memory, digest) = object(&files, &signed("")).unwrap();
        assert_eq!(digest, sys::digest::sha256(&File::from(memory)).unwrap());
        for range in [(0, 6), (2, 5), (2, 7), (usize::MAX, 6), (9, 0)] {
            let signed = SignedPackage { object: range, ..signed("") };
            assert!(object(&files, &signed).is_err(), "{range:?}");
        }
    }
}
