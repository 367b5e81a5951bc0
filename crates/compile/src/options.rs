//! Options of a compilation: the conventions that the program follows, and the passes that run.

use anemone_facts::chips::Chip;
pub use anemone_facts::formats::dialects::Convention;

/// Compiler whose conventions the program follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Compat {
    /// No other compiler: the fewest tasks and bytes that the chip's fields allow.
    #[default]
    Own,
    /// Apple's compiler of 2026, zin 9.509: its register words where they are known, and tables of two steps for precision.
    Zin9509,
    /// `zin_ane_compiler v4.2.1`: the same task stream and constants for the same netplist.
    Zin421,
}

/// Lowering of functions beyond ReLU: one table of 33 knots, which is the fewest tasks, or several steps, which are more precise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Activations {
    /// One table wherever a function has one, as Apple's compilers do.
    Fused,
    /// Steps wherever they are more precise than one table.
    Accurate,
    /// One table if its error is small, else steps. The bound is wider if the function is the network's only one behind a product.
    /// Steps also for few elements and where only elementwise operations lead to an output, if they are at most an eighth of the tasks.
    #[default]
    Auto,
}

/// Disabled passes, by position in [`crate::pipeline::ALL`]; see [`crate::pipeline::Pass::disable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Disabled(u64);

/// Work of a pass that a later stage does, as a bit of [`Disabled`] beyond those of passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Later {
    /// Parts of concatenations are computed in place.
    Concatenations = 62,
    /// Rows are placed by banks.
    Banks = 63,
}

impl Disabled {
    /// Disables the work that a later stage does for a pass.
    pub(crate) fn leave(&mut self, later: Later) {
        self.0 |= 1 << later as u8;
    }

    /// Returns true if a later stage is to omit that work.
    pub(crate) fn leaves(self, later: Later) -> bool {
        self.0 >> later as u8 & 1 == 1
    }

    /// Disables the pass at that position.
    pub(crate) fn insert(&mut self, position: usize) {
        self.0 |= 1 << position;
    }

    /// Returns true if the pass at that position is disabled.
    pub(crate) fn contains(self, position: usize) -> bool {
        self.0 >> position & 1 == 1
    }
}

/// Options of a compilation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Compiler whose conventions the program follows.
    pub compat: Compat,
    /// Source that is followed where the book and the bytes of Apple's programs disagree. The book's convention also ends partitions below
    /// the capacity of tile memory, and reads the matrix of a product from memory if it is larger than tile memory.
    pub convention: Convention,
    /// Lowering of functions: tables or steps.
    pub activations: Activations,
    /// Optional passes that are not run.
    pub disabled: Disabled,
    /// Number of optional passes that run, in order; all if `None`. For bisecting a faulty pass.
    pub pass_limit: Option<usize>,
    /// True if compressed weights of the model become fp16 even if the chip streams their form: no sample of Apple's
    /// compilers has a palette on the M1, so its layout in the streams is inferred (`docs/evidence.md`, key `book-streams`).
    pub expand_weights: bool,
}

impl Options {
    /// Size in bytes of the largest matrix that becomes coefficients. The book's convention leaves larger ones in memory: "a weight above the
    /// 2 MB ceiling stays a tiled matrix multiply".
    pub(crate) fn most_resident(&self, chip: &Chip) -> u64 {
        chip.hal.l2_bytes.filter(|_| self.convention == Convention::Book).unwrap_or(u64::MAX)
    }

    /// Flags of the conventions that the program follows.
    pub(crate) fn conventions(&self) -> &'static Conventions {
        match self.compat {
            Compat::Own => &OWN,
            Compat::Zin9509 => &ZIN_9509,
            Compat::Zin421 => &ZIN_421,
        }
    }
}

