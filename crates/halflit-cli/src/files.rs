//! Writing files so that a crash, a full disk or a Ctrl-C never leaves half of one behind.

use crate::Failure;
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

/// Writes `contents` to `path`, which must not exist: all of it or nothing, and what is there in the meantime stays as it is.
pub fn write_new(path: &Path, contents: &[u8]) -> io::Result<()> {
    let temporary = temporary_sibling(path)?;
    let written = write_durably(&temporary, contents).and_then(|()| place(&temporary, path));
    let _ = fs::remove_file(&temporary);
    written?;
    sync_directory(parent(path))
}

/// Gives a file a second name that nothing has. Renaming would take the name from whoever has it.
fn place(temporary: &Path, path: &Path) -> io::Result<()> {
    match fs::hard_link(temporary, path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists && !is_taken(path) => {
            // A file system without links.
            fs::rename(temporary, path)
        }
        placed => placed,
    }
}

/// Whether there is anything under this name; a link that leads nowhere is something, too.
fn is_taken(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// Refuses a place for something new where something is, or where nothing can be written. `option` names the place.
///
/// To be asked before anything is computed or spent.
pub fn must_be_new(path: &Path, option: &str) -> Result<(), Failure> {
    if is_taken(path) {
        return Err(Failure::BadInput(format!(
            "{} exists already and is not overwritten; choose another place with {option}, or move it away",
            path.display()
        )));
    }
    must_be_writable(path, option)
}

/// Refuses a place in whose folder nothing can be written. Permissions, quotas and strange file systems are not foreseen but tried out.
pub fn must_be_writable(path: &Path, option: &str) -> Result<(), Failure> {
    let refused = |why: &dyn std::fmt::Display, remedy: &str| {
        Err(Failure::BadInput(format!("{} cannot be written: {why}; {remedy}", path.display())))
    };
    let elsewhere = format!("choose another place with {option}");
    let folder = parent(path);
    if !folder.is_dir() {
        let in_the_way = folder.ancestors().find(|above| is_taken(above) && !above.is_dir());
        return match in_the_way {
            Some(file) => refused(&format!("{} is a file, not a folder", file.display()), &elsewhere),
            None => {
                let why = format!("the folder {} does not exist", folder.display());
                refused(&why, &format!("make it first, or {elsewhere}"))
            }
        };
    }
    let tried = temporary_sibling(path).and_then(|probe| {
        write_durably(&probe, b"")?;
        fs::remove_file(&probe)
    });
    tried.or_else(|error| refused(&error, &elsewhere))
}

/// Creates the folder `path`, which must not exist, holding `files` (name and contents): complete, or not at all.
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
    fn a_new_file_takes_no_name_from_another() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mean.json");
        write_new(&path, b"first").unwrap();
        assert_eq!(write_new(&path, b"second").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"first");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
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
