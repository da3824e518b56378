//! The file under the ledger: an append-only, hash-chained log of JSON entries in one SQLite database.
//!
//! SQLite gives what a ledger needs and a hand-written file would get wrong: locking between processes, an atomic and durable
//! commit, recovery after a kill at any instant. On top of it, triggers refuse updates and deletions, and every entry carries
//! the SHA-256 of itself and its predecessor, so that an edited or shortened file is noticed when it is opened.

use rusqlite::{Connection, OpenFlags, OptionalExtension, Transaction, TransactionBehavior, params};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Marks the file as ours ("hlft") in SQLite's own header.
const APPLICATION_ID: i32 = 0x686c_6674;
const FORMAT: i32 = 1;
/// How long a process waits for another one that is charging; pricing happens inside the lock and takes well under a second.
const PATIENCE: Duration = Duration::from_secs(60);

/// What can go wrong with the ledger's file.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// There is no ledger at this place.
    #[error("there is no ledger at {}: the first `halflit train` creates it", path.display())]
    Missing {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The file is not a ledger of this program.
    #[error("{} is not a halflit ledger (format {FORMAT}): choose another file with --ledger", path.display())]
    NotALedger {
        /// The file.
        path: PathBuf,
    },
    /// An entry does not follow from its predecessor.
    #[error("{} was altered: entry {entry} does not match its recorded hash; restore the file from a backup", path.display())]
    Altered {
        /// The file.
        path: PathBuf,
        /// The first entry that does not check.
        entry: i64,
    },
    /// SQLite failed: disk full, no permission, locked for too long.
    #[error("the ledger {} could not be used: {source}", path.display())]
    Storage {
        /// The file.
        path: PathBuf,
        /// SQLite's own words.
        source: rusqlite::Error,
    },
}

/// An entry as it stands in the file.
#[derive(Clone, Debug)]
pub struct Entry<Body> {
    /// Counts from 1.
    pub number: i64,
    /// When it was written, UTC, by SQLite's clock.
    pub written_at: String,
    /// What it says.
    pub body: Body,
}

/// The open file.
#[derive(Debug)]
pub struct Log {
    connection: Connection,
    path: PathBuf,
}

impl Log {
    /// Opens the log, creating an empty one where there is none.
    pub fn open_or_create(path: &Path) -> Result<Self, LogError> {
        Self::open_with(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)
    }

    /// Opens a log that must be there.
    pub fn open(path: &Path) -> Result<Self, LogError> {
        if !path.exists() {
            return Err(LogError::Missing { path: path.to_owned() });
        }
        Self::open_with(path, OpenFlags::SQLITE_OPEN_READ_WRITE)
    }

    fn open_with(path: &Path, flags: OpenFlags) -> Result<Self, LogError> {
        let at = |source| storage(path, source);
        let mut connection =
            Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX).map_err(at)?;
        connection.busy_timeout(PATIENCE).map_err(at)?;
        // EXTRA also syncs the folder after the journal is removed: a charge that was reported survives a power cut.
        connection.execute_batch("PRAGMA journal_mode = DELETE; PRAGMA synchronous = EXTRA;").map_err(at)?;
        let begun = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(at)?;
        let id: i32 = begun.pragma_query_value(None, "application_id", |row| row.get(0)).map_err(at)?;
        let format: i32 = begun.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(at)?;
        let tables: i64 =
            begun.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(at)?;
        match (id, format, tables) {
            (APPLICATION_ID, FORMAT, _) => {}
            (0, 0, 0) => create_schema(&begun).map_err(at)?,
            _ => {
                return Err(LogError::NotALedger { path: path.to_owned() });
            }
        }
        begun.commit().map_err(at)?;
        Ok(Log { connection, path: path.to_owned() })
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Every entry in order, after checking the hash chain.
    pub fn entries<Body: DeserializeOwned>(&self) -> Result<Vec<Entry<Body>>, LogError> {
        read_checked(&self.connection, &self.path)
    }

    /// Reads all entries and appends what `decide` returns, as one step that no other process can interleave with.
    ///
    /// When this returns `Ok`, the new entries are on disk.
    pub fn append<Body, Answer, Refusal>(
        &mut self,
        decide: impl FnOnce(&[Entry<Body>]) -> Result<(Vec<Body>, Answer), Refusal>,
    ) -> Result<Answer, Refusal>
    where
        Body: Serialize + DeserializeOwned,
        Refusal: From<LogError>,
    {
        let path = self.path.clone();
        let at = |source| Refusal::from(storage(&path, source));
        let begun = self.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(at)?;
        let entries = read_checked(&begun, &path)?;
        let (bodies, answer) = decide(&entries)?;
        for body in &bodies {
            insert(&begun, body).map_err(at)?;
        }
        begun.commit().map_err(at)?;
        Ok(answer)
    }
}

