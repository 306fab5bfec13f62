//! The bundle, a folder to copy to another machine: scripts, packed programs, and their sizes.

use std::{fmt, fs, path::Path, process::Command};

use anyhow::{Context, Result, ensure};

use crate::workspace;

/// The file that describes a bundle, and by which a folder is recognized as one.
pub const ABOUT: &str = "bundle.json";

/// Creates an empty folder, replacing an earlier bundle.
///
/// # Errors
///
/// Fails if the folder has files and is not a bundle, since they would be lost.
pub fn make_empty(folder: &Path) -> Result<()> {
    let named = || folder.display().to_string();
    if folder.exists() {
        let is_empty = fs::read_dir(folder).with_context(named)?.next().is_none();
        ensure!(
            is_empty || folder.join(ABOUT).exists(),
            "{}: the folder is neither empty nor a bundle, and its files would be lost; choose another one",
            named()
        );
        fs::remove_dir_all(folder).with_context(named)?;
    }
    fs::create_dir_all(folder).with_context(named)
}

/// Copies the Python files of a folder and of the folders below it, except tests and hidden folders.
pub fn copy_python(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| to.display().to_string())?;
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let target = to.join(&*name);
        if path.is_dir() {
            // Skips virtual environments and caches.
            if !name.starts_with(['.', '_']) {
                copy_python(&path, &target)?;
            }
        } else if name.ends_with(".py") && !name.starts_with("test_") {
            fs::copy(&path, &target).with_context(|| path.display().to_string())?;
        }
    }
    Ok(())
}

/// Replaces a folder of programs by an archive.
///
/// Equal programs give equal archives, so that the archive identifies the build.
pub fn pack(programs: &Path, archive: &Path) -> Result<()> {
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--mtime=@0", "--owner=0", "--group=0"])
        .args(["--create", "--xz", "--file"])
        .arg(archive)
        .arg("--directory")
        .arg(programs)
        .arg(".");
    workspace::run(&mut tar)?;
    fs::remove_dir_all(programs).with_context(|| programs.display().to_string())
}

/// The entries of a folder with their sizes in bytes, the largest first.
#[derive(Debug, PartialEq, Eq)]
pub struct Sizes(Vec<(String, u64)>);

impl Sizes {
    pub fn of(folder: &Path) -> Result<Self> {
        let mut sizes = Vec::new();
        for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let bytes = match entry.file_type()?.is_dir() {
                true => Self::of(&entry.path())?.total(),
                false => entry.metadata()?.len(),
            };
            sizes.push((name, bytes));
        }
        sizes.sort_by(|(a, a_bytes), (b, b_bytes)| (b_bytes, a).cmp(&(a_bytes, b)));
        Ok(Self(sizes))
    }

    pub fn total(&self) -> u64 {
        self.0.iter().map(|(_, bytes)| bytes).sum()
    }
}

/// Writes a line for each entry, and the total.
impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = ("total".to_owned(), self.total());
        for (name, bytes) in &self.0 {
            writeln!(f, "{:8.2} MiB  {name}", mebibytes(*bytes))?;
        }
        write!(f, "{:8.2} MiB  {}", mebibytes(total.1), total.0)
    }
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

#[cfg(test)]
mod tests {
    use tempfile::tempdir;

    use super::*;

    fn write(folder: &Path, files: &[(&str, usize)]) {
        for (name, bytes) in files {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, vec![0; *bytes]).unwrap();
        }
    }

    #[test]
    fn only_a_bundle_is_replaced() {
        let folder = tempdir().unwrap();
        write(folder.path(), &[("diary.txt", 1)]);
        assert!(make_empty(folder.path()).is_err());
        write(folder.path(), &[(ABOUT, 1)]);
        make_empty(folder.path()).unwrap();
        assert_eq!(Sizes::of(folder.path()).unwrap(), Sizes(Vec::new()));
        make_empty(folder.path()).unwrap();
    }

    #[test]
    fn scripts_are_copied_without_their_tests_and_environments() {
        let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
        let files = [
            ("run.py", 3),
            ("test_run.py", 9),
            ("results.jsonl", 9),
            ("models/mlp.py", 4),
            (".venv/torch.py", 9),
            ("__pycache__/run.py", 9),
        ];
        write(from.path(), &files);
        copy_python(from.path(), to.path()).unwrap();
        assert_eq!(
            Sizes::of(to.path()).unwrap(),
            Sizes(vec![("models".to_owned(), 4), ("run.py".to_owned(), 3)])
        );
    }

    #[test]
    fn archives_of_equal_programs_are_equal() {
        let folder = tempdir().unwrap();
        let packed = |archive: &str| {
            write(folder.path(), &[("programs/a", 5000), ("programs/b", 7000)]);
            let archive = folder.path().join(archive);
            pack(&folder.path().join("programs"), &archive).unwrap();
            fs::read(archive).unwrap()
        };
        assert!(packed("first.tar.xz") == packed("second.tar.xz"));
    }

    #[test]
    fn sizes_are_listed_largest_first() {
        let folder = tempdir().unwrap();
        let files = [("run.py", 1 << 19), ("programs/suite", 3 << 20)];
        write(folder.path(), &files);
        assert_eq!(
            Sizes::of(folder.path()).unwrap().to_string(),
            "    3.00 MiB  programs\n    0.50 MiB  run.py\n    3.50 MiB  total"
        );
    }
}
