//! What the mechanisms for means have in common: unit means, the moments of public rows, and the weight that balances private against public rows.
//!
//! Legend: n private units, N public rows, V^2 = E||x - mean||^2, a = the summed variance of the noise on the private sum, r the weight of a
//! private unit. The estimate is r * (private sum + noise) + ((1 - n r)/N) * (public sum), for every r in [0, 1/n] without bias.

use halflit_table::Units;

/// Mean and spread of public rows.
#[derive(Clone, Debug, PartialEq)]
pub struct PublicMoments {
    /// Number of rows.
    pub rows: u64,
    /// The mean of each coordinate; zero without rows.
    pub mean: Vec<f64>,
    /// The unbiased variance of each coordinate; none below two rows.
    pub variances: Option<Vec<f64>>,
}

impl PublicMoments {
    /// The moments of rows that stand one after the other.
    pub fn of(rows: &[f64], width: usize) -> Self {
        let count = rows.len() / width.max(1);
        let mut mean = vec![0.0; width];
        add_rows(rows, width, &mut mean, |_, x| x);
        mean.iter_mut().for_each(|sum| *sum /= count.max(1) as f64);
        let variances = (count >= 2).then(|| {
            let mut squares = vec![0.0; width];
            add_rows(rows, width, &mut squares, |coordinate, x| (x - mean[coordinate]).powi(2));
            squares.iter().map(|sum| sum / (count - 1) as f64).collect()
        });
        PublicMoments { rows: count as u64, mean, variances }
    }

    /// V^2: the summed variance, if two rows or more tell it.
    pub fn variance(&self) -> Option<f64> {
        self.variances.as_ref().map(|variances| variances.iter().sum())
    }
}

fn add_rows(rows: &[f64], width: usize, sums: &mut [f64], term: impl Fn(usize, f64) -> f64) {
    for row in rows.chunks_exact(width.max(1)) {
        for (coordinate, (sum, &x)) in sums.iter_mut().zip(row).enumerate() {
            *sum += term(coordinate, x);
        }
    }
}

/// The weights of an estimate, and its expected squared error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Balance {
    /// n: number of private units.
    pub units: f64,
    /// N: number of public rows.
    pub public_rows: f64,
    /// V^2.
    pub variance: f64,
    /// a: the summed variance of the noise on the private sum, and whatever else grows with r^2.
    pub noise: f64,
}

impl Balance {
    /// The r in [0, 1/n] of least expected squared error: (n V^2/N) / (a + n V^2 + n^2 V^2/N).
    pub fn best_weight(&self) -> f64 {
        let Balance { units, public_rows, variance, noise } = *self;
        if !(public_rows > 0.0) {
            return 1.0 / units;
        }
        let pull = units * variance / public_rows;
        let weight = pull / (noise + units * variance + units * pull);
        if weight.is_finite() { weight.clamp(0.0, 1.0 / units) } else { 0.0 }
    }

    /// What each public row counts: (1 - n r)/N.
    pub fn public_weight(&self, weight: f64) -> f64 {
        if self.public_rows > 0.0 { (1.0 - self.units * weight).max(0.0) / self.public_rows } else { 0.0 }
    }

    /// r^2 (n V^2 + a) + (1 - n r)^2 V^2/N
    pub fn squared_error(&self, weight: f64) -> f64 {
        let public = self.public_weight(weight);
        weight * weight * (self.units * self.variance + self.noise)
            + public * public * self.public_rows * self.variance
    }
}

/// Calls `each` with every unit's value: the row itself, or the mean of a user's rows. A function of that unit's own cells, in the unit's own order.
pub(crate) fn for_each_unit(rows: &[f64], width: usize, units: &Units, mut each: impl FnMut(&[f64])) {
    let mut mean = vec![0.0; width];
    match units {
        Units::Rows(_) => rows.chunks_exact(width.max(1)).for_each(each),
        Units::Users { offsets } => {
            for user in offsets.windows(2) {
                let own = &rows[user[0] * width..user[1] * width];
                mean.fill(0.0);
                add_rows(own, width, &mut mean, |_, x| x);
                mean.iter_mut().for_each(|sum| *sum /= (user[1] - user[0]).max(1) as f64);
                each(&mean);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_weight_is_best_and_its_ends_are_the_naive_estimators() {
        for (units, public_rows, variance, noise) in [
            (9920.0, 80.0, 1.0, 1.25e6),
            (100.0, 900.0, 3.0, 1e-3),
            (5.0, 1.0, 0.2, 10.0),
            (7.0, 3.0, 1.0, 0.0),
        ] {
            let balance = Balance { units, public_rows, variance, noise };
            let best = balance.best_weight();
            assert!(best > 0.0 && best <= 1.0 / units);
            for step in 0..=200 {
                let other = f64::from(step) / 200.0 / units;
                assert!(balance.squared_error(best) <= balance.squared_error(other) * (1.0 + 1e-12));
            }
            assert!((balance.squared_error(0.0) - variance / public_rows).abs() < 1e-12 * variance);
            let all = units + public_rows;
            let gaussian = variance / all + noise / (all * all);
            assert!((balance.squared_error(1.0 / all) / gaussian - 1.0).abs() < 1e-12);
        }
        let no_public = Balance { units: 10.0, public_rows: 0.0, variance: 1.0, noise: 5.0 };
        assert_eq!(no_public.best_weight(), 0.1);
        assert_eq!(no_public.public_weight(0.1), 0.0);
        let constant = Balance { units: 10.0, public_rows: 4.0, variance: 0.0, noise: 0.0 };
        assert_eq!(constant.best_weight(), 0.0, "NaN never becomes a weight");
    }

    #[test]
    fn users_count_by_their_means() {
        let rows = [1.0, 10.0, 3.0, 30.0, 5.0, 50.0];
        let mut seen = Vec::new();
        for_each_unit(&rows, 2, &Units::Users { offsets: vec![0, 2, 3] }, |unit| seen.push(unit.to_vec()));
        assert_eq!(seen, [vec![2.0, 20.0], vec![5.0, 50.0]]);
        let moments = PublicMoments::of(&rows, 2);
        assert_eq!(
            (moments.rows, moments.mean, moments.variances),
            (3, vec![3.0, 30.0], Some(vec![4.0, 400.0]))
        );
        assert_eq!(PublicMoments::of(&[], 2).variance(), None);
    }
}
