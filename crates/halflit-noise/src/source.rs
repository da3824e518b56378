//! Where keys come from, who may use them, and how bulk work is cut into chunks.

use crate::NoiseError;
use crate::keystream::{Key, Keystream};
use rayon::prelude::*;
use std::fmt;

/// Draws per chunk of a bulk fill. Part of the definition of seeded output: changing it changes test streams.
pub(crate) const CHUNK_DRAWS: usize = 1 << 13;

/// Which process a keystream belongs to.
///
/// A fork copies buffered bytes and keys into the child, which would then repeat the parent's noise. The parent's
/// id is compared too, because a grandchild may be given the id of a process that has died.
#[derive(Clone, Copy, PartialEq, Eq)]
struct ProcessId {
    own: u32,
    parent: u32,
}

impl ProcessId {
    fn current() -> Self {
        #[cfg(unix)]
        let parent = std::os::unix::process::parent_id();
        #[cfg(not(unix))]
        let parent = 0;
        ProcessId { own: std::process::id(), parent }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    System(ProcessId),
    #[cfg(any(test, feature = "test-seed"))]
    TestSeed,
    Rehearsal,
}

/// A keystream and the right to use it: checked against the running process before every use.
struct Owned {
    keystream: Box<Keystream>,
    origin: Origin,
    /// Bytes taken from keystreams that are gone: replaced after a fork, or spent on a chunk of a bulk fill.
    retired_bytes: u64,
}

impl Owned {
    fn from_os() -> Result<Self, NoiseError> {
        Ok(Owned {
            keystream: Keystream::from_key(&system_key()?),
            origin: Origin::System(ProcessId::current()),
            retired_bytes: 0,
        })
    }

    /// Takes a new system key if this process is not the one that made the keystream.
    fn refresh(&mut self) -> Result<&mut Keystream, NoiseError> {
        if let Origin::System(owner) = self.origin
            && owner != ProcessId::current()
        {
            let retired_bytes = self.bytes_drawn();
            *self = Owned::from_os()?;
            self.retired_bytes = retired_bytes;
        }
        Ok(&mut self.keystream)
    }

    fn child(&mut self) -> Result<Self, NoiseError> {
        let key = self.refresh()?.child_key();
        Ok(Owned { keystream: Keystream::from_key(&key), origin: self.origin, retired_bytes: 0 })
    }

    fn bytes_drawn(&self) -> u64 {
        self.retired_bytes + self.keystream.bytes_drawn()
    }
}

fn system_key() -> Result<Key, NoiseError> {
    let mut key = Key::default();
    getrandom::fill(key.as_mut_slice())
        .map_err(|error| NoiseError::NoSystemRandomness { reason: error.to_string() })?;
    Ok(key)
}

/// The root of all randomness in a run: one 256-bit key, from which each mechanism gets its own [`Stream`].
///
/// Every stream has its own key, cut from the source's ChaCha12 keystream and used for nothing else. Keys are wiped
/// from memory on drop. After a fork the child takes a new key from the operating system before its first use.
pub struct NoiseSource {
    owned: Owned,
}

impl NoiseSource {
    /// A source keyed by the operating system: the only kind that may touch private data.
    pub fn from_os() -> Result<Self, NoiseError> {
        Ok(NoiseSource { owned: Owned::from_os()? })
    }

    /// A source whose every stream is known in advance, for tests and reproducible experiments.
    ///
    /// Whoever knows the key knows the noise: nothing drawn from it protects anybody.
    #[cfg(any(test, feature = "test-seed"))]
    pub fn seeded_for_tests(key: [u8; 32]) -> Self {
        NoiseSource {
            owned: Owned {
                keystream: Keystream::from_key(&Key::new(key)),
                origin: Origin::TestSeed,
                retired_bytes: 0,
            },
        }
    }

    /// Whether this is the inside of a [`RehearsalSource`](crate::RehearsalSource), which no release may use.
    pub fn is_rehearsal(&self) -> bool {
        self.owned.origin == Origin::Rehearsal
    }

    /// See [`RehearsalSource`](crate::RehearsalSource).
    pub(crate) fn for_rehearsal(key: [u8; 32]) -> Self {
        let keystream = Keystream::from_key(&Key::new(key));
        NoiseSource { owned: Owned { keystream, origin: Origin::Rehearsal, retired_bytes: 0 } }
    }

    /// A new stream, independent of every other one.
    pub fn stream(&mut self) -> Result<Stream, NoiseError> {
        Ok(Stream { owned: self.owned.child()? })
    }

