//! The name by which programs find the library, rather than the path of the file that they were linked with: on Linux alone, on macOS
//! relative to their own search path.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    match std::env::var("CARGO_CFG_TARGET_OS").as_deref() {
        Ok("linux") => println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libanemone_e5rt.so"),
        Ok("macos") => println!("cargo::rustc-cdylib-link-arg=-Wl,-install_name,@rpath/libanemone_e5rt.dylib"),
        _ => {}
    }
}
