//! Names made of lower-case hexadecimal digits: SHA-256 for the ledger's chain and the certificate's seals, and random ids.

use halflit_noise::Stream;
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::num::NonZeroU64;

/// The SHA-256 of `bytes`.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

/// A random 128-bit id: it names a thing without saying anything about it.
pub(crate) fn random_id(stream: &mut Stream) -> String {
    [(); 2].map(|()| format!("{:016x}", stream.uniform_below(NonZeroU64::MAX))).concat()
}

/// Bytes as lower-case hexadecimal digits.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_empty_message_has_its_published_digest() {
        assert_eq!(super::sha256(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }
}
