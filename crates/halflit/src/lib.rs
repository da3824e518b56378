//! Train convex models under differential privacy when only part of the data is private.
#![forbid(unsafe_code)]

pub mod plot;
