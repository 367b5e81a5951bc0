//! Operations of the Core ML opsets: every operation by name, with its arguments and its treatment here. The rows are
//! facts of the public format (the operation reference of coremltools), against which readers check files.

mod rows;

pub use rows::ROWS;

/// Deepest nesting of blocks.
pub const MAX_NESTING: usize = 32;

/// Names of the arguments that are operands; all others are attributes.
pub(crate) const OPERANDS: &[&str] = &[
    "a",
    "attn_mask",
    "b",
    "beta",
    "bias",
    "box_indices",
    "boxes",
    "cond",
    "coordinates",
    "data",
    "gamma",
    "indices",
    "initial_c",
    "initial_h",
    "key",
    "mean",
    "peephole",
    "query",
    "roi",
    "transform_matrix",
    "updates",
    "value",
    "variance",
    "weight",
    "weight_hh",
    "weight_ih",
    "x",
    "y",
];

/// Treatment of an operation by the readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// Translated to an operation of the net.
    Direct,
    /// Decomposed into several operations of the net; control flow is unrolled.
    Composed,
    /// Evaluated while reading: shapes, lists, compressed weights.
    Folded,
    /// Refused for this reason: no static graph can represent it.
    Refused(&'static str),
}

/// One operation.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Name in the format.
    pub name: &'static str,
    /// First opset that has it: 15 is iOS15 (`CoreML5`), 18 is iOS18 (`CoreML8`).
    pub since: u32,
    /// Treatment by the readers.
    pub treatment: Treatment,
    /// Arguments, separated by spaces: `name`, `name?` or `name?=default`.
    pub arguments: &'static str,
    /// Extents and types of the results, in words; one part for each, separated by semicolons.
    pub result: &'static str,
    /// Type variables with the element types that they range over.
    pub types: &'static str,
}

/// One argument of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Name.
    pub name: &'static str,
    /// True if the argument is optional.
    pub optional: bool,
    /// Default value, if the argument is optional and has a single one.
    pub default: Option<&'static str>,
}

impl Row {
    /// The arguments in the order of the reference.
    pub fn inputs(&self) -> impl Iterator<Item = Argument> + use<> {
        self.arguments.split_whitespace().map(|text| {
            let (head, default) = text.split_once('=').map_or((text, None), |(head, value)| (head, Some(value)));
            let name = head.trim_end_matches('?');
            Argument { name, optional: head.len() != name.len(), default }
        })
    }

    /// The reason why the operation takes no argument of one of these names; `None` if it has all of them.
    pub fn lacks<'a>(&self, mut names: impl Iterator<Item = &'a str>) -> Option<String> {
        let unknown = names.find(|name| self.inputs().all(|a| a.name != *name))?;
        Some(format!("it has no argument `{unknown}`: {}", self.signature()))
    }

    /// Least and greatest number of operands; `None` for operations on lists, states and compressed weights.
    pub fn operands(&self) -> Option<(usize, usize)> {
        self.inputs().next().filter(|first| OPERANDS.contains(&first.name))?;
        let least = self.inputs().filter(|a| OPERANDS.contains(&a.name) && !a.optional).count();
        Some((least, self.inputs().filter(|a| OPERANDS.contains(&a.name)).count()))
    }

    /// Signature in one line, for messages.
    pub fn signature(&self) -> String {
        format!("{}({})", self.name, self.arguments.split_whitespace().collect::<Vec<_>>().join(", "))
    }
}

/// The operation of that name.
pub fn row(name: &str) -> Option<&'static Row> {
    ROWS.binary_search_by(|row| row.name.cmp(name)).ok().map(|at| &ROWS[at])
}

/// Reason why an operation is not translated.
pub fn why_not(name: &str) -> String {
    match row(name).map(|row| row.treatment) {
        Some(Treatment::Refused(reason)) => reason.to_string(),
        Some(_) => "this form has no translation".to_string(),
        None => match nearest(name) {
            Some(near) => format!("no opset up to iOS18 has it; did you mean `{near}`?"),
            None => "no opset up to iOS18 has it".to_string(),
        },
    }
}

/// The known name within an edit distance of two.
fn nearest(name: &str) -> Option<&'static str> {
    let distance = |row: &&Row| edits(row.name, name);
    ROWS.iter().min_by_key(distance).filter(|row| distance(row) <= 2).map(|row| row.name)
}

/// Edit distance.
pub(crate) fn edits(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().take(64).collect());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut before = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let change = before + usize::from(x != y);
            before = row[j + 1];
            row[j + 1] = change.min(before + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
