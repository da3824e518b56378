use crate::Outcome;
use halflit_noise::{FractionBits, Law, NoiseSource};
use std::io::{ErrorKind, Write};

/// Write exact draws round(2^bits Z) to standard output as raw little-endian 64-bit integers.
///
/// The randomness is the operating system's, so anyone can test the samplers from outside:
///
/// halflit-lab sample normal --bits 20 --count 1000000 > draws.bin
///
/// python3 -c "import numpy as np; z = np.fromfile('draws.bin', '<i8') / 2**20; print(z.mean(), z.std())"
#[derive(clap::Args)]
pub struct Args {
    /// The law of Z, at scale one.
    law: LawName,
    /// Binary digits kept after the point, 16 to 44.
    #[arg(long, default_value_t = 20)]
    bits: u32,
    /// How many integers to write.
    #[arg(long, default_value_t = 1_000_000)]
    count: u64,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum LawName {
    /// Mean 0, variance 1.
    Normal,
    /// Density e^-|z| / 2.
    Laplace,
    /// Density e^-z on z >= 0.
    Exponential,
}

impl From<LawName> for Law {
    fn from(name: LawName) -> Law {
        match name {
            LawName::Normal => Law::Normal,
            LawName::Laplace => Law::Laplace,
            LawName::Exponential => Law::Exponential,
        }
    }
}

/// Draws written at once.
const BATCH: usize = 1 << 16;

pub fn run(args: Args) -> Outcome {
    let bits = FractionBits::new(args.bits)?;
    let mut stream = NoiseSource::from_os()?.stream()?;
    let mut out = std::io::stdout().lock();
    let mut draws = vec![0; BATCH];
    let mut bytes = Vec::with_capacity(8 * BATCH);
    let mut left = args.count;
    while left > 0 {
        let size = usize::try_from(left).unwrap_or(BATCH).min(BATCH);
        stream.fill_rounded(args.law.into(), bits, &mut draws[..size]);
        bytes.clear();
        bytes.extend(draws[..size].iter().flat_map(|draw| draw.to_le_bytes()));
        if !write_unless_closed(&mut out, &bytes)? {
            break;
        }
        left -= size as u64;
    }
    Ok(())
}

/// Writes everything and says true, or false if the reader has seen enough and closed the pipe.
pub fn write_unless_closed(out: &mut impl Write, bytes: &[u8]) -> std::io::Result<bool> {
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        result => result.map(|()| true),
    }
}
