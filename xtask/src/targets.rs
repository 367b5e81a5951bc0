//! Targets that are built: the table for `cross`, `release` and the README.

/// Linker of a target, from x86-64 Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linker {
    /// A C compiler of Debian's cross packages, by name.
    Gcc(&'static str),
    /// `cargo-zigbuild zig cc`, with zig's name of the target and the C library's version.
    Zig(&'static str),
    /// The `rust-lld` of the Rust toolchain, which also has the C library of a static target.
    Lld,
    /// `rust-lld` for macOS, with zig's list of the system's symbols.
    Apple,
    /// Not linked: the core as a library, checked only.
    None,
}

/// A target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Target triple of rustc.
    pub triple: &'static str,
    /// Name, in words.
    pub name: &'static str,
    /// Linker of release archives and of checks that link.
    pub linker: Linker,
    /// Flags of its code and of its linker.
    pub flags: &'static str,
    /// Command that runs its programs here, with arguments. Wine runs without address space randomization: about one start in a
    /// thousand otherwise fails, because a random mapping occupies the address of the data that Wine shares between processes.
    pub runner: &'static [&'static str],
    /// True if `cross --check` includes it by default.
    pub in_ci: bool,
    /// Platform tag of its wheel; empty if there is none.
    pub wheel: &'static str,
    /// Evidence so far, on x86-64 Linux: checks, links, tests run, bits equal.
    pub shown: [&'static str; 4],
}

/// Every target. By default every call between crates on x86-64 Linux goes through a table with an entry and a relocation for each
/// function; with partial protection of the table from the compiler's view, calls are direct, and the linker protects the whole table.
/// Packed relocations need a system from 2022 on if libraries are shared; a static program contains their loader.
pub const TARGETS: &[Target] = &[
    Target {
        triple: "x86_64-unknown-linux-gnu",
        name: "Linux x86-64",
        linker: Linker::Zig("x86_64-linux-gnu.2.28"),
        flags: "-Crelro-level=partial -Clink-arg=-Wl,-z,now",
        runner: &[],
        in_ci: false,
        wheel: "manylinux_2_28_x86_64",
        shown: ["yes", "yes", "all", "reference"],
    },
    Target {
        triple: "x86_64-unknown-linux-musl",
        name: "Linux x86-64, static",
        linker: Linker::Lld,
        flags: "-Crelro-level=partial -Clink-arg=-znow -Clinker-flavor=ld.lld -Clink-self-contained=yes \
                -Clink-arg=--pack-dyn-relocs=relr -Clink-arg=--icf=all -Clink-arg=--ignore-data-address-equality",
        runner: &["env"],
        in_ci: false,
        wheel: "",
        shown: [
            "yes",
            "yes",
            "220 golden programs and netplists, 14 packages, 500 random networks",
            "all of them, both number models",
        ],
    },
    Target {
        triple: "aarch64-unknown-linux-gnu",
        name: "Linux arm64",
        linker: Linker::Zig("aarch64-linux-gnu.2.28"),
        flags: "",
        runner: &["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"],
        in_ci: false,
        wheel: "manylinux_2_28_aarch64",
        shown: [
            "yes",
            "yes",
            "containers, command line, cache, programs in C, under QEMU 7",
            "digests of the example, golden programs, 14 packages and 200 random networks; files and results of 14 packages, 220 golden \
             programs and netplists, 100 random networks; both number models",
        ],
    },
    Target {
        triple: "aarch64-unknown-linux-musl",
        name: "Linux arm64, static",
        linker: Linker::Lld,
        flags: "-Clinker-flavor=ld.lld -Clink-self-contained=yes -Clink-arg=--icf=all \
                -Clink-arg=--ignore-data-address-equality",
        runner: &["qemu-aarch64"],
        in_ci: false,
        wheel: "",
        shown: ["yes", "yes", "14 packages, under QEMU", "14 packages, both number models"],
    },
    Target {
        triple: "aarch64-apple-darwin",
        name: "macOS arm64",
        linker: Linker::Apple,
        flags: "-Clinker-flavor=ld64.lld",
        runner: &[],
        in_ci: true,
        wheel: "macosx_11_0_arm64",
        shown: ["yes", "yes", "no", "no"],
    },
    Target {
        triple: "x86_64-apple-darwin",
        name: "macOS x86-64",
        linker: Linker::Apple,
        flags: "-Clinker-flavor=ld64.lld",
        runner: &[],
        in_ci: false,
        wheel: "macosx_10_12_x86_64",
        shown: ["yes", "yes", "no", "no"],
    },
    Target {
        triple: "x86_64-pc-windows-gnu",
        name: "Windows x86-64",
        linker: Linker::Gcc("x86_64-w64-mingw32-gcc"),
        flags: "",
        runner: &["setarch", "-R", "wine"],
        in_ci: true,
        wheel: "win_amd64",
        shown: [
            "yes",
            "yes",
            "containers, command line, cache, programs in C, under Wine 8",
            "digests of the example, golden programs, 14 packages and 200 random networks, both number models",
        ],
    },
    Target {
        triple: "wasm32-unknown-unknown",
        name: "WebAssembly: the library without files",
        linker: Linker::None,
        flags: "",
        runner: &[],
        in_ci: false,
        wheel: "",
        shown: ["yes", "-", "no", "no"],
    },
];

