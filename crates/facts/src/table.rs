//! Register rows, and the checks at compile time of the crate.

use crate::fields::Field;

/// Evidence of a row; every fact has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Evidence {
    /// `X`: an executor used the field, and the program computed the result that Apple compiled it for.
    Executed,
    /// `B`: recomputed byte-equal, constant or predictable over every Apple-compiled sample.
    Bytes,
    /// `C`: name or meaning from a public decoder, the book, or a reading that the samples do not exclude.
    Claimed,
    /// `O`: not a fact about the machine: this project's own encoding, where Apple's is not known.
    Own,
}

impl Evidence {
    /// The one-letter tag used in listings and documents.
    pub const fn letter(self) -> &'static str {
        match self {
            Evidence::Executed => "X",
            Evidence::Bytes => "B",
            Evidence::Claimed => "C",
            Evidence::Own => "O",
        }
    }
}

/// A number with a name and a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// The number in the file.
    pub code: u32,
    /// Short name used in listings; no spaces.
    pub name: &'static str,
    /// One sentence.
    pub meaning: &'static str,
    /// Evidence.
    pub evidence: Evidence,
}

/// The row of a code.
pub fn by_code(rows: &'static [Code], code: u32) -> Option<&'static Code> {
    rows.iter().find(|r| r.code == code)
}

/// The row of a name.
pub fn by_name(rows: &'static [Code], name: &str) -> Option<&'static Code> {
    rows.iter().find(|r| r.name == name)
}

/// Address space of a row's `addr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Byte offset in the fixed header of the task descriptor.
    Header,
    /// Byte address of the register that the descriptor's runs write.
    Register,
}

/// Position of a field in one generation's descriptor, with its evidence.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The vocabulary entry.
    pub field: Field,
    /// Header or register space.
    pub space: Space,
    /// Byte offset or byte address of (the first element of) the word.
    pub addr: u32,
    /// Lowest bit.
    pub lo: u8,
    /// Highest bit, inclusive.
    pub hi: u8,
    /// Elements of an array of words, 4 bytes apart; 1 for a scalar.
    pub count: u8,
    /// Evidence of position and meaning.
    pub evidence: Evidence,
    /// Key into `docs/evidence.md`.
    pub source: &'static str,
}

impl Row {
    /// Bits that the row claims in its word.
    pub const fn mask(&self) -> u32 {
        let width = self.hi as u32 - self.lo as u32 + 1;
        let ones = if width == 32 { u32::MAX } else { (1 << width) - 1 };
        ones << self.lo
    }

    /// Largest raw value the row can hold.
    pub const fn max(&self) -> u32 {
        self.mask() >> self.lo
    }

    /// Returns true if `self` can directly follow `prev`: ascending and disjoint.
    pub const fn follows(&self, prev: &Row) -> bool {
        match (prev.space, self.space) {
            (Space::Header, Space::Register) => true,
            (Space::Register, Space::Header) => false,
            _ if prev.addr == self.addr => prev.count == self.count && self.lo > prev.hi,
            _ => self.addr >= prev.addr + 4 * prev.count as u32,
        }
    }
}

/// Encoding of register writes in a descriptor's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// Versions up to 7: runs of consecutive registers. A run starts with one word: bits 31:26 hold the number of
    /// registers minus 1, bits 25:0 the byte address of the first. Each descriptor names the next.
    Runs,
    /// Later versions: packets. Bits 14:0 of a packet's first word hold the word address of the first register. With
    /// bit 31 clear, bits 20:15 hold the number of consecutive registers minus 1 and bits 30:21 a tag; with bit 31
    /// set, bit 15 + i is set if register first + 1 + i is written too. Each descriptor states its own size.
    Packets,
}

/// A consecutive block of registers with a name.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// First register's byte address.
    pub addr: u32,
    /// Registers in the block.
    pub words: u32,
    /// Name of the unit the block configures.
    pub name: &'static str,
}

/// Registers of this project's own tasks. No layout lists the block, because Apple's descriptors do not have it.
static OWN: Block = Block { addr: crate::own::OWN_BASE, words: crate::own::OWN_WORDS, name: "own-native, not Apple's" };

