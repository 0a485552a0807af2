//! Certificates of hostile switches: invalid, for other purposes, with strange names, and chains of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

use anyhow::ensure;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    SanType,
};
use rosemary_tests::developer::rosemary;
use rosemary_tests::in_a_lab_without_capture_for;
use rosemary_tests::net::{Net, SOON};
use rosemary_tests::pki::Pki;
use rosemary_tests::verdicts::Verdicts;

use super::users::curl;
use super::{
    Bed, Certificate, DAY, LIMIT, claim, dns, dpid_uri, issue, none_admitted, start, stored,
    unharmed, uri,
};

#[test]
#[ignore = "an attack of `make hostile`"]
fn certificates_of_hostile_switches_admit_nobody() {
    in_a_lab_without_capture_for(LIMIT, |lab| {
        let Bed { mut net, pki } = start(lab)?;
        let mut verdicts = Verdicts::default();
        let mut attack = |name: &str, attack: &dyn Fn(&mut Net<'_>) -> anyhow::Result<String>| {
            verdicts.beside(&mut net, name, |net| unharmed(net, attack));
        };
        attack("switches with expired and other invalid certificates", &|net| invalid(net, &pki));
        attack("an authority with the same name as the true one", &|net| same_names(net, &pki));
        attack("certificates of users and of the controller at switches' port", &|net| {
            other_purposes(net, &pki)
        });
        attack("claims of datapaths that the certificate does not name", &|net| others(net, &pki));
        attack("names with NUL, control characters and other spellings", &|net| {
            spellings(net, &pki)
        });
        attack("certificates with thousands of names and long names", &|net| many(net, &pki));
        attack("chains of many authorities", &|net| chains(net, &pki));
        verdicts.finish()
    });
}

fn invalid(net: &mut Net<'_>, pki: &Pki<'_>) -> anyhow::Result<String> {
    let (lab, dpid) = (net.lab, net.s1.dpid());
    let by = (lab, Path::new(pki.dir()));
    let named = |params: &mut CertificateParams| -> anyhow::Result<()> {
        params.subject_alt_names = vec![uri(&dpid_uri(&net.s1.dpid()))?];
        Ok(())
    };
    let now = SystemTime::now();
    let expired = issue(by, "expired", |params| {
        (params.not_before, params.not_after) = ((now - 9 * DAY).into(), (now - DAY / 24).into());
        named(params)
    })?;
    let future = issue(by, "future", |params| {
        (params.not_before, params.not_after) = ((now + DAY / 24).into(), (now + DAY).into());
        named(params)
    })?;
    let reversed = issue(by, "reversed", |params| {
        (params.not_before, params.not_after) = ((now + DAY).into(), (now - DAY).into());
        named(params)
    })?;
    let server = issue(by, "server", |params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        named(params)
    })?;
    let authority = issue(by, "authority", |params| {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        named(params)
    })?;
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::default();
    named(&mut params)?;
    let alone = stored(lab, "alone", &params.self_signed(&key)?.pem(), &key)?;
    let mut seen = Vec::new();
    for (name, shown) in [
        ("expired", &expired),
        ("future", &future),
        ("reversed", &reversed),
        ("server", &server),
        ("authority", &authority),
        ("self-signed", &alone),
    ] {
        seen.push(format!("{name} {}", none_admitted(lab, name, shown, &[&dpid])?));
    }
    Ok(seen.join(", "))
}

/// A false authority has the subject, and its switches the names, of the true ones.
fn same_names(net: &mut Net<'_>, pki: &Pki<'_>) -> anyhow::Result<String> {
    let (lab, dpid) = (net.lab, net.s1.dpid());
    let true_authority = pki.file("ca-cert.pem").display().to_string();
    let subject = lab.run("openssl", &["x509", "-in", &true_authority, "-noout", "-subject"])?;
    let false_dir = lab.files().join("false");
    fs::create_dir(&false_dir)?;
    let key = KeyPair::generate()?;
    // The same subject and extensions, by the true certificate itself: only the key is another.
    let config = lab.files().join("copy.pem");
    fs::copy(&true_authority, &config)?;
    let file = |name: &str| false_dir.join(name).display().to_string();
    fs::write(file("ca-key.pem"), key.serialize_pem())?;
    let config = config.display().to_string();
    let made = file("ca-cert.pem");
    let args = ["x509", "-in", &config, "-signkey", &file("ca-key.pem"), "-days", "9", "-out"];
    lab.run("openssl", &[&args[..], &[&made]].concat())?;
    let copied = lab.run("openssl", &["x509", "-in", &made, "-noout", "-subject"])?;
    ensure!(copied == subject, "{copied} is not {subject}");
    let forged = issue((lab, &false_dir), "forged", |params| {
        params.subject_alt_names = vec![uri(&dpid_uri(&dpid))?];
        Ok(())
    })?;
    let mut seen = none_admitted(lab, "forged", &forged, &[&dpid, "00:00:00:00:00:00:00:77"])?;
    // The forged certificate, and the true authority's behind it.
    for (number, more) in [&true_authority, &made].into_iter().enumerate() {
        let chained = lab.files().join(format!("forged-chain{number}.pem"));
        fs::write(&chained, [fs::read(&forged.cert)?, fs::read(more)?].concat())?;
        let shown = Certificate { cert: chained, key: forged.key.clone() };
        seen.push(' ');
        seen += &none_admitted(lab, "chained", &shown, &[&dpid])?;
    }
    Ok(format!("the same subject, {}: {seen}", subject.trim()))
}

