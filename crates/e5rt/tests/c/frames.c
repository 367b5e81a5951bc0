/* Listings 2.1, 2.2 and 2.4: compile and load once, then dispatch for every frame. */
#include "anemone_e5rt.h"
#include <stdio.h>
#include <string.h>

#define CHECK(call)                                                   \
    do {                                                              \
        int64_t code_ = (call);                                       \
        if (code_ != 0) {                                             \
            char text_[512];                                          \
            e5rt_last_error_message(text_, sizeof text_);             \
            printf("%s: %lld %s\n", #call, (long long)code_, text_);  \
            return 1;                                                 \
        }                                                             \
    } while (0)

int main(int argc, char **argv) {
    const char *model_path = argv[1], *fn_name = "main";
    int n_frames = 100;
    e5rt_e5_compiler_config *config;
    e5rt_e5_compiler *compiler;
    e5rt_e5_compiler_options *options;
    e5rt_program_library *library;
    e5rt_program_function *function;
    e5rt_precompiled_compute_op_create_options *op_opts;
    e5rt_execution_stream_operation *op;
    e5rt_io_port *in_port, *out_port;
    e5rt_buffer_object *in_buf, *out_buf;
    e5rt_execution_stream *stream;
    float *x, *y;
    bool required;

    if (argc != 3) return 2;
    CHECK(e5rt_e5_compiler_config_create(&config));
    CHECK(e5rt_e5_compiler_config_set_string(config, "cache_bundle_location", argv[2]));
    CHECK(e5rt_e5_compiler_create_with_config(&compiler, config));
    CHECK(e5rt_e5_compiler_options_create(&options));
    CHECK(e5rt_e5_compiler_options_set_custom_ane_compiler_options(options, "TargetArchitecture=h13"));
    CHECK(e5rt_e5_compiler_options_set_int(options, "compute_device_types_mask", 4));

    /* Once, out of the hot loop. */
    CHECK(e5rt_e5_compiler_compile(compiler, model_path, options, &library));
    CHECK(e5rt_e5_compiler_is_new_compile_required(compiler, model_path, options, &required));
    if (required) return printf("the cache does not have it\n"), 1;
    CHECK(e5rt_program_library_retain_program_function(library, fn_name, &function));
    CHECK(e5rt_program_function_load_for_execution(function));
    CHECK(e5rt_precompiled_compute_op_create_options_create_with_program_function(&op_opts, function));
    CHECK(e5rt_precompiled_compute_op_create_options_set_string(op_opts, "operation_name", "frames-of-a-loop"));
    CHECK(e5rt_execution_stream_operation_create_precompiled_compute_operation_with_options(&op, op_opts));
    CHECK(e5rt_execution_stream_operation_retain_input_port(op, "x", &in_port));
    CHECK(e5rt_execution_stream_operation_retain_output_port(op, "y", &out_port));
    CHECK(e5rt_buffer_object_alloc(&in_buf, 32 * sizeof(float), 0));
    CHECK(e5rt_buffer_object_alloc(&out_buf, 32 * sizeof(float), 0));
    CHECK(e5rt_io_port_bind_buffer_object(in_port, in_buf));
    CHECK(e5rt_io_port_bind_buffer_object(out_port, out_buf));
    CHECK(e5rt_buffer_object_get_data_ptr(in_buf, (void **)&x));
    CHECK(e5rt_buffer_object_get_data_ptr(out_buf, (void **)&y));
    e5rt_execution_stream_config *stream_config;
    CHECK(e5rt_execution_stream_config_create(&stream_config));
    CHECK(e5rt_execution_stream_config_set_int(stream_config, "enable_low_latency_async_events", 1));
    if (e5rt_execution_stream_config_set_int(stream_config, "nothing", 1) == 0) return 1;
    CHECK(e5rt_execution_stream_create_with_config(&stream, stream_config));
    CHECK(e5rt_execution_stream_config_release(&stream_config));
    char name[8];
    CHECK(e5rt_execution_stream_operation_get_name(op, name, sizeof name));
    if (strcmp(name, "frames-") != 0) return printf("%s\n", name), 1;

    for (int frame = 0; frame < n_frames; frame++) {
        for (int i = 0; i < 32; i++) x[i] = (float)(frame + i);
        CHECK(e5rt_execution_stream_operation_prepare_op_for_encode(op));
        CHECK(e5rt_execution_stream_encode_operation(stream, op));
        CHECK(e5rt_execution_stream_execute_sync(stream));
        CHECK(e5rt_execution_stream_reset(stream));
        for (int i = 0; i < 32; i++)
            if (y[i] != x[i] + 1.0f) return printf("frame %d: y[%d] = %f\n", frame, i, y[i]), 1;
    }

    uint64_t submission;
    e5rt_async_event *done;
    CHECK(e5rt_execution_stream_encode_operation(stream, op));
    CHECK(e5rt_execution_stream_submit_async(stream, 5000, &submission, &done));
    CHECK(e5rt_async_event_sync_wait(done, 10000));
    CHECK(e5rt_async_event_release(&done));

    /* Refusals have codes, and change nothing. */
    e5rt_io_port *none = NULL;
    if (e5rt_execution_stream_operation_retain_input_port(op, "nobody", &none) == 0 || none) return 1;
    if (e5rt_execution_stream_operation_retain_input_port(NULL, "x", &none) == 0) return 1;
    if (e5rt_e5_compiler_compile(compiler, "/nowhere", options, &library) == 0) return 1;

    CHECK(e5rt_execution_stream_release(&stream));
    CHECK(e5rt_io_port_release(&in_port));
    CHECK(e5rt_io_port_release(&out_port));
    CHECK(e5rt_execution_stream_operation_release(&op));
    CHECK(e5rt_precompiled_compute_op_create_options_release(&op_opts));
    CHECK(e5rt_buffer_object_release(&in_buf));
    CHECK(e5rt_buffer_object_release(&out_buf));
    CHECK(e5rt_program_function_release(&function));
    CHECK(e5rt_program_library_release(&library));
    CHECK(e5rt_e5_compiler_options_release(&options));
    CHECK(e5rt_e5_compiler_release(&compiler));
    CHECK(e5rt_e5_compiler_config_release(&config));
    if (e5rt_e5_compiler_config_release(&config) == 0) return 1;
    printf("frames: %d\n", n_frames);
    return 0;
}
