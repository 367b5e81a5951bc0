//! Listings of every form.
#![no_main]

use anemone_program::text;

libfuzzer_sys::fuzz_target!(|listing: &str| {
    let _ = text::assemble(listing);
    let _ = text::assemble_container(listing).map(|c| c.write().len());
    let _ = text::assemble_descriptor(listing).map(|d| d.write().len());
    let _ = text::assemble_package(listing).map(|p| p.write().len());
    let _ = text::assemble_image(listing);
});
