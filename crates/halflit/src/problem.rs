//! What is to be learned: a sealed table, a loss, a domain, and the constants that the code enforces.

use crate::mechanisms::{MechanismError, public_rows};
use halflit_convex::{FEATURE_BITS, Loss, Rows};
use halflit_privacy::{Relation, Unit};
use halflit_table::{
    Budget, Declaration, Declared, EncodeError, EncodedTable, Encoding, MOST_ROWS_PER_USER, OutOfDomain,
    PublicFacts, PublicView, Regularization,
};
use std::sync::{Arc, OnceLock};

/// A learning problem on a declared table.
///
/// Minimise, over weights w (one vector, or one per class),
///
/// ```text
/// (1/W) ( sum over private units u of loss_u(w)  +  v * sum over public rows i of loss_i(w) )  +  (lambda/2) ||w||^2
/// ```
///
/// where a row unit has its row's loss, a user unit the mean loss of its rows (or, with a declared `rows_per_user` M, the sum over at
/// most M rows divided by M), v is [`Problem::public_row_weight`] and W is [`Problem::total_weight`], both public constants.
#[derive(Debug)]
pub struct Problem {
    encoded: EncodedTable,
    declaration: Declaration,
    /// The public rows' minimizer for one penalty, given by its bits, once someone has asked for it: planning and running ask several times.
    public_fit: OnceLock<(u64, Vec<f64>)>,
    /// How large the public rows suggest that the weights are.
    weights_norm: OnceLock<f64>,
    /// The inverse of the public rows' second moments for one ridge, given by its bits.
    public_inverse: OnceLock<(u64, Arc<[f32]>)>,
}

impl Problem {
    /// Encodes and seals the table.
    ///
    /// # Errors
    /// Cells outside their domains that are not to be coerced; of private ones the columns are named.
    pub fn pose(declared: Declared, out_of_domain: OutOfDomain) -> Result<Self, EncodeError> {
        let encoded = declared.encode(out_of_domain)?;
        let declaration = declared.declaration().clone();
        Ok(Problem::made_up(encoded, declaration))
    }

    /// Everything about the problem that may be known without paying: what a rehearsal is made from.
    ///
    /// # Errors
    /// None in practice: the public part of the rows is no larger than the rows, and public rows can be fitted.
    pub fn public_side(&self) -> Result<PublicSide<'_>, MechanismError> {
        Ok(PublicSide {
            view: self.encoded.public_view()?,
            encoding: self.encoded.encoding(),
            facts: self.encoded.facts(),
            public: self.public_data(),
            declaration: &self.declaration,
            weights_norm: public_rows::weights_norm(self)?,
        })
    }

    /// A problem on a made-up table under the same declaration.
    pub(crate) fn made_up(encoded: EncodedTable, declaration: Declaration) -> Problem {
        Problem {
            encoded,
            declaration,
            public_fit: OnceLock::new(),
            weights_norm: OnceLock::new(),
            public_inverse: OnceLock::new(),
        }
    }

    /// Which tables must be indistinguishable.
    pub fn relation(&self) -> &Relation {
        self.declaration.relation()
    }

    /// What everyone may know about the table.
    pub fn facts(&self) -> &PublicFacts {
        self.encoded.facts()
    }

    /// The declared budget.
    pub fn budget(&self) -> Budget {
        self.declaration.budget()
    }

    /// The encoded table; its private part is sealed.
    pub fn encoded(&self) -> &EncodedTable {
        &self.encoded
    }

    /// How cells became rows.
    pub fn encoding(&self) -> &Encoding {
        self.encoded.encoding()
    }

    /// The loss of one row, on encoded labels.
    pub fn loss(&self) -> Loss {
        self.declaration.loss()
    }

    /// The declared l2 penalty.
    pub fn regularization(&self) -> Regularization {
        self.declaration.task().regularization
    }

    /// The declared penalty, or none at all where it is left to the mechanism.
    pub(crate) fn declared_penalty(&self) -> f64 {
        match self.regularization() {
            Regularization::Auto => 0.0,
            Regularization::Fixed(lambda) => lambda,
        }
    }

    /// The declared radius of the ball that the weights stay in.
    pub fn radius(&self) -> Option<f64> {
        self.declaration.task().radius
    }

    /// Number of weights: coordinates of a row times outputs of the loss.
    pub fn dimension(&self) -> usize {
        self.encoding().width() * self.loss().outputs()
    }

    /// Number of protected units: public under replace, a declared constant under zero-out.
    pub fn private_units(&self) -> u64 {
        self.facts().private_units
    }

    /// Largest possible norm of a row.
    pub fn row_norm_bound(&self) -> f64 {
        self.facts().row_norm_bound
    }

    /// Largest possible norm of a row in feature units, rounded up.
    pub fn integer_row_norm_bound(&self) -> u64 {
        let square = self.facts().largest_squared_norm;
        let root = square.isqrt();
        if root * root == square { root } else { root + 1 }
    }

    /// How a unit's rows are weighed inside the unit.
    pub fn unit_weighting(&self) -> UnitWeighting {
        match (self.relation().unit(), self.facts().rows_per_user) {
            (Unit::Row, _) => UnitWeighting::SingleRow,
            (Unit::User { .. }, None) => UnitWeighting::Mean,
            (Unit::User { .. }, Some(most)) => UnitWeighting::Share { rows_per_user: most },
        }
    }

    /// The most rows of one unit: declared, or a constant.
    pub fn rows_per_unit(&self) -> u64 {
        match self.unit_weighting() {
            UnitWeighting::SingleRow => 1,
            UnitWeighting::Mean => MOST_ROWS_PER_USER,
            UnitWeighting::Share { rows_per_user } => rows_per_user,
        }
    }

    /// What a public row counts, next to a private unit that counts 1: as much as a private row does, as far as that is public.
    pub fn public_row_weight(&self) -> f64 {
        let facts = self.facts();
        match self.unit_weighting() {
            UnitWeighting::SingleRow => 1.0,
            UnitWeighting::Share { rows_per_user } => 1.0 / rows_per_user as f64,
            UnitWeighting::Mean => match facts.private_rows {
                Some(rows) => facts.private_units as f64 / rows.max(1) as f64,
                None => 1.0,
            },
        }
    }

    /// W: the sum of all weights, a public constant.
    pub fn total_weight(&self) -> f64 {
        self.private_units() as f64 + self.public_row_weight() * self.facts().public_rows as f64
    }

    /// The public rows with their labels.
    pub fn public_data(&self) -> (&Rows, &[f64]) {
        (self.encoded.public_rows(), self.encoded.public_labels())
    }

    /// Where the inverse of the public rows' second moments is kept.
    pub(crate) fn public_inverse(&self) -> &OnceLock<(u64, Arc<[f32]>)> {
        &self.public_inverse
    }

    /// Where the size of the weights is kept.
    pub(crate) fn weights_norm(&self) -> &OnceLock<f64> {
        &self.weights_norm
    }

    /// Where the public rows' minimizer is kept.
    pub(crate) fn public_fit(&self) -> &OnceLock<(u64, Vec<f64>)> {
        &self.public_fit
    }
}

