//! Reading TOML values with their places. Nothing here is checked beyond its kind, and nothing is a checked type yet.

use super::problem::{Problem, Refusal};
use std::cell::RefCell;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value and the bytes it was written in.
#[derive(Clone, Debug)]
pub(super) struct At<T> {
    pub(super) value: T,
    pub(super) span: Range<usize>,
}

/// The text of the declaration and what has been found wrong with it.
pub(super) struct Page<'t> {
    text: &'t str,
    problems: RefCell<Vec<Problem>>,
}

impl<'t> Page<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Page { text, problems: RefCell::default() }
    }

    /// Records a problem. Checks go on after it, so that one run finds all problems.
    pub(super) fn refuse(&self, span: &Range<usize>, refusal: Refusal) {
        self.problems.borrow_mut().push(Problem::at(self.text, span.clone(), refusal));
    }

    /// All problems so far.
    pub(super) fn into_problems(self) -> Vec<Problem> {
        self.problems.into_inner()
    }

    /// What was written at these bytes, shortened.
    pub(super) fn written(&self, span: &Range<usize>) -> String {
        const LONGEST: usize = 60;
        let written = self.text.get(span.clone()).unwrap_or("");
        if written.chars().count() <= LONGEST {
            return written.to_owned();
        }
        written.chars().take(LONGEST).chain("...".chars()).collect()
    }
}

/// What a skeleton writes where the owner has to choose.
pub(crate) const PLACEHOLDER: &str = "fill in";

/// A table of the declaration.
pub(super) struct Section<'t> {
    /// How messages name it: `[protect]`.
    pub(super) name: String,
    pub(super) span: Range<usize>,
    table: Option<&'t DeTable<'t>>,
}

type Value<'t> = &'t Spanned<DeValue<'t>>;

impl<'t> Section<'t> {
    pub(super) fn root(table: &'t Spanned<DeTable<'t>>) -> Self {
        Section { name: "the declaration".to_owned(), span: 0..0, table: Some(table.get_ref()) }
    }

    /// The section of this name; an absent one is empty and stands where its parent stands.
    pub(super) fn child(&self, page: &Page, key: &str) -> Section<'t> {
        let absent = Section { name: format!("[{key}]"), span: self.span.clone(), table: None };
        match self.entry(key) {
            None => absent,
            Some((span, value)) => section(page, format!("[{key}]"), key, span, value).unwrap_or(absent),
        }
    }

    /// All sub-sections in the order of the file, as `[columns.age]`.
    pub(super) fn children(&self, page: &Page, prefix: &str) -> Vec<At<(String, Section<'t>)>> {
        let mut children: Vec<_> = self
            .table
            .into_iter()
            .flat_map(|table| table.iter())
            .filter_map(|(key, value)| {
                let name = key.get_ref().to_string();
                let header = format!("[{prefix}.{}]", super::problem::quoted_key(&name));
                let section = section(page, header, &name, key.span(), value)?;
                Some(At { value: (name, section), span: key.span() })
            })
            .collect();
        children.sort_by_key(|child| child.span.start);
        children
    }

    /// Refuses keys that are not known, naming the one that was probably meant.
    pub(super) fn check_keys(&self, page: &Page, known: &[&'static str]) {
        for (key, _) in self.table.into_iter().flat_map(|table| table.iter()) {
            let name: &str = key.get_ref();
            if !known.contains(&name) {
                let refusal = Refusal::UnknownKey {
                    key: name.to_owned(),
                    section: self.name.clone(),
                    nearest: nearest(name, known).map(str::to_owned),
                    known: known.to_vec(),
                };
                page.refuse(&key.span(), refusal);
            }
        }
    }

    fn entry(&self, key: &str) -> Option<(Range<usize>, Value<'t>)> {
        // Borrowed keys cannot be looked up by text, and sections are short.
        let (key, value) = self.table?.iter().find(|(candidate, _)| candidate.get_ref() == key)?;
        Some((key.span(), value))
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.entry(key).is_some()
    }

    /// Where the key stands, or the section if it is absent.
    pub(super) fn span_of(&self, key: &str) -> Range<usize> {
        self.entry(key).map_or_else(|| self.span.clone(), |(span, _)| span)
    }

    pub(super) fn text(&self, page: &Page, key: &str, expected: &'static str) -> Option<At<String>> {
        let (_, value) = self.entry(key)?;
        match value.get_ref().as_str() {
            Some(text) => Some(At { value: text.to_owned(), span: value.span() }),
            None => wrong_type(page, key, value, expected),
        }
    }

    pub(super) fn number(&self, page: &Page, key: &str, expected: &'static str) -> Option<At<f64>> {
        let (_, value) = self.entry(key)?;
        match number(value.get_ref()) {
            Some(number) => Some(At { value: number, span: value.span() }),
            None => wrong_type(page, key, value, expected),
        }
    }

    /// A text or a number, whichever is there.
    pub(super) fn text_or_number(
        &self,
        page: &Page,
        key: &str,
        expected: &'static str,
    ) -> Option<Result<At<String>, At<f64>>> {
        let (_, value) = self.entry(key)?;
        let is_text = value.get_ref().is_str();
        if is_text {
            self.text(page, key, expected).map(Ok)
        } else {
            self.number(page, key, expected).map(Err)
        }
    }

    pub(super) fn boolean(&self, page: &Page, key: &str) -> Option<At<bool>> {
        let (_, value) = self.entry(key)?;
        match value.get_ref().as_bool() {
            Some(boolean) => Some(At { value: boolean, span: value.span() }),
            None => wrong_type(page, key, value, "true or false"),
        }
    }

    /// A list of numbers.
    pub(super) fn numbers(&self, page: &Page, key: &str, expected: &'static str) -> Option<At<Vec<f64>>> {
        let (_, value) = self.entry(key)?;
        let numbers = value
            .get_ref()
            .as_array()
            .and_then(|array| array.iter().map(|item| number(item.get_ref())).collect());
        match numbers {
            Some(numbers) => Some(At { value: numbers, span: value.span() }),
            None => wrong_type(page, key, value, expected),
        }
    }

    /// A list of cell values: texts, numbers or booleans, each as the text it has in a file.
    pub(super) fn cells(
        &self,
        page: &Page,
        key: &str,
        expected: &'static str,
    ) -> Option<At<Vec<At<String>>>> {
        let (_, value) = self.entry(key)?;
        let Some(array) = value.get_ref().as_array() else { return wrong_type(page, key, value, expected) };
        let mut cells = Vec::with_capacity(array.len());
        for item in array.iter() {
            match cell(item.get_ref()) {
                Some(text) => cells.push(At { value: text, span: item.span() }),
                None => return wrong_type(page, key, item, "a text, a finite number, true or false"),
            }
        }
        Some(At { value: cells, span: value.span() })
    }

    /// One cell value.
    pub(super) fn cell(&self, page: &Page, key: &str, expected: &'static str) -> Option<At<String>> {
        let (_, value) = self.entry(key)?;
        match cell(value.get_ref()) {
            Some(text) => Some(At { value: text, span: value.span() }),
            None => wrong_type(page, key, value, expected),
        }
    }

    /// Whether the key still holds the skeleton's placeholder.
    pub(super) fn unfilled(&self, key: &str) -> Option<Range<usize>> {
        let (_, value) = self.entry(key)?;
        let is_placeholder =
            |value: Value| value.get_ref().as_str().is_some_and(|text| text.starts_with(PLACEHOLDER));
        let in_list = value.get_ref().as_array().is_some_and(|array| array.iter().any(is_placeholder));
        (is_placeholder(value) || in_list).then(|| value.span())
    }
}

