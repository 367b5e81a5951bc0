//! The name by which programs on macOS find the library: a path relative to their own search path, not that of the build.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "macos") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-install_name,@rpath/libanemone_e5rt.dylib");
    }
}
