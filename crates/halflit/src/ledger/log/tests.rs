use super::*;

/// A log whose first entry is "one".
fn begin(path: &Path) -> Log {
    Log::open_or_create(path, &"one").unwrap()
}

fn append(log: &mut Log, word: &str) -> Result<(), LogError> {
    log.append(|_: &[Entry<String>]| Ok((vec![word.to_owned()], ())))
}

fn words(log: &Log) -> Vec<String> {
    log.entries().unwrap().into_iter().map(|entry| entry.body).collect()
}

#[test]
fn entries_stay_in_order_and_survive_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    for word in ["two", "three"] {
        append(&mut begin(&path), word).unwrap();
    }
    assert_eq!(words(&Log::open(&path).unwrap()), ["one", "two", "three"]);
    let names: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["ledger"], "no draft and no journal is left");
}

#[test]
fn a_refusal_appends_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = begin(&folder.path().join("ledger"));
    let refused: Result<(), LogError> =
        log.append(|_: &[Entry<String>]| Err(LogError::Missing { path: "somewhere".into() }));
    assert!(refused.is_err());
    assert_eq!(words(&log), ["one"]);
}

#[test]
fn sql_cannot_change_or_remove_entries() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    begin(&path);
    let raw = Connection::open(&path).unwrap();
    for statement in ["UPDATE entries SET body = '\"two\"'", "DELETE FROM entries"] {
        let refused = raw.execute(statement, []).unwrap_err().to_string();
        assert!(refused.contains("append-only"), "{refused}");
    }
}

#[test]
fn edits_and_cuts_behind_the_triggers_are_noticed() {
    for tampering in [
        "UPDATE entries SET body = '\"three\"' WHERE number = 1",
        "UPDATE entries SET written_at = '2000-01-01T00:00:00Z' WHERE number = 2",
        "DELETE FROM entries WHERE number = 1",
        "DELETE FROM entries WHERE number = 2",
        "DELETE FROM entries",
        "UPDATE sqlite_sequence SET seq = 1",
        "DELETE FROM sqlite_sequence",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger");
        let mut log = begin(&path);
        append(&mut log, "two").unwrap();
        let raw = Connection::open(&path).unwrap();
        raw.execute_batch("DROP TRIGGER entries_are_never_changed; DROP TRIGGER entries_are_never_removed")
            .unwrap();
        raw.execute(tampering, []).unwrap();
        assert!(matches!(log.entries::<String>(), Err(LogError::Altered { .. })), "{tampering}");
        assert!(matches!(append(&mut log, "three"), Err(LogError::Altered { .. })), "{tampering}");
    }
}

#[test]
fn other_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("data.csv");
    std::fs::write(&text, "a,b\n1,2\n".repeat(100)).unwrap();
    assert!(matches!(Log::open(&text), Err(LogError::NotALedger { .. })));
    let foreign = folder.path().join("other.sqlite");
    Connection::open(&foreign).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
    assert!(matches!(Log::open_or_create(&foreign, &"one"), Err(LogError::NotALedger { .. })));
    assert!(matches!(Log::open(&folder.path().join("none")), Err(LogError::Missing { .. })));
}

/// An emptied ledger must not be taken for a new one: that would forget what was spent.
#[test]
fn an_emptied_or_shortened_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    let mut log = begin(&path);
    for _ in 0..40 {
        append(&mut log, &"word ".repeat(60)).unwrap();
    }
    drop(log);
    let whole = fs::read(&path).unwrap();
    assert!(whole.len() > 4 * 4096, "several pages: {}", whole.len());
    let lengths =
        (0..whole.len()).step_by(509).chain((0..whole.len()).step_by(4096)).chain([1, 15, 16, 99, 100]);
    for length in lengths {
        fs::write(&path, &whole[..length]).unwrap();
        let opened = Log::open_or_create(&path, &"one").and_then(|log| log.entries::<String>());
        assert!(opened.is_err(), "{length} of {} bytes were taken for a ledger", whole.len());
        if length == 0 {
            assert!(matches!(opened, Err(LogError::Emptied { .. })));
        }
        assert!(append_at(&path).is_err(), "{length}");
    }
    fs::write(&path, &whole).unwrap();
    assert_eq!(words(&Log::open(&path).unwrap()).len(), 41);
    // All entries and their count removed with the right tools.
    let raw = Connection::open(&path).unwrap();
    raw.execute_batch(
        "DROP TRIGGER entries_are_never_removed; DELETE FROM entries; DELETE FROM sqlite_sequence; VACUUM",
    )
    .unwrap();
    assert!(matches!(append_at(&path), Err(LogError::Altered { entry: 1, .. })));
    // Nothing left but the header.
    raw.execute_batch("DROP TABLE entries; PRAGMA application_id = 0; PRAGMA user_version = 0; VACUUM")
        .unwrap();
    assert!(matches!(append_at(&path), Err(LogError::NotALedger { .. })));
}

