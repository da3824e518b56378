//! Shortening rows to a declared norm, in exact integers.
//!
//! If some features are public and others sensitive, the two groups of coordinates are shortened separately, each to its
//! share of the norm. A public coordinate is then a function of public cells alone; shortening the row as a whole
//! would let the length of its secret part shine through.

/// Squared lattice units of a squared length of 1: 2^28.
const UNIT_SQUARED: u64 = 1 << (2 * halflit_convex::FEATURE_BITS);

/// The limits of one encoding.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Clip {
    /// For every coordinate, the group it is shortened with.
    group_of: Vec<Group>,
    limits: Limits,
}

/// Largest squared norm of each group, in units of 2^-28.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Limits {
    public: u64,
    sensitive: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Group {
    Public,
    Sensitive,
}

impl Clip {
    /// Limits for rows whose groups have these numbers of source columns (each of length at most 1).
    ///
    /// The squared norm is shared in proportion to the source columns, so both groups are shortened at the same ratio to
    /// their longest possible length.
    pub(crate) fn new(
        row_norm: f64,
        group_of: Vec<Group>,
        public_columns: u64,
        sensitive_columns: u64,
    ) -> Clip {
        let total = squared_lattice_norm(row_norm, public_columns + sensitive_columns);
        let share = |columns: u64| {
            let all = u128::from(public_columns + sensitive_columns).max(1);
            // floor, so that the shares never exceed the total
            (u128::from(total) * u128::from(columns) / all) as u64
        };
        Clip {
            group_of,
            limits: Limits { public: share(public_columns), sensitive: share(sensitive_columns) },
        }
    }

    /// The largest squared norm of a shortened row.
    pub(crate) fn largest_squared_norm(&self) -> u64 {
        self.limits.public + self.limits.sensitive
    }

    /// Shortens a row given by coordinates and values.
    pub(crate) fn apply(&self, coordinates: impl Iterator<Item = usize> + Clone, values: &mut [i16]) {
        for (group, limit) in [(Group::Public, self.limits.public), (Group::Sensitive, self.limits.sensitive)]
        {
            let in_group = |coordinate: usize| self.group_of[coordinate] == group;
            let norm: u64 = coordinates
                .clone()
                .zip(&*values)
                .filter(|(coordinate, _)| in_group(*coordinate))
                .map(|(_, &value)| u64::from(value.unsigned_abs()).pow(2))
                .sum();
            if norm <= limit {
                continue;
            }
            let factor = shrink_factor(limit, norm);
            for (coordinate, value) in coordinates.clone().zip(&mut *values) {
                if in_group(coordinate) {
                    *value = shrink(*value, factor);
                }
            }
        }
    }
}

/// floor((norm * 2^14)^2), and never more than the longest possible row needs.
fn squared_lattice_norm(norm: f64, columns: u64) -> u64 {
    let longest = columns * UNIT_SQUARED;
    let lattice_norm = norm * f64::from(1u32 << halflit_convex::FEATURE_BITS); // exact: a power of two
    let square = lattice_norm * lattice_norm;
    if !(square < longest as f64) || longest >= 1 << 53 {
        return longest.min(square as u64);
    }
    let floor = square as u64;
    // The product may have been rounded up over an integer; the fused sum has the exact sign of norm^2 - floor.
    if lattice_norm.mul_add(lattice_norm, -(floor as f64)) < 0.0 { floor - 1 } else { floor }
}

/// floor(2^30 * sqrt(limit / norm)) for limit < norm.
fn shrink_factor(limit: u64, norm: u64) -> u64 {
    ((u128::from(limit) << 60) / u128::from(norm)).isqrt() as u64
}

/// value * factor / 2^30, rounded toward zero: sum of squares <= norm * factor^2 / 2^60 <= limit.
fn shrink(value: i16, factor: u64) -> i16 {
    let magnitude = ((u64::from(value.unsigned_abs()) * factor) >> 30) as i16;
    if value < 0 { -magnitude } else { magnitude }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn squared_norm(values: &[i16]) -> u64 {
        values.iter().map(|&value| u64::from(value.unsigned_abs()).pow(2)).sum()
    }

    #[test]
    fn the_limit_is_the_floor_of_the_square() {
        for (norm, columns, expected) in
            [(1.0, 4, 1 << 28), (2.0, 4, 4 << 28), (7.0, 4, 4 << 28), (1.0 / 64.0, 4, 1 << 16)]
        {
            assert_eq!(squared_lattice_norm(norm, columns), expected, "{norm}");
        }
        // The double next to sqrt(11) lies below it, yet its rounded square is 11: the limit must not be 11 * 2^28.
        let root = 11f64.sqrt();
        assert!(root * root == 11.0 && root.mul_add(root, -11.0) < 0.0);
        assert_eq!(squared_lattice_norm(root, 12), (11 << 28) - 1);
    }

    #[test]
    fn public_coordinates_do_not_see_sensitive_ones() {
        let groups = vec![Group::Public, Group::Sensitive, Group::Sensitive, Group::Public];
        let clip = Clip::new(1.0, groups, 2, 2);
        let mut public_parts = Vec::new();
        for secret in [0, 1, 8000, 16384, -16384] {
            let mut row = [16384, secret, -secret, 16384];
            clip.apply(0..4, &mut row);
            public_parts.push((row[0], row[3]));
            assert!(squared_norm(&row) <= 1 << 28);
        }
        assert!(public_parts.windows(2).all(|pair| pair[0] == pair[1]), "{public_parts:?}");
    }

    proptest! {
        #[test]
        fn shortened_rows_are_short_and_keep_their_direction(
            row in proptest::collection::vec(-16384i16..=16384, 1..40),
            norm in 0.015625f64..3.0,
        ) {
            let clip = Clip::new(norm, vec![Group::Sensitive; row.len()], 0, row.len() as u64);
            let mut short = row.clone();
            clip.apply(0..row.len(), &mut short);
            let limit = clip.largest_squared_norm();
            prop_assert!(squared_norm(&short) <= limit);
            prop_assert!((limit as f64) <= norm * norm * 268435456.0 * (1.0 + 1e-15));
            let ratio = (limit as f64 / squared_norm(&row) as f64).sqrt().min(1.0);
            for (&before, &after) in row.iter().zip(&short) {
                // Toward zero, and by less than one unit.
                let exact = f64::from(before) * ratio;
                prop_assert!((exact - f64::from(after)).abs() < 1.0 && f64::from(after).abs() <= exact.abs());
            }
            let mut again = short.clone();
            clip.apply(0..row.len(), &mut again);
            prop_assert_eq!(again, short);
        }
    }
}
