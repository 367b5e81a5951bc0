// A training loop in the shape of the runtime's calls: weights and momentum have one buffer on an input and on the output that
// makes their next value, so that they stay on the device; only samples go in, only the loss comes out.
//
//   cc train.c -I ../../crates/e5rt/include -L LIBRARIES -lanemone_e5rt -o train && ./train step.mil
#include "anemone_e5rt.h"
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { SAMPLES = 16, INPUTS = 8, HIDDEN = 16, OUTPUTS = 4, STEPS = 100 };

#define CHECK(call)                                                                   \
    do {                                                                              \
        if ((call) != 0) {                                                            \
            char text[256];                                                           \
            e5rt_last_error_message(text, sizeof text);                               \
            fprintf(stderr, "%s: %s\n", #call, text);                                 \
            return 1;                                                                 \
        }                                                                             \
    } while (0)

typedef _Float16 half;

static uint32_t state;
static float next(void) {
    state = state * 1664525u + 1013904223u;
    return (float)(state >> 16) / 32768.0f - 1.0f;
}
static void fill(half *to, int count, uint32_t seed, float scale) {
    state = seed;
    for (int i = 0; i < count; i++) to[i] = (half)(scale * (float)(half)next());
}

static e5rt_execution_stream_operation *operation;
static e5rt_buffer_object *buffers[7];
static int bound;

// A buffer on one port, or on an input and an output.
static int bind(const char *input, const char *output, int elements, half **data) {
    e5rt_buffer_object *buffer = NULL;
    e5rt_io_port *port = NULL;
    CHECK(e5rt_buffer_object_alloc(&buffer, (size_t)elements * sizeof(half), 0));
    if (input) {
        CHECK(e5rt_execution_stream_operation_retain_input_port(operation, input, &port));
        CHECK(e5rt_io_port_bind_buffer_object(port, buffer));
        CHECK(e5rt_io_port_release(&port));
    }
    if (output) {
        CHECK(e5rt_execution_stream_operation_retain_output_port(operation, output, &port));
        CHECK(e5rt_io_port_bind_buffer_object(port, buffer));
        CHECK(e5rt_io_port_release(&port));
    }
    void *bytes = NULL;
    CHECK(e5rt_buffer_object_get_data_ptr(buffer, &bytes));
    *data = bytes;
    buffers[bound++] = buffer;
    return 0;
}

int main(int count, char **arguments) {
    e5rt_e5_compiler *compiler = NULL;
    e5rt_program_library *library = NULL;
    e5rt_program_function *function = NULL;
    e5rt_precompiled_compute_op_create_options *options = NULL;
    e5rt_execution_stream *stream = NULL;
    CHECK(e5rt_e5_compiler_create(&compiler));
    CHECK(e5rt_e5_compiler_compile(compiler, count > 1 ? arguments[1] : "step.mil", NULL, &library));
    CHECK(e5rt_program_library_retain_program_function(library, "main", &function));
    CHECK(e5rt_program_function_load_for_execution(function));
    CHECK(e5rt_precompiled_compute_op_create_options_create_with_program_function(&options, function));
    CHECK(e5rt_execution_stream_operation_create_precompiled_compute_operation_with_options(&operation, options));
    half *x, *t, *w1, *w2, *v1, *v2, *loss, map[INPUTS * OUTPUTS];
    if (bind("x", NULL, SAMPLES * INPUTS, &x) || bind("t", NULL, SAMPLES * OUTPUTS, &t) ||
        bind("w1", "w1_next", INPUTS * HIDDEN, &w1) || bind("w2", "w2_next", HIDDEN * OUTPUTS, &w2) ||
        bind("v1", "v1_next", INPUTS * HIDDEN, &v1) || bind("v2", "v2_next", HIDDEN * OUTPUTS, &v2) ||
        bind(NULL, "loss", 1, &loss))
        return 1;
    fill(w1, INPUTS * HIDDEN, 1, 0.5f);
    fill(w2, HIDDEN * OUTPUTS, 2, 0.5f);
    fill(map, INPUTS * OUTPUTS, 3, 0.5f);
    CHECK(e5rt_execution_stream_create(&stream));
    for (int step = 0; step < STEPS; step++) {
        fill(x, SAMPLES * INPUTS, 10u + (uint32_t)step % 4, 1.0f);
        for (int n = 0; n < SAMPLES; n++)
            for (int o = 0; o < OUTPUTS; o++) {
                float sum = 0;
                for (int k = 0; k < INPUTS; k++) sum += (float)x[n * INPUTS + k] * (float)map[k * OUTPUTS + o];
                t[n * OUTPUTS + o] = (half)sum;
            }
        CHECK(e5rt_execution_stream_encode_operation(stream, operation));
        CHECK(e5rt_execution_stream_execute_sync(stream));
        CHECK(e5rt_execution_stream_reset(stream));
        if (step % 10 == 9 || step == 0) printf("step %3d  loss %.5f\n", step + 1, (double)*loss);
    }
    CHECK(e5rt_execution_stream_release(&stream));
    CHECK(e5rt_execution_stream_operation_release(&operation));
    while (bound > 0) CHECK(e5rt_buffer_object_release(&buffers[--bound]));
    CHECK(e5rt_precompiled_compute_op_create_options_release(&options));
    CHECK(e5rt_program_function_release(&function));
    CHECK(e5rt_program_library_release(&library));
    CHECK(e5rt_e5_compiler_release(&compiler));
    return 0;
}
