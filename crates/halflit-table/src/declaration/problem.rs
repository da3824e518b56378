//! What is wrong with a declaration, and where: file, line, column, the line itself and a caret under the fault.

use std::fmt;
use std::ops::Range;
use thiserror::Error;

/// Everything that is wrong with a declaration, in file order.
#[derive(Debug, Clone, PartialEq, Error)]
pub struct DeclarationError {
    /// The file as the caller named it.
    pub file: String,
    /// At least one problem.
    pub problems: Vec<Problem>,
}

/// One fault and its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// Line, counted from 1.
    pub line: usize,
    /// Column in characters, counted from 1.
    pub column: usize,
    /// The text of the line; empty where it is not to be shown.
    pub line_text: String,
    /// How many characters are at fault.
    pub caret_width: usize,
    /// What is wrong.
    pub refusal: Refusal,
}

/// Why a declaration is refused. Every message names the key, what is there, what is allowed, and the fix.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Not TOML.
    #[error("this is not TOML: {message}")]
    Syntax {
        /// What the parser said.
        message: String,
    },
    /// Not TOML and nothing like a declaration: most likely another file, whose lines are nobody's business.
    #[error(
        "this is no declaration: it is not TOML ({}, the first on line {line}) and has none of the sections [budget], [protect], [task] and \
         [columns]; name the declaration (privacy.toml), not the data or another file",
        if *faults == 1 { "1 fault".to_owned() } else { format!("{faults} faults") }
    )]
    NoDeclaration {
        /// How many faults the parser found.
        faults: usize,
        /// The line of the first.
        line: usize,
    },
    /// A key that means nothing here.
    #[error("unknown key `{key}` in {section}; {}", suggestion(nearest, known))]
    UnknownKey {
        /// The key.
        key: String,
        /// The section it stands in.
        section: String,
        /// The known key closest in spelling.
        nearest: Option<String>,
        /// All known keys of the section.
        known: Vec<&'static str>,
    },
    /// A key that must be there.
    #[error("{section} needs `{key}`: {why}; add `{fix}`")]
    MissingKey {
        /// The section.
        section: String,
        /// The missing key.
        key: &'static str,
        /// What it is needed for.
        why: String,
        /// A line to add.
        fix: String,
    },
    /// A value of the wrong kind.
    #[error("`{key}` is {found}, but must be {expected}")]
    WrongType {
        /// The key.
        key: String,
        /// The kind of the value that is there.
        found: &'static str,
        /// The kind that is expected, with an example.
        expected: &'static str,
    },
    /// A value of the right kind that is not allowed.
    #[error("`{key}` is {value}, but must be {allowed}; {fix}")]
    NotAllowed {
        /// The key.
        key: String,
        /// The value that is there.
        value: String,
        /// What is allowed.
        allowed: String,
        /// What to do.
        fix: String,
    },
    /// A placeholder of the skeleton that nobody filled in.
    #[error("fill in {what}; {advice}")]
    Unfilled {
        /// What is missing, for instance "the bounds of column `age`".
        what: String,
        /// How to choose it.
        advice: &'static str,
    },
    /// The same value twice in a list.
    #[error("`{key}` lists {value} a second time (first as `{first}`); list every value once")]
    Repeated {
        /// The key of the list.
        key: String,
        /// The second spelling.
        value: String,
        /// The first spelling: `1` and `1.0` are the same value.
        first: String,
    },
    /// Two settings that exclude each other, or a setting that nothing would use.
    #[error("`{key}`: {why}; {fix}")]
    Conflict {
        /// The key to change.
        key: String,
        /// Why it cannot stay.
        why: String,
        /// What to do.
        fix: String,
    },
    /// A column that plays a part but has no section of its own.
    #[error(
        "column `{column}` is the {role} but is not declared{}; add `[columns.{}]`",
        nearest.as_ref().map_or(String::new(), |nearest| format!(" (did you mean `{nearest}`?)")),
        quoted_key(column)
    )]
    NotDeclared {
        /// The column.
        column: String,
        /// The declared column closest in spelling.
        nearest: Option<String>,
        /// The part it plays.
        role: &'static str,
    },
    /// A structural column that could change with a protected unit.
    #[error(
        "column `{column}` is the {role} but is not public: a replaced unit could change it and with it what is \
         protected; if it is no secret add `visibility = \"public\"` to `[columns.{}]`, else choose another column",
        quoted_key(column)
    )]
    NotPublic {
        /// The column.
        column: String,
        /// The part it plays.
        role: &'static str,
    },
    /// Every used column is public.
    #[error(
        "no used column is sensitive, so there is nothing to protect; leave out `visibility = \"public\"` where a \
         column is a secret"
    )]
    NothingSensitive,
    /// No column is left to learn from.
    #[error(
        "no column is used as a feature; declare at least one column besides the label with bounds or values"
    )]
    NoFeature,
}

fn suggestion(nearest: &Option<String>, known: &[&str]) -> String {
    match nearest {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None => format!("known keys: {}", listed(known)),
    }
}