/// One generation's task descriptor: every known field with its position.
#[derive(Debug)]
pub struct Layout {
    /// Generation name, as the compiler target spells it.
    pub generation: &'static str,
    /// Version of the task descriptor format.
    pub td_version: u32,
    /// Encoding of register writes.
    pub codec: Codec,
    /// Words of the fixed header.
    pub header_words: u32,
    /// Alignment of descriptors in a stream, in bytes.
    pub align_bytes: u32,
    /// Register blocks in the order the compiler writes them.
    pub blocks: &'static [Block],
    /// All rows, ascending.
    pub rows: &'static [Row],
    /// Index of each field's row, by `Field as usize`; `u16::MAX` if absent.
    pub index: &'static [u16; Field::COUNT],
}

impl Layout {
    /// The row of a field, or `None` when this generation does not have it.
    pub fn row(&self, field: Field) -> Option<&'static Row> {
        match self.index[field as usize] {
            u16::MAX => None,
            i => Some(&self.rows[i as usize]),
        }
    }

    /// Rows that claim bits of the word at `addr` of `space`, with the array index of that word.
    pub fn rows_at(&self, space: Space, addr: u32) -> impl Iterator<Item = (&'static Row, u32)> {
        // Rows ascend, and rows of one word have equally many elements ([`Row::follows`]): those of a word are neighbours.
        let before = |r: &Row| match (r.space, space) {
            (Space::Header, Space::Register) => true,
            (Space::Register, Space::Header) => false,
            _ => r.addr + 4 * r.count as u32 <= addr,
        };
        let rows = &self.rows[self.rows.partition_point(before)..];
        let claims = move |r: &&Row| r.space == space && r.addr <= addr && addr % 4 == r.addr % 4;
        rows.iter().take_while(claims).map(move |r| (r, (addr - r.addr) / 4))
    }

    /// Bits of the word at `addr` that no row claims.
    pub fn unclaimed(&self, space: Space, addr: u32) -> u32 {
        !self.rows_at(space, addr).fold(0, |m, (r, _)| m | r.mask())
    }

    /// The block that holds the register at `addr`.
    pub fn block_of(&self, addr: u32) -> Option<&'static Block> {
        let own = self.row(Field::OwnKind).map(|_| &OWN);
        self.blocks.iter().chain(own).find(|b| addr >= b.addr && addr < b.addr + 4 * b.words)
    }
}

/// Field positions for [`Layout::index`], evaluated at compile time. Compilation fails for a field with two positions.
pub(crate) const fn index_rows(rows: &[Row]) -> [u16; Field::COUNT] {
    let mut index = [u16::MAX; Field::COUNT];
    let mut i = 0;
    while i < rows.len() {
        if index[rows[i].field as usize] != u16::MAX {
            panic!("{}", rows[i].field.name());
        }
        index[rows[i].field as usize] = i as u16;
        i += 1;
    }
    index
}

