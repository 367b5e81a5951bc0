//! The CoreFoundation types of the calls: strings, numbers, dictionaries, reference counts.

use crate::memory::{c_text, read, text, write};
use crate::world::guarded;
use std::collections::BTreeMap;
use std::ffi::{c_char, c_long, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A reference to an object: an opaque pointer.
pub type CFTypeRef = *const c_void;

/// An object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Thing {
    Text(String),
    Number(i64),
    /// Keys and values, each retained once.
    Table(Vec<(usize, usize)>),
}

#[derive(Default)]
struct Heap {
    things: BTreeMap<usize, (u32, Thing)>,
    constants: BTreeMap<String, usize>,
    next: usize,
}

static HEAP: Mutex<Heap> = Mutex::new(Heap { things: BTreeMap::new(), constants: BTreeMap::new(), next: 0 });

fn heap() -> MutexGuard<'static, Heap> {
    HEAP.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Heap {
    fn add(&mut self, thing: Thing) -> usize {
        self.next += 16;
        let at = 0x1000 + self.next;
        self.things.insert(at, (1, thing));
        at
    }

    fn retain(&mut self, at: usize) {
        if let Some((references, _)) = self.things.get_mut(&at) {
            *references = references.saturating_add(1);
        }
    }

    fn release(&mut self, at: usize) {
        let Some((references, _)) = self.things.get_mut(&at) else { return };
        *references -= 1;
        if *references == 0
            && let Some((_, Thing::Table(entries))) = self.things.remove(&at)
        {
            for (key, value) in entries {
                self.release(key);
                self.release(value);
            }
        }
    }

    fn find(&self, table: usize, key: usize) -> Option<usize> {
        let (Some((_, Thing::Table(entries))), Some((_, key))) = (self.things.get(&table), self.things.get(&key))
        else {
            return None;
        };
        let same = |at: &usize| self.things.get(at).is_some_and(|(_, thing)| thing == key);
        entries.iter().find(|(at, _)| same(at)).map(|&(_, value)| value)
    }
}

pub(crate) fn made(thing: Thing) -> CFTypeRef {
    heap().add(thing) as CFTypeRef
}

pub(crate) fn thing(object: CFTypeRef) -> Option<Thing> {
    heap().things.get(&(object as usize)).map(|(_, thing)| thing.clone())
}

/// A dictionary of texts and numbers.
pub(crate) fn table(entries: Vec<(&str, Thing)>) -> CFTypeRef {
    let mut heap = heap();
    let entries =
        entries.into_iter().map(|(key, value)| (heap.add(Thing::Text(key.to_string())), heap.add(value))).collect();
    heap.add(Thing::Table(entries)) as CFTypeRef
}

/// A value of a dictionary, by the text of its key.
pub(crate) fn value(table: CFTypeRef, key: &str) -> Option<Thing> {
    let heap = heap();
    let Some((_, Thing::Table(entries))) = heap.things.get(&(table as usize)) else { return None };
    let is = |at: &usize| heap.things.get(at).is_some_and(|(_, thing)| *thing == Thing::Text(key.to_string()));
    let (_, at) = entries.iter().find(|(at, _)| is(at))?;
    heap.things.get(at).map(|(_, thing)| thing.clone())
}

/// Adds a reference.
#[unsafe(no_mangle)]
pub extern "C" fn CFRetain(object: CFTypeRef) -> CFTypeRef {
    heap().retain(object as usize);
    object
}

/// Removes a reference.
#[unsafe(no_mangle)]
pub extern "C" fn CFRelease(object: CFTypeRef) {
    heap().release(object as usize);
}

/// Type of an object, as from the calls `CF...GetTypeID`; 0 for null.
#[unsafe(no_mangle)]
pub extern "C" fn CFGetTypeID(object: CFTypeRef) -> usize {
    match thing(object) {
        Some(Thing::Text(_)) => CFStringGetTypeID(),
        Some(Thing::Number(_)) => CFNumberGetTypeID(),
        Some(Thing::Table(_)) => CFDictionaryGetTypeID(),
        None => 0,
    }
}

/// Type of strings.
#[unsafe(no_mangle)]
pub extern "C" fn CFStringGetTypeID() -> usize {
    7
}

/// Type of dictionaries.
#[unsafe(no_mangle)]
pub extern "C" fn CFDictionaryGetTypeID() -> usize {
    18
}

/// Type of numbers.
#[unsafe(no_mangle)]
pub extern "C" fn CFNumberGetTypeID() -> usize {
    22
}

/// A string of UTF-8 text; null for text that cannot be read.
#[unsafe(no_mangle)]
pub extern "C" fn CFStringCreateWithCString(_: CFTypeRef, from: *const c_char, _encoding: u32) -> CFTypeRef {
    guarded(std::ptr::null(), || text(from).map_or(std::ptr::null(), |text| made(Thing::Text(text))))
}

