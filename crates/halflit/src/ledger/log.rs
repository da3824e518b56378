//! The file under the ledger: an append-only, hash-chained log of JSON entries in one SQLite database.
//!
//! SQLite gives what a ledger needs and a hand-written file would get wrong: locking between processes, an atomic and durable
//! commit, recovery after a kill at any instant. On top of it, triggers refuse updates and deletions, and every entry carries
//! the SHA-256 of itself and its predecessor, so that an edited or shortened file is noticed when it is opened.
//!
//! A log has its first entry from the moment its file has its name: it is written under another name and then linked. So an empty file in
//! its place is never a log about to be born, but one that has lost its entries, and is refused.

use rusqlite::{Connection, OpenFlags, OptionalExtension, Transaction, TransactionBehavior, params};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use std::fs;
use std::io;
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
    /// The file is there and has nothing in it.
    #[error(
        "{} is empty, and a ledger never is: what was charged is lost; restore the file from a backup, or delete it if nothing was \
         ever released from this dataset",
        path.display()
    )]
    Emptied {
        /// The file.
        path: PathBuf,
    },
    /// The file could not be made.
    #[error("the ledger {} could not be created: {source}; make its folder writable or name another place with --ledger (nothing was charged)", path.display())]
    Create {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// An entry does not follow from its predecessor.
    #[error("{} was altered: entry {entry} is missing, or does not match its recorded hash, or cannot follow the others; restore the file from a backup", path.display())]
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
    /// Opens the log, creating one with this first entry where there is none.
    pub fn open_or_create(path: &Path, first: &impl Serialize) -> Result<Self, LogError> {
        // A link that leads nowhere is something, too.
        if fs::symlink_metadata(path).is_err() {
            create(path, first)?;
        }
        Self::open(path)
    }

    /// Opens a log that must be there.
    pub fn open(path: &Path) -> Result<Self, LogError> {
        match fs::metadata(path) {
            Err(_) => return Err(LogError::Missing { path: path.to_owned() }),
            Ok(file) if file.len() == 0 => return Err(LogError::Emptied { path: path.to_owned() }),
            Ok(_) => {}
        }
        let at = |source| storage(path, source);
        let connection = connect(path, OpenFlags::empty()).map_err(at)?;
        // EXTRA also syncs the folder after the journal is removed: a charge that was reported survives a power cut.
        connection.execute_batch("PRAGMA journal_mode = DELETE; PRAGMA synchronous = EXTRA;").map_err(at)?;
        let id: i32 = connection.pragma_query_value(None, "application_id", |row| row.get(0)).map_err(at)?;
        let format: i32 =
            connection.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(at)?;
        if (id, format) != (APPLICATION_ID, FORMAT) {
            return Err(LogError::NotALedger { path: path.to_owned() });
        }
        Ok(Log { connection, path: path.to_owned() })
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Every entry in order, after checking the hash chain.
    pub fn entries<Body: DeserializeOwned>(&self) -> Result<Vec<Entry<Body>>, LogError> {
        // One snapshot: the check compares two tables, and another process may append between two separate reads.
        let snapshot =
            self.connection.unchecked_transaction().map_err(|source| storage(&self.path, source))?;
        read_checked(&snapshot, &self.path)
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

fn connect(path: &Path, more: OpenFlags) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | more;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(PATIENCE)?;
    Ok(connection)
}

/// Makes a log with its first entry, whole or not at all. If another process is faster, its log stays.
fn create(path: &Path, first: &impl Serialize) -> Result<(), LogError> {
    let failed = |source| LogError::Create { path: path.to_owned(), source };
    let draft = Draft::beside(path).map_err(failed)?;
    draft.write(first).map_err(|source| storage(path, source))?;
    draft.place(path).map_err(failed)
}

/// A log under a name of its own, removed when dropped.
struct Draft(PathBuf);

impl Draft {
    /// A new empty file in the same folder.
    fn beside(path: &Path) -> io::Result<Self> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
        // Drafts that killed processes have left behind are in the way, but not for long.
        for attempt in 0..1000 {
            let draft = path.with_file_name(format!(".{name}.new-{}-{attempt}", std::process::id()));
            match fs::File::create_new(&draft) {
                Ok(_) => return Ok(Draft(draft)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Nobody else sees the draft, so it needs no journal; when this returns, it is on disk.
    fn write(&self, first: &impl Serialize) -> rusqlite::Result<()> {
        let mut connection = connect(&self.0, OpenFlags::empty())?;
        connection.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = EXTRA;")?;
        let begun = connection.transaction_with_behavior(TransactionBehavior::Exclusive)?;
        create_schema(&begun)?;
        insert(&begun, first)?;
        begun.commit()?;
        connection.close().map_err(|(_, error)| error)
    }

    /// Gives the draft its name, unless something has that name. The next commit syncs the folder.
    fn place(&self, path: &Path) -> io::Result<()> {
        let placed = fs::hard_link(&self.0, path).or_else(|error| {
            if error.kind() == io::ErrorKind::AlreadyExists {
                return Err(error);
            }
            // A file system without links. Killed in between, this leaves a part of a file, which is refused later.
            let mut file = fs::File::create_new(path)?;
            io::copy(&mut fs::File::open(&self.0)?, &mut file)?;
            file.sync_all()
        });
        match placed {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other,
        }
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
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
    if entries.is_empty() || highest.unwrap_or(0) != entries.len() as i64 {
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
        Some(rusqlite::ErrorCode::DatabaseCorrupt) => LogError::Altered { path: path.to_owned(), entry: 1 },
        _ => LogError::Storage { path: path.to_owned(), source },
    }
}

#[cfg(test)]
mod tests;
