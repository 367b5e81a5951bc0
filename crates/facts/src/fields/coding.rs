//! Meaning of a field in any generation, and the macro that declares the vocabulary.

use super::Field;

/// Encoding of a field's quantity in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// Plain unsigned number.
    Uint,
    /// One bit: off or on.
    Flag,
    /// A byte quantity stored in place with the low `n` bits of the word unused (`value << n`).
    Shifted(u8),
    /// Base-2 logarithm of the quantity.
    Log2,
    /// IEEE half precision bit pattern.
    F16,
    /// IEEE single precision bit pattern.
    F32,
    /// One of a list of named values; the position is the value, an empty name is a gap.
    Names(&'static [&'static str]),
}

/// Meaning of a field, independent of a generation.
#[derive(Clone, Copy, Debug)]
pub struct FieldInfo {
    /// The vocabulary entry itself.
    pub field: Field,
    /// Name as listed, Apple's spelling where decoded.
    pub name: &'static str,
    /// Encoding of the quantity.
    pub coding: Coding,
    /// Unit of the decoded quantity; empty for flags and names.
    pub unit: &'static str,
    /// One sentence.
    pub meaning: &'static str,
}

/// Declares the vocabulary: the [`Field`] enum and its [`FieldInfo`] rows.
macro_rules! fields {
    ( $( $name:ident : $coding:expr, $unit:literal, $meaning:literal ; )* ) => {
        /// Every register and header field known in any generation.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        pub enum Field { $( #[doc = $meaning] $name ),* }

        // A derived implementation is a match over all names, compiled again in every crate that prints a field.
        impl std::fmt::Debug for Field {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.info().name)
            }
        }

        impl Field {
            /// Number of fields in the vocabulary.
            pub const COUNT: usize = [ $( stringify!($name) ),* ].len();

            /// All fields in declaration order.
            pub const ALL: [Field; Field::COUNT] = [ $( Field::$name ),* ];

            /// Name, coding, unit and meaning.
            pub fn info(self) -> &'static FieldInfo { &INFO[self as usize] }

            /// Name as listed; usable at compile time.
            pub const fn name(self) -> &'static str { NAMES[self as usize] }

            /// The field of that name.
            pub fn by_name(name: &str) -> Option<Field> {
                INFO.iter().find(|i| i.name == name).map(|i| i.field)
            }
        }

        const NAMES: [&str; Field::COUNT] = [ $( stringify!($name) ),* ];

        static INFO: [FieldInfo; Field::COUNT] = [ $( FieldInfo {
            field: Field::$name, name: stringify!($name), coding: $coding, unit: $unit, meaning: $meaning,
        } ),* ];
    };
}
pub(super) use fields;
