//! Repeatable numbers for rehearsals on made-up cells.

use crate::{NoiseError, NoiseSource, Stream};

/// A source whose every draw follows from public data, for rehearsing a mechanism on made-up sensitive cells.
///
/// A rehearsal must give the same hyperparameters to everyone who knows the public data, so its numbers are a function of that data.
/// Whoever knows the data knows the numbers: they protect nobody. This is therefore a type of its own, which nothing that releases
/// accepts:
///
/// ```compile_fail,E0308
/// use halflit_noise::{NoiseSource, RehearsalSource};
/// fn release(noise: &mut NoiseSource) {}
/// release(&mut RehearsalSource::from_public_digest([0; 32]));
/// ```
///
/// What it lends to a mechanism for the length of a rehearsal says so ([`NoiseSource::is_rehearsal`]), and a charged plan refuses it.
#[derive(Debug)]
pub struct RehearsalSource {
    inside: NoiseSource,
}

impl RehearsalSource {
    /// The source that belongs to a digest of public data.
    pub fn from_public_digest(digest: [u8; 32]) -> Self {
        RehearsalSource { inside: NoiseSource::for_rehearsal(digest) }
    }

    /// A new stream, for making up cells.
    pub fn stream(&mut self) -> Result<Stream, NoiseError> {
        self.inside.stream()
    }

    /// The numbers for one rehearsed run.
    pub fn lend(&mut self) -> &mut NoiseSource {
        &mut self.inside
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FractionBits, Law};

    #[test]
    fn rehearsals_repeat_and_say_what_they_are() {
        let draw = |digest: u8| {
            let mut source = RehearsalSource::from_public_digest([digest; 32]);
            assert!(source.lend().is_rehearsal() && source.lend().is_seeded());
            let mut stream = source.stream().unwrap();
            assert!(stream.is_seeded());
            stream.rounded(Law::Normal, FractionBits::LEAST)
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        let system = NoiseSource::from_os().unwrap();
        assert!(!system.is_rehearsal());
    }
}
