//! The kernels that `cargo xtask cuda emulate` has compiled for the CPU, and keeps for later runs.

use std::{
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use super::stand_in;

/// The folder of compiled kernels, created if it is missing. It has another name when what they are compiled with changes;
/// kernels that were compiled before that are removed.
pub fn folder(folder: &Path) -> Result<PathBuf> {
    let mut sources: Vec<_> = entries(&stand_in::headers_folder())?;
    sources.sort();
    sources.push(stand_in::sources_folder().join("native.c"));
    let mut hasher = DefaultHasher::new();
    for source in sources {
        let text = fs::read(&source).with_context(|| source.display().to_string())?;
        text.hash(&mut hasher);
    }
    let kernels = folder.join(format!("kernels-{:016x}", hasher.finish()));
    fs::create_dir_all(&kernels).with_context(|| kernels.display().to_string())?;
    for entry in entries(folder)? {
        if entry.is_dir() && entry != kernels {
            fs::remove_dir_all(&entry).with_context(|| entry.display().to_string())?;
        }
    }
    Ok(kernels)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    fs::read_dir(folder)
        .with_context(|| folder.display().to_string())?
        .map(|entry| Ok(entry?.path()))
        .collect()
}

/// The number of compiled kernels.
pub fn count(kernels: &Path) -> Result<usize> {
    let is_compiled = |path: &PathBuf| path.extension().is_some_and(|ext| ext == "so");
    Ok(entries(kernels)?
        .iter()
        .filter(|path| is_compiled(path))
        .count())
}
