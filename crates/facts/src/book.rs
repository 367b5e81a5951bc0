//! Readings of the book's chapters that differ from the bytes of Apple's programs or from another source: `--convention book`
//! prints them for a word or a compiled file. The choice between both is a row of `docs/conflicts.md`.
//!
//! Source: the book, by table and listing; letter C throughout. Compilation and execution do not depend on these rows.

/// A reading of the book, found by words or numbers.
#[derive(Debug)]
pub struct Reading {
    /// Row of `docs/conflicts.md`.
    pub subject: &'static str,
    /// Table, listing or chapter.
    pub place: &'static str,
    /// Words that find it; the first is its name.
    pub words: &'static [&'static str],
    /// Numbers that find it.
    pub numbers: &'static [u64],
    /// Sentences of the book, one a line.
    pub lines: &'static [&'static str],
    /// Key into `docs/evidence.md`.
    pub source: &'static str,
}

macro_rules! readings {
    ( $( $subject:literal $source:literal $place:literal $words:expr, $numbers:expr, [ $( $line:literal ),+ ]; )* ) => {
        /// All readings.
        pub static READINGS: &[Reading] = &[ $( Reading {
            subject: $subject, place: $place, words: &$words, numbers: &$numbers, lines: &[ $( $line ),+ ],
            source: $source,
        } ),* ];
    };
}

readings! {
    "descriptor version on the M1" "td-image" "table 23.4" ["ZinAneTdHw_v10", "descriptor-version", "td-version"], [],
        [
            "the M1 builds the register image of version 10: seven groups, in apertures 0x5500, 0x4d00, 0x4100, 0x4500, 0x4900 and 0x5100",
            "`ane convert X.hwx --to image` writes a program's tasks in this form"
        ];
    "operation codes" "h13-samples" "table 23.8" ["operation-code", "opcode-word", "codegen-opcode"], [0x5042_a063, 0x5000_a021, 0x5000_b021],
        [
            "the operation word of a task: 0x5042a063 a convolution, 0x5000a021 a mean, 0x5000b021 a product of matrices",
            "the high half is common to operations, the low 16 bits tell them apart"
        ];
    "header words" "h13-samples" "table 23.11" ["+0x00"], [],
        ["index and flags of the task: an index of 16 bits, and a high byte of flags, where 0x03 is the last record or a barrier"];
    "header words" "h13-samples" "table 23.11" ["+0x04"], [], ["size or latency of the task, a word a record"];
    "header words" "h13-samples" "table 23.11" ["+0x08"], [],
        ["operation and engine configuration: a word for the kind of operation, whose low byte tells the pass of the engine"];
    "header words" "h13-samples" "table 23.11" ["+0x10"], [], ["mask of the engine's configuration; records share the prefix 0x00fff8"];
    "header words" "h13-samples" "table 23.11" ["+0x18"], [], ["word of the direct memory access or of the computation"];
    "header words" "h13-samples" "table 23.11" ["+0x1c"], [], ["byte offset of the next record, 0 at the tail"];
    "bias and tables" "td-image" "table 23.5"
        ["weight-streams", "kernel-streams"], [0x1554, 0x1558, 0x155c, 0x1560],
        [
            "bias, post-scale, palette and activation table are four streams, each with an address slot of its own",
            "a convolution with a folded batch normalization has all four beside its coefficients"
        ];
    "THREAD commands of a container" "hwx" "chapter 23" ["LC_THREAD", "thread"], [],
        ["contexts of the engine's registers, which the kernel restores before it starts the chain; the sample has three"];
    "list of element types" "hwx" "listing 23.5" ["element-types", "element-catalogue", "t24"], [],
        [
            "24 entries, from void to int4 (number 23), with the range that each encodes",
            "containers of 9.509 list 23; number 24 is the type of the first tensor's array (`ane dump X.hwx --part symbols --convention book`)"
        ];
    "table record" "h13-lut" "chapter 26" ["table-record", "activation-table", "lut-record"], [],
        [
            "33 knots at a fixed step and 32 differences between neighbours, behind a short header with a mode and a scale",
            "`ane dump X.hwx --part lut --convention book` shows tables so"
        ];
    "doorbell" "driver" "chapter 27" ["doorbell", "doorbell-index"], [],
        ["selector 2 alone reaches the doorbell from user space; `direct 4` goes through the same path"];
    "dispatch record, word +0x18" "driver" "listing 27.4" ["IOExternalMethodDispatch2022", "dispatch-record"], [],
        ["the 16 bytes at +0x18 are reserved; a flag of the debug work processor's group of selectors stands there"];
    "argument block of a call" "driver" "listing 27.2" ["IOExternalMethodArguments"], [],
        ["scalars at +0x10, their count at +0x20; `AnemoneExternalMethod` takes a block of this layout"];
    "latency budget" "driver" "table 2.3" ["latency-budget", "latency", "dispatch-cost"], [],
        [
            "about 190 us a call by the text, about 163 us of it inside the submit selector, about 98 % of it not the engine's",
            "the rows of the table have 183.5 us and 158.5 us in all"
        ];
    "interleaved ports" "e5" "chapter 23" ["cast", "interleaved-layout", "component_pack"], [],
        ["casts convert between the host's halves and the engine's interleaved layout, on the way in and out"];
    "buffers of a request" "driver" "chapter 2" ["surface", "surfaces"], [],
        ["the engine reads inputs and writes outputs in the memory that the host prepared, without a copy"];
    "values of sparse records" "td-image" "chapter 23" ["record", "sparse-record"], [],
        [
            "a count, the address of a register in one aperture, and one or two device addresses in a second one",
            "`ane convert X.hwx --to records --base ADDRESS` writes the device addresses of that load"
        ];
    "bounds of DMA strides" "td-image" "chapter 23" ["v10.RowStride", "v10-stride"], [],
        ["26 bits with a sign from bit 6 on, checked against a table of bounds by chip, whose numbers are not given"];
}

/// A word of a task's header as the book names it.
#[derive(Debug)]
pub struct HeaderWord {
    /// Byte offset in the task.
    pub offset: u32,
    /// Name.
    pub name: &'static str,
}

/// Table 23.11.
pub static HEADER: [HeaderWord; 6] = [
    HeaderWord { offset: 0x00, name: "index-and-flags" },
    HeaderWord { offset: 0x04, name: "size" },
    HeaderWord { offset: 0x08, name: "operation-and-engine-configuration" },
    HeaderWord { offset: 0x10, name: "configuration-mask" },
    HeaderWord { offset: 0x18, name: "dma-word" },
    HeaderWord { offset: 0x1c, name: "next-offset" },
];

/// High byte of the flags of the last record, or of a barrier.
pub const LAST_FLAGS: u32 = 0x03;

/// Table 23.8: operation word, operation.
pub static OPERATIONS: [(u32, &str); 3] =
    [(0x5042_a063, "convolution"), (0x5000_a021, "reduce-mean"), (0x5000_b021, "matrix multiplication")];

/// Register of version 7 that holds the sample's operation words.
pub const OPERATION_REGISTER: u32 = 0x1c;

/// Readings of a word or number.
pub fn readings<'a>(word: &'a str) -> impl Iterator<Item = &'static Reading> + 'a {
    let plain = |text: &str| text.replace(' ', "-").to_ascii_lowercase();
    let asked = plain(word);
    let number = match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    };
    let asks = move |r: &&Reading| {
        r.words.iter().any(|own| plain(own) == asked) || number.is_some_and(|n| r.numbers.contains(&n))
    };
    READINGS.iter().filter(asks)
}
