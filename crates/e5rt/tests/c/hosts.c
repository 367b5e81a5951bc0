// A model with a part that runs on the host: places go in as whole numbers, halves come out.
#include "anemone_e5rt.h"
#include <stdint.h>
#include <stdio.h>

#define CHECK(call)                                                              \
    do {                                                                         \
        if ((call) != 0) {                                                       \
            char text[512];                                                      \
            e5rt_last_error_message(text, sizeof text);                          \
            fprintf(stderr, "%s: %s\n", #call, text);                            \
            return 1;                                                            \
        }                                                                        \
    } while (0)

int main(int count, char **arguments) {
    if (count < 2) return 2;
    e5rt_e5_compiler *compiler = NULL;
    e5rt_program_library *library = NULL;
    e5rt_program_function *function = NULL;
    e5rt_precompiled_compute_op_create_options *options = NULL;
    e5rt_execution_stream_operation *operation = NULL;
    e5rt_execution_stream *stream = NULL;
    e5rt_io_port *in = NULL, *out = NULL;
    e5rt_buffer_object *places = NULL, *rows = NULL;
    size_t in_bytes = 0, out_bytes = 0;
    void *data = NULL;
    CHECK(e5rt_e5_compiler_create(&compiler));
    CHECK(e5rt_e5_compiler_compile(compiler, arguments[1], NULL, &library));
    CHECK(e5rt_program_library_retain_program_function(library, "main", &function));
    CHECK(e5rt_precompiled_compute_op_create_options_create_with_program_function(&options, function));
    CHECK(e5rt_execution_stream_operation_create_precompiled_compute_operation_with_options(&operation, options));
    CHECK(e5rt_execution_stream_operation_retain_input_port(operation, "ids", &in));
    CHECK(e5rt_execution_stream_operation_retain_output_port(operation, "y", &out));
    CHECK(e5rt_io_port_get_size(in, &in_bytes));
    CHECK(e5rt_io_port_get_size(out, &out_bytes));
    printf("%zu bytes in, %zu bytes out\n", in_bytes, out_bytes);
    CHECK(e5rt_buffer_object_alloc(&places, in_bytes, 0));
    CHECK(e5rt_buffer_object_alloc(&rows, out_bytes, 0));
    CHECK(e5rt_io_port_bind_buffer_object(in, places));
    CHECK(e5rt_io_port_bind_buffer_object(out, rows));
    CHECK(e5rt_buffer_object_get_data_ptr(places, &data));
    int32_t *ids = data;
    ids[0] = 599, ids[1] = 3;
    CHECK(e5rt_execution_stream_create(&stream));
    CHECK(e5rt_execution_stream_encode_operation(stream, operation));
    CHECK(e5rt_execution_stream_execute_sync(stream));
    CHECK(e5rt_buffer_object_get_data_ptr(rows, &data));
    const float *y = data;
    printf("%g %g\n", (double)y[0], (double)y[8]);
    // A place that is not there: refused, and the library goes on.
    ids[0] = 100000;
    if (e5rt_execution_stream_execute_sync(stream) == 0) return 3;
    ids[0] = 0;
    CHECK(e5rt_execution_stream_execute_sync(stream));
    printf("%g\n", (double)y[0]);
    // Numbers beyond fp16 become infinite, and a call tells.
    CHECK(e5rt_execution_stream_operation_check_numbers(operation));
    ids[0] = 597;
    CHECK(e5rt_execution_stream_execute_sync(stream));
    int64_t code = e5rt_execution_stream_operation_check_numbers(operation);
    if (code != E5RT_NOT_FINITE) return 4;
    char text[512];
    e5rt_last_error_message(text, sizeof text);
    puts(text);
    e5rt_execution_stream_release(&stream);
    e5rt_buffer_object_release(&places);
    e5rt_buffer_object_release(&rows);
    e5rt_io_port_release(&in);
    e5rt_io_port_release(&out);
    e5rt_execution_stream_operation_release(&operation);
    e5rt_precompiled_compute_op_create_options_release(&options);
    e5rt_program_function_release(&function);
    e5rt_program_library_release(&library);
    e5rt_e5_compiler_release(&compiler);
    return 0;
}
