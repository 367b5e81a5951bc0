// The driver model under the public names of IOKit, CoreFoundation and IOSurface, for programs that open the engine themselves.
// Signatures are those of the system; return codes are the driver's (`ane explain 0xe00002c2`).
#ifndef ANEMONE_IOKIT_H
#define ANEMONE_IOKIT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t kern_return_t;
typedef int32_t IOReturn;
typedef uint32_t mach_port_t;
typedef uint32_t task_port_t;
typedef mach_port_t io_object_t;
typedef io_object_t io_service_t;
typedef io_object_t io_connect_t;
typedef io_object_t io_iterator_t;
typedef io_object_t io_registry_entry_t;
typedef char io_name_t[128];
typedef uint64_t io_user_reference_t;
typedef struct IONotificationPort *IONotificationPortRef;
typedef uint32_t IOOptionBits;

typedef const void *CFTypeRef;
typedef const void *CFAllocatorRef;
typedef const void *CFStringRef;
typedef const void *CFNumberRef;
typedef const void *CFDictionaryRef;
typedef void *CFMutableDictionaryRef;
typedef void *CFRunLoopRef;
typedef void *CFRunLoopSourceRef;
typedef unsigned char Boolean;
typedef long CFIndex;
typedef void *IOSurfaceRef;

#define KERN_SUCCESS 0
#define kIOReturnSuccess 0
#define kIOReturnNotPrivileged ((IOReturn)0xe00002c1)
#define kIOReturnBadArgument ((IOReturn)0xe00002c2)
#define kIOReturnUnsupported ((IOReturn)0xe00002c7)
#define kIOMainPortDefault ((mach_port_t)0)
#define kIOMasterPortDefault kIOMainPortDefault
#define kCFAllocatorDefault ((CFAllocatorRef)0)
#define kCFStringEncodingUTF8 0x08000100u
#define kCFNumberSInt32Type 3
#define kCFNumberSInt64Type 4
#define kCFNumberIntType 9
#define kCFRunLoopDefaultMode CFSTR("kCFRunLoopDefaultMode")
#define kIOSurfaceAllocSize CFSTR("IOSurfaceAllocSize")
#define kIOAsyncCalloutFuncIndex 1
#define kIOAsyncCalloutRefconIndex 2
#define kIOAsyncCalloutCount 3
#define mach_task_self() ((task_port_t)0x203)
#define CFSTR(text) __CFStringMakeConstantString(text)

// Services: "H11ANEIn" is the device, "H1xANELoadBalancer" the load balancer.
CFMutableDictionaryRef IOServiceMatching(const char *name);
CFMutableDictionaryRef IOServiceNameMatching(const char *name);
io_service_t IOServiceGetMatchingService(mach_port_t main_port, CFDictionaryRef matching);
kern_return_t IOServiceGetMatchingServices(mach_port_t main_port, CFDictionaryRef matching, io_iterator_t *existing);
io_object_t IOIteratorNext(io_iterator_t iterator);
kern_return_t IOObjectRetain(io_object_t object);
kern_return_t IOObjectRelease(io_object_t object);
kern_return_t IOObjectGetClass(io_object_t object, io_name_t name);
Boolean IOObjectConformsTo(io_object_t object, const io_name_t name);
kern_return_t IORegistryEntryGetName(io_registry_entry_t entry, io_name_t name);
CFTypeRef IORegistryEntryCreateCFProperty(io_registry_entry_t entry, CFStringRef key, CFAllocatorRef allocator,
                                          IOOptionBits options);
kern_return_t IORegistryEntryCreateCFProperties(io_registry_entry_t entry, CFMutableDictionaryRef *properties,
                                                CFAllocatorRef allocator, IOOptionBits options);

// Connections: type 0 is the control client, 1 the direct path, 2 the hints.
kern_return_t IOServiceOpen(io_service_t service, task_port_t task, uint32_t type, io_connect_t *connect);
kern_return_t IOServiceClose(io_connect_t connect);
kern_return_t IOConnectCallMethod(mach_port_t connection, uint32_t selector, const uint64_t *input, uint32_t input_count,
                                  const void *input_struct, size_t input_bytes, uint64_t *output,
                                  uint32_t *output_count, void *output_struct, size_t *output_bytes);
kern_return_t IOConnectCallScalarMethod(mach_port_t connection, uint32_t selector, const uint64_t *input,
                                        uint32_t input_count, uint64_t *output, uint32_t *output_count);
kern_return_t IOConnectCallStructMethod(mach_port_t connection, uint32_t selector, const void *input_struct,
                                        size_t input_bytes, void *output_struct, size_t *output_bytes);