fn section<'t>(
    page: &Page,
    name: String,
    key: &str,
    span: Range<usize>,
    value: Value<'t>,
) -> Option<Section<'t>> {
    match value.get_ref().as_table() {
        Some(table) => Some(Section { name, span, table: Some(table) }),
        None => wrong_type(page, key, value, "a section of its own"),
    }
}

fn wrong_type<T>(page: &Page, key: &str, value: Value, expected: &'static str) -> Option<T> {
    let found = match value.get_ref() {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a section",
    };
    page.refuse(&value.span(), Refusal::WrongType { key: key.to_owned(), found, expected });
    None
}

/// Infinities and NaN are TOML numbers; whoever asks refuses them with a message that says what is allowed.
fn number(value: &DeValue) -> Option<f64> {
    match value {
        DeValue::Integer(integer) => {
            i128::from_str_radix(integer.as_str(), integer.radix()).ok().map(|integer| integer as f64)
        }
        DeValue::Float(float) => float.as_str().parse().ok(),
        _ => None,
    }
}

/// The text that a value has in a cell of a file.
fn cell(value: &DeValue) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.trim_ascii().to_owned()),
        DeValue::Boolean(boolean) => Some(boolean.to_string()),
        DeValue::Integer(integer) if integer.radix() == 10 => Some(integer.as_str().to_owned()),
        DeValue::Integer(_) => number(value).map(|number| number.to_string()),
        DeValue::Float(float) => {
            number(value).filter(|number| number.is_finite()).map(|_| float.as_str().to_owned())
        }
        _ => None,
    }
}

/// The known word closest to what was written, if it is close enough to be a slip.
pub(crate) fn nearest<'k>(written: &str, known: &[&'k str]) -> Option<&'k str> {
    let lower = written.to_lowercase();
    let distance = |word: &str| strsim::damerau_levenshtein(&lower, &word.to_lowercase());
    let best = known.iter().min_by_key(|word| distance(word))?;
    let slip = 1 + best.chars().count() / 3;
    (distance(best) <= slip).then_some(*best)
}
