//! `fs.read`: an app sees the granted files read-only.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::{Context as _, ensure};
use cli::lab::Rosemary;
use control::operator::ProgramState;
use rosemary_tests::apps::{configure, in_c_with};
use rosemary_tests::net::SOON;
use rosemary_tests::{in_a_lab, rosemary_binary};

#[test]
fn granted_files_are_read_only() {
    in_a_lab(|lab| {
        let dir = lab.files().join("granted");
        fs::create_dir(&dir)?;
        fs::write(dir.join("data"), "rosmarinus")?;
        fs::write(lab.files().join("secret"), "secret")?;
        symlink("/etc/passwd", dir.join("link"))?;
        let define = format!("-DGRANTED=\"{}\"", dir.display());
        let keys = format!("capabilities = [\"packet-out\", \"fs.read:{}\"]", dir.display());
        let reader = in_c_with(lab, "reader", "apps/reader.c", &keys, &["-std=gnu11", &define])?;
        configure(&[&reader])?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        rosemary.wait_for_log(&["app: reader: DONE"], SOON)?;
        let log = rosemary.log();
        ensure!(log.contains("app: reader: READ rosmarinus"), "{log}");
        ensure!(!log.contains("app: reader: GOT"), "{log}");
        assert_eq!(log.lines().filter(|line| line.contains("app: reader: REFUSED")).count(), 7);
        Ok(())
    });
}

#[test]
fn grant_of_rosemarys_directories_is_rejected() {
    in_a_lab(|lab| {
        fs::create_dir_all("/etc/rosemary/pki")?;
        configure(&["[[app]]\nname = \"learning-switch\"\ncapabilities = [\"fs.read:/etc\"]\n"])?;
        let refused = lab.run(&rosemary_binary().display().to_string(), &["up"]);
        let refused = refused.expect_err("it does not start").to_string();
        ensure!(refused.contains("app learning-switch: fs.read:/etc: it would show"), "{refused}");
        Ok(())
    });
}

#[test]
fn grant_of_rosemarys_directories_by_mount_is_rejected() {
    in_a_lab(|lab| {
        let own = Path::new("/var/lib/rosemary");
        fs::create_dir_all(own.join("apps"))?;
        let elsewhere = lab.files().join("elsewhere");
        for (mounted, granted) in [(own.join("apps"), ""), (own.into(), "apps")] {
            let granted = elsewhere.join(granted);
            fs::create_dir_all(&elsewhere)?;
            let path = |path: &Path| path.display().to_string();
            lab.run("mount", &["--bind", &path(&mounted), &path(&elsewhere)])?;
            let keys = format!("capabilities = [\"packet-out\", \"fs.read:{}\"]", path(&granted));
            configure(&[&format!("[[app]]\nname = \"learning-switch\"\n{keys}\n")])?;
            let mut command = lab.command(rosemary_binary());
            command.arg("up");
            let up = lab.start("rosemary", command)?;
            lab.wait_for("it is refused", SOON, |evidence| {
                evidence.0 = up.stderr();
                let why = "it would show /var/lib/rosemary, which is Rosemary's own";
                Ok(evidence.0.contains(why).then_some(()))
            })?;
            ensure!(!up.stderr().contains("app was loaded"), "{}", up.stderr());
            drop(up);
            lab.run("umount", &[&path(&elsewhere)])?;
        }
        Ok(())
    });
}

#[test]
fn changed_path_of_a_grant_is_rejected() {
    in_a_lab(|lab| {
        let (dir, link) = (lab.files().join("granted"), lab.files().join("link"));
        fs::create_dir(&dir)?;
        symlink(&dir, &link)?;
        let keys = format!("capabilities = [\"packet-out\", \"fs.read:{}\"]", link.display());
        let app = format!("[[app]]\nname = \"learning-switch\"\n{keys}\n");
        configure(&[&app])?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        rosemary.wait_for_log(&["app was connected"], SOON)?;
        fs::remove_file(&link)?;
        symlink("/proc/1", &link)?;
        let status = rosemary.status()?.context("it answers")?;
        let pid = status.app("learning-switch").and_then(|app| app.pid).context("it runs")?;
        rosemary_tests::kill(pid)?;
        let words = ["app failed", "cannot be shown to the app", "the system's own state; grant"];
        println!("{}", rosemary.wait_for_log(&words, SOON)?);
        fs::remove_file(&link)?;
        println!("{}", rosemary.wait_for_log(&["app failed", "create it, or remove it"], SOON)?);
        symlink(&dir, &link)?;
        rosemary.wait_for("it runs again", SOON, |status| {
            (status.app("learning-switch")?.state == ProgramState::Running).then_some(())
        })?;
        Ok(())
    });
}
