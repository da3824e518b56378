//! Private cells travel sealed.

use std::fmt;

/// A value made of private cells. It has no accessor, no debug print of its content and no serialization; it opens only
/// against proof that the ledger has recorded the price.
///
/// With the token the rows can be read:
///
/// ```
/// # use halflit_table::{Column, Declaration, Declared, OutOfDomain, Table, Unsealed};
/// # let column = |values: Vec<f64>| Column::Numbers(values);
/// # let table = Table::from_columns(vec![
/// #     ("x".to_owned(), column(vec![0.0, 1.0])), ("y".to_owned(), column(vec![3.0, 4.0])),
/// # ])?;
/// # let declaration = Declaration::parse("
/// #     budget = { epsilon = 1.0, delta = 1e-6 }
/// #     protect = { unit = 'row' }
/// #     task = { label = 'y', loss = 'squared' }
/// #     columns = { x = { bounds = [0, 1] }, y = { bounds = [0, 10] } }
/// # ", "privacy.toml")?;
/// let encoded = Declared::bind(declaration, table)?.encode(OutOfDomain::Refuse)?;
/// let token = Unsealed::charge_was_recorded();
/// let rows = encoded.private_rows().open(&token);
/// assert_eq!(rows.len(), 2);
/// assert_eq!(format!("{:?}", encoded.private_rows()), "Sealed");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Without it they cannot:
///
/// ```compile_fail,E0061
/// # use halflit_table::{Column, Declaration, Declared, OutOfDomain, Table, Unsealed};
/// # let column = |values: Vec<f64>| Column::Numbers(values);
/// # let table = Table::from_columns(vec![
/// #     ("x".to_owned(), column(vec![0.0, 1.0])), ("y".to_owned(), column(vec![3.0, 4.0])),
/// # ])?;
/// # let declaration = Declaration::parse("
/// #     budget = { epsilon = 1.0, delta = 1e-6 }
/// #     protect = { unit = 'row' }
/// #     task = { label = 'y', loss = 'squared' }
/// #     columns = { x = { bounds = [0, 1] }, y = { bounds = [0, 10] } }
/// # ", "privacy.toml")?;
/// let encoded = Declared::bind(declaration, table)?.encode(OutOfDomain::Refuse)?;
/// let rows = encoded.private_rows().open();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Nor by naming the field, by making a token by hand, or by dereferencing:
///
/// ```compile_fail,E0616
/// fn peek(sealed: &halflit_table::Sealed<Vec<f64>>) -> &Vec<f64> {
///     &sealed.content
/// }
/// ```
///
/// ```compile_fail,E0451
/// let token = halflit_table::Unsealed { private: () };
/// ```
///
/// ```compile_fail,E0614
/// fn peek(sealed: &halflit_table::Sealed<f64>) -> f64 {
///     **sealed
/// }
/// ```
pub struct Sealed<T> {
    content: T,
}

/// Proof that a charge was recorded: the key to every [`Sealed`] value.
///
/// ```compile_fail,E0599
/// let token = halflit_table::Unsealed::charge_was_recorded();
/// let copy = token.clone();
/// ```
pub struct Unsealed {
    private: (),
}

impl Unsealed {
    /// To be called by the ledger alone, after the charge is safely on disk. The workspace forbids it everywhere else.
    #[must_use]
    pub fn charge_was_recorded() -> Unsealed {
        Unsealed { private: () }
    }
}

impl<T> Sealed<T> {
    pub(crate) fn new(content: T) -> Sealed<T> {
        Sealed { content }
    }

    /// The content, for whoever has paid.
    pub fn open(&self, token: &Unsealed) -> &T {
        let Unsealed { private: () } = token;
        &self.content
    }

    /// The content, for code of this crate that hands out nothing but what the relation makes public.
    pub(crate) fn content_for_public_part(&self) -> &T {
        &self.content
    }
}

impl<T> fmt::Debug for Sealed<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Sealed")
    }
}

impl fmt::Debug for Unsealed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Unsealed")
    }
}