fn create_schema(begun: &Transaction) -> rusqlite::Result<()> {
    begun.execute_batch(
        "CREATE TABLE entries (
             number INTEGER PRIMARY KEY AUTOINCREMENT,
             written_at TEXT NOT NULL,
             body TEXT NOT NULL,
             hash TEXT NOT NULL
         ) STRICT;
         CREATE TRIGGER entries_are_never_changed BEFORE UPDATE ON entries
             BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
         CREATE TRIGGER entries_are_never_removed BEFORE DELETE ON entries
             BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;",
    )?;
    begun.pragma_update(None, "application_id", APPLICATION_ID)?;
    begun.pragma_update(None, "user_version", FORMAT)
}

fn insert(begun: &Transaction, body: &impl Serialize) -> rusqlite::Result<()> {
    let body =
        serde_json::to_string(body).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    let last = begun
        .query_row("SELECT number, hash FROM entries ORDER BY number DESC LIMIT 1", [], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))
        })
        .optional()?;
    let (number, previous) = last.map_or((1, String::new()), |(number, hash)| (number + 1, hash));
    let written_at: String =
        begun.query_row("SELECT strftime('%Y-%m-%dT%H:%M:%SZ', 'now')", [], |row| row.get(0))?;
    let hash = chained_hash(&previous, number, &written_at, &body);
    begun.execute(
        "INSERT INTO entries (number, written_at, body, hash) VALUES (?1, ?2, ?3, ?4)",
        params![number, written_at, body, hash],
    )?;
    Ok(())
}

fn read_checked<Body: DeserializeOwned>(
    connection: &Connection,
    path: &Path,
) -> Result<Vec<Entry<Body>>, LogError> {
    let at = |source| storage(path, source);
    let mut statement = connection
        .prepare("SELECT number, written_at, body, hash FROM entries ORDER BY number")
        .map_err(at)?;
    let rows = statement
        .query_map([], |row| {
            Ok((
                row.get::<_, i64>(0)?,
                row.get::<_, String>(1)?,
                row.get::<_, String>(2)?,
                row.get::<_, String>(3)?,
            ))
        })
        .map_err(at)?;
    let mut entries = Vec::new();
    let mut previous = String::new();
    for row in rows {
        let (number, written_at, body, hash) = row.map_err(at)?;
        let altered = || LogError::Altered { path: path.to_owned(), entry: number };
        if number != entries.len() as i64 + 1 || hash != chained_hash(&previous, number, &written_at, &body) {
            return Err(altered());
        }
        let body = serde_json::from_str(&body).map_err(|_| altered())?;
        entries.push(Entry { number, written_at, body });
        previous = hash;
    }
    // AUTOINCREMENT remembers the highest number ever given: entries cut off the end are noticed.
    let highest: Option<i64> = connection
        .query_row("SELECT seq FROM sqlite_sequence WHERE name = 'entries'", [], |row| row.get(0))
        .optional()
        .map_err(at)?;
    if highest.unwrap_or(0) != entries.len() as i64 {
        return Err(LogError::Altered { path: path.to_owned(), entry: entries.len() as i64 + 1 });
    }
    Ok(entries)
}

fn chained_hash(previous: &str, number: i64, written_at: &str, body: &str) -> String {
    let mut hasher = Sha256::new();
    // The fields are joined by newlines; only the body, which comes last, may contain any.
    hasher.update(format!("{previous}\n{number}\n{written_at}\n{body}"));
    crate::digest::hexadecimal(&hasher.finalize())
}

fn storage(path: &Path, source: rusqlite::Error) -> LogError {
    match source.sqlite_error_code() {
        Some(rusqlite::ErrorCode::NotADatabase) => LogError::NotALedger { path: path.to_owned() },
        _ => LogError::Storage { path: path.to_owned(), source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        for word in ["one", "two"] {
            append(&mut Log::open_or_create(&path).unwrap(), word).unwrap();
        }
        assert_eq!(words(&Log::open(&path).unwrap()), ["one", "two"]);
    }

    #[test]
    fn a_refusal_appends_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = Log::open_or_create(&folder.path().join("ledger")).unwrap();
        append(&mut log, "one").unwrap();
        let refused: Result<(), LogError> =
            log.append(|_: &[Entry<String>]| Err(LogError::Missing { path: "somewhere".into() }));
        assert!(refused.is_err());
        assert_eq!(words(&log), ["one"]);
    }

    #[test]
    fn sql_cannot_change_or_remove_entries() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger");
        append(&mut Log::open_or_create(&path).unwrap(), "one").unwrap();
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
        ] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("ledger");
            let mut log = Log::open_or_create(&path).unwrap();
            append(&mut log, "one").unwrap();
            append(&mut log, "two").unwrap();
            let raw = Connection::open(&path).unwrap();
            raw.execute_batch(
                "DROP TRIGGER entries_are_never_changed; DROP TRIGGER entries_are_never_removed",
            )
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
        assert!(matches!(Log::open_or_create(&foreign), Err(LogError::NotALedger { .. })));
        assert!(matches!(Log::open(&folder.path().join("none")), Err(LogError::Missing { .. })));
    }
}
