//! Writes and reads the encrypted archive.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek as _, Write};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use age::secrecy::SecretString;
use anyhow::{Context as _, anyhow, bail};
use rustix::fs::OFlags;

use super::sources::{DEEPEST, Kind, MOST_ENTRIES, Source};

/// How often a file that changes is read until two readings agree.
const READINGS: usize = 20;

/// Pause between them.
const PAUSE: Duration = Duration::from_millis(250);

/// Highest cost of a password that `restore` computes, as a power of two: 2^20 takes about 1 GiB and some seconds.
const MAX_WORK_FACTOR: u8 = 20;

/// The longest name of an entry, in bytes.
const LONGEST_NAME: u64 = 4096;

/// The directories of the archive.
pub(super) const PARTS: [&str; 3] = ["config", "pki", "state"];

/// Writes the archive to `file`, which appears only when it is complete.
///
/// # Errors
/// A source cannot be read, or the file exists or cannot be written.
pub(super) fn write(
    file: &Path,
    replace: bool,
    password: &str,
    sources: &[Source],
) -> anyhow::Result<()> {
    let dir = match file.parent() {
        Some(dir) if dir != Path::new("") => dir,
        _ => Path::new("."),
    };
    let cannot = || format!("cannot write {}", file.display());
    // Such a file has the mode 0600.
    let new = tempfile::Builder::new()
        .prefix(".rosemary-backup-")
        .tempfile_in(dir)
        .with_context(cannot)?;
    let mut recipient = age::scrypt::Recipient::new(secret(password));
    if cfg!(test) {
        recipient.set_work_factor(2); // otherwise each backup takes a second, in parallel much longer
    }
    let encryptor =
        age::Encryptor::with_recipients(std::iter::once(&recipient as &dyn age::Recipient))
            .with_context(cannot)?;
    let output = encryptor.wrap_output(BufWriter::new(new.as_file())).with_context(cannot)?;
    let mut tar = tar::Builder::new(output);
    for source in sources {
        append(&mut tar, source)?;
    }
    let output =
        tar.into_inner().and_then(age::stream::StreamWriter::finish).with_context(cannot)?;
    output
        .into_inner()
        .map_err(io::IntoInnerError::into_error)
        .with_context(cannot)?
        .sync_all()
        .with_context(cannot)?;
    if replace {
        new.persist(file).map_err(|error| error.error).with_context(cannot)?;
    } else {
        new.persist_noclobber(file).map_err(|error| error.error).with_context(cannot)?;
    }
    Ok(())
}

fn append(tar: &mut tar::Builder<impl Write>, source: &Source) -> anyhow::Result<()> {
    let cannot = || format!("cannot save {}", source.path.display());
    let mut header = tar::Header::new_gnu();
    header.set_mode(source.mode);
    header.set_mtime(0);
    match source.kind {
        Kind::Directory => {
            header.set_entry_type(tar::EntryType::Directory);
            header.set_size(0);
            tar.append_data(&mut header, format!("{}/", source.name), io::empty())
                .with_context(cannot)
        }
        Kind::File => {
            let mut copy = steady_copy(&source.path).with_context(cannot)?;
            header.set_entry_type(tar::EntryType::Regular);
            header.set_size(
                copy.seek(io::SeekFrom::End(0))
                    .and_then(|size| copy.rewind().map(|()| size))
                    .with_context(cannot)?,
            );
            tar.append_data(&mut header, &source.name, BufReader::new(copy)).with_context(cannot)
        }
    }
}

/// Copies the file at `path` into a file without a name beside it, in the state that it had at one moment.
///
/// A file may be written meanwhile. If a second reading agrees with the copy, nothing was written between the end of the
/// first and the beginning of the second: the storage, like the other files, never returns to an earlier content of the
/// same length. So the copy is what a loss of power at that moment would have left, which the storage repairs.
fn steady_copy(path: &Path) -> anyhow::Result<File> {
    // Not in the directory of the backup: the copy is not encrypted, and the medium of the backup may be anyone's.
    let dir = path.parent().context("it is in no directory")?;
    for reading in 0..READINGS {
        if reading > 0 {
            std::thread::sleep(PAUSE);
        }
        let mut copy = tempfile::tempfile_in(dir)?;
        io::copy(&mut open(path)?, &mut copy)?;
        copy.rewind()?;
        if is_same(&mut BufReader::new(open(path)?), &mut BufReader::new(&copy))? {
            copy.rewind()?;
            return Ok(copy);
        }
    }
    bail!("it changes all the time; try again, or stop Rosemary meanwhile")
}

fn open(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path)
}

fn is_same(one: &mut impl Read, other: &mut impl Read) -> io::Result<bool> {
    let mut buffers = [vec![0; 65_536], vec![0; 65_536]];
    loop {
        let sizes = [fill(one, &mut buffers[0])?, fill(other, &mut buffers[1])?];
        if sizes[0] != sizes[1] || buffers[0][..sizes[0]] != buffers[1][..sizes[1]] {
            return Ok(false);
        }
        if sizes[0] == 0 {
            return Ok(true);
        }
    }
}