kern_return_t IOConnectCallAsyncMethod(mach_port_t connection, uint32_t selector, mach_port_t wake_port,
                                       uint64_t *reference, uint32_t reference_count, const uint64_t *input,
                                       uint32_t input_count, const void *input_struct, size_t input_bytes,
                                       uint64_t *output, uint32_t *output_count, void *output_struct,
                                       size_t *output_bytes);
kern_return_t IOConnectCallAsyncScalarMethod(mach_port_t connection, uint32_t selector, mach_port_t wake_port,
                                             uint64_t *reference, uint32_t reference_count, const uint64_t *input,
                                             uint32_t input_count, uint64_t *output, uint32_t *output_count);
kern_return_t IOConnectCallAsyncStructMethod(mach_port_t connection, uint32_t selector, mach_port_t wake_port,
                                             uint64_t *reference, uint32_t reference_count, const void *input_struct,
                                             size_t input_bytes, void *output_struct, size_t *output_bytes);
// The memory type is the identity of a surface of this process.
kern_return_t IOConnectMapMemory64(io_connect_t connect, uint32_t memory_type, task_port_t task, uint64_t *address,
                                   uint64_t *bytes, IOOptionBits options);
kern_return_t IOConnectUnmapMemory64(io_connect_t connect, uint32_t memory_type, task_port_t task, uint64_t address);

// An asynchronous call's function: called with the argument, the result, no further arguments.
typedef void (*IOAsyncCallback)(void *argument, IOReturn result, void **arguments, uint32_t count);
IONotificationPortRef IONotificationPortCreate(mach_port_t main_port);
mach_port_t IONotificationPortGetMachPort(IONotificationPortRef port);
CFRunLoopSourceRef IONotificationPortGetRunLoopSource(IONotificationPortRef port);
void IONotificationPortDestroy(IONotificationPortRef port);
CFRunLoopRef CFRunLoopGetCurrent(void);
void CFRunLoopAddSource(CFRunLoopRef loop, CFRunLoopSourceRef source, CFStringRef mode);
void CFRunLoopRemoveSource(CFRunLoopRef loop, CFRunLoopSourceRef source, CFStringRef mode);
int32_t CFRunLoopRunInMode(CFStringRef mode, double seconds, Boolean return_after_source_handled);

// The few types of CoreFoundation.
CFTypeRef CFRetain(CFTypeRef object);
void CFRelease(CFTypeRef object);
size_t CFGetTypeID(CFTypeRef object);
size_t CFStringGetTypeID(void);
size_t CFNumberGetTypeID(void);
size_t CFDictionaryGetTypeID(void);
CFStringRef CFStringCreateWithCString(CFAllocatorRef allocator, const char *text, uint32_t encoding);
CFStringRef __CFStringMakeConstantString(const char *text);
CFIndex CFStringGetLength(CFStringRef string);
Boolean CFStringGetCString(CFStringRef string, char *to, CFIndex bytes, uint32_t encoding);
CFNumberRef CFNumberCreate(CFAllocatorRef allocator, CFIndex type, const void *value);
Boolean CFNumberGetValue(CFNumberRef number, CFIndex type, void *value);
CFMutableDictionaryRef CFDictionaryCreateMutable(CFAllocatorRef allocator, CFIndex capacity, const void *keys,
                                                 const void *values);
void CFDictionarySetValue(CFMutableDictionaryRef table, const void *key, const void *value);
const void *CFDictionaryGetValue(CFDictionaryRef table, const void *key);
CFIndex CFDictionaryGetCount(CFDictionaryRef table);

// Surfaces.
IOSurfaceRef IOSurfaceCreate(CFDictionaryRef properties);
uint32_t IOSurfaceGetID(IOSurfaceRef surface);
IOSurfaceRef IOSurfaceLookup(uint32_t id);
void *IOSurfaceGetBaseAddress(IOSurfaceRef surface);
size_t IOSurfaceGetAllocSize(IOSurfaceRef surface);
kern_return_t IOSurfaceLock(IOSurfaceRef surface, uint32_t options, uint32_t *seed);
kern_return_t IOSurfaceUnlock(IOSurfaceRef surface, uint32_t options, uint32_t *seed);

// This library's own. A model compiled for the M1 and signed for this process: the image that selector 3 takes. With too little
// capacity, `bytes` gets the size and the code is 0xe00002bd.
kern_return_t AnemoneCreateProgram(const char *model_path, void *image, size_t *bytes);
size_t AnemoneCopyLastError(char *to, size_t capacity);
kern_return_t AnemoneReleaseSurface(IOSurfaceRef surface);
kern_return_t AnemoneWait(IONotificationPortRef port, uint32_t milliseconds);

#ifdef __cplusplus
}
#endif

#endif
