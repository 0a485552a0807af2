//! Files that were begun, finished and damaged.

use redb::TableDefinition;

use super::*;

const TABLE: TableDefinition<'_, u64, u64> = TableDefinition::new("numbers");

fn store(file: &File) -> Store<File> {
    let tables = |begun: &WriteTransaction| {
        begun.open_table(TABLE)?;
        Ok(())
    };
    Store::new(file.try_clone().unwrap(), Form { cache: 1 << 20, tables })
}

fn bytes(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(file.metadata().unwrap().len()).unwrap()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

#[test]
fn file_that_nobody_has_finished_begins_anew() {
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
fn file_that_has_lost_its_head_is_an_error_and_stays_as_it_is() {
    let file = tempfile::tempfile().unwrap();
    store(&file).with(|_| Ok(())).unwrap();
    for len in [9, 4096] {
        file.write_all_at(&vec![0; len], 0).unwrap();
        let before = bytes(&file);
        let error = store(&file).with(|_| Ok(())).unwrap_err();
        assert!(matches!(error, DiskError::Failed(_)), "{error}");
        assert!(error.way_out(Kind::Log).unwrap().contains("log.redb"));
        assert_eq!(bytes(&file), before, "nothing is written over it");
    }
}