/// Reads until `buffer` is full or the input ends, and returns the number of bytes.
fn fill(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut size = 0;
    while size < buffer.len() {
        match from.read(&mut buffer[size..]) {
            Ok(0) => break,
            Ok(more) => size += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(size)
}

/// An entry of an archive, whose name has been checked.
pub(super) struct ArchiveEntry<'a, R: Read> {
    /// One of [`PARTS`].
    pub(super) part: &'static str,
    /// The path below it: at least one ordinary component.
    pub(super) path: &'a Path,
    pub(super) kind: Kind,
    /// The permissions, without the bits for others to write.
    pub(super) mode: u32,
    /// The content of a file.
    pub(super) content: &'a mut R,
}

impl<R: Read> ArchiveEntry<'_, R> {
    /// Copies the content to `to`, a file that is shown as `path`.
    pub(super) fn copy_to(&mut self, to: &mut File, path: &Path) -> anyhow::Result<()> {
        let mut buffer = vec![0; 65_536];
        loop {
            let size = fill(self.content, &mut buffer)
                .context("the backup is damaged; use another copy of it")?;
            if size == 0 {
                return Ok(());
            }
            to.write_all(&buffer[..size])
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
}

/// Decrypts `file` and calls `take` with each entry.
///
/// # Errors
/// The file is not a backup, the password is wrong, the file is damaged or has an impossible entry, or `take` failed. Callers
/// must not use what they took before this returned: a damaged file may fail at its end.
pub(super) fn read(
    file: &Path,
    password: &str,
    mut take: impl FnMut(ArchiveEntry<'_, tar::Entry<'_, Box<dyn Read>>>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let shown = file.display();
    let opened = open(file).with_context(|| format!("cannot read {shown}"))?;
    if !opened.metadata().is_ok_and(|metadata| metadata.is_file()) {
        bail!("{shown} is not a regular file; name a file that `rosemary backup` made");
    }
    let not_ours =
        || format!("{shown} is not a backup of Rosemary; name a file that `rosemary backup` made");
    let decryptor = age::Decryptor::new_buffered(BufReader::new(opened)).with_context(not_ours)?;
    if !decryptor.is_scrypt() {
        bail!("{}", not_ours());
    }
    let mut identity = age::scrypt::Identity::new(secret(password));
    identity.set_max_work_factor(MAX_WORK_FACTOR);
    let input = match decryptor.decrypt(std::iter::once(&identity as &dyn age::Identity)) {
        Ok(input) => input,
        Err(age::DecryptError::ExcessiveWork { .. }) => {
            bail!(
                "{shown} needs more time for its password than a backup of Rosemary; it is not one"
            )
        }
        Err(error) => {
            return Err(anyhow!(error))
                .with_context(|| format!("the password is wrong, or {shown} is damaged"));
        }
    };
    let damaged = || format!("{shown} is damaged; use another copy of it");
    let mut archive = tar::Archive::new(Box::new(input) as Box<dyn Read>);
    let (mut count, mut long_name) = (0, None);
    // Raw, because the crate would read a long name of any length into memory.
    for entry in archive.entries().with_context(damaged)?.raw(true) {
        let mut entry = entry.with_context(damaged)?;
        if entry.header().entry_type().is_gnu_longname() {
            if long_name.is_some() {
                bail!("{shown} has two names for a file; it is not a backup of Rosemary");
            }
            long_name = Some(read_name(&mut entry).with_context(damaged)?);
            continue;
        }
        count += 1;
        if count > MOST_ENTRIES {
            bail!("{shown} has more than {MOST_ENTRIES} files; it is not a backup of Rosemary");
        }
        let path = match long_name.take() {
            Some(name) => name,
            None => entry.path().with_context(damaged)?.into_owned(),
        };
        let impossible =
            |why: &str| anyhow!("{shown} has an impossible entry, {}: {why}", path.display());
        let kind = match entry.header().entry_type() {
            tar::EntryType::Regular => Kind::File,
            tar::EntryType::Directory => Kind::Directory,
            _ => return Err(impossible("it is neither a file nor a directory")),
        };
        let (part, below) = checked(&path).map_err(impossible)?;
        let mode = entry.header().mode().with_context(damaged)? & 0o755;
        take(ArchiveEntry { part, path: below, kind, mode, content: &mut entry })?;
    }
    // The end of the archive is before that of the file, whose last bytes prove that none are missing.
    io::copy(&mut archive.into_inner(), &mut io::sink()).with_context(damaged)?;
    Ok(())
}

/// Reads the name of the next entry, which is too long for a header.
fn read_name(entry: &mut impl Read) -> io::Result<PathBuf> {
    let mut name = Vec::new();
    entry.take(LONGEST_NAME + 1).read_to_end(&mut name)?;
    if name.len() as u64 > LONGEST_NAME {
        return Err(io::Error::other(format!("a name has more than {LONGEST_NAME} bytes")));
    }
    name.pop_if(|last| *last == 0);
    Ok(OsString::from_vec(name).into())
}

/// Splits the path of an entry into its part and the path below.
fn checked(path: &Path) -> Result<(&'static str, &Path), &'static str> {
    let mut components = path.components();
    let Some(Component::Normal(first)) = components.next() else {
        return Err("its path is not relative");
    };
    let part =
        PARTS.into_iter().find(|part| first == *part).ok_or("it is in no directory of a backup")?;
    let below = components.as_path();
    let mut depth = 0;
    for component in below.components() {
        depth += 1;
        match component {
            Component::Normal(name) if name.len() <= 255 && name.to_str().is_some() => {}
            _ => return Err("its path leaves its directory or has an impossible name"),
        }
    }
    if depth == 0 || depth > DEEPEST {
        Err("its path is too short or too long")
    } else {
        Ok((part, below))
    }
}

fn secret(password: &str) -> SecretString {
    SecretString::from(password.to_owned())
}
