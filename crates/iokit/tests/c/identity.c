// Opens the device, makes a program of a model of 64 inputs and 64 outputs, sends a request at once and one through a wake port,
// prints both results, and destroys everything.
#include "anemone_iokit.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(call)                                                          \
    do {                                                                     \
        kern_return_t code = (call);                                         \
        if (code != 0) {                                                     \
            fprintf(stderr, "%s: 0x%x\n", #call, (unsigned)code);            \
            exit(1);                                                         \
        }                                                                    \
    } while (0)

static void told(void *argument, IOReturn result, void **arguments, uint32_t count) {
    (void)arguments;
    (void)count;
    *(int64_t *)argument = result;
}

static IOSurfaceRef surface(int64_t bytes) {
    CFMutableDictionaryRef properties = CFDictionaryCreateMutable(kCFAllocatorDefault, 0, NULL, NULL);
    CFNumberRef size = CFNumberCreate(kCFAllocatorDefault, kCFNumberSInt64Type, &bytes);
    CFDictionarySetValue(properties, kIOSurfaceAllocSize, size);
    IOSurfaceRef made = IOSurfaceCreate(properties);
    CFRelease(size);
    CFRelease(properties);
    return made;
}

int main(int count, char **names) {
    if (count != 3) return 2;
    int row_bytes = atoi(names[2]);
    io_service_t service = IOServiceGetMatchingService(kIOMainPortDefault, IOServiceMatching("H11ANEIn"));
    io_service_t balancer = IOServiceGetMatchingService(kIOMainPortDefault, IOServiceMatching("H1xANELoadBalancer"));
    if (!service || !balancer || IOServiceGetMatchingService(0, IOServiceMatching("NoSuchService"))) return 1;
    CFTypeRef type = IORegistryEntryCreateCFProperty(service, CFSTR("ARCHITECTURE"), kCFAllocatorDefault, 0);
    char text[16];
    if (!CFStringGetCString(type, text, sizeof text, kCFStringEncodingUTF8)) return 1;
    printf("architecture %s\n", text);
    CFRelease(type);

    io_connect_t connect;
    CHECK(IOServiceOpen(service, mach_task_self(), 0, &connect));
    uint64_t version;
    uint32_t one = 1;
    if (IOConnectCallScalarMethod(connect, 10, NULL, 0, &version, &one) == 0) return 1; // before the handshake
    unsigned char handshake[104] = {1};
    size_t bytes = sizeof handshake;
    CHECK(IOConnectCallStructMethod(connect, 0, handshake, sizeof handshake, handshake, &bytes));
    uint64_t engines;
    memcpy(&engines, handshake + 0x50, 8);
    printf("engines %llu\n", (unsigned long long)engines);
    // The same calls by an argument block of the book: the version, and a wrong size.
    uint64_t block[13] = {0}, same = 0;
    CHECK(IOConnectCallScalarMethod(connect, 10, NULL, 0, &version, &one));
    block[9] = (uintptr_t)&same, block[10] = 1;
    CHECK(AnemoneExternalMethod(connect, 10, block));
    if (same != version || same == 0) return 1;
    block[10] = 2;
    if (AnemoneExternalMethod(connect, 10, block) != kIOReturnBadArgument) return 1;
    block[1] = 1;
    if (AnemoneExternalMethod(connect, 10, block) != kIOReturnUnsupported) return 1;
    if (AnemoneExternalMethod(connect, 10, NULL) != kIOReturnBadArgument) return 1;
    if (IOConnectCallStructMethod(connect, 4, handshake, 55, handshake, &bytes) != kIOReturnBadArgument) return 1;
    if (IOConnectCallStructMethod(connect, 6, (void *)16, 16, NULL, NULL) != kIOReturnBadArgument) return 1;

    size_t image_bytes = 0;
    if (AnemoneCreateProgram(names[1], NULL, &image_bytes) == 0 || image_bytes == 0) {
        AnemoneCopyLastError(text, sizeof text);
        fprintf(stderr, "%s\n", text);
        return 1;
    }
    void *image = malloc(image_bytes);
    CHECK(AnemoneCreateProgram(names[1], image, &image_bytes));
    struct { uint64_t image, image_bytes, flags; unsigned char rest[168]; } arguments = {0};
    arguments.image = (uint64_t)(uintptr_t)image;
    arguments.image_bytes = image_bytes;
    uint32_t procedures = 1, class = 21, booleans = 0x10;
    memcpy((char *)&arguments + 0x5c, &procedures, 4);
    memcpy((char *)&arguments + 0x64, &class, 4);
    memcpy((char *)&arguments + 0x68, &booleans, 4);
    strcpy((char *)&arguments + 0x80, "identity");
    uint64_t created[3] = {0};
    uint64_t create[4] = {(uintptr_t)&arguments, sizeof arguments, (uintptr_t)created, sizeof created};
    CHECK(IOConnectCallStructMethod(connect, 3, create, sizeof create, NULL, NULL));
    uint64_t token = created[0], prepare[7] = {token};
    bytes = sizeof prepare;
    CHECK(IOConnectCallStructMethod(connect, 4, prepare, sizeof prepare, prepare, &bytes));

    IOSurfaceRef in = surface(16384), out = surface(16384);
    for (int i = 0; i < 64; i++) {
        uint16_t half = (uint16_t)(0x3c00 + i); // 1, and the next 63 numbers
        memcpy((char *)IOSurfaceGetBaseAddress(in) + i * row_bytes, &half, 2);
    }
    uint64_t mapped = 0, mapped_bytes = 0;
    CHECK(IOConnectMapMemory64(connect, IOSurfaceGetID(out), 0, &mapped, &mapped_bytes, 0));
    if (mapped != (uintptr_t)IOSurfaceGetBaseAddress(out) || mapped_bytes != IOSurfaceGetAllocSize(out)) return 1;
    CHECK(IOConnectUnmapMemory64(connect, IOSurfaceGetID(out), 0, mapped));
    if (IOConnectMapMemory64(connect, 99999, 0, &mapped, &mapped_bytes, 0) == 0) return 1;
    unsigned char request[2376] = {0}, reply[40];
    uint32_t priority = 5, io_counts = 1 | 1 << 8, category = 2, ids[2] = {IOSurfaceGetID(in), IOSurfaceGetID(out)};
    memcpy(request, &token, 8);
    memcpy(request + 0x10, &priority, 4);
    memcpy(request + 0x14, &class, 4);
    memcpy(request + 0x18, &io_counts, 4);
    memcpy(request + 0x1c, &category, 4);
    memcpy(request + 0x20, &ids[0], 4);
    memcpy(request + 0x28, &ids[1], 4);
    uint64_t doorbell = 0;
    IONotificationPortRef port = IONotificationPortCreate(kIOMainPortDefault);
    CFRunLoopAddSource(CFRunLoopGetCurrent(), IONotificationPortGetRunLoopSource(port), kCFRunLoopDefaultMode);
    for (int asynchronous = 0; asynchronous < 2; asynchronous++) {
        memset(IOSurfaceGetBaseAddress(out), 0, IOSurfaceGetAllocSize(out));
        bytes = sizeof reply;
        if (asynchronous) {
            int64_t result = -1;
            uint64_t reference[kIOAsyncCalloutCount] = {0, (uintptr_t)told, (uintptr_t)&result};
            CHECK(IOConnectCallAsyncMethod(connect, 2, IONotificationPortGetMachPort(port), reference,
                                           kIOAsyncCalloutCount, &doorbell, 1, request, sizeof request, NULL, NULL,
                                           reply, &bytes));
            if (CFRunLoopRunInMode(kCFRunLoopDefaultMode, 10, 1) != 4 || result != 0) return 1;
        } else {
            CHECK(IOConnectCallMethod(connect, 2, &doorbell, 1, request, sizeof request, NULL, NULL, reply, &bytes));
        }
        if (memcmp(reply + 8, &token, 8) != 0) return 1;
        int wrong = 0;
        for (int i = 0; i < 64; i++) {
            uint16_t half;
            memcpy(&half, (char *)IOSurfaceGetBaseAddress(out) + i * row_bytes, 2);
            wrong += half != 0x3c00 + i;
        }
        printf("%s: %d of 64 wrong\n", asynchronous ? "wake port" : "at once", wrong);
    }
    uint64_t destroy[2] = {token, 0};
    CHECK(IOConnectCallStructMethod(connect, 6, destroy, sizeof destroy, NULL, NULL));
    if (IOConnectCallStructMethod(connect, 6, destroy, sizeof destroy, NULL, NULL) == 0) return 1; // twice
    IONotificationPortDestroy(port);
    CHECK(AnemoneReleaseSurface(in));
    CHECK(AnemoneReleaseSurface(out));
    CHECK(IOServiceClose(connect));
    if (IOServiceClose(connect) == 0) return 1;
    CHECK(IOObjectRelease(service));
    CHECK(IOObjectRelease(balancer));
    free(image);
    return 0;
}
