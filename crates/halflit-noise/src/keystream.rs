//! The ChaCha12 keystream behind every draw.

use chacha20::cipher::{StreamCipherCore, array::Array, consts::U64};
use chacha20::{ChaChaCore, R12, variants::Legacy};
use rand_core::SeedableRng;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// A 256-bit ChaCha key, wiped when dropped.
pub(crate) type Key = Zeroizing<[u8; 32]>;

/// Random bytes in order, each used at most once. Samplers are generic over it so that tests can replay them.
pub(crate) trait RandomBytes {
    /// The next `bytes` (1 to 8) unused bytes as the low bits of a word; the other bits are zero.
    fn take(&mut self, bytes: u32) -> u64;

    /// The next eight unused bytes.
    #[inline(always)]
    fn word(&mut self) -> u64 {
        self.take(8)
    }
}

/// Bytes per refill: 64 ChaCha blocks, enough for the widest vector backend to run at full width.
const BUFFER_BYTES: usize = 4096;

/// The keystream of one key with a 64-bit block counter, buffered. Cipher state and buffer are wiped on drop.
///
/// Always lives in a `Box`, so that moving its owner leaves no copy of the key behind.
pub(crate) struct Keystream {
    cipher: ChaChaCore<R12, Legacy>,
    buffer: [u8; BUFFER_BYTES],
    position: usize,
    refills: u64,
}

impl Keystream {
    pub(crate) fn from_key(key: &Key) -> Box<Self> {
        Box::new(Keystream {
            cipher: ChaChaCore::from_seed(**key),
            buffer: [0; BUFFER_BYTES],
            position: BUFFER_BYTES,
            refills: 0,
        })
    }

    /// Takes a fresh key from this keystream; the bytes behind it are never used for anything else.
    pub(crate) fn child_key(&mut self) -> Key {
        let mut key = Key::default();
        for eight in key.chunks_exact_mut(8) {
            eight.copy_from_slice(&self.word().to_le_bytes());
        }
        key
    }

    /// Bytes taken so far, counting the few that a refill skips.
    pub(crate) fn bytes_drawn(&self) -> u64 {
        (self.refills * BUFFER_BYTES as u64).saturating_sub((BUFFER_BYTES - self.position) as u64)
    }

    #[cold]
    #[inline(never)]
    fn refill(&mut self) {
        let (blocks, _) = Array::<u8, U64>::slice_as_chunks_mut(&mut self.buffer);
        self.cipher.write_keystream_blocks(blocks);
        self.position = 0;
        self.refills += 1;
    }
}

impl RandomBytes for Keystream {
    #[inline(always)]
    fn take(&mut self, bytes: u32) -> u64 {
        debug_assert!((1..=8).contains(&bytes));
        loop {
            let rest = self.buffer.get(self.position..).unwrap_or(&[]);
            if let Some(window) = rest.first_chunk::<8>() {
                self.position += bytes as usize;
                // The window reaches past the bytes taken: shift the others out, a later draw owns them.
                let unused = 64 - 8 * bytes;
                return u64::from_le_bytes(*window) << unused >> unused;
            }
            self.refill();
        }
    }
}

impl Drop for Keystream {
    fn drop(&mut self) {
        self.buffer.zeroize();
    }
}