/// The constant string of a text, for the macro `CFSTR`, which is never released.
#[unsafe(no_mangle)]
pub extern "C" fn __CFStringMakeConstantString(from: *const c_char) -> CFTypeRef {
    guarded(std::ptr::null(), || {
        let Some(text) = text(from) else { return std::ptr::null() };
        let mut heap = heap();
        if let Some(&at) = heap.constants.get(&text) {
            return at as CFTypeRef;
        }
        let at = heap.add(Thing::Text(text.clone()));
        heap.things.entry(at).and_modify(|(references, _)| *references = u32::MAX / 2);
        heap.constants.insert(text, at);
        at as CFTypeRef
    })
}

/// Number of characters of a string; 0 for other objects.
#[unsafe(no_mangle)]
pub extern "C" fn CFStringGetLength(string: CFTypeRef) -> c_long {
    match thing(string) {
        Some(Thing::Text(text)) => text.encode_utf16().count() as c_long,
        _ => 0,
    }
}

/// Copies a string with its terminating 0; returns 0 if it does not fit.
#[unsafe(no_mangle)]
pub extern "C" fn CFStringGetCString(string: CFTypeRef, to: *mut c_char, bytes: c_long, _encoding: u32) -> u8 {
    guarded(0, || match thing(string) {
        Some(Thing::Text(text)) => {
            let text = c_text(&text);
            let text = text.as_bytes_with_nul();
            u8::from(usize::try_from(bytes).is_ok_and(|capacity| text.len() <= capacity) && write(to.cast(), text))
        }
        _ => 0,
    })
}

/// Size in bytes of a number type: signed integers of 8 to 64 bits, and `int`, `long` and `long long`.
fn number_bytes(kind: c_long) -> Option<usize> {
    match kind {
        1 | 7 => Some(1),
        2 | 8 => Some(2),
        3 | 9 => Some(4),
        4 | 10 | 11 | 14 => Some(8),
        _ => None,
    }
}

/// A number; null for types that are not integers.
#[unsafe(no_mangle)]
pub extern "C" fn CFNumberCreate(_: CFTypeRef, kind: c_long, from: *const c_void) -> CFTypeRef {
    guarded(std::ptr::null(), || {
        let Some(bytes) = number_bytes(kind).and_then(|n| read(from, n)) else { return std::ptr::null() };
        let negative = bytes.last().is_some_and(|b| b & 0x80 != 0);
        let mut wide = [if negative { 0xff } else { 0 }; 8];
        wide.iter_mut().zip(&bytes).for_each(|(to, from)| *to = *from);
        made(Thing::Number(i64::from_le_bytes(wide)))
    })
}

/// Copies a number; returns 0 if it does not fit the type.
#[unsafe(no_mangle)]
pub extern "C" fn CFNumberGetValue(number: CFTypeRef, kind: c_long, to: *mut c_void) -> u8 {
    guarded(0, || {
        let (Some(Thing::Number(n)), Some(bytes)) = (thing(number), number_bytes(kind)) else { return 0 };
        let shift = 64 - 8 * bytes as u32;
        u8::from(n << shift >> shift == n && write(to, n.to_le_bytes().get(..bytes).unwrap_or_default()))
    })
}

/// An empty dictionary.
#[unsafe(no_mangle)]
pub extern "C" fn CFDictionaryCreateMutable(
    _: CFTypeRef,
    _capacity: c_long,
    _keys: *const c_void,
    _values: *const c_void,
) -> CFTypeRef {
    made(Thing::Table(Vec::new()))
}

/// Sets a value; the dictionary retains key and value.
#[unsafe(no_mangle)]
pub extern "C" fn CFDictionarySetValue(table: CFTypeRef, key: CFTypeRef, value: CFTypeRef) {
    let (table, key, value) = (table as usize, key as usize, value as usize);
    let mut heap = heap();
    // A dictionary that contains itself would never be released.
    if table == value || !heap.things.contains_key(&key) || !heap.things.contains_key(&value) {
        return;
    }
    let old = heap.find(table, key);
    let mut released = None;
    if let Some((_, Thing::Table(entries))) = heap.things.get_mut(&table) {
        match entries.iter_mut().find(|(_, at)| Some(*at) == old) {
            Some(entry) => {
                released = Some(entry.1);
                entry.1 = value;
            }
            None => entries.push((key, value)),
        }
    } else {
        return;
    }
    heap.retain(value);
    match released {
        Some(old) => heap.release(old),
        None => heap.retain(key),
    }
}

/// A value, owned by the dictionary; null if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn CFDictionaryGetValue(table: CFTypeRef, key: CFTypeRef) -> CFTypeRef {
    heap().find(table as usize, key as usize).map_or(std::ptr::null(), |at| at as CFTypeRef)
}

/// Number of entries of a dictionary.
#[unsafe(no_mangle)]
pub extern "C" fn CFDictionaryGetCount(table: CFTypeRef) -> c_long {
    match thing(table) {
        Some(Thing::Table(entries)) => entries.len() as c_long,
        _ => 0,
    }
}
