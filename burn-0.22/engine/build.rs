//! Puts burn-autodiff together from its source in the registry of cargo. No line of it is in this repository.
//!
//! What is changed in it stands in [`CHANGES`].

use std::{
    env,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use sha2::{Digest, Sha256};

#[path = "../included.rs"]
mod included;

/// The release of burn-autodiff that is supported, and the SHA-256 of its sources: see [`digest`].
const VERSION: &str = "0.22.1";
const DIGEST: &str = "4f35a144daa6f7462995dbac3e3ec4d1b42bf00e7a20ff723573451e216b81df";

/// The macros that burn-autodiff exports for itself.
const MACROS: &str = "{retro_binary, retro_unary, retro_unary_scalar}";

/// The folder of the source, if it is nowhere cargo knows of.
const SOURCE: &str = "BURN_AUTODIFF_SOURCE";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../included.rs");
    println!("cargo::rerun-if-env-changed={SOURCE}");
    if let Err(error) = run() {
        println!("cargo::error={error}");
    }
}

fn run() -> Result<(), String> {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let source = source(&out)?.join("src");
    let files = files(&source).map_err(|error| format!("{}: {error}", source.display()))?;
    let digest = digest(&source, &files)?;
    if digest != DIGEST {
        return Err(format!(
            "{} is not burn-autodiff {VERSION} as it was published (SHA-256 of its sources {digest}, expected {DIGEST}). \
             burn-amp supports these releases of Burn: {VERSION}",
            source.display()
        ));
    }
    let copy = out.join("src");
    for file in &files {
        let mut text = changed(&read(&source.join(file))?);
        // An exported macro is not found by its path where the module that exports it is included.
        if file.ends_with("retro_forward.rs") {
            text = format!("{text}pub(crate) use {MACROS};\n");
        }
        write(&copy.join(file), &text)?;
    }
    let root = included::root(&read(&source.join("lib.rs"))?, &copy);
    let macros = format!("pub(crate) use checkpoint::retro_forward::{MACROS};\n");
    write(&out.join("engine.rs"), &(root + &macros))
}

/// Finds the folder of burn-autodiff: where the variable says, in cargo's registry, or where cargo puts it on request.
fn source(out: &Path) -> Result<PathBuf, String> {
    if let Some(folder) = env::var_os(SOURCE) {
        return Ok(folder.into());
    }
    let name = format!("burn-autodiff-{VERSION}");
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(env::home_dir()?.join(".cargo")));
    let registries = home.and_then(|home| fs::read_dir(home.join("registry/src")).ok());
    let mut found = registries
        .into_iter()
        .flatten()
        .flatten()
        .map(|registry| registry.path().join(&name));
    match found.find(|folder| folder.join("Cargo.toml").exists()) {
        Some(folder) => Ok(folder),
        None => fetched(out),
    }
}

/// Asks cargo for the source, from wherever it is configured to take crates: the registry, a mirror, a vendored folder.
fn fetched(out: &Path) -> Result<PathBuf, String> {
    let manifest = out.join("fetch/Cargo.toml");
    write(&out.join("fetch/src/lib.rs"), "")?;
    let text = format!(
        "[package]\nname = \"fetch\"\nedition = \"2024\"\n[dependencies]\nburn-autodiff = {{ version = \"={VERSION}\", default-features = false }}\n[workspace]\n"
    );
    write(&manifest, &text)?;
    let cargo = env::var_os("CARGO").expect("cargo sets it");
    let output = Command::new(cargo)
        .args(["metadata", "--format-version=1", "--manifest-path"])
        .arg(&manifest)
        // The folder of the program may patch burn-autodiff; that of the manifest does not.
        .current_dir(out.join("fetch"))
        .output()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    let message = || {
        format!(
            "burn-amp needs the source of burn-autodiff {VERSION}, and cargo cannot fetch it: run `cargo fetch` with a network once, or \
             set {SOURCE} to its folder. cargo says: {}",
            String::from_utf8_lossy(&output.stderr)
                .trim()
                .replace('\n', " ")
        )
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let end = format!("burn-autodiff-{VERSION}/Cargo.toml\"");
    let paths = text.split("\"manifest_path\":\"").skip(1);
    let mut paths = paths.filter_map(|rest| Some(&rest[..=rest.find('"')?]));
    let path = paths.find(|path| path.ends_with(&end) || path.contains("burn-autodiff/Cargo.toml"));
    let path = path
        .filter(|_| output.status.success())
        .ok_or_else(message)?;
    let path = Path::new(path.trim_end_matches('"'));
    Ok(path.parent().expect("a manifest is in a folder").into())
}

/// The files of a folder, by their paths in it, in order.
fn files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(at) = folders.pop() {
        for entry in fs::read_dir(folder.join(&at))? {
            let entry = entry?;
            let path = at.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                folders.push(path);
            } else {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

/// The SHA-256 of the names and contents of files.
fn digest(folder: &Path, files: &[PathBuf]) -> Result<String, String> {
    let mut hash = Sha256::new();
    for file in files {
        let text = read(&folder.join(file))?;
        hash.update(file.to_string_lossy().replace('\\', "/"));
        hash.update([0]);
        hash.update(text.len().to_le_bytes());
        hash.update(text);
    }
    let mut hex = String::new();
    for byte in hash.finalize() {
        write!(hex, "{byte:02x}").expect("a string takes all");
    }
    Ok(hex)
}

/// What is changed in the sources: this crate's neighbours see the parts of a tensor; macros are not exported; and gradients
/// are found by the type of their values, which two backends may share.
const CHANGES: [(&str, &str); 11] = [
    ("pub(crate) primitive: B::Float", "pub primitive: B::Float"),
    (
        "    pub(crate) node: NodeRef,\n    pub(crate) rc",
        "    pub node: NodeRef,\n    pub rc",
    ),
    (
        "    container: TensorContainer<GradID>",
        "    pub(crate) container: TensorContainer<GradID>",
    ),
    (
        "    on_register: Option<OnRegisterHook>,\n}",
        "    pub on_register: Option<OnRegisterHook>,\n}",
    ),
    ("#[macro_export]\n", ""),
    (
        "::<TensorPrimitive<B>>",
        "::<burn_backend::tensor::FloatTensor<B>>",
    ),
    (", TensorPrimitive::Float(out))", ", out)"),
    ("tensor_old.tensor()", "tensor_old"),
    ("tensor_ref.get_mut_ref()", "tensor_ref"),
    ("                .map(|tensor| tensor.tensor())\n", ""),
    ("            .map(|tensor| tensor.tensor())\n", ""),
];

/// A source file of burn-autodiff with the changes.
fn changed(text: &str) -> String {
    let changes = CHANGES.iter();
    changes.fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    let folder = path.parent().expect("files are in a folder");
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(path, text));
    written.map_err(|error| format!("{}: {error}", path.display()))
}
