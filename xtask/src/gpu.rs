//! `cargo xtask gpu`: packs a folder that runs the tests and benchmarks on a GPU machine without Rust or network.
//!
//! The folder has the programs in `PROGRAMS`, built for CUDA, the scripts of xtask/gpu that run them, and the
//! corresponding PyTorch benchmarks. Built for Vulkan instead, it can be tried out on a software driver.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use serde_json::json;

use crate::{
    bundle::{self, Sizes},
    cuda::{self, CacheOptions, Choice, Precision},
    workspace,
};

/// The programs in the folder. `xtask/gpu/plan.py` runs them by these names; builds with Fusion end in `-fusion`.
///
/// Each is built by itself. Built together, they would share Burn's features, and the suite would autotune its
/// thousands of small kernels.
const PROGRAMS: &[Program] = &[
    Program {
        name: "bench",
        package: "lab",
        target: "--bin",
    },
    Program {
        name: "suite",
        package: "burn-amp-tests",
        target: "--test",
    },
];

struct Program {
    name: &'static str,
    package: &'static str,
    /// Cargo's option for this kind of target.
    target: &'static str,
}

/// The largest folder that is still easy to copy by hand to a machine without network.
const LIMIT_MIB: u64 = 60;

/// The options of `cargo xtask gpu`.
#[derive(Args)]
pub struct Options {
    /// Folder to create; target/gpu-bundle by default
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Backend of the programs; use Vulkan to try the bundle without a GPU
    #[arg(long, value_enum, default_value = "cuda")]
    backend: Backend,
    /// Oldest CUDA version that the machine may have; newer versions run the programs too
    #[arg(long, value_name = "VERSION", default_value = "12.8", value_parser = cuda_version)]
    cuda: CudaVersion,
    /// Also builds the programs with Fusion
    #[arg(long)]
    with_fusion: bool,
    /// Also compiles the kernels of these models in f32, bf16 and f16, for GPUs of compute capability 9.0; takes some
    /// minutes for each, and spares the GPU machine the same
    #[arg(long, value_name = "MODEL", num_args = 1..)]
    kernels: Vec<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Backend {
    Cuda,
    Vulkan,
}

impl Backend {
    fn name(self) -> &'static str {
        match self {
            Self::Cuda => "cuda",
            Self::Vulkan => "vulkan",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CudaVersion {
    major: u32,
    minor: u32,
}

/// Builds and packs the folder, and prints how to use it.
pub fn run(options: &Options) -> Result<()> {
    let root = workspace::root();
    let out = match &options.out {
        Some(out) => out.clone(),
        None => root.join("target/gpu-bundle"),
    };
    // Before all that takes long.
    let kernels = (!options.kernels.is_empty())
        .then(|| options.choice_of_kernels())
        .transpose()?;
    bundle::make_empty(&out)?;
    about(options, &out)?;
    bundle::copy_python(&root.join("xtask/gpu"), &out)?;
    bundle::copy_python(&root.join("examples/lab/pytorch"), &out.join("pytorch"))?;
    let programs = out.join("programs");
    fs::create_dir(&programs).with_context(|| programs.display().to_string())?;
    for fusion in [false, true] {
        if fusion && !options.with_fusion {
            continue;
        }
        for program in PROGRAMS {
            program.build(options, fusion, &programs)?;
        }
    }
    bundle::pack(&programs, &out.join("programs.tar.xz"))?;
    if let Some(choice) = kernels {
        let folder = out.join("kernels");
        cuda::fill_cache(&CacheOptions {
            into: folder.clone(),
            choice,
            program: None,
        })?;
        bundle::pack(&folder, &out.join("kernels.tar.xz"))?;
    }

    let sizes = Sizes::of(&out)?;
    ensure!(
        sizes.total() <= LIMIT_MIB << 20,
        "{} is larger than {LIMIT_MIB} MiB:\n{sizes}",
        out.display()
    );
    println!("{}:\n{sizes}\n", out.display());
    let name = out.file_name().unwrap_or(out.as_os_str());
    println!(
        "Copy it to the machine and run this there, repeatedly until nothing is left to do:\n"
    );
    println!(
        "    python3 {}/run.py --out results",
        name.to_string_lossy()
    );
    Ok(())
}

impl Options {
    /// The steps whose kernels go into the bundle.
    fn choice_of_kernels(&self) -> Result<Choice> {
        ensure!(
            matches!(self.backend, Backend::Cuda),
            "only kernels for CUDA can be compiled without a device"
        );
        let choice = Choice {
            quick: false,
            model: self.kernels.clone(),
            precision: vec![Precision::F32, Precision::Bf16, Precision::F16],
            fusion: (!self.with_fusion).then_some(false),
        };
        choice.runs()?;
        Ok(choice)
    }
}

/// Writes the file that describes the bundle.
fn about(options: &Options, out: &Path) -> Result<()> {
    let mut git = workspace::command("git", &["describe", "--always", "--dirty"]);
    let about = json!({
        "backend": options.backend.name(),
        // All packages of the workspace have one version.
        "version": env!("CARGO_PKG_VERSION"),
        // `null` outside a git repository.
        "commit": workspace::output(&mut git).ok().map(|commit| commit.trim().to_owned()),
        "cuda": options.cuda.to_string(),
        "kernels": (!options.kernels.is_empty()).then(cuda::kernels_are_for),
    });
    let text = serde_json::to_string_pretty(&about)?;
    fs::write(out.join(bundle::ABOUT), text + "\n").context(bundle::ABOUT)
}

impl Program {
    /// Builds the program and copies it into `folder`.
    fn build(&self, options: &Options, fusion: bool, folder: &Path) -> Result<()> {
        let Self {
            name,
            package,
            target,
        } = self;
        let mut features = options.backend.name().to_owned();
        if fusion {
            features.push_str(",fusion");
        }
        let mut cargo = workspace::cargo(&["build", "--profile", "gpu", "--package", package]);
        cargo.args([target, name, "--features", &features]);
        cargo.env("CUDARC_CUDA_VERSION", options.cuda.for_cudarc());
        println!("{}", workspace::line(&cargo));

        let built = workspace::executable(&mut cargo, name)?;
        let suffix = if fusion { "-fusion" } else { "" };
        fs::copy(&built, folder.join(format!("{name}{suffix}")))
            .with_context(|| built.display().to_string())?;
        Ok(())
    }
}

impl CudaVersion {
    /// The version as cudarc reads it from `CUDARC_CUDA_VERSION`, needed where no CUDA toolkit is installed.
    fn for_cudarc(self) -> String {
        let Self { major, minor } = self;
        format!("{major}0{minor}0")
    }
}

impl fmt::Display for CudaVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { major, minor } = self;
        write!(f, "{major}.{minor}")
    }
}

fn cuda_version(text: &str) -> Result<CudaVersion, String> {
    let numbers = text
        .split_once('.')
        .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    match numbers {
        Some((major, minor)) => Ok(CudaVersion { major, minor }),
        None => Err("expected a version such as 12.8".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cudarc_gets_the_version_in_its_own_spelling() {
        for (text, cudarcs) in [("12.8", "12080"), ("13.0", "13000")] {
            let version = cuda_version(text).unwrap();
            assert_eq!(version.to_string(), text);
            assert_eq!(version.for_cudarc(), cudarcs);
        }
        for wrong in ["12", "12.x", "", "v12.8"] {
            assert!(cuda_version(wrong).is_err(), "{wrong}");
        }
    }
}
