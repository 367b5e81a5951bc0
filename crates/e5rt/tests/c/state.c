/* Listing 2.3: one buffer is the output of a step and the input of the next. */
#include "anemone_e5rt.h"
#include <stdio.h>

#define CHECK(call)                                  \
    do {                                             \
        int64_t code_ = (call);                      \
        if (code_ != 0) {                            \
            printf("%s: %lld\n", #call, (long long)code_); \
            return 1;                                \
        }                                            \
    } while (0)

int main(int argc, char **argv) {
    e5rt_e5_compiler *compiler;
    e5rt_program_library *library;
    e5rt_program_function *function;
    e5rt_precompiled_compute_op_create_options *op_opts;
    e5rt_execution_stream_operation *op;
    e5rt_io_port *in_port, *out_port;
    e5rt_buffer_object *state_buf;
    e5rt_execution_stream *stream;
    size_t nbytes;
    float *state;
    int n = 4;

    if (argc != 2) return 2;
    CHECK(e5rt_e5_compiler_create(&compiler));
    CHECK(e5rt_e5_compiler_compile(compiler, argv[1], NULL, &library));
    CHECK(e5rt_program_library_retain_program_function(library, "main", &function));
    CHECK(e5rt_precompiled_compute_op_create_options_create_with_program_function(&op_opts, function));
    CHECK(e5rt_execution_stream_operation_create_precompiled_compute_operation_with_options(&op, op_opts));
    CHECK(e5rt_execution_stream_create(&stream));

    CHECK(e5rt_execution_stream_operation_retain_output_port(op, "state_out", &out_port));
    CHECK(e5rt_io_port_get_size(out_port, &nbytes));
    CHECK(e5rt_buffer_object_alloc(&state_buf, nbytes, /*type=*/0));
    CHECK(e5rt_io_port_bind_buffer_object(out_port, state_buf));
    CHECK(e5rt_execution_stream_operation_retain_input_port(op, "state_in", &in_port));
    CHECK(e5rt_io_port_bind_buffer_object(in_port, state_buf));
    CHECK(e5rt_buffer_object_get_data_ptr(state_buf, (void **)&state));

    for (int step = 0; step < n; step++) {
        CHECK(e5rt_execution_stream_encode_operation(stream, op));
        CHECK(e5rt_execution_stream_execute_sync(stream));
        CHECK(e5rt_execution_stream_reset(stream));
        printf("%g%s", state[0], step + 1 < n ? " " : "\n");
    }
    return 0;
}