macro_rules! conventions {
    ( $( $name:ident: $own:literal $new:literal $old:literal, $doc:literal; )* ) => {
        /// Differences between compiler versions, one flag each.
        #[derive(Debug)]
        pub(crate) struct Conventions {
            $( #[doc = $doc] pub $name: bool, )*
        }

        static OWN: Conventions = Conventions { $( $name: $own, )* };
        static ZIN_9509: Conventions = Conventions { $( $name: $new, )* };
        static ZIN_421: Conventions = Conventions { $( $name: $old, )* };
    };
}

// Name: ours, zin 9.509, zin 4.2.1, meaning.
conventions! {
    gains_stay_tasks: true true false, "A gain that no later convolution absorbs stays a task of its own.";
    layer_norm_on_device: true true false, "A layer norm over trailing axes is one lowering with deviation tasks; else it is decomposed.";
    splits_to_stay: true true false, "Products are split so that each piece of the coefficients stays in kernel memory.";
    passes_fit_kernel_memory: false true false, "A convolution is split so that one pass over the outputs of a piece fits kernel memory.";
    reductions_join_unit_axes: true true false, "Axes of one element do not separate the axes of a reduction.";
    reductions_by_group: true true false, "Two leading axes are reduced as groups and channels of one task.";
    rows_reduced_as_planes: false true false, "A reduction to one number has channels as rows and rows as planes.";
    sums_transposed: true true false, "Sums over a leading axis are computed transposed.";
    columns_folded: false true false, "More than 64 columns that were channels are reduced in four pieces, stacked as rows.";
    sums_of_rows_turned_back: false true false, "A sum or a maximum over rows is transposed back by a separate copy.";
    products_interleaved: true true false, "Products of two runtime operands read their coefficients interleaved from memory.";
    matrices_by_group: true false false, "Several products of computed matrices are the groups of one task.";
    attention_turned: false true false, "A product of computed matrices between products with constants is computed transposed.";
    products_write_coefficients: false true false, "A product with constants writes its rows as coefficients of the product that reads them.";
    products_of_equal_rows: false true false, "Rows of a product that fill engines with fewer lanes are staged at once, and its parts have as many rows each.";
    matrices_apart: false true false, "One of several matrices has the depth of their tensor, and is read once, whatever is read of the others.";
    rows_in_few_tasks: true false false, "Rows of a product are staged with the lanes that need the fewest tasks.";
    wide_rows_copied_neural: true true false, "Rows of more channels than the planar engine stages are interleaved by the neural engine.";
    scratch_interleaved: false true false, "A matrix that is transposed into scratch memory for convolutions has eight channels interleaved; results that elementwise tasks exchange through it have eight, four or two; matrices between convolutions, and constants that are copied, have eight.";
    repeated_operands_staged: false true false, "A repeated operand from memory is copied to tile memory once.";
    tables_of_two_steps: true true false, "Functions of intermediate results are lowered to steps that are more precise than one table.";
    constants_per_channel: false true false, "Constants added, multiplied or compared per channel are parameters of a planar task.";
    operands_kept: false true false, "A source that later tasks of a group read is kept across tasks that do not read it.";
    affines_forwarded: true false true, "Factors and addends of a product's left matrix are absorbed by its weights.";
    numbers_after_transposes: false true false, "A matrix is transposed for a product before a number is applied to it.";
    booleans_are_bytes: false true false, "Inputs and outputs of booleans are bytes.";
    factors_are_scales: false true false, "A factor that is an fp16 number is the scale of a planar task; else its fp32 scale.";
    divisors_per_channel: false true false, "A number that divides several channels is a factor for each of them.";
    divisors_transposed: true true false, "The reciprocal of a column vector is computed transposed.";
    floats_divided_down: false true false, "A floor division of floats is the floor of a quotient by a reciprocal; else it is refused, for that is not exact.";
    tables_turned: false true false, "Tables of a column vector that end in operands of one planar task, a second one among them, are computed transposed.";
    powers_by_channel: false true false, "The product of a power's logarithm and exponent is one of pairs of channels, with the exponential as its table.";
    norms_by_group: false true false, "A layer norm of the columns of channels and rows is computed in steps, with rows as groups of its sums.";
    maxima_of_channels: false true false, "A maximum over channels of one element is the neural engine's; a reduction of a turned row starts a group.";
    rows_are_no_scalars: true true false, "A constant row of equal elements stays a row, not a scalar.";
    shared_inputs_staged: false true false, "A small input that is also combined elementwise is copied before a product.";
    left_matrices_turned: false true false, "A transposed left matrix whose rows are folded is transposed first.";
    rows_folded: true true false, "Rows of a matrix are folded by eight before they become channels.";
    many_passes_folded: false true false, "64 rows are folded for more than four passes of outputs, and for fewer if the coefficients of all passes fit kernel memory.";
    equal_biases_are_numbers: false true false, "Equal biases of `linear` and convolutions are one number of their task.";
    weights_are_bits: false true false, "Weights of any bits are packed; else weights that are no finite fp16 numbers are refused.";
    zero_biases_streamed: false false true, "Biases are streamed even where all are zero.";
    softmax_fused: true true false, "A softmax over channels or columns has a lowering of its own.";
    softmax_sums_on_neural: true true false, "The sum of a softmax over a leading axis and its reciprocal are one neural task.";
    softmax_inverse_first: true true false, "The last product of a softmax reads the reciprocal first.";
    bank_aware_tiles: true true false, "Tiles and their strides follow zin 9.509 (`tile/zin9509.rs`).";
    transposes_by_eight: true true false, "Engines are counted for the eight elements that a transpose takes at a time.";
    idle_streams_left_out: true true false, "The registers of coefficient streams that a task does not use are left out.";
    estimates_count_planes: true true false, "The cycle estimate counts planes and computation beside bytes.";
    first_task_logged: true true false, "The first task logs its start.";
    products_wait_for_staging: true true false, "A product waits for coefficients that an earlier task writes to scratch memory.";
    planar_streams_declared: true true false, "Planar tasks declare idle coefficient streams too.";
    extra_streams_sized: true true false, "Idle extra streams have a size.";
    tables_per_engine: true true false, "A table is stored once per engine, although one copy is enough.";
    engines_stream_apart: false true false, "Each engine streams up to 16 MiB for one task; else all engines together, so that no task's packed weights exceed that.";
    pieces_stored_apart: false true false, "Equal pieces of one constant are stored each; equal constants once.";
    planar_sources_flagged: true true false, "Planar sources set the bit that neural ones set.";
    planar_results_padded: true true false, "The padding of planar results is written as zeros.";
    copies_bypass_buffer: true true false, "All results except plain copies from memory use a single simple buffer; else only those without coefficients.";
    depths_by_set: true true false, "Strides between depths count interleaved sets and folded rows.";
    single_groups_have_stride: true true false, "A single group has the stride of a whole depth; else none.";
    format_of_kernels_stated: true true false, "The format of coefficients is set even if there are none.";
    planar_palette_stated: true true false, "Planar tasks set that they have no palette.";
    concatenations_in_place: true true false, "Parts of a concatenation are computed in place.";
    neighbours_are_views: true false false, "A concatenation of values that lie one behind another is a view of them.";
    ports_by_name: true true false, "Ports are numbered by name; else outputs first.";
    phases_joined: true false false, "All phases of a transposed convolution are output channels of one convolution.";
    images_grouped: true false false, "Images with the same small kernel are groups of one task, each with its own copy of the kernel.";
    whole_epilogues: true false false, "Every slot of a task's epilogue is filled, also where Apple's records show tasks of their own.";
    functions_fitted: true false false, "Functions are lowered to steps, to which tables are fitted afterwards; else tables are those of Apple's compilers.";
    all_ready_compared: true false false, "The scheduler compares all ready layers; else those near the last one.";
    inverse_transposes_cancel: true true false, "Two transposing copies that undo each other are removed.";
    places_by_use: false true false, "First sources are placed before second ones; a result reuses the place of a source that it alone reads.";
    results_stay_in_tile_memory: true true false, "Results that fit stay in tile memory; else every result goes to memory.";
}
