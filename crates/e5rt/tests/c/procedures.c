/* Two procedures of one container, each by its name. */
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

static int run(e5rt_program_library *library, const char *name, const char *output) {
    e5rt_program_function *function;
    e5rt_precompiled_compute_op_create_options *op_opts;
    e5rt_execution_stream_operation *op;
    e5rt_io_port *in_port, *out_port;
    e5rt_buffer_object *in_buf, *out_buf;
    e5rt_execution_stream *stream;
    size_t nbytes;
    uint16_t *data;

    CHECK(e5rt_program_library_retain_program_function(library, name, &function));
    CHECK(e5rt_precompiled_compute_op_create_options_create_with_program_function(&op_opts, function));
    CHECK(e5rt_execution_stream_operation_create_precompiled_compute_operation_with_options(&op, op_opts));
    CHECK(e5rt_execution_stream_create(&stream));
    CHECK(e5rt_execution_stream_operation_retain_input_port(op, "x", &in_port));
    CHECK(e5rt_io_port_get_size(in_port, &nbytes));
    CHECK(e5rt_buffer_object_alloc(&in_buf, nbytes, 0));
    CHECK(e5rt_io_port_bind_buffer_object(in_port, in_buf));
    CHECK(e5rt_buffer_object_get_data_ptr(in_buf, (void **)&data));
    for (size_t i = 0; i < nbytes / 2; i++) data[i] = 0x3c00; /* 1 */
    CHECK(e5rt_execution_stream_operation_retain_output_port(op, output, &out_port));
    CHECK(e5rt_io_port_get_size(out_port, &nbytes));
    CHECK(e5rt_buffer_object_alloc(&out_buf, nbytes, 0));
    CHECK(e5rt_io_port_bind_buffer_object(out_port, out_buf));
    CHECK(e5rt_execution_stream_encode_operation(stream, op));
    CHECK(e5rt_execution_stream_execute_sync(stream));
    CHECK(e5rt_buffer_object_get_data_ptr(out_buf, (void **)&data));
    printf("%s %03x\n", name, data[0] >> 4); /* the last bits are a table's */
    return 0;
}

int main(int argc, char **argv) {
    e5rt_e5_compiler *compiler;
    e5rt_program_library *library;
    e5rt_program_function *function;

    if (argc != 2) return 2;
    CHECK(e5rt_e5_compiler_create(&compiler));
    CHECK(e5rt_e5_compiler_compile(compiler, argv[1], NULL, &library));
    if (run(library, "p1", "y") || run(library, "p2", "z")) return 1;
    printf("p3 %s\n", e5rt_program_library_retain_program_function(library, "p3", &function) ? "refused" : "found");
    return 0;
}
