//! Surfaces: buffers that requests refer to by their identity.

use crate::foundation::{CFTypeRef, Thing, value};
use crate::memory::write;
use crate::world::{guarded, world};
use anemone_runtime::Code;
use anemone_runtime::os::shared::Shared;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

static SURFACES: Mutex<BTreeMap<u32, Arc<Shared>>> = Mutex::new(BTreeMap::new());

fn surfaces() -> MutexGuard<'static, BTreeMap<u32, Arc<Shared>>> {
    SURFACES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Dictionary key for a surface's size in bytes.
pub const ALLOC_SIZE: &str = "IOSurfaceAllocSize";

/// Largest surface.
const MAX_BYTES: i64 = 1 << 32;

/// A surface with the size in a dictionary under `IOSurfaceAllocSize`; its identity as an opaque pointer, null without
/// such a number or without memory.
#[unsafe(no_mangle)]
pub extern "C" fn IOSurfaceCreate(properties: CFTypeRef) -> *mut c_void {
    guarded(std::ptr::null_mut(), || {
        let Some(Thing::Number(bytes @ 1..=MAX_BYTES)) = value(properties, ALLOC_SIZE) else {
            return std::ptr::null_mut();
        };
        let made = Shared::new(bytes as u64).ok().map(Arc::new).and_then(|shared| {
            let id = world()?.driver.add_surface(Arc::clone(&shared)).ok()?;
            surfaces().insert(id, shared);
            Some(id)
        });
        made.map_or(std::ptr::null_mut(), |id| id as usize as *mut c_void)
    })
}

fn find(surface: *mut c_void) -> Option<Arc<Shared>> {
    surfaces().get(&u32::try_from(surface as usize).ok()?).cloned()
}

/// The surface of an identity.
pub(crate) fn by_id(id: u32) -> Option<Arc<Shared>> {
    surfaces().get(&id).cloned()
}

/// The identity for requests; 0 for null.
#[unsafe(no_mangle)]
pub extern "C" fn IOSurfaceGetID(surface: *mut c_void) -> u32 {
    find(surface).map_or(0, |_| surface as usize as u32)
}

/// The surface of an identity; null if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn IOSurfaceLookup(id: u32) -> *mut c_void {
    let surface = id as usize as *mut c_void;
    if find(surface).is_some() { surface } else { std::ptr::null_mut() }
}

/// Its memory, valid until the surface is released.
#[unsafe(no_mangle)]
pub extern "C" fn IOSurfaceGetBaseAddress(surface: *mut c_void) -> *mut c_void {
    find(surface).map_or(std::ptr::null_mut(), |shared| shared.address().cast())
}

/// Its size in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn IOSurfaceGetAllocSize(surface: *mut c_void) -> usize {
    find(surface).map_or(0, |shared| shared.len())
}

/// Locks a surface for the host. The model's memory is coherent, so no wait is needed.
#[unsafe(no_mangle)]
pub extern "C" fn IOSurfaceLock(surface: *mut c_void, _options: u32, seed: *mut u32) -> u32 {
    if !seed.is_null() && !write(seed.cast(), &0u32.to_le_bytes()) {
        return Code::BAD_ARGUMENT.0;
    }
    find(surface).map_or(Code::BAD_ARGUMENT.0, |_| 0)
}

/// Unlocks it.
#[unsafe(no_mangle)]
pub extern "C" fn IOSurfaceUnlock(surface: *mut c_void, options: u32, seed: *mut u32) -> u32 {
    IOSurfaceLock(surface, options, seed)
}

/// Releases a surface. A request that uses it keeps its memory until it ends.
#[unsafe(no_mangle)]
pub extern "C" fn AnemoneReleaseSurface(surface: *mut c_void) -> u32 {
    guarded(Code::BAD_ARGUMENT.0, || {
        let Ok(id) = u32::try_from(surface as usize) else { return Code::BAD_ARGUMENT.0 };
        if surfaces().remove(&id).is_none() {
            return Code::BAD_ARGUMENT.0;
        }
        world().map_or(Code::NO_RESOURCES, |w| w.driver.remove_surface(id).err().unwrap_or(Code::SUCCESS)).0
    })
}
