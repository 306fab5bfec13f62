//! Takes the runtime out of the sources of the kernels: in burn-cubecl 0.21 it is a parameter of every tensor, and in 0.22 a
//! tensor has it as a value. A few types of CubeCL get the names that they have in 0.11.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

#[path = "../included.rs"]
mod included;

const SOURCES: &str = "../../crates/burn-amp-kernels/src";

/// What stands in the sources, and what is there instead, in the order in which it is replaced.
const CHANGES: [(&str, &str); 23] = [
    // One backend serves all runtimes and element types.
    (
        "{BoolElement, CubeBackend, CubeRuntime, FloatElement, IntElement}",
        "CubeBackend",
    ),
    (
        "impl<R: CubeRuntime, F: FloatElement, I: IntElement, T: BoolElement> AmpBackend\n    for CubeBackend<R, F, I, T>\n",
        "impl AmpBackend for CubeBackend ",
    ),
    // The runtime.
    ("<R: CubeRuntime>", ""),
    ("<R: CubeRuntime, ", "<"),
    ("<'a, R: CubeRuntime>", "<'a>"),
    ("{CubeRuntime, ", "{"),
    ("CubeBackend, CubeRuntime, ", "CubeBackend, "),
    (" CubeRuntime, kernel", " kernel"),
    ("    CubeRuntime,\n", ""),
    (
        "#[cfg(feature = \"cubecl\")]\npub(crate) use burn_cubecl::CubeRuntime;\n",
        "",
    ),
    (
        "#[cfg(feature = \"cubecl\")]\nuse burn_cubecl::CubeRuntime;\n",
        "",
    ),
    ("use burn_cubecl::CubeRuntime;\n", ""),
    ("::<R>", ""),
    ("ComputeClient<R>", "cubecl::client::Client"),
    ("<R>", ""),
    ("<R, ", "<"),
    (", R>", ">"),
    // What a kernel copies.
    (
        "#[derive(CubeType, Clone, Copy)]",
        "#[derive(CubeType, Clone, Copy)]\n#[expand(derive(Clone, Copy))]",
    ),
    (
        "#[derive(CubeType, CubeLaunch, Clone, Copy)]",
        "#[derive(CubeType, CubeLaunch, Clone, Copy)]\n#[expand(derive(Clone, Copy))]",
    ),
    (
        "#[derive(CubeType, CubeLaunch, Clone, Copy, Debug, PartialEq, Eq)]",
        "#[derive(CubeType, CubeLaunch, Clone, Copy, Debug, PartialEq, Eq)]\n#[expand(derive(Clone, Copy))]",
    ),
    // What has another name.
    ("into_array_arg", "into_buffer_arg"),
    ("ArrayArg", "BufferArg"),
    ("StorageType", "ElemType"),
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../included.rs");
    println!("cargo::rerun-if-changed={SOURCES}");
    println!("cargo::rustc-check-cfg=cfg(burn_0_22)");
    println!("cargo::rustc-cfg=burn_0_22");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("src");
    let sources = Path::new(SOURCES)
        .canonicalize()
        .expect("the sources are beside this workspace");
    let root = included::root(&copied(&sources, &out), &out);
    write(&out.join("root.rs"), &root);
}

/// Copies a folder, without the runtime, and returns the text of its `lib.rs`.
fn copied(from: &Path, to: &Path) -> String {
    let mut root = String::new();
    for entry in fs::read_dir(from).expect("a folder") {
        let path = entry.expect("a file or a folder").path();
        let to = to.join(path.file_name().expect("it has a name"));
        if path.is_dir() {
            root += &copied(&path, &to);
            continue;
        }
        let text = fs::read_to_string(&path).expect("a text");
        let text = CHANGES
            .iter()
            .fold(text, |text, (from, to)| text.replace(from, to));
        if path.ends_with("lib.rs") {
            root = text;
        } else {
            write(&to, &text);
        }
    }
    root
}

/// Writes a file unless it has the text already, so that nothing is compiled again in vain.
fn write(path: &Path, text: &str) {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return;
    }
    let folder = path.parent().expect("a file is in a folder");
    fs::create_dir_all(folder).expect("the folder of the build takes files");
    fs::write(path, text).expect("the folder of the build takes files");
}
