//! Takes the runtime out of the sources of the kernels: in burn-cubecl 0.21 it is a parameter of every tensor, and in 0.22 a
//! tensor has it as a value. A few types of CubeCL get the names that they have in 0.11.

#[path = "../rewritten.rs"]
mod rewritten;

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
    rewritten::rewrite("../../crates/burn-amp-kernels/src", &CHANGES);
}