fn append_at(path: &Path) -> Result<(), LogError> {
    append(&mut Log::open_or_create(path, &"one")?, "more")
}

/// A crash in the middle of a commit, at the worst moment: new pages are in the file, the journal is still there. Copying both is what
/// a power cut leaves.
#[test]
fn a_commit_cut_in_the_middle_never_happened() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    let mut log = begin(&path);
    append(&mut log, "two").unwrap();
    let before = fs::read(&path).unwrap();
    // A cache of one page makes SQLite write pages before the commit.
    log.connection.execute_batch("PRAGMA cache_size = 1; PRAGMA cache_spill = 1").unwrap();
    let begun = log.connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    for _ in 0..200 {
        insert(&begun, &"spill ".repeat(200)).unwrap();
    }
    let after_cut = folder.path().join("copy");
    fs::copy(&path, &after_cut).unwrap();
    fs::copy(folder.path().join("ledger-journal"), folder.path().join("copy-journal")).unwrap();
    assert_ne!(fs::read(&after_cut).unwrap(), before, "some pages were written already");
    assert_eq!(words(&Log::open(&after_cut).unwrap()), ["one", "two"]);
    drop(begun);
    assert_eq!(words(&log), ["one", "two"]);
}

#[test]
fn a_full_disk_charges_nothing_and_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    let mut log = begin(&path);
    let pages: i64 = log.connection.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
    log.connection.execute_batch(&format!("PRAGMA max_page_count = {pages}")).unwrap();
    let refused = append(&mut log, &"x".repeat(20_000)).unwrap_err();
    assert!(matches!(refused, LogError::Storage { .. }) && refused.to_string().contains("full"), "{refused}");
    assert_eq!(words(&log), ["one"]);
    assert_eq!(words(&Log::open(&path).unwrap()), ["one"]);
}

#[test]
fn a_folder_that_takes_no_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "text").unwrap();
    for place in [file.join("ledger"), folder.path().join("missing").join("ledger")] {
        let refused = Log::open_or_create(&place, &"one").unwrap_err();
        assert!(matches!(refused, LogError::Create { .. }), "{refused}");
        assert!(refused.to_string().contains("nothing was charged"), "{refused}");
    }
    assert!(Log::open_or_create(folder.path(), &"one").is_err(), "a folder is not a ledger");
}

#[cfg(unix)]
#[test]
fn a_link_is_the_ledger_it_leads_to() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    // Leading nowhere it is not replaced by a new ledger.
    assert!(Log::open_or_create(&link, &"other").is_err());
    begin(&path);
    append(&mut Log::open_or_create(&link, &"other").unwrap(), "two").unwrap();
    assert_eq!(words(&Log::open(&path).unwrap()), ["one", "two"]);
}

/// The clock of an entry is for people to read; the order is the number. Entries dated before their predecessors are in order.
#[test]
fn a_clock_set_back_changes_no_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    let mut log = begin(&path);
    append(&mut log, "two").unwrap();
    let last: String =
        log.connection.query_row("SELECT hash FROM entries WHERE number = 2", [], |row| row.get(0)).unwrap();
    let (early, body) = ("1999-12-31T23:59:59Z", "\"three\"");
    let hash = chained_hash(&last, 3, early, body);
    log.connection.execute("INSERT INTO entries VALUES (3, ?1, ?2, ?3)", params![early, body, hash]).unwrap();
    append(&mut log, "four").unwrap();
    assert_eq!(words(&log), ["one", "two", "three", "four"]);
}

#[test]
fn many_processes_at_once_make_one_ledger() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    std::thread::scope(|scope| {
        for worker in 0..8 {
            let path = &path;
            scope.spawn(move || {
                let mut log = Log::open_or_create(path, &format!("first of {worker}")).unwrap();
                append(&mut log, "more").unwrap();
            });
        }
    });
    let words = words(&Log::open(&path).unwrap());
    assert_eq!(words.len(), 9);
    assert!(words[0].starts_with("first of") && words[1..].iter().all(|word| word == "more"), "{words:?}");
}

#[test]
fn a_log_that_grows_while_it_is_read_is_not_called_altered() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    let mut log = begin(&path);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| (0..200).for_each(|_| append(&mut log, "more").unwrap()));
        let reader = Log::open(&path).unwrap();
        while !writer.is_finished() {
            reader.entries::<String>().unwrap();
        }
    });
    assert_eq!(words(&Log::open(&path).unwrap()).len(), 201);
}
