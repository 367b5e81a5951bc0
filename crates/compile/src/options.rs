//! Choices of the caller: whose conventions the program follows, and which passes run.

/// Which compiler's conventions the program follows, where they differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Compat {
    /// Apple's compiler of 2026, zin 9.509: its words where they are known, and tables of two steps for precision.
    #[default]
    Zin9509,
    /// `zin_ane_compiler v4.2.1`: the same task stream and constants for the same netplist.
    Zin421,
}

/// What the caller may choose.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Conventions.
    pub compat: Compat,
    /// How many of the optional passes are run, in order; all where it is `None`. For finding the pass that is at fault.
    pub pass_limit: Option<usize>,
    /// Weights that the model has compressed become fp16 also where the chip streams their form: no sample of Apple's
    /// shows a palette on the M1, so how it stands in the streams is a reading (`docs/evidence.md`, key `book-streams`).
    pub expand_weights: bool,
}

impl Options {
    /// The conventions that the program follows.
    pub(crate) fn conventions(&self) -> &'static Conventions {
        match self.compat {
            Compat::Zin9509 => &ZIN_9509,
            Compat::Zin421 => &ZIN_421,
        }
    }
}

macro_rules! conventions {
    ( $( $name:ident: $new:literal $old:literal, $doc:literal; )* ) => {
        /// What compiler versions do differently, one flag each.
        #[derive(Debug)]
        pub(crate) struct Conventions {
            $( #[doc = $doc] pub $name: bool, )*
        }

        static ZIN_9509: Conventions = Conventions { $( $name: $new, )* };
        static ZIN_421: Conventions = Conventions { $( $name: $old, )* };
    };
}

// Name: zin 9.509, zin 4.2.1, meaning.
conventions! {
    gains_stay_tasks: true false, "A gain that no convolution takes in later stays a task of its own.";
    layer_norm_on_device: true false, "A layer norm over trailing axes is one lowering with deviation tasks; else it is decomposed.";
    splits_to_stay: true false, "Products are split so that each piece of the coefficients stays in kernel memory.";
    reductions_join_unit_axes: true false, "Axes of one element do not separate the axes of a reduction.";
    reductions_by_group: true false, "Two leading axes are reduced as groups and channels of one task.";
    sums_transposed: true false, "Sums over a leading axis are computed transposed.";
    products_interleaved: true false, "Products of two runtime operands read their coefficients interleaved from memory.";
    wide_rows_copied_neural: true false, "Rows of more channels than the planar engine stages are interleaved by the neural engine.";
    repeated_operands_staged: true false, "A repeated operand from memory is copied to tile memory once.";
    tables_of_two_steps: true false, "Functions of intermediate results take steps that are more precise than one table.";
    constants_per_channel: true false, "Constants added, multiplied or compared per channel are parameters of a planar task.";
    divisors_transposed: true false, "The reciprocal of a column vector is computed transposed.";
    rows_are_no_scalars: true false, "A constant row of equal elements stays a row.";
    shared_inputs_staged: true false, "A small input that is also combined elementwise is copied before a product.";
    rows_folded: true false, "Rows of a matrix are folded by eight before they become channels.";
    zero_biases_streamed: false true, "Biases are streamed even where all are zero.";
    softmax_fused: true false, "A softmax over channels or columns has a lowering of its own.";
    softmax_sums_on_neural: true false, "The sum of a softmax over a leading axis and its reciprocal are one neural task.";
    softmax_inverse_first: true false, "The last product of a softmax reads the reciprocal first.";
    bank_aware_tiles: true false, "Tiles and their strides follow zin 9.509 (`tile/zin9509.rs`).";
    transposes_by_eight: true false, "Engines are counted for the eight elements that a transpose takes at a time.";
    idle_streams_left_out: true false, "The registers of coefficient streams that a task does not use are left out.";
    estimates_count_planes: true false, "The cycle estimate counts planes and computation beside bytes.";
    first_task_logged: true false, "The first task logs its begin.";
    products_wait_for_staging: true false, "A product waits for coefficients that an earlier task writes to scratch memory.";
    planar_streams_declared: true false, "Planar tasks declare idle coefficient streams too.";
    extra_streams_sized: true false, "Idle extra streams have a size.";
    tables_per_engine: true false, "A table is stored once per engine, though one is enough.";
    planar_sources_flagged: true false, "Planar sources set the bit that neural ones set.";
    planar_results_padded: true false, "The padding of planar results is written as zeros.";
    copies_bypass_buffer: true false, "All results but plain copies from memory pass through one simple buffer; else those without coefficients.";
    depths_by_set: true false, "Strides between depths count interleaved sets and folded rows.";
    single_groups_have_stride: true false, "A single group has the stride of a whole depth; else none.";
    format_of_kernels_stated: true false, "The format of coefficients is stated where there are none.";
    planar_palette_stated: true false, "Planar tasks state that they have no palette.";
    concatenations_in_place: true false, "Parts of a concatenation are computed where it has them.";
    ports_by_name: true false, "Ports are numbered by name; else outputs first.";
    results_stay_in_tile_memory: true false, "Results that fit stay in tile memory; else every result goes to memory.";
}
