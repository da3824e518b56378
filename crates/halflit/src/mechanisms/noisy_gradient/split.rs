//! What can be known of a private row's gradient.

use super::parts::Centre;
use crate::mechanisms::MechanismError;
use crate::problem::Problem;
use halflit_privacy::SensitiveColumns;

/// What the centre rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Split {
    /// Zero, or one centre for all units.
    Nothing,
    /// Midrange; all features are public, the label is sensitive.
    AllFeatures,
    /// Midrange; some features are public.
    SomeFeatures {
        /// Whether the label is public too.
        label_is_public: bool,
    },
    /// The row with its sensitive cells filled in.
    Imputed {
        /// Whether the label is public.
        label_is_public: bool,
    },
}

impl Split {
    /// For the wanted centre.
    pub(super) fn of(problem: &Problem, wanted: Option<Centre>) -> Result<Self, MechanismError> {
        let label = problem.encoding().label_name();
        let label_is_public = match problem.relation().sensitive() {
            SensitiveColumns::All => false,
            SensitiveColumns::Named(names) => !names.contains(label),
        };
        let columns = problem.encoding().columns();
        let sensitive = columns.iter().filter(|column| column.is_sensitive()).count();
        let best = if sensitive == 0 {
            Split::AllFeatures
        } else if sensitive < columns.len() {
            Split::SomeFeatures { label_is_public }
        } else {
            Split::Nothing
        };
        match wanted {
            Some(Centre::Zero | Centre::PublicMean | Centre::LastRelease) => Ok(Split::Nothing),
            Some(Centre::Midrange | Centre::Imputed) if best == Split::Nothing => {
                Err(MechanismError::NoPublicFeature)
            }
            Some(Centre::Imputed) => Ok(Split::Imputed { label_is_public }),
            Some(Centre::Midrange) | None => Ok(best),
        }
    }
}