fn other_purposes(net: &mut Net<'_>, pki: &Pki<'_>) -> anyhow::Result<String> {
    let (lab, dpid) = (net.lab, net.s1.dpid());
    rosemary(lab, &["pki", "user", "mallory", "--role", "admin", "--dir", pki.dir()])?;
    let pair = |cert: &str, key: &str| Certificate { cert: pki.file(cert), key: pki.file(key) };
    let user = pair("users/mallory/cert.pem", "users/mallory/key.pem");
    let controller = pair("controller-cert.pem", "controller-key.pem");
    let api = pair("api/cert.pem", "api/key.pem");
    let both = issue((lab, Path::new(pki.dir())), "both", |params| {
        let names = ["rosemary:user:admin:mallory".to_owned(), dpid_uri(&dpid)];
        params.subject_alt_names = vec![uri(&names[0])?, uri(&names[1])?];
        Ok(())
    })?;
    let mut seen = Vec::new();
    for (name, shown) in
        [("user", &user), ("controller", &controller), ("api", &api), ("both", &both)]
    {
        seen.push(format!("{name} {}", none_admitted(lab, name, shown, &[&dpid, "77"])?));
    }
    // And the reverse: the certificate of a switch at the interface of users.
    let switch = pki.switch("thief", &[])?;
    let switch = Certificate { cert: switch.cert, key: switch.key };
    let answer = curl(lab, pki, &switch);
    ensure!(answer.is_err(), "the interface answers {answer:?} to a switch");
    Ok(seen.join(", "))
}

fn others(net: &mut Net<'_>, pki: &Pki<'_>) -> anyhow::Result<String> {
    let (lab, dpid) = (net.lab, net.s1.dpid());
    let thief = pki.switch("thief77", &["--dpid", "0x77"])?;
    let thief = Certificate { cert: thief.cert, key: thief.key };
    let claims = [
        dpid.as_str(),
        "ffffffffffffffff",
        "0000000000000000",
        "0100000000000077",
        "0000000000000177",
        "7700000000000000",
    ];
    let seen = none_admitted(lab, "thief", &thief, &claims)?;
    // Claims of somebody else's datapath do not lock its owner's next claim out.
    let own = claim(lab, &thief, &["0000000000000077"])?;
    ensure!(own == ["admitted"], "its own datapath: {own:?}");
    net.rosemary.wait_for("only s1 is known", SOON, |status| {
        (status.switches.as_ref()?.len() == 1).then_some(())
    })?;
    Ok(seen)
}

/// Names that a careless reader would take for the datapath's: cut off at a NUL, folded, or decoded.
fn spellings(net: &mut Net<'_>, pki: &Pki<'_>) -> anyhow::Result<String> {
    let (lab, dpid) = (net.lab, net.s1.dpid());
    let good = dpid_uri(&dpid);
    let evil = "\u{1b}]0;owned\u{7}\u{1b}[2J\r\n2026-01-01T00:00:00Z ERROR forged";
    let names: Vec<Vec<SanType>> = vec![
        vec![uri(&format!("{good}\0"))?],
        vec![uri(&format!("{good}\0.example.org"))?],
        vec![uri(&format!("rosemary:dpid:00:00:00:00:00:00:00:77\0{good}"))?],
        vec![uri(&format!("{good}\n"))?],
        vec![uri(&format!(" {good}"))?],
        vec![uri(&format!("{good}{evil}"))?],
        vec![uri(&good.to_uppercase())?],
        vec![uri(&good.replace("dpid", "%64pid"))?],
        vec![uri(&good.replace("dpid", "%2564pid"))?],
        vec![uri(&good.replace(':', "%3a"))?],
        vec![uri("rosemary:dpid:0x1")?],
        vec![uri("rosemary:dpid:")?],
        vec![uri(&format!("{good}/"))?],
        vec![uri(&format!("{good}?x"))?],
        vec![uri(&format!("x:{good}"))?],
        vec![dns(&good)?],
        vec![dns(&format!("{good}\0.example.org"))?],
        vec![SanType::Rfc822Name(good.as_str().try_into()?)],
        vec![uri(&good)?, dns(&good)?],
        vec![uri(&good)?, uri("rosemary:dpid:all")?],
    ];
    let count = names.len();
    let by = (lab, Path::new(pki.dir()));
    for (number, names) in names.into_iter().enumerate() {
        let what = format!("{names:?}");
        let shown = issue(by, &format!("spelt{number}"), |params| {
            params.subject_alt_names = names;
            Ok(())
        })?;
        none_admitted(lab, &what, &shown, &[&dpid])?;
    }
    for (number, (kind, text)) in [
        (DnType::CommonName, good.clone()),
        (DnType::OrganizationName, format!("rosemary\0:dpid:{evil}")),
        (DnType::CommonName, format!("{evil}{good}{evil}")),
    ]
    .into_iter()
    .enumerate()
    {
        let shown = issue(by, &format!("subject{number}"), |params| {
            params.distinguished_name.push(kind, text);
            Ok(())
        })?;
        none_admitted(lab, &format!("subject {number}"), &shown, &[&dpid])?;
    }
    let forged = net.rosemary.log().lines().filter(|line| line.starts_with("2026-01-01")).count();
    ensure!(forged == 0, "{forged} forged lines are in the log");
    Ok(format!("{} certificates refused", count + 3))
}

