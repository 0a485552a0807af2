//! Replaces a damaged file, so that a loss of power at any moment leaves the old content or the whole new one.
//!
//! The new content is written to a file of another name, made durable, read again and compared with its digest. Only then it gets the
//! name of the damaged file, which is made durable last. A file that was left by an earlier attempt is written again.

use std::io;

use crate::manifest::Entry;
use crate::tree::Disk;

/// Replaces the file of `entry` by `content`, whose digest the caller has checked.
///
/// # Errors
/// The system refuses it, or what was written reads back differently. The path then has its old content.
pub(crate) fn replace(disk: &mut impl Disk, entry: &Entry, content: &[u8]) -> io::Result<()> {
    let (dir, name) = entry
        .path
        .rsplit_once('/')
        .map_or((String::new(), &*entry.path), |(dir, name)| (format!("{dir}/"), name));
    let new = format!("{dir}.{name}.rosemary-new");
    disk.make_parents(&entry.path)?;
    let written = match entry.mode {
        Some(mode) => write(disk, (&new, mode), entry, content),
        None => disk.link(&new, content),
    };
    let placed = written.and_then(|()| disk.rename(&new, &entry.path));
    if placed.is_err() {
        let _ = disk.remove(&new); // the first failure is the one to report
    }
    placed?;
    disk.sync_parent(&entry.path)
}

fn write(
    disk: &mut impl Disk,
    (new, mode): (&str, u32),
    entry: &Entry,
    content: &[u8],
) -> io::Result<()> {
    disk.write(new, content, mode)?;
    disk.sync(new)?;
    if package::sha256(&disk.read(new, entry.size)?) != entry.sha256 {
        return Err(io::Error::other("the disk returned other bytes than were written"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
