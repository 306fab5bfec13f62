//! The parts of the CUDA toolkit that kernels are compiled with, from the Python package registry: no GPU, no driver, no
//! installation.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use super::stand_in;
use crate::workspace;

/// The version of the toolkit.
pub const VERSION: &str = "12.9";

/// The packages and what is used of them. One version of the toolkit; NVRTC is most of their 140 MB.
const PACKAGES: &[&str] = &[
    "nvidia-cuda-nvrtc-cu12==12.9.86",   // the compiler
    "nvidia-cuda-runtime-cu12==12.9.79", // cuda_runtime.h, mma.h, cuda_fp16.h, cuda_bf16.h
    "nvidia-cuda-nvcc-cu12==12.9.86",    // crt/mma.h
    "nvidia-cuda-cccl-cu12==12.9.27",    // cuda/barrier, cuda/ptx
];

/// The unpacked packages.
pub struct Toolkit {
    folder: PathBuf,
}

impl Toolkit {
    /// Downloads and unpacks the packages, unless they are there.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no network or no Python with pip.
    pub fn get() -> Result<Self> {
        let folder = stand_in::work()?.join("toolkit");
        let toolkit = Self { folder };
        if toolkit.is_complete() {
            return Ok(toolkit);
        }
        let wheels = stand_in::work()?.join("wheels");
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "download", "--quiet", "--no-deps"]);
        pip.arg("--dest").arg(&wheels).args(PACKAGES);
        workspace::run(&mut pip).context("the packages of NVRTC and its headers")?;
        for wheel in fs::read_dir(&wheels)? {
            let mut unzip = Command::new("python3");
            unzip.args(["-m", "zipfile", "--extract"]);
            unzip.arg(wheel?.path()).arg(&toolkit.folder);
            workspace::run(&mut unzip)?;
        }
        anyhow::ensure!(
            toolkit.is_complete(),
            "{}: the packages have other files than expected",
            toolkit.folder.display()
        );
        Ok(toolkit)
    }

    fn is_complete(&self) -> bool {
        let [runtime, nvcc, cccl] = self.includes();
        self.library().exists()
            && runtime.join("cuda_runtime.h").exists()
            && nvcc.join("crt/mma.h").exists()
            && cccl.join("cuda/barrier").exists()
    }

    /// The true NVRTC.
    pub fn library(&self) -> PathBuf {
        self.part("cuda_nvrtc").join("lib/libnvrtc.so.12")
    }

    /// The folders of headers.
    pub fn includes(&self) -> [PathBuf; 3] {
        ["cuda_runtime", "cuda_nvcc", "cuda_cccl"].map(|part| self.part(part).join("include"))
    }

    /// A folder laid out as an installed toolkit: the compiler in `lib`, the headers in `include` and `include/cccl`.
    ///
    /// # Errors
    ///
    /// Returns an error if a link cannot be made.
    pub fn root(&self) -> Result<PathBuf> {
        let root = self.folder.join("root");
        let [runtime, nvcc, cccl] = self.includes();
        let include = root.join("include");
        for folder in [&include, &root.join("lib")] {
            fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        }
        // The compiler loads a second library, which is next to it.
        let libraries = self.part("cuda_nvrtc").join("lib");
        link_all(&libraries, &root.join("lib"))?;
        link(&self.library(), &root.join("lib/libnvrtc.so"))?;
        link_all(&nvcc, &include)?;
        link_all(&runtime, &include)?;
        link(&cccl, &include.join("cccl"))?;
        Ok(root)
    }

    fn part(&self, name: &str) -> PathBuf {
        Path::new(&self.folder).join("nvidia").join(name)
    }
}

/// Links every entry of a folder into another one, unless there is an entry of that name.
fn link_all(from: &Path, into: &Path) -> Result<()> {
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        link(&entry.path(), &into.join(entry.file_name()))?;
    }
    Ok(())
}

fn link(target: &Path, at: &Path) -> Result<()> {
    if !at.exists() {
        symlink(target, at).with_context(|| at.display().to_string())?;
    }
    Ok(())
}
