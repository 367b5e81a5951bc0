//! What the linker of macOS must be told: Python's names are found when the module is loaded.

fn main() {
    pyo3_build_config::add_extension_module_link_args();
}
