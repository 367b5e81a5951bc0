//! Services of the registry: matching, properties, references.

use crate::foundation::{CFRelease, CFTypeRef, Thing, made, table, value};
use crate::memory::{c_text, text, write};
use crate::world::{Object, guarded, world};
use anemone_facts::driver::properties::{COMPONENTS, SERVICES};
use anemone_runtime::Code;
use anemone_runtime::driver::{Driver, Property};
use std::collections::VecDeque;
use std::ffi::{c_char, c_void};

/// Keys of a matching dictionary.
const PROVIDER_CLASS: &str = "IOProviderClass";
const NAME: &str = "IONameMatch";

/// Size of a name in bytes, its terminating 0 included.
const NAME_BYTES: usize = 128;

/// The class of a service: that of its component.
fn class_of(service: usize) -> &'static str {
    let at = if service == 0 { 0 } else { COMPONENTS.len() - 1 };
    COMPONENTS.get(at).map_or("", |(_, class, _)| class)
}

fn is_called(service: usize, name: &str) -> bool {
    class_of(service) == name || SERVICES.get(service).is_some_and(|(own, _)| *own == name)
}

fn matching(key: &str, name: *const c_char) -> CFTypeRef {
    guarded(std::ptr::null(), || text(name).map_or(std::ptr::null(), |name| table(vec![(key, Thing::Text(name))])))
}

/// A dictionary that matches services of a class: `H11ANEIn`, `H1xANELoadBalancer` or the classes behind them.
#[unsafe(no_mangle)]
pub extern "C" fn IOServiceMatching(name: *const c_char) -> CFTypeRef {
    matching(PROVIDER_CLASS, name)
}

/// A dictionary that matches services by name.
#[unsafe(no_mangle)]
pub extern "C" fn IOServiceNameMatching(name: *const c_char) -> CFTypeRef {
    matching(NAME, name)
}

/// Services that match a dictionary; consumes a reference to it.
fn matched(dictionary: CFTypeRef) -> VecDeque<usize> {
    let wanted = [PROVIDER_CLASS, NAME].into_iter().find_map(|key| value(dictionary, key));
    CFRelease(dictionary);
    match wanted {
        Some(Thing::Text(name)) => (0..SERVICES.len()).filter(|&at| is_called(at, &name)).collect(),
        _ => VecDeque::new(),
    }
}

/// The first matching service, 0 if there is none. Consumes a reference to the dictionary.
#[unsafe(no_mangle)]
pub extern "C" fn IOServiceGetMatchingService(_main_port: u32, dictionary: CFTypeRef) -> u32 {
    guarded(0, || {
        let first = matched(dictionary).pop_front();
        first.and_then(|service| Some(world()?.add(Object::Service(service)))).unwrap_or(0)
    })
}

/// An iterator over the matching services. Consumes a reference to the dictionary.
#[unsafe(no_mangle)]
pub extern "C" fn IOServiceGetMatchingServices(_main_port: u32, dictionary: CFTypeRef, to: *mut u32) -> u32 {
    guarded(Code::NO_RESOURCES.0, || {
        let found = matched(dictionary);
        let Some(mut world) = world() else { return Code::NO_RESOURCES.0 };
        let handle = world.add(Object::Iterator(found));
        if write(to.cast(), &handle.to_le_bytes()) { 0 } else { Code::BAD_ARGUMENT.0 }
    })
}

/// The next service of an iterator, 0 at its end.
#[unsafe(no_mangle)]
pub extern "C" fn IOIteratorNext(iterator: u32) -> u32 {
    guarded(0, || {
        let Some(mut world) = world() else { return 0 };
        let next = match world.object(iterator) {
            Some(Object::Iterator(left)) => left.pop_front(),
            _ => None,
        };
        next.map_or(0, |service| world.add(Object::Service(service)))
    })
}

/// Adds a reference.
#[unsafe(no_mangle)]
pub extern "C" fn IOObjectRetain(object: u32) -> u32 {
    guarded(Code::BAD_ARGUMENT.0, || world().map_or(Code::NO_RESOURCES, |mut w| w.count(object, true)).0)
}

/// Removes a reference.
#[unsafe(no_mangle)]
pub extern "C" fn IOObjectRelease(object: u32) -> u32 {
    guarded(Code::BAD_ARGUMENT.0, || world().map_or(Code::NO_RESOURCES, |mut w| w.count(object, false)).0)
}

fn service(handle: u32) -> Option<usize> {
    match world()?.object(handle) {
        Some(Object::Service(service)) => Some(*service),
        _ => None,
    }
}

/// Copies the name of a service's class to 128 bytes.
#[unsafe(no_mangle)]
pub extern "C" fn IOObjectGetClass(object: u32, to: *mut c_char) -> u32 {
    guarded(Code::BAD_ARGUMENT.0, || {
        let Some(service) = service(object) else { return Code::BAD_ARGUMENT.0 };
        named(class_of(service), to)
    })
}

/// Copies the name of a service to 128 bytes.
#[unsafe(no_mangle)]
pub extern "C" fn IORegistryEntryGetName(object: u32, to: *mut c_char) -> u32 {
    guarded(Code::BAD_ARGUMENT.0, || {
        let found = service(object).and_then(|service| SERVICES.get(service));
        found.map_or(Code::BAD_ARGUMENT.0, |(name, _)| named(name, to))
    })
}

fn named(name: &str, to: *mut c_char) -> u32 {
    let name = c_text(name);
    let bytes = name.as_bytes_with_nul();
    let fits = bytes.len() <= NAME_BYTES && write(to.cast(), bytes);
    if fits { 0 } else { Code::BAD_ARGUMENT.0 }
}

/// Returns 1 if a service is of a class or has a name, otherwise 0.
#[unsafe(no_mangle)]
pub extern "C" fn IOObjectConformsTo(object: u32, name: *const c_char) -> u8 {
    guarded(0, || u8::from(service(object).zip(text(name)).is_some_and(|(service, name)| is_called(service, &name))))
}

fn properties() -> impl Iterator<Item = (&'static str, Thing)> {
    Driver::properties().into_iter().map(|(name, value)| match value {
        Property::Number(n) => (name, Thing::Number(n as i64)),
        Property::Text(text) => (name, Thing::Text(text.to_string())),
    })
}

/// A property of the device, as a new reference; null for an unknown name.
#[unsafe(no_mangle)]
pub extern "C" fn IORegistryEntryCreateCFProperty(
    entry: u32,
    key: CFTypeRef,
    _allocator: *const c_void,
    _options: u32,
) -> CFTypeRef {
    guarded(std::ptr::null(), || {
        let (Some(_), Some(Thing::Text(key))) = (service(entry), crate::foundation::thing(key)) else {
            return std::ptr::null();
        };
        properties().find(|(name, _)| *name == key).map_or(std::ptr::null(), |(_, value)| made(value))
    })
}

/// All properties of the device as a dictionary.
#[unsafe(no_mangle)]
pub extern "C" fn IORegistryEntryCreateCFProperties(
    entry: u32,
    to: *mut CFTypeRef,
    _allocator: *const c_void,
    _options: u32,
) -> u32 {
    guarded(Code::BAD_ARGUMENT.0, || {
        if service(entry).is_none() {
            return Code::BAD_ARGUMENT.0;
        }
        let made = table(properties().collect());
        if write(to.cast(), &(made as u64).to_le_bytes()) {
            return 0;
        }
        CFRelease(made);
        Code::BAD_ARGUMENT.0
    })
}
