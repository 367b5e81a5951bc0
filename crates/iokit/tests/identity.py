"""Opens the device with ctypes alone: library, model, bytes a channel."""

import ctypes as c
import struct
import sys

lib = c.CDLL(sys.argv[1])
for name in ("IOServiceMatching", "IOSurfaceCreate", "IOSurfaceGetBaseAddress", "CFDictionaryCreateMutable",
             "CFNumberCreate", "__CFStringMakeConstantString"):
    getattr(lib, name).restype = c.c_void_p


def check(code, what):
    if code & 0xffffffff:
        sys.exit(f"{what}: {code & 0xffffffff:#x}")


def call(selector, given, capacity=0, scalars=()):
    """One call of a selector; what comes out of it."""
    data, out, size = c.create_string_buffer(given, len(given)), c.create_string_buffer(capacity or 1), c.c_size_t(capacity)
    numbers = (c.c_uint64 * len(scalars))(*scalars)
    check(lib.IOConnectCallMethod(connect, selector, numbers, len(scalars), data, c.c_size_t(len(given)), None, None,
                                  out if capacity else None, c.byref(size) if capacity else None), f"selector {selector}")
    return out.raw[:capacity]


def surface(size):
    table = c.c_void_p(lib.CFDictionaryCreateMutable(None, 0, None, None))
    key = getattr(lib, "__CFStringMakeConstantString")(b"IOSurfaceAllocSize")
    number = lib.CFNumberCreate(None, 4, c.byref(c.c_int64(size)))
    lib.CFDictionarySetValue(table, c.c_void_p(key), c.c_void_p(number))
    return c.c_void_p(lib.IOSurfaceCreate(table))


service = lib.IOServiceGetMatchingService(0, c.c_void_p(lib.IOServiceMatching(b"H11ANEIn")))
connect = c.c_uint32()
check(lib.IOServiceOpen(service, 0x203, 0, c.byref(connect)), "open")
call(0, bytes([1]) + bytes(103), 104)

size = c.c_size_t()
lib.AnemoneCreateProgram(sys.argv[2].encode(), None, c.byref(size))
image = c.create_string_buffer(size.value)
check(lib.AnemoneCreateProgram(sys.argv[2].encode(), image, c.byref(size)), "compile")
arguments = bytearray(192)
struct.pack_into("<QQ", arguments, 0, c.addressof(image), size.value)
struct.pack_into("<I", arguments, 0x5c, 1)
struct.pack_into("<II", arguments, 0x64, 21, 0x10)
blob, created = c.create_string_buffer(bytes(arguments), 192), c.create_string_buffer(24)
call(3, struct.pack("<QQQQ", c.addressof(blob), 192, c.addressof(created), 24))
token = struct.unpack_from("<Q", created)[0]
call(4, struct.pack("<Q", token) + bytes(48), 56)

stride, data, result = int(sys.argv[3]), surface(16384), surface(16384)
memory = lambda s: (c.c_char * 16384).from_address(lib.IOSurfaceGetBaseAddress(s))
for i in range(64):
    struct.pack_into("<e", memory(data), i * stride, float(i))
request = bytearray(2376)
struct.pack_into("<QQIIII", request, 0, token, 0, 5, 21, 1 | 1 << 8, 2)
struct.pack_into("<Q", request, 0x20, lib.IOSurfaceGetID(data))
struct.pack_into("<Q", request, 0x28, lib.IOSurfaceGetID(result))
call(2, bytes(request), 40, scalars=[0])
print([int(struct.unpack_from("<e", memory(result), i * stride)[0]) for i in range(64)])
call(6, struct.pack("<QQ", token, 0))
check(lib.IOServiceClose(connect), "close")
