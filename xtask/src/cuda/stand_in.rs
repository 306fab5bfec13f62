//! The stand-in driver of xtask/cuda: builds it, and makes programs run on it.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use crate::workspace;

/// A library of the stand-in: its sources, its file, and the other name that it is looked for under.
struct Library {
    sources: &'static [&'static str],
    file: &'static str,
    alias: &'static str,
}

const LIBRARIES: &[Library] = &[
    Library {
        sources: &["driver.c", "memory.c", "clock.c", "blocks.c"],
        file: "libcuda.so.1",
        alias: "libcuda.so",
    },
    Library {
        sources: &["compiler.c", "native.c"],
        file: "libnvrtc.so.12",
        alias: "libnvrtc.so",
    },
];

const WARNINGS: &[&str] = &["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror"];

/// The libraries, built.
pub struct StandIn {
    folder: PathBuf,
}

impl StandIn {
    /// Builds the libraries with the C compiler.
    ///
    /// # Errors
    ///
    /// Returns an error if there is none, or it fails.
    pub fn build() -> Result<Self> {
        let folder = work()?.join("stand-in");
        fs::create_dir_all(folder.join("include"))?;
        for Library {
            sources,
            file,
            alias,
        } in LIBRARIES
        {
            let mut cc = compiler();
            cc.args(["-shared", "-fPIC", "-fvisibility=hidden", "-pthread"]);
            cc.arg(format!("-Wl,-soname,{file}"));
            cc.arg("-o").arg(folder.join(file));
            cc.args(sources.iter().map(|source| sources_folder().join(source)));
            cc.arg("-ldl");
            workspace::run(&mut cc)?;
            let alias = folder.join(alias);
            if !alias.exists() {
                symlink(file, &alias).with_context(|| alias.display().to_string())?;
            }
        }
        // The program looks whether there are headers; the stand-in compiler needs none.
        fs::write(folder.join("include/cuda_runtime.h"), "")?;
        Ok(Self { folder })
    }

    /// Makes a command find the driver, and in `compiler` a folder with a true compiler in `lib` and its headers.
    pub fn put_under_with(&self, command: &mut Command, compiler: &Path) {
        let mut folders = compiler.join("lib").into_os_string();
        folders.push(":");
        folders.push(&self.folder);
        command
            .env("LD_PRELOAD", self.folder.join("libcuda.so.1"))
            .env("LD_LIBRARY_PATH", folders)
            .env("CUDA_PATH", compiler);
    }

    /// Makes a command find the libraries, and run the kernels that it launches: they are compiled with CUDA's headers for the
    /// host and kept in `kernels`. What the driver refuses is in `log`.
    pub fn run_kernels_under(&self, command: &mut Command, kernels: &Path, log: &Path) {
        command
            .env("LD_PRELOAD", self.folder.join("libcuda.so.1"))
            .env("LD_LIBRARY_PATH", &self.folder)
            .env("CUDA_PATH", &self.folder)
            .env("STAND_IN_KERNELS", kernels)
            .env("STAND_IN_HEADERS", headers_folder())
            .env("STAND_IN_LOG", log);
    }

    /// Makes a command find the libraries. Kernels' sources are kept in `sources`, the driver's log is `log`.
    pub fn put_under(&self, command: &mut Command, sources: &Path, log: &Path) {
        command
            // Preloaded, its clock takes the place of libc's.
            .env("LD_PRELOAD", self.folder.join("libcuda.so.1"))
            .env("LD_LIBRARY_PATH", &self.folder)
            .env("CUDA_PATH", &self.folder)
            .env("STAND_IN_SOURCES", sources)
            .env("STAND_IN_LOG", log);
    }
}

/// Runs a program on the stand-in.
///
/// # Errors
///
/// Returns an error with what the program wrote if it fails.
pub fn succeed(command: &mut Command) -> Result<()> {
    let output = command.output().context("the program does not start")?;
    ensure!(
        output.status.success(),
        "{}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

/// The C compiler with warnings as errors.
pub fn compiler() -> Command {
    let mut cc = Command::new("cc");
    cc.args(WARNINGS);
    cc
}

/// The folder of CUDA's headers for the host's compiler.
pub fn headers_folder() -> PathBuf {
    sources_folder().join("include")
}

/// The folder of the C sources.
pub fn sources_folder() -> PathBuf {
    workspace::root().join("xtask/cuda")
}

/// The folder for everything that the commands build, download and write; created if it is missing.
pub fn work() -> Result<PathBuf> {
    let folder = workspace::root().join("target/cuda");
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    Ok(folder)
}
