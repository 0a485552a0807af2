//! Tests unfinished, complete and damaged files.

use redb::TableDefinition;
use rustix::io::Errno;

use super::*;

const TABLE: TableDefinition<'_, u64, u64> = TableDefinition::new("numbers");

fn store(file: &File) -> DiskStore<File> {
    let tables = |begun: &WriteTransaction| {
        begun.open_table(TABLE)?;
        Ok(())
    };
    DiskStore::new(file.try_clone().unwrap(), Schema { cache: 1 << 20, tables })
}

fn bytes(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(file.metadata().unwrap().len()).unwrap()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

#[test]
fn unfinished_file_is_recreated() {
    let file = tempfile::tempfile().unwrap();
    for (len, head) in
        [(5, &b""[..]), (1 << 20, &b""[..]), (2 << 20, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 4])]
    {
        file.set_len(0).unwrap();
        file.set_len(len).unwrap();
        file.write_all_at(head, 0).unwrap();
        store(&file).with(|_| Ok(())).unwrap();
    }
}

#[test]
fn file_without_header_is_an_error_and_unchanged() {
    let file = tempfile::tempfile().unwrap();
    store(&file).with(|_| Ok(())).unwrap();
    for len in [9, 4096] {
        file.write_all_at(&vec![0; len], 0).unwrap();
        let before = bytes(&file);
        let error = store(&file).with(|_| Ok(())).unwrap_err();
        assert!(matches!(error, DiskError::Damaged(_)), "{error}");
        assert!(error.remedy(ServiceKind::Log).unwrap().contains("log.redb"));
        assert_eq!(bytes(&file), before, "the file is unchanged");
    }
}

#[test]
fn foreign_or_truncated_file_is_damaged() {
    let version = |file: &File| {
        for place in [64, 192] {
            file.write_all_at(&[9], place).unwrap();
        }
    };
    let cut = |file: &File| file.set_len(file.metadata().unwrap().len() / 2).unwrap();
    for damage in [&version as &dyn Fn(&File), &cut] {
        let file = tempfile::tempfile().unwrap();
        store(&file).with(|_| Ok(())).unwrap();
        damage(&file);
        let error = store(&file).with(|_| Ok(())).unwrap_err();
        assert!(matches!(error, DiskError::Damaged(_)), "{error}");
    }
}

/// A sound file that the system fails to open or to read with this error.
#[derive(Debug)]
struct FailingDisk {
    file: File,
    at_opening: Option<i32>,
    at_reading: Option<i32>,
}

#[derive(Debug)]
struct FailingFile(OwnFile, Option<i32>);

fn fail(error: Option<i32>) -> io::Result<()> {
    error.map_or(Ok(()), |error| Err(io::Error::from_raw_os_error(error)))
}

impl Disk for &mut FailingDisk {
    fn backend(&self) -> io::Result<impl StorageBackend> {
        fail(self.at_opening)?;
        Ok(FailingFile(OwnFile(self.file.try_clone()?), self.at_reading))
    }
}

impl StorageBackend for FailingFile {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        fail(self.1)?;
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }
}

#[test]
fn system_error_is_not_reported_as_damage() {
    let [eio, enomem, emfile] = [Errno::IO, Errno::NOMEM, Errno::MFILE].map(Errno::raw_os_error);
    let file = tempfile::tempfile().unwrap();
    let schema = store(&file).schema;
    store(&file).with(|_| Ok(())).unwrap();
    let mut ill = FailingDisk { file, at_opening: None, at_reading: None };
    for (at_opening, at_reading) in
        [(Some(emfile), None), (Some(enomem), None), (None, Some(eio)), (None, Some(enomem))]
    {
        (ill.at_opening, ill.at_reading) = (at_opening, at_reading);
        let error = DiskStore::new(&mut ill, schema).with(|_| Ok(())).unwrap_err();
        assert!(matches!(error, DiskError::Failed(_)), "{error}");
        assert_eq!(error.remedy(ServiceKind::Log), None);
    }
    (ill.at_opening, ill.at_reading) = (None, None);
    DiskStore::new(&mut ill, schema).with(|_| Ok(())).unwrap();
}