/// Certificates of the true authority that are expensive to read. None names s1's datapath, so none may claim it.
fn many(net: &mut Net<'_>, pki: &Pki<'_>) -> anyhow::Result<String> {
    let (lab, dpid) = (net.lab, net.s1.dpid());
    let by = (lab, Path::new(pki.dir()));
    let range = |count: u64| (0x1000..0x1000 + count).map(|id| openflow::Dpid(id).to_string());
    let all =
        |names: Vec<String>| names.iter().map(|it| uri(it)).collect::<anyhow::Result<Vec<_>>>();
    let kinds: Vec<(&str, Vec<SanType>)> = vec![
        ("600 datapaths", all(range(600).map(|it| dpid_uri(&it)).collect())?),
        ("3,000 datapaths", all(range(3_000).map(|it| dpid_uri(&it)).collect())?),
        ("a datapath 600 times", all(vec![dpid_uri("00:00:00:00:00:00:00:77"); 600])?),
        ("a name of 25,000 bytes", vec![uri(&format!("rosemary:dpid:{}", "0".repeat(25_000)))?]),
        ("a name of 60,000 bytes", vec![uri(&format!("rosemary:dpid:{}", ":".repeat(60_000)))?]),
        ("nested encodings", vec![uri(&format!("rosemary:dpid:{}", "%25".repeat(8_000)))?]),
        ("2,000 other names", {
            let names = (0..2_000).map(|it| dns(&format!("a{it}.dpid.example")));
            let mut names = names.collect::<anyhow::Result<Vec<_>>>()?;
            names.push(uri(&dpid_uri("00:00:00:00:00:00:00:77"))?);
            names
        }),
    ];
    let mut seen = Vec::new();
    for (number, (name, names)) in kinds.into_iter().enumerate() {
        let shown = issue(by, &format!("many{number}"), |params| {
            params.subject_alt_names = names;
            Ok(())
        })?;
        let begin = Instant::now();
        let outcome = none_admitted(lab, name, &shown, &[&dpid])?;
        seen.push(format!("{name} {outcome} in {:.1?}", begin.elapsed()));
    }
    Ok(seen.join(", "))
}

/// A chain of authorities below the true one, and a long chain that does not lead to it.
fn chains(net: &mut Net<'_>, pki: &Pki<'_>) -> anyhow::Result<String> {
    let (lab, dpid) = (net.lab, net.s1.dpid());
    let mut seen = Vec::new();
    for (depth, is_ours) in [(40, true), (40, false), (120, false)] {
        let dir = if is_ours {
            PathBuf::from(pki.dir())
        } else {
            let dir = lab.files().join(format!("stranger{depth}"));
            rosemary(lab, &["pki", "init", "--dir", &dir.display().to_string()])?;
            dir
        };
        let read = |file: &str| fs::read_to_string(dir.join(file));
        let mut issuer = Issuer::from_ca_cert_pem(
            &read("ca-cert.pem")?,
            KeyPair::from_pem(&read("ca-key.pem")?)?,
        )?;
        let mut pems = Vec::new();
        for _ in 0..depth {
            let key = KeyPair::generate()?;
            let mut params = CertificateParams::default();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            // All have the same name, so that each could be the issuer of each.
            params.distinguished_name.push(DnType::CommonName, "authority");
            pems.push(params.signed_by(&key, &issuer)?.pem());
            issuer = Issuer::new(params, key);
        }
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.subject_alt_names = vec![uri(&dpid_uri("00:00:00:00:00:00:00:77"))?];
        pems.push(params.signed_by(&key, &issuer)?.pem());
        pems.reverse();
        let name = format!("chain{depth}{is_ours}");
        let shown = stored(lab, &name, &pems.concat(), &key)?;
        let begin = Instant::now();
        let outcome = none_admitted(lab, &name, &shown, &[&dpid])?;
        seen.push(format!("{depth} authorities {outcome} in {:.1?}", begin.elapsed()));
    }
    Ok(seen.join(", "))
}
