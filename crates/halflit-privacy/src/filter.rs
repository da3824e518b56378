//! Privacy filters: budgets for releases whose noise is chosen while the outputs come in.
//!
//! Stop before the sum of squared mu (or the sum of rho) exceeds the cap: the outputs together are then mu-GDP
//! (rho-zCDP) even though every mu_t (rho_t) depended on earlier outputs (Smith and Thakurta 2022; Feldman and Zrnic
//! 2021; Koskela, Tobaben and Honkela 2023). There is no such filter for sampled releases: their noise and rate are
//! fixed in advance, and no constructor here takes one.

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
mod tests {
    use super::*;

    #[test]
    fn the_gdp_filter_stops_before_its_cap_and_not_early() {
        let mut filter = GdpFilter::new(Mu::new(1.0).unwrap());
        let each = Mu::new(0.1).unwrap();
        let spent = (0..200).take_while(|_| filter.spend(each).is_ok()).count();
        // 0.1^2 * 100 = 1 in real numbers; rounding may cost the last one.
        assert!((99..=100).contains(&spent), "{spent}");
        let before = filter.clone();
        let error = filter.spend(Mu::new(0.5).unwrap()).unwrap_err();
        assert_eq!(filter, before, "a refused release spends nothing");
        assert_eq!(error.measure, "squared mu");
        assert!(filter.spend(Mu::new(0.0).unwrap()).is_ok());
        assert!(filter.left() < 0.11);
    }

    #[test]
    fn the_zcdp_filter_adds_rho() {
        let mut filter = ZcdpFilter::new(Rho::new(1.0).unwrap());
        assert!(filter.spend(Rho::new(0.75).unwrap()).is_ok());
        assert!(filter.spend(Rho::new(0.5).unwrap()).is_err());
        assert!(filter.spend(Rho::new(0.25 - 1e-12).unwrap()).is_ok());
        assert!(filter.left() >= 0.0);
    }

    #[test]
    fn what_is_left_can_be_spent() {
        let mut filter = GdpFilter::new(Mu::new(2.0).unwrap());
        filter.spend(Mu::new(1.3).unwrap()).unwrap();
        filter.spend(Mu::new(filter.left()).unwrap()).unwrap();
    }

    #[test]
    fn an_empty_filter_lets_nothing_pass() {
        let mut filter = GdpFilter::new(Mu::new(0.0).unwrap());
        assert!(filter.spend(Mu::new(1e-6).unwrap()).is_err());
        assert!(filter.spend(Mu::new(0.0).unwrap()).is_ok());
    }
}