/// Declares a generation's rows. Rows ascend; compilation fails on an overlap or a row out of order and names the field.
macro_rules! layout {
    (
        $(#[$doc:meta])* $name:ident {
            generation: $generation:literal, td_version: $td:literal,
            header_words: $hw:literal, align_bytes: $align:literal,
            blocks: [ $( $baddr:literal [$bwords:literal] $bname:literal ),* $(,)? ],
            $( $space:ident { $( $addr:literal [$count:literal] { $( $lo:literal ..= $hi:literal $field:ident $ev:ident $src:literal ),* $(,)? } )* } )*
        }
    ) => {
        const ROWS: &[$crate::table::Row] = &[
            $( $( $( $crate::table::Row {
                field: $crate::fields::Field::$field,
                space: $crate::table::Space::$space,
                addr: $addr, lo: $lo, hi: $hi,
                count: $count,
                evidence: $crate::table::Evidence::$ev,
                source: $src,
            }, )* )* )*
        ];
        const _: () = {
            const NAMES: &[&str] = &[ $( $( $( concat!(
                "register row overlaps or precedes the row before it: ", $generation, " ", stringify!($field)
            ), )* )* )* ];
            let mut i = 1;
            while i < ROWS.len() {
                if !ROWS[i].follows(&ROWS[i - 1]) || ROWS[i].lo > ROWS[i].hi || ROWS[i].hi > 31 {
                    panic!("{}", NAMES[i]);
                }
                i += 1;
            }
        };
        $(#[$doc])*
        pub static $name: $crate::table::Layout = $crate::table::Layout {
            generation: $generation,
            td_version: $td,
            codec: $crate::table::Codec::Runs,
            header_words: $hw,
            align_bytes: $align,
            blocks: &[ $( $crate::table::Block { addr: $baddr, words: $bwords, name: $bname } ),* ],
            rows: ROWS,
            index: &$crate::table::index_rows(ROWS),
        };
    };
}
pub(crate) use layout;

/// Rows that several generations share, with the base address of the block in one of them.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    rows: &'static [Row],
    base: u32,
    source: Option<(Evidence, &'static str)>,
}

/// Rows relative to `base`.
pub(crate) const fn at(base: u32, rows: &'static [Row]) -> Part {
    Part { rows, base, source: None }
}

impl Part {
    /// The same rows with the evidence of this generation.
    pub const fn by(self, evidence: Evidence, source: &'static str) -> Part {
        Part { source: Some((evidence, source)), ..self }
    }
}

/// Number of rows in all parts; evaluated at compile time.
pub(crate) const fn rows_in(parts: &[Part]) -> usize {
    let (mut n, mut i) = (0, 0);
    while i < parts.len() {
        n += parts[i].rows.len();
        i += 1;
    }
    n
}

/// Concatenates the rows of parts. Compilation fails on an overlap or a row out of order and names the field.
pub(crate) const fn join<const N: usize>(parts: &[Part]) -> [Row; N] {
    let mut rows = [parts[0].rows[0]; N];
    let (mut n, mut p) = (0, 0);
    while p < parts.len() {
        let part = parts[p];
        let mut i = 0;
        while i < part.rows.len() {
            let mut row = part.rows[i];
            if let Space::Register = row.space {
                row.addr += part.base;
            }
            if let Some((evidence, source)) = part.source {
                row.evidence = evidence;
                row.source = source;
            }
            // Required: ascending, disjoint, inside the word.
            if row.lo > row.hi || row.hi > 31 || (n > 0 && !row.follows(&rows[n - 1])) {
                panic!("{}", row.field.name());
            }
            rows[n] = row;
            n += 1;
            i += 1;
        }
        p += 1;
    }
    rows
}

/// Rows for [`at`].
macro_rules! rows {
    ( $space:ident { $( $addr:literal [$count:literal] { $( $lo:literal ..= $hi:literal $field:ident $ev:ident $src:literal ),* $(,)? } )* } ) => {
        &[ $( $( $crate::table::Row {
            field: $crate::fields::Field::$field,
            space: $crate::table::Space::$space,
            addr: $addr, lo: $lo, hi: $hi,
            count: $count,
            evidence: $crate::table::Evidence::$ev,
            source: $src,
        }, )* )* ]
    };
}
pub(crate) use rows;

/// Declares a generation as a list of parts.
macro_rules! compose {
    (
        $(#[$doc:meta])* $name:ident {
            generation: $generation:literal, td_version: $td:literal, codec: $codec:ident,
            header_words: $hw:literal, align_bytes: $align:literal,
            blocks: [ $( $baddr:literal [$bwords:literal] $bname:literal ),* $(,)? ],
            parts: $parts:expr,
        }
    ) => {
        $(#[$doc])*
        pub static $name: $crate::table::Layout = {
            const PARTS: &[$crate::table::Part] = $parts;
            const ROWS: &[$crate::table::Row] = &$crate::table::join::<{ $crate::table::rows_in(PARTS) }>(PARTS);
            $crate::table::Layout {
                generation: $generation,
                td_version: $td,
                codec: $crate::table::Codec::$codec,
                header_words: $hw,
                align_bytes: $align,
                blocks: &[ $( $crate::table::Block { addr: $baddr, words: $bwords, name: $bname } ),* ],
                rows: ROWS,
                index: &$crate::table::index_rows(ROWS),
            }
        };
    };
}
pub(crate) use compose;
