// What a client asks of the device beside runs: preferences, a compile in the background, an adapter, the cache, methods, counters.
// Arguments: model, adapter, folder of a cache (of this process), `refused` where the adapter's key is missing.
#include "anemone_e5rt.h"
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static char text[1 << 16];

#define CHECK(call)                                                              \
    do {                                                                         \
        int64_t code_ = (call);                                                  \
        if (code_ != 0) {                                                        \
            e5rt_last_error_message(text, sizeof text);                          \
            fprintf(stderr, "%s: %lld: %s\n", #call, (long long)code_, text);    \
            return 1;                                                            \
        }                                                                        \
    } while (0)

// Makes an operation of a library's function: its code.
static int64_t operation_of(const e5rt_program_library *library, e5rt_execution_stream_operation **operation) {
    e5rt_program_function *function = NULL;
    e5rt_precompiled_compute_op_create_options *options = NULL;
    CHECK(e5rt_program_library_retain_program_function(library, "main", &function));
    CHECK(e5rt_precompiled_compute_op_create_options_create_with_program_function(&options, function));
    int64_t code =
        e5rt_execution_stream_operation_create_precompiled_compute_operation_with_options(operation, options);
    CHECK(e5rt_precompiled_compute_op_create_options_release(&options));
    CHECK(e5rt_program_function_release(&function));
    return code;
}

// Runs a library on halves of 1: the first element of its output, as bits.
static int first_of(const e5rt_program_library *library, unsigned *bits) {
    e5rt_execution_stream_operation *operation = NULL;
    e5rt_io_port *in = NULL, *out = NULL;
    e5rt_buffer_object *x = NULL, *y = NULL;
    e5rt_execution_stream *stream = NULL;
    void *data = NULL;
    CHECK(operation_of(library, &operation));
    CHECK(e5rt_execution_stream_operation_retain_input_port(operation, "x", &in));
    CHECK(e5rt_execution_stream_operation_retain_output_port(operation, "y", &out));
    CHECK(e5rt_buffer_object_alloc(&x, 128, 0));
    CHECK(e5rt_buffer_object_alloc(&y, 128, 0));
    CHECK(e5rt_io_port_bind_buffer_object(in, x));
    CHECK(e5rt_io_port_bind_buffer_object(out, y));
    CHECK(e5rt_buffer_object_get_data_ptr(x, &data));
    for (int i = 0; i < 64; i++) ((uint16_t *)data)[i] = 0x3c00;
    CHECK(e5rt_execution_stream_create(&stream));
    CHECK(e5rt_execution_stream_encode_operation(stream, operation));
    CHECK(e5rt_execution_stream_execute_sync(stream));
    CHECK(e5rt_buffer_object_get_data_ptr(y, &data));
    *bits = *(uint16_t *)data;
    CHECK(e5rt_execution_stream_release(&stream));
    CHECK(e5rt_buffer_object_release(&x));
    CHECK(e5rt_buffer_object_release(&y));
    CHECK(e5rt_io_port_release(&in));
    CHECK(e5rt_io_port_release(&out));
    CHECK(e5rt_execution_stream_operation_release(&operation));
    return 0;
}

// What a compile has told.
struct told {
    int steps, wrong;
    bool compiled;
    char first[16], last[16];
};

static void progress(void *context, const char *step, uint64_t done, uint64_t all) {
    struct told *told = context;
    if (!told->steps++) snprintf(told->first, sizeof told->first, "%s", step);
    snprintf(told->last, sizeof told->last, "%s", step);
    told->compiled |= !strcmp(step, "compile");
    told->wrong += done > all;
}

int main(int count, char **arguments) {
    struct told told = {0}, untold = {0};
    e5rt_e5_compiler_options *watched = NULL;
    if (count < 4) return 2;
    e5rt_e5_compiler_config *config = NULL;
    e5rt_e5_compiler *compiler = NULL;
    e5rt_compilation *compilation = NULL;
    e5rt_program_library *library = NULL, *adapted = NULL;
    e5rt_execution_stream_operation *refused = NULL, *kept = NULL;
    bool ended = false, required = false;
    unsigned base = 0, other = 0;
    uint64_t removed = 0, half[] = {50};

    CHECK(e5rt_e5_compiler_config_create(&config));
    CHECK(e5rt_e5_compiler_config_set_string(config, "cache_bundle_location", arguments[3]));
    CHECK(e5rt_e5_compiler_config_set_string(config, "route", "broker"));
    CHECK(e5rt_e5_compiler_config_set_int(config, "class_of_service", 33));
    CHECK(e5rt_e5_compiler_config_set_int(config, "queue_depth", 2));
    CHECK(e5rt_e5_compiler_config_set_int(config, "wired", 1));
    CHECK(e5rt_e5_compiler_config_set_int(config, "long_compile", 1));
    if (e5rt_e5_compiler_config_set_int(config, "no_such_setting", 1) != E5RT_NOT_FOUND) return 3;
    if (e5rt_e5_compiler_config_set_int(config, "queue_depth", -1) != E5RT_INVALID_ARGUMENT) return 3;
    CHECK(e5rt_e5_compiler_create_with_config(&compiler, config));

    CHECK(e5rt_e5_compiler_options_create(&watched));
    CHECK(e5rt_e5_compiler_options_set_progress(watched, progress, &told));
    CHECK(e5rt_e5_compiler_compile_async(compiler, arguments[1], watched, &compilation));
    CHECK(e5rt_compilation_wait(compilation, 600000, &library));
    printf("told from %s to %s, compile %d, wrong %d\n", told.first, told.last, told.compiled, told.wrong);
    // Nothing is told of a compile that was cancelled, or whose handle was released.
    CHECK(e5rt_e5_compiler_options_set_progress(watched, progress, &untold));
    e5rt_compilation *second = NULL;
    CHECK(e5rt_e5_compiler_compile_async(compiler, "no.such.model", watched, &second));
    CHECK(e5rt_compilation_cancel(second));
    int64_t end = e5rt_compilation_wait(second, 600000, &adapted);
    if ((end != E5RT_CANCELLED && end != E5RT_COMPILE_FAILED) || adapted) return 7;
    int steps = untold.steps;
    CHECK(e5rt_compilation_release(&second));
    CHECK(e5rt_e5_compiler_options_set_progress(watched, NULL, NULL));
    CHECK(e5rt_e5_compiler_options_release(&watched));
    printf("cancelled or ended, told later %d\n", untold.steps - steps);
    CHECK(e5rt_compilation_is_done(compilation, &ended));
    CHECK(e5rt_compilation_release(&compilation));
    printf("compiled, ended %d\n", ended);
    CHECK(e5rt_e5_compiler_compile_async(compiler, "no.such.model", NULL, &compilation));
    if (e5rt_compilation_wait(compilation, 600000, &adapted) != E5RT_COMPILE_FAILED || adapted) return 4;
    CHECK(e5rt_compilation_release(&compilation));

    if (first_of(library, &base)) return 1;
    CHECK(e5rt_program_library_create_with_adapter(&adapted, library, arguments[2]));
    if (count > 4) {
        if (operation_of(adapted, &refused) != E5RT_NOT_PRIVILEGED) return 5;
        e5rt_last_error_message(text, sizeof text);
        printf("%s\n", text);
    } else {
        if (first_of(adapted, &other)) return 1;
        printf("base %x, adapter %x\n", base, other);
    }

    // The counters are of what is loaded now.
    CHECK(operation_of(library, &kept));
    CHECK(e5rt_e5_compiler_call_method(compiler, "ANE_SetThrottlingPercentage", half, 1, text, sizeof text));
    if (e5rt_e5_compiler_call_method(compiler, "NoSuchMethod", NULL, 0, text, sizeof text) != E5RT_NOT_FOUND) return 6;
    CHECK(e5rt_e5_compiler_get_counters(compiler, text, sizeof text));
    printf("throttled %d, wired %d\n", strstr(text, "\"throttling_percent\":50") != NULL, strstr(text, "\"wired\":0") == NULL);
    CHECK(e5rt_execution_stream_operation_release(&kept));

    CHECK(e5rt_e5_compiler_get_cache_key(compiler, arguments[1], NULL, text, sizeof text));
    CHECK(e5rt_e5_compiler_purge(compiler, text, &removed));
    printf("key of %zu digits, removed %llu\n", strlen(text), (unsigned long long)removed);
    CHECK(e5rt_e5_compiler_is_new_compile_required(compiler, arguments[1], NULL, &required));
    printf("compile required %d\n", required);

    CHECK(e5rt_program_library_release(&adapted));
    CHECK(e5rt_program_library_release(&library));
    CHECK(e5rt_e5_compiler_release(&compiler));
    CHECK(e5rt_e5_compiler_config_release(&config));
    return 0;
}
