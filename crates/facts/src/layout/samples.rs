//! Coverage of real descriptors by rows, for each set of samples. A test of `program` recomputes the counts.

/// Coverage of one set of samples by a generation's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampled {
    /// Generation.
    pub generation: &'static str,
    /// Folder of the set in the golden data.
    pub folder: &'static str,
    /// Number of files.
    pub files: usize,
    /// Total bytes of the files; with their number it identifies the set within the folder.
    pub bytes: u64,
    /// Number of task descriptors.
    pub tasks: usize,
    /// Number of fields that some task sets.
    pub fields_seen: usize,
    /// Number of bits set in header words and registers.
    pub set_bits: u64,
    /// Number of set bits of fields with a known position and an unknown meaning.
    pub unnamed_bits: u64,
    /// Number of set bits without a field.
    pub unexplained_bits: u64,
    /// Key into `docs/evidence.md`.
    pub source: &'static str,
}

macro_rules! sampled {
    ( $( $generation:literal $folder:literal : $files:literal files $bytes:literal bytes, $tasks:literal tasks,
         $seen:literal seen, $set:literal set, $unnamed:literal unnamed, $open:literal unexplained, $source:literal ; )* ) => {
        /// All counted sets.
        pub static SAMPLED: &[Sampled] = &[ $( Sampled {
            generation: $generation, folder: $folder, files: $files, bytes: $bytes, tasks: $tasks, fields_seen: $seen,
            set_bits: $set, unnamed_bits: $unnamed, unexplained_bits: $open, source: $source,
        } ),* ];
    };
}

sampled! {
    "h13" "h13/pairs": 7 files 278_528 bytes, 8 tasks, 138 seen, 1_324 set, 14 unnamed, 0 unexplained, "h13-samples";
    "h13" "h13/programs": 25 files 164_352 bytes, 44 tasks, 157 seen, 8_659 set, 49 unnamed, 0 unexplained, "h13-samples";
    "h13" "oracles/h13": 39 files 191_723 bytes, 58 tasks, 175 seen, 10_537 set, 116 unnamed, 0 unexplained, "h13-oracles";
    "h14" "oracles": 3 files 14_736 bytes, 4 tasks, 87 seen, 536 set, 2 unnamed, 0 unexplained, "later-oracles";
    "h16" "h16": 108 files 7_995_392 bytes, 1_423 tasks, 170 seen, 127_430 set, 572 unnamed, 0 unexplained, "h16-containers";
    "h16" "oracles": 2 files 9_403 bytes, 2 tasks, 97 seen, 252 set, 2 unnamed, 0 unexplained, "later-oracles";
    "h17" "oracles": 1 files 4_434 bytes, 1 tasks, 78 seen, 121 set, 1 unnamed, 0 unexplained, "later-oracles";
    "h18" "oracles": 1 files 4_484 bytes, 1 tasks, 77 seen, 124 set, 5 unnamed, 0 unexplained, "later-oracles";
    "h18g" "td": 1 files 1_768 bytes, 1 tasks, 77 seen, 196 set, 0 unnamed, 0 unexplained, "m6-study";
}
