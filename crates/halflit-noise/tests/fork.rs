//! A forked child copies keys and buffered random bytes; it must not repeat the parent's noise.
#![cfg(unix)]
// fork(2) has no safe wrapper in the standard library. The children below only draw, write to a pipe and leave.
#![allow(unsafe_code)]

use halflit_noise::{FractionBits, Law, NoiseSource, Stream};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};

const DRAWS: usize = 64;

fn draw(stream: &mut Stream) -> Vec<i64> {
    let bits = FractionBits::MOST;
    let mut values = vec![0; DRAWS];
    stream.fill_rounded(Law::Normal, bits, &mut values[1..]);
    values[0] = stream.rounded(Law::Normal, bits);
    values
}

/// Runs `work` in a forked child and returns the integers it computed.
fn in_child(work: impl FnOnce() -> Vec<i64>) -> Vec<i64> {
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for the two descriptors that pipe writes.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    // SAFETY: pipe has just returned both descriptors, and nobody else owns them.
    let [read_end, write_end] = ends.map(|end| File::from(unsafe { OwnedFd::from_raw_fd(end) }));
    // SAFETY: the child only draws (which allocates; the C library makes its allocator usable after a fork), writes and
    // calls _exit. This binary has one test, so no other test thread holds a lock that the child would wait for.
    match unsafe { libc::fork() } {
        0 => {
            let mut bytes = Vec::new();
            for value in work() {
                bytes.extend(value.to_le_bytes());
            }
            let written = (&write_end).write_all(&bytes);
            // SAFETY: _exit ends the child without running the parent's exit handlers.
            unsafe { libc::_exit(i32::from(written.is_err())) }
        }
        child => {
            assert!(child > 0, "fork failed");
            drop(write_end);
            let mut bytes = Vec::new();
            (&read_end).read_to_end(&mut bytes).unwrap();
            let mut status = 0;
            // SAFETY: `child` is our own child and `status` is a valid place for its status.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            assert_eq!(status, 0, "the child failed");
            bytes.chunks_exact(8).map(|eight| i64::from_le_bytes(eight.try_into().unwrap())).collect()
        }
    }
}

#[test]
fn two_children_and_the_parent_never_share_noise() {
    let mut source = NoiseSource::from_os().unwrap();
    let mut stream = source.stream().unwrap();
    // Buffered bytes now exist, and every child inherits them.
    draw(&mut stream);

    let mut runs = vec![
        in_child(|| draw(&mut stream)),
        in_child(|| draw(&mut stream)),
        // A stream made in the child from the inherited source, and one of a grandchild.
        in_child(|| draw(&mut source.stream().unwrap())),
        in_child(|| in_child(|| draw(&mut stream))),
        draw(&mut stream),
        draw(&mut source.stream().unwrap()),
    ];
    // The parent goes on with its own key, and its next draws are new as well.
    runs.push(draw(&mut stream));
    let mut all: Vec<i64> = runs.concat();
    assert_eq!(all.len(), 7 * DRAWS);
    all.sort_unstable();
    all.dedup();
    // Two of 448 draws at 44 bits coincide with probability below 448^2 / 2^45 < 1e-8.
    assert_eq!(all.len(), 7 * DRAWS, "a child repeated noise");

    // Power: a seeded stream is never rekeyed, so its children do repeat, and this test sees it.
    let mut seeded = NoiseSource::seeded_for_tests([1; 32]).stream().unwrap();
    draw(&mut seeded);
    let first = in_child(|| draw(&mut seeded));
    assert_eq!(first, in_child(|| draw(&mut seeded)));
}