/// Names for a message: the first few, and how many more there are.
pub(crate) fn listed(names: &[impl AsRef<str>]) -> String {
    const MOST: usize = 20;
    let first: Vec<&str> = names.iter().take(MOST).map(AsRef::as_ref).collect();
    match names.len().saturating_sub(MOST) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

/// The name as it must be written in a TOML header.
pub(crate) fn quoted_key(name: &str) -> String {
    let bare = |character: char| character.is_ascii_alphanumeric() || character == '_' || character == '-';
    if !name.is_empty() && name.chars().all(bare) { name.to_owned() } else { quoted_text(name) }
}

/// The text as a TOML string.
pub(crate) fn quoted_text(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            character if character.is_control() => {
                quoted.push_str(&format!("\\u{:04X}", u32::from(character)))
            }
            character => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

/// More problems are counted, not listed: whoever mends the first ones reads the file again anyway.
const LISTED_PROBLEMS: usize = 10;

/// Longer lines are not shown: nobody would find the caret.
const LONGEST_LINE: usize = 300;

impl Problem {
    /// The fault at these bytes of the text.
    pub(super) fn at(text: &str, span: Range<usize>, refusal: Refusal) -> Problem {
        let start = floor_boundary(text, span.start);
        let line_start = text[..start].rfind('\n').map_or(0, |feed| feed + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |offset| start + offset);
        let line_text = &text[line_start..line_end];
        let end = floor_boundary(text, span.end.clamp(start, line_end));
        Problem {
            line: text[..start].matches('\n').count() + 1,
            column: text[line_start..start].chars().count() + 1,
            line_text: line_text.strip_suffix('\r').unwrap_or(line_text).to_owned(),
            caret_width: text[start..end].chars().count().max(1),
            refusal,
        }
    }

    /// What is left to say of a text that is no declaration at all.
    pub(super) fn no_declaration(faults: &[Problem]) -> Problem {
        let line = faults.iter().map(|fault| fault.line).min().unwrap_or(1);
        let refusal = Refusal::NoDeclaration { faults: faults.len(), line };
        Problem { line, column: 1, line_text: String::new(), caret_width: 1, refusal }
    }
}

/// The last character boundary at or before a byte.
fn floor_boundary(text: &str, byte: usize) -> usize {
    (0..=byte.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

impl fmt::Display for DeclarationError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().take(LISTED_PROBLEMS).enumerate() {
            if index > 0 {
                formatter.write_str("\n\n")?;
            }
            let Problem { line, column, line_text, caret_width, refusal } = problem;
            let margin = " ".repeat(line.to_string().len());
            // Tabs before the caret keep their width.
            let indent: String = line_text
                .chars()
                .take(column - 1)
                .map(|character| if character == '\t' { '\t' } else { ' ' })
                .collect();
            let carets = "^".repeat(*caret_width);
            write!(formatter, "{}:{line}:{column}: {refusal}", self.file)?;
            if !line_text.is_empty() && line_text.chars().count() <= LONGEST_LINE {
                write!(formatter, "\n {margin} |\n {line} | {line_text}\n {margin} | {indent}{carets}")?;
            }
        }
        match self.problems.len().saturating_sub(LISTED_PROBLEMS) {
            0 => Ok(()),
            more => write!(formatter, "\n\nand {more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_caret_points_at_the_fault() {
        let text = "[budget]\r\n\tepsilön = -1\r\n";
        let start = text.find("-1").unwrap();
        let refusal = Refusal::NotAllowed {
            key: "epsilon".to_owned(),
            value: "-1".to_owned(),
            allowed: "a finite number above 0".to_owned(),
            fix: "1.0 is a common choice".to_owned(),
        };
        let problem = Problem::at(text, start..start + 2, refusal);
        let error = DeclarationError { file: "privacy.toml".to_owned(), problems: vec![problem] };
        assert_eq!(
            error.to_string(),
            "privacy.toml:2:12: `epsilon` is -1, but must be a finite number above 0; 1.0 is a common choice\n   |\n \
             2 | \tepsilön = -1\n   | \t          ^^"
        );
    }

    proptest! {
        #[test]
        fn any_span_has_a_place(text in "[aé\n\r\t]{0,30}", from in 0usize..40, to in 0usize..40) {
            let problem = Problem::at(&text, from..to, Refusal::NoFeature);
            prop_assert!(problem.line >= 1 && problem.column >= 1 && problem.caret_width >= 1);
            prop_assert!(problem.column <= problem.line_text.chars().count() + 2);
            let _ = DeclarationError { file: String::new(), problems: vec![problem] }.to_string();
        }

        #[test]
        fn quoted_names_are_read_back(name in "\\PC{0,10}|[a-z\"\\\\\n\t]{0,6}") {
            let text = format!("{} = {}", quoted_key(&name), quoted_text(&name));
            let table = toml::de::DeTable::parse(&text).unwrap();
            let (key, value) = table.get_ref().iter().next().unwrap();
            prop_assert_eq!(key.get_ref().as_ref(), name.as_str());
            prop_assert_eq!(value.get_ref().as_str(), Some(name.as_str()));
        }
    }
}
