// The driver model under the public names of IOKit, CoreFoundation and IOSurface, for programs that open the engine themselves.
// Signatures are those of the system. Conventions, for every call:
//   - kern_return_t and IOReturn are 0 (KERN_SUCCESS) or a code of the driver; `ane explain 0xe00002c2` explains each, the common
//     ones are defined below.
//   - io_object_t, io_service_t, io_iterator_t and io_connect_t are handles: numbers, 0 for none. The caller owns the handle that a
//     call returns or writes to its last argument; it releases services and iterators with IOObjectRelease, and connections with
//     IOServiceClose. An unknown or released handle is refused with a code.
//   - CF types and IOSurfaceRef are opaque pointers. Objects of calls with Create or Matching in their name belong to the caller, who
//     releases them with CFRelease, surfaces with AnemoneReleaseSurface; objects of calls with Get belong to the object that they come
//     from.
//   - Text is UTF-8 with a zero at its end, memory of the caller, copied during the call.
//   - Other pointers are memory of the caller; an address that cannot be read or written is kIOReturnBadArgument.
//   - `main_port`, `task`, `allocator`, `mode` and `options` have one value here (kIOMainPortDefault, mach_task_self(),
//     kCFAllocatorDefault, kCFRunLoopDefaultMode, 0); others are ignored.
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

// Services. `name` is "H11ANEIn" for the device or "H1xANELoadBalancer" for the load balancer. A matching call takes the dictionary
// from the caller: it releases it. `existing` receives an iterator over all matches; IOIteratorNext returns 0 behind the last one.
// `name` of IOObjectGetClass and IORegistryEntryGetName receives a text of at most 128 bytes. `key` names a property
// (`ane driver list`); `properties` receives a dictionary of all.
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

// Connections. `type` is 0 for the control client, 1 for the direct path, 2 for the hints; `connect` receives the connection.
// A call of a method: `selector` is its number (`ane driver list`); `input` and `input_count` are its scalars, `input_struct` and
// `input_bytes` its structure, which must have exactly the size that the selector takes. `output_count` and `output_bytes` hold the
// capacity of `output` and `output_struct`, and receive what was written; null where the method has no such result.
// The asynchronous forms return once the request is queued: `wake_port` is the port of IONotificationPortGetMachPort, `reference` has
// `reference_count` words, of which kIOAsyncCalloutFuncIndex holds an IOAsyncCallback and kIOAsyncCalloutRefconIndex its argument.
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
// `memory_type` is the identity of a surface of this process (IOSurfaceGetID). `address` and `bytes` receive the mapping, which
// belongs to the surface and is valid until it is unmapped.
kern_return_t IOConnectMapMemory64(io_connect_t connect, uint32_t memory_type, task_port_t task, uint64_t *address,
                                   uint64_t *bytes, IOOptionBits options);
kern_return_t IOConnectUnmapMemory64(io_connect_t connect, uint32_t memory_type, task_port_t task, uint64_t address);

// Notifications. The callback runs on the thread that runs the run loop or waits: `argument` is the word of the call's reference,
// `result` the code of the request, `arguments` is null and `count` 0. A port belongs to its caller until IONotificationPortDestroy;
// its run-loop source belongs to the port. CFRunLoopRunInMode waits for at most `seconds`, and returns after one callback if
// `return_after_source_handled` is not 0: 1 without sources, 3 at the end of the time, 4 after a callback.
typedef void (*IOAsyncCallback)(void *argument, IOReturn result, void **arguments, uint32_t count);
IONotificationPortRef IONotificationPortCreate(mach_port_t main_port);
mach_port_t IONotificationPortGetMachPort(IONotificationPortRef port);
CFRunLoopSourceRef IONotificationPortGetRunLoopSource(IONotificationPortRef port);
void IONotificationPortDestroy(IONotificationPortRef port);
CFRunLoopRef CFRunLoopGetCurrent(void);
void CFRunLoopAddSource(CFRunLoopRef loop, CFRunLoopSourceRef source, CFStringRef mode);
void CFRunLoopRemoveSource(CFRunLoopRef loop, CFRunLoopSourceRef source, CFStringRef mode);
int32_t CFRunLoopRunInMode(CFStringRef mode, double seconds, Boolean return_after_source_handled);

// Types of CoreFoundation, as far as properties need them. `encoding` is kCFStringEncodingUTF8; `type` of a number is one of the
// kCFNumber... types, and `value` points to a number of that type. CFStringGetCString writes at most `bytes` with the zero, and returns
// 0 where the text does not fit. A dictionary retains its values. CFDictionaryGetValue returns null for an unknown key.
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

// Surfaces: memory that the process shares with the device. `properties` holds kIOSurfaceAllocSize, the number of bytes.
// The memory is valid until AnemoneReleaseSurface. IOSurfaceLookup finds a surface of this process by its number and does not retain
// it. `seed` may be null, and receives 0; the memory is coherent, so locking waits for nothing.
IOSurfaceRef IOSurfaceCreate(CFDictionaryRef properties);
uint32_t IOSurfaceGetID(IOSurfaceRef surface);
IOSurfaceRef IOSurfaceLookup(uint32_t id);
void *IOSurfaceGetBaseAddress(IOSurfaceRef surface);
size_t IOSurfaceGetAllocSize(IOSurfaceRef surface);
kern_return_t IOSurfaceLock(IOSurfaceRef surface, uint32_t options, uint32_t *seed);
kern_return_t IOSurfaceUnlock(IOSurfaceRef surface, uint32_t options, uint32_t *seed);

// This library's own calls, in place of the system's compiler and its signature.
//
// Compiles a model for the M1 and signs the program for this process: the image that selector 3 takes.
//   model_path: in: path of a model or package
//   image: out: memory of the caller for `*bytes`; null with `*bytes` of 0 to ask for the size
//   bytes: in and out: capacity, then size of the image
// 0xe00002bd: the capacity is too small; any other code: AnemoneCopyLastError has the reason.
kern_return_t AnemoneCreateProgram(const char *model_path, void *image, size_t *bytes);
// Copies the reason of the last refusal of AnemoneCreateProgram to `to`, memory of the caller for `capacity` bytes, cut to fit; returns
// its length.
size_t AnemoneCopyLastError(char *to, size_t capacity);
// Calls a selector by an argument block of 0x68 bytes whose fields lie where the book's Listing 27.2 has them: a pointer at 0x10 to scalars
// and their count at 0x20, a structure at 0x30 and its bytes at 0x38, scalars out at 0x48 and 0x50, a structure out at 0x58 and 0x60.
// IOConnectCallMethod is the public form of the same call. 0xe00002c7: the block has a wake port at 0x08.
kern_return_t AnemoneExternalMethod(io_connect_t connect, uint32_t selector, void *block);
// Releases a surface of the caller.
kern_return_t AnemoneReleaseSurface(IOSurfaceRef surface);
// Waits for one message at the port, for at most `milliseconds`, without a run loop; calls its callback. 5: no message came in time.
kern_return_t AnemoneWait(IONotificationPortRef port, uint32_t milliseconds);

#ifdef __cplusplus
}
#endif

#endif
