//! Writing files so that a crash, a full disk or a Ctrl-C never leaves half of one behind.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Writes `contents` to `path`: all of it or, on any failure, nothing, and an existing file stays as it was.
pub fn write_atomically(path: &Path, contents: &[u8]) -> io::Result<()> {
    let temporary = temporary_sibling(path)?;
    let written = write_durably(&temporary, contents).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written?;
    sync_directory(parent(path))
}

/// Creates the folder `path` holding `files` (name and contents): complete, or not at all.
///
/// `path` must not exist yet, or be an empty folder.
pub fn write_folder_atomically(path: &Path, files: &[(&str, &[u8])]) -> io::Result<()> {
    let temporary = temporary_sibling(path)?;
    let fill = || -> io::Result<()> {
        fs::create_dir(&temporary)?;
        for (name, contents) in files {
            write_durably(&temporary.join(name), contents)?;
        }
        sync_directory(&temporary)?;
        fs::rename(&temporary, path)
    };
    let written = fill();
    if written.is_err() {
        let _ = fs::remove_dir_all(&temporary);
    }
    written?;
    sync_directory(parent(path))
}

fn write_durably(path: &Path, contents: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(contents)?;
    file.sync_all()
}

/// A rename is only durable once its folder is.
fn sync_directory(path: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(path)?.sync_all() } else { Ok(()) }
}

/// The folder that a file or folder is in.
pub fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn temporary_sibling(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidInput, format!("{} names no file", path.display()))
    })?;
    let mut temporary = std::ffi::OsString::from(".");
    temporary.push(name);
    temporary.push(format!(".{}.partial", std::process::id()));
    Ok(parent(path).join(temporary))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_leaves_the_old_file_and_no_litter() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.json");
        write_atomically(&path, b"old").unwrap();
        let taken = folder.path().join("taken");
        fs::create_dir(&taken).unwrap();
        fs::write(taken.join("inside"), b"x").unwrap();
        assert!(write_atomically(&taken, b"new").is_err(), "a folder cannot be replaced by a file");
        assert!(write_folder_atomically(&taken, &[("a", b"1")]).is_err(), "a filled folder is not replaced");
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_folder_arrives_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("release");
        write_folder_atomically(&path, &[("a", b"1"), ("b", b"2")]).unwrap();
        assert_eq!(fs::read(path.join("b")).unwrap(), b"2");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
