//! For build scripts: a crate whose sources are copied to the folder of the build, and included from there.

use std::{fmt::Write as _, path::Path};

/// The root module, with the places of its files, and without what stands in `lib.rs` already.
pub fn root(text: &str, copy: &Path) -> String {
    let mut root = String::new();
    for line in text.lines() {
        let code = line.trim_start();
        if code.starts_with("#![") || code.starts_with("//!") {
            continue;
        }
        let module = code.strip_suffix(';').and_then(|code| {
            ["pub(crate) mod ", "pub mod ", "mod "]
                .iter()
                .find_map(|start| code.strip_prefix(start))
        });
        if let Some(module) = module {
            let file = copy.join(format!("{module}.rs"));
            let file = if file.exists() {
                file
            } else {
                copy.join(module).join("mod.rs")
            };
            writeln!(root, "#[path = {:?}]", file.display().to_string())
                .expect("a string takes all");
        }
        root.push_str(line);
        root.push('\n');
    }
    root
}
