//! How a command ends when it does not succeed: 2 for bad input, 1 for anything else.

use std::borrow::Cow;
use std::fmt::Display;
use std::process::ExitCode;

/// Why a command stopped.
#[derive(Debug)]
pub enum Failure {
    /// The caller can fix it: a wrong argument, declaration or file. Exit code 2.
    BadInput(String),
    /// The input was fine but the work could not be done. Exit code 1.
    Failed(String),
}

impl Failure {
    /// Bad input, described by its own error value.
    pub fn bad_input(error: impl Display) -> Self {
        Failure::BadInput(error.to_string())
    }

    /// A failure that is not the input's fault.
    pub fn failed(error: impl Display) -> Self {
        Failure::Failed(error.to_string())
    }

    /// Says it on standard error and gives the exit code.
    pub fn report(self, json: bool) -> ExitCode {
        let (message, code) = match self {
            Failure::BadInput(message) => (message, 2),
            Failure::Failed(message) => (message, 1),
        };
        if json {
            eprintln!("{}", serde_json::json!({ "error": message }));
        } else {
            eprintln!("error: {}", shown(&message));
        }
        ExitCode::from(code)
    }
}

/// Says on standard error what the caller should know before it is too late.
pub fn warn(message: &str, json: bool) {
    if json {
        eprintln!("{}", serde_json::json!({ "warning": message }));
    } else {
        eprintln!("warning: {}", shown(message));
    }
}

/// The text with control characters written out: names come from files, and a terminal obeys what it is sent.
pub fn shown(text: &str) -> Cow<'_, str> {
    let is_obeyed = |character: char| character.is_control() && !matches!(character, '\n' | '\t');
    if !text.contains(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let written = |character: char| match is_obeyed(character) {
        true => character.escape_default().to_string(),
        false => character.to_string(),
    };
    Cow::Owned(text.chars().map(written).collect())
}
