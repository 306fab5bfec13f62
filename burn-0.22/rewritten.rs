//! For build scripts: a crate whose sources are copied to the folder of the build with some of their text replaced.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

#[path = "included.rs"]
mod included;

/// Copies the sources of a crate to `OUT_DIR/src`, with the text of each change replaced, one change after the other. The
/// root module becomes `root.rs`.
pub fn rewrite(sources: &str, changes: &[(&str, &str)]) {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../included.rs");
    println!("cargo::rerun-if-changed=../rewritten.rs");
    println!("cargo::rerun-if-changed={sources}");
    println!("cargo::rustc-check-cfg=cfg(burn_0_22)");
    println!("cargo::rustc-cfg=burn_0_22");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("src");
    let sources = Path::new(sources)
        .canonicalize()
        .expect("the sources are beside this workspace");
    let text = copied(&sources, &out, changes);
    write(&out.join("root.rs"), &included::root(&text, &out));
}

/// Copies a folder, with the changes, and returns the text of its `lib.rs`.
fn copied(from: &Path, to: &Path, changes: &[(&str, &str)]) -> String {
    let mut root = String::new();
    for entry in fs::read_dir(from).expect("a folder") {
        let path = entry.expect("a file or a folder").path();
        let to = to.join(path.file_name().expect("it has a name"));
        if path.is_dir() {
            root += &copied(&path, &to, changes);
            continue;
        }
        let text = fs::read_to_string(&path).expect("a text");
        let text = changes
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