/// Processors that are refused at compile time, with part of the message.
pub const REFUSED: &[(&str, &str)] = &[
    ("s390x-unknown-linux-gnu", "anemone needs a little-endian processor"),
    ("i686-unknown-linux-gnu", "anemone needs a 64-bit processor"),
];

/// A target by its triple.
pub fn find(triple: &str) -> Result<&'static Target, String> {
    let known = || TARGETS.iter().map(|t| t.triple).collect::<Vec<_>>().join(", ");
    TARGETS
        .iter()
        .find(|t| t.triple == triple)
        .ok_or_else(|| format!("{triple}: not in the table of targets: {}", known()))
}

impl Target {
    /// Returns true for the core only.
    pub fn is_core(&self) -> bool {
        self.linker == Linker::None
    }

    /// Returns true if its programs end in `.exe`, and its archives in `.zip`.
    pub fn is_windows(&self) -> bool {
        self.triple.contains("windows")
    }

    /// Returns true if its programs are for macOS: linked here, never run.
    pub fn is_macos(&self) -> bool {
        self.triple.contains("apple")
    }

    /// Oldest macOS of the wheel's tag, as `11.0`; empty for other systems.
    pub fn oldest_macos(&self) -> String {
        let tag = self.wheel.strip_prefix("macosx_").unwrap_or_default();
        tag.splitn(3, '_').take(2).collect::<Vec<_>>().join(".")
    }

    /// Packages of a build: the command line and the C libraries, of which the driver's is for Linux.
    pub fn packages(&self) -> &'static [&'static str] {
        if self.has_driver() { &["anemone", "anemone-e5rt", "anemone-iokit"] } else { &["anemone", "anemone-e5rt"] }
    }

    /// Package of the Python module, if there is a wheel.
    pub fn module(&self) -> &'static [&'static str] {
        if self.wheel.is_empty() { &[] } else { &["anemone-python"] }
    }

    /// Headers of the C libraries in an archive.
    pub fn headers(&self) -> &'static [&'static str] {
        let all = &["crates/e5rt/include/anemone_e5rt.h", "crates/iokit/include/anemone_iokit.h"];
        match (self.has_driver(), self.packed().len()) {
            (true, _) => all,
            (false, 1) => &[],
            (false, _) => &all[..1],
        }
    }

    /// Returns true if the library with the driver's calls is built, which is shared and for Linux only.
    fn has_driver(&self) -> bool {
        self.triple.ends_with("linux-gnu")
    }

    /// Files of a build in an archive: the static library, which contains all of Rust's, is several times their size.
    pub fn packed(&self) -> Vec<&'static str> {
        self.artifacts().into_iter().filter(|name| !name.ends_with("_e5rt.a")).collect()
    }

    /// Files of a build: the command line and the C libraries.
    pub fn artifacts(&self) -> Vec<&'static str> {
        match self.triple {
            t if t.contains("windows") => vec!["ane.exe", "anemone_e5rt.dll", "libanemone_e5rt.dll.a"],
            _ if self.is_macos() => vec!["ane", "libanemone_e5rt.dylib"],
            // A static target has no shared libraries.
            t if t.contains("musl") => vec!["ane", "libanemone_e5rt.a"],
            _ => vec!["ane", "libanemone_e5rt.so", "libanemone_iokit.so"],
        }
    }
}

/// The table of the README.
pub fn table() -> String {
    let mut out = String::from(
        "\n| target | compiles | links | tests run | results equal bit for bit |\n|---|---|---|---|---|\n",
    );
    for t in TARGETS {
        out.push_str(&format!("| {} (`{}`) | {} |\n", t.name, t.triple, t.shown.join(" | ")));
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_found_and_others_refused() {
        assert!(find("wasm32-unknown-unknown").is_ok_and(|t| t.is_core()));
        assert!(
            find("x86_64-pc-windows-gnu").is_ok_and(|t| t.is_windows() && t.packed()[2] == "libanemone_e5rt.dll.a")
        );
        assert!(find("x86_64-unknown-linux-musl").is_ok_and(|t| t.packed() == ["ane"] && t.headers().is_empty()));
        assert!(find("sparc").is_err_and(|e| e.contains("wasm32-unknown-unknown")));
        let oldest = |triple| find(triple).map(Target::oldest_macos);
        assert_eq!(oldest("aarch64-apple-darwin"), Ok("11.0".into()));
        assert_eq!(oldest("x86_64-apple-darwin"), Ok("10.12".into()));
        assert_eq!(oldest("x86_64-pc-windows-gnu"), Ok(String::new()));
        // Two foreign systems; the budget of `.ci/run` has no time for more.
        assert_eq!(TARGETS.iter().filter(|t| t.in_ci).count(), 2);
    }
}
