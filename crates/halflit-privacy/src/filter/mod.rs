//! Privacy filters: budgets for releases that are chosen while the outputs come in.
//!
//! Stop before the sum of squared mu (or the sum of rho) exceeds the cap: the outputs together are then mu-GDP
//! (rho-zCDP) even though every mu_t (rho_t) depended on earlier outputs (Smith and Thakurta 2022; Feldman and Zrnic
//! 2021; Koskela, Tobaben and Honkela 2023). [`GdpFilter`] and [`ZcdpFilter`] do only this.
//!
//! [`fits`] answers for whole events of any kind under an (epsilon, delta) cap: what a ledger asks before it charges.
//! Adding up privacy-loss distributions is no filter: which events to add must then be fixed in advance.

mod cap;

pub use cap::{CapError, Room, Rule, fits};

use crate::number::{Mu, Rho};
use thiserror::Error;

/// A release that would exceed the cap; nothing was spent.
#[derive(Debug, Clone, PartialEq, Error)]
#[error("the release costs {cost} but only {left} of {cap} {measure} is left: add noise or stop")]
pub struct FilterExceeded {
    /// What is counted.
    pub measure: &'static str,
    /// What the release would cost.
    pub cost: f64,
    /// What is left.
    pub left: f64,
    /// The hard cap.
    pub cap: f64,
}

/// A filter for Gaussian releases: caps the total mu.
#[derive(Debug, Clone, PartialEq)]
pub struct GdpFilter {
    account: Account,
}

/// A filter for zero-concentrated releases: caps the total rho.
#[derive(Debug, Clone, PartialEq)]
pub struct ZcdpFilter {
    account: Account,
}

#[derive(Debug, Clone, PartialEq)]
struct Account {
    measure: &'static str,
    cap: f64,
    spent: f64,
}

impl Account {
    fn spend(&mut self, cost: f64) -> Result<(), FilterExceeded> {
        // Rounded up, so that the true sum never exceeds the cap.
        let after = if cost == 0.0 { self.spent } else { (self.spent + cost).next_up() };
        if after <= self.cap {
            self.spent = after;
            return Ok(());
        }
        Err(FilterExceeded { measure: self.measure, cost, left: self.cap - self.spent, cap: self.cap })
    }
}

impl GdpFilter {
    /// Everything spent through this filter will be `cap`-GDP together.
    pub fn new(cap: Mu) -> Self {
        // The square of the cap is rounded down.
        let squared = (cap.get() * cap.get()).next_down().max(0.0);
        GdpFilter { account: Account { measure: "squared mu", cap: squared, spent: 0.0 } }
    }

    /// Call before a release of this mu (sensitivity over noise std); an error means the release must not happen.
    pub fn spend(&mut self, mu: Mu) -> Result<(), FilterExceeded> {
        let squared = if mu.get() == 0.0 { 0.0 } else { (mu.get() * mu.get()).next_up() };
        self.account.spend(squared)
    }

    /// The largest mu that still fits.
    pub fn left(&self) -> f64 {
        libm::sqrt((self.account.cap - self.account.spent).max(0.0)).next_down().max(0.0)
    }
}

impl ZcdpFilter {
    /// Everything spent through this filter will be `cap`-zCDP together.
    pub fn new(cap: Rho) -> Self {
        ZcdpFilter { account: Account { measure: "rho", cap: cap.get(), spent: 0.0 } }
    }

    /// Call before a release of this rho; an error means the release must not happen.
    pub fn spend(&mut self, rho: Rho) -> Result<(), FilterExceeded> {
        self.account.spend(rho.get())
    }

    /// The rho that is left.
    pub fn left(&self) -> f64 {
        self.account.cap - self.account.spent
    }
}

#[cfg(test)]
mod tests;