/// What everyone may know about a problem: the declaration, public rows, and the public cells of private rows. Nothing in here is sealed.
#[derive(Debug)]
pub struct PublicSide<'a> {
    pub(crate) view: PublicView<'a>,
    pub(crate) encoding: &'a Encoding,
    pub(crate) facts: &'a PublicFacts,
    pub(crate) public: (&'a Rows, &'a [f64]),
    pub(crate) declaration: &'a Declaration,
    /// How large weights are: as the public rows suggest, or a guess.
    pub(crate) weights_norm: f64,
}

/// How the rows of a unit share its weight of 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitWeighting {
    /// The unit is a row.
    SingleRow,
    /// Each of a user's m rows counts 1/m.
    Mean,
    /// Each of a user's rows counts 1/M, for a declared largest number M.
    Share {
        /// M.
        rows_per_user: u64,
    },
}

/// What one feature unit is worth.
pub const FEATURE_UNIT: f64 = 1.0 / (1u32 << FEATURE_BITS) as f64;

/// The scores of one row: one per output.
pub(crate) fn scores(rows: &Rows, row: usize, weights: &[f64]) -> Vec<f64> {
    let along = |weights: &[f64]| match rows {
        Rows::Dense(rows) => rows.row(row).iter().zip(weights).map(|(&q, w)| f64::from(q) * w).sum::<f64>(),
        Rows::Sparse(rows) => {
            rows.row(row).iter().map(|(column, q)| f64::from(q) * weights[column]).sum::<f64>()
        }
    };
    weights.chunks(rows.width().max(1)).map(|weights| along(weights) * FEATURE_UNIT).collect()
}

/// Adds a row times a factor to a vector.
pub(crate) fn add_row(rows: &Rows, row: usize, factor: f64, sum: &mut [f64]) {
    let factor = FEATURE_UNIT * factor;
    match rows {
        Rows::Dense(rows) => {
            sum.iter_mut().zip(rows.row(row)).for_each(|(sum, &q)| *sum += factor * f64::from(q));
        }
        Rows::Sparse(rows) => {
            rows.row(row).iter().for_each(|(column, q)| sum[column] += factor * f64::from(q));
        }
    }
}