    /// Whether the key was fixed by a test or a rehearsal; a certificate must then say so in capitals.
    pub fn is_seeded(&self) -> bool {
        !matches!(self.owned.origin, Origin::System(_))
    }
}

/// An independent stream of exact draws, for one mechanism.
///
/// Every draw first compares the running process with the one that keyed the stream (two system calls, about
/// 200 ns) and takes a new operating-system key after a fork; bulk draws compare once per call. Single draws are
/// therefore slow next to the fills.
///
/// A stream keyed by a fixed test seed is never rekeyed.
///
/// # Panics
///
/// Draws panic in one case only: after a fork the operating system refuses a new key. Nothing is drawn then. Call
/// [`Stream::refresh`] first to get that as an error instead.
pub struct Stream {
    owned: Owned,
}

impl Stream {
    /// Takes a new operating-system key if the process has forked since the last draw.
    pub fn refresh(&mut self) -> Result<(), NoiseError> {
        self.owned.refresh().map(|_| ())
    }

    /// Whether the key was fixed by a test or a rehearsal; a certificate must then say so in capitals.
    pub fn is_seeded(&self) -> bool {
        !matches!(self.owned.origin, Origin::System(_))
    }

    /// Random bytes used by this stream so far: what a draw costs in keystream.
    pub fn bytes_drawn(&self) -> u64 {
        self.owned.bytes_drawn()
    }

    /// The random bytes behind a draw, after the process check. Every public draw goes through here.
    pub(crate) fn bytes(&mut self) -> &mut Keystream {
        match self.owned.refresh() {
            Ok(keystream) => keystream,
            Err(error) => panic!("{error}"),
        }
    }

    /// Fills `out` chunk by chunk, each chunk from a key of its own, so that the result does not depend on threads.
    ///
    /// The process is checked once: a fork keeps only the forking thread, and that thread is not inside this call.
    pub(crate) fn fill_chunks<T: Send>(
        &mut self,
        out: &mut [T],
        threads: Threads,
        fill: impl Fn(&mut Keystream, &mut [T]) + Sync,
    ) {
        let keystream = self.bytes();
        if out.len() <= CHUNK_DRAWS {
            return fill(keystream, out);
        }
        let keys: Vec<Key> = out.chunks(CHUNK_DRAWS).map(|_| keystream.child_key()).collect();
        let fill_one = |(chunk, key): (&mut [T], &Key)| {
            let mut keystream = Keystream::from_key(key);
            fill(&mut keystream, chunk);
            keystream.bytes_drawn()
        };
        self.owned.retired_bytes += match threads {
            Threads::Caller => out.chunks_mut(CHUNK_DRAWS).zip(&keys).map(fill_one).sum::<u64>(),
            Threads::Pool => out.par_chunks_mut(CHUNK_DRAWS).zip(&keys).map(fill_one).sum::<u64>(),
        };
    }
}

/// Where a bulk fill runs.
#[derive(Clone, Copy)]
pub(crate) enum Threads {
    /// On the calling thread.
    Caller,
    /// On the current rayon pool.
    Pool,
}

// Keys and buffers never reach a log.
impl fmt::Debug for NoiseSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NoiseSource").field("is_seeded", &self.is_seeded()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("is_seeded", &self.is_seeded()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keystream::RandomBytes;

    #[test]
    fn system_sources_differ_and_are_not_seeded() {
        let mut first = NoiseSource::from_os().unwrap();
        let mut second = NoiseSource::from_os().unwrap();
        let (mut a, mut b) = (first.stream().unwrap(), second.stream().unwrap());
        assert!(!first.is_seeded() && !a.is_seeded());
        assert_ne!(a.bytes().word(), b.bytes().word());
    }

    #[test]
    fn seeded_sources_repeat_and_say_so() {
        let mut streams: Vec<Stream> =
            (0..2).map(|_| NoiseSource::seeded_for_tests([1; 32]).stream().unwrap()).collect();
        assert!(streams.iter().all(Stream::is_seeded));
        let words: Vec<u64> = streams.iter_mut().map(|s| s.bytes().word()).collect();
        assert_eq!(words[0], words[1]);
    }

    #[test]
    fn a_foreign_process_is_rekeyed_and_a_seeded_stream_is_not() {
        let mut source = NoiseSource::from_os().unwrap();
        let mut stream = source.stream().unwrap();
        let expected = {
            let key = stream.bytes().child_key();
            stream.owned.keystream = Keystream::from_key(&key);
            Keystream::from_key(&key).word()
        };
        // Pretend that another process keyed this stream.
        stream.owned.origin = Origin::System(ProcessId { own: 0, parent: 0 });
        assert_ne!(stream.bytes().word(), expected);
        assert!(stream.owned.origin == Origin::System(ProcessId::current()));

        let mut seeded = NoiseSource::seeded_for_tests([7; 32]).stream().unwrap();
        seeded.refresh().unwrap();
        let mut again = NoiseSource::seeded_for_tests([7; 32]).stream().unwrap();
        assert_eq!(seeded.bytes().word(), again.bytes().word());
    }

    #[test]
    fn debug_shows_no_key() {
        let source = NoiseSource::seeded_for_tests([0xab; 32]);
        assert_eq!(format!("{source:?}"), "NoiseSource { is_seeded: true, .. }");
    }
}