// The cipher wipes its own state (feature `zeroize`); the buffer is wiped above; the rest is no secret.
impl ZeroizeOnDrop for Keystream {}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    pub(crate) fn keystream(seed: u8) -> Box<Keystream> {
        Keystream::from_key(&Key::new([seed; 32]))
    }

    /// Given bytes first, then a keystream; counts what was taken.
    pub(crate) struct Scripted {
        script: Vec<u8>,
        then: Box<Keystream>,
        pub(crate) taken: usize,
    }

    impl Scripted {
        pub(crate) fn new(script: &[u8], seed: u8) -> Self {
            Scripted { script: script.to_vec(), then: keystream(seed), taken: 0 }
        }

        pub(crate) fn words(words: &[u64]) -> Self {
            let script: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            Scripted::new(&script, 0)
        }
    }

    impl RandomBytes for Scripted {
        fn take(&mut self, bytes: u32) -> u64 {
            self.taken += bytes as usize;
            if self.script.is_empty() {
                return self.then.take(bytes);
            }
            let rest = self.script.split_off(bytes as usize);
            let taken = std::mem::replace(&mut self.script, rest);
            taken.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::keystream;
    use super::*;

    /// ChaCha with `rounds` rounds from its definition: 64-bit counter, 64-bit nonce zero.
    fn chacha_block(key: &[u8; 32], counter: u64, rounds: usize) -> [u8; 64] {
        let mut state = [0u32; 16];
        state[..4].copy_from_slice(&[0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574]);
        for (word, bytes) in state[4..12].iter_mut().zip(key.chunks_exact(4)) {
            *word = u32::from_le_bytes(bytes.try_into().expect("four bytes"));
        }
        state[12] = counter as u32;
        state[13] = (counter >> 32) as u32;
        let start = state;
        let mut quarter = |a: usize, b: usize, c: usize, d: usize| {
            for (x, y, z, turn) in [(a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)] {
                state[x] = state[x].wrapping_add(state[y]);
                state[z] = (state[z] ^ state[x]).rotate_left(turn);
            }
        };
        for _ in 0..rounds / 2 {
            for (a, b, c, d) in [(0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15)] {
                quarter(a, b, c, d);
            }
            for (a, b, c, d) in [(0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)] {
                quarter(a, b, c, d);
            }
        }
        let mut block = [0u8; 64];
        for (bytes, (word, first)) in block.chunks_exact_mut(4).zip(state.iter().zip(start)) {
            bytes.copy_from_slice(&word.wrapping_add(first).to_le_bytes());
        }
        block
    }

    #[test]
    fn the_test_block_function_is_chacha() {
        // ChaCha20, zero key, counter 0: the first bytes of the keystream everyone knows (RFC 8439, A.1 vector 1).
        let block = chacha_block(&[0; 32], 0, 20);
        assert_eq!(block[..8], [0x76, 0xb8, 0xe0, 0xad, 0xa0, 0xf1, 0x3d, 0x90]);
    }

    #[test]
    fn keystream_is_chacha12_over_many_refills() {
        let mut stream = keystream(9);
        for counter in 0..300 {
            let block = chacha_block(&[9; 32], counter, 12);
            for bytes in block.chunks_exact(8) {
                assert_eq!(stream.word().to_le_bytes(), bytes);
            }
        }
    }

    #[test]
    fn block_counter_carries_into_its_upper_half() {
        let mut stream = keystream(3);
        stream.cipher.set_block_pos(u64::from(u32::MAX) - 1);
        for counter in u64::from(u32::MAX) - 1..u64::from(u32::MAX) + 70 {
            let block = chacha_block(&[3; 32], counter, 12);
            for bytes in block.chunks_exact(8) {
                assert_eq!(stream.word().to_le_bytes(), bytes);
            }
        }
    }

    #[test]
    fn short_takes_use_each_byte_once_and_in_order() {
        let mut whole = keystream(1);
        let mut bytes = Vec::new();
        for _ in 0..BUFFER_BYTES / 8 {
            bytes.extend(whole.word().to_le_bytes());
        }
        let mut parts = keystream(1);
        let mut at = 0;
        for count in (1..=8).cycle() {
            if at + 8 > BUFFER_BYTES {
                break;
            }
            let taken = parts.take(count as u32);
            let mut expected = [0u8; 8];
            expected[..count].copy_from_slice(&bytes[at..at + count]);
            assert_eq!(taken, u64::from_le_bytes(expected));
            at += count;
            assert_eq!(parts.bytes_drawn(), at as u64);
        }
    }

    #[test]
    fn children_differ_from_each_other_and_from_the_parent() {
        let mut parent = keystream(5);
        let (first, second) = (parent.child_key(), parent.child_key());
        assert_ne!(*first, *second);
        let words: Vec<u64> = (0..64).map(|_| parent.word()).collect();
        for child in [first, second] {
            let mut child = Keystream::from_key(&child);
            assert!((0..64).all(|_| !words.contains(&child.word())));
        }
    }

    #[test]
    fn cipher_state_and_buffer_are_wiped_on_drop() {
        fn wiped<T: ZeroizeOnDrop>() {}
        wiped::<ChaChaCore<R12, Legacy>>();
        wiped::<Keystream>();
        wiped::<Key>();
    }
}
