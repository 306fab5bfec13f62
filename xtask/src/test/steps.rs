//! The steps of the test command: those of `cargo xtask test`, and those of `--rest`.
//!
//! CONTRIBUTING.md has them as a table; a test compares it.

use super::{
    manifests, msrv, package,
    step::{Step, Task},
    tools,
};
use crate::{book, burn_0_22, config, cuda, mistakes, ops, ops_table};

/// The steps of `cargo xtask test`: what a change must pass before it is sent, cheap steps first.
pub const TEST: &[Step] = &[
    Step::new(
        "components",
        "rustfmt and clippy are there",
        Task::Check(
            "rustup component add, if they are missing",
            tools::components,
        ),
    ),
    Step::new(
        "manifests",
        "every `*.toml` file is valid TOML",
        Task::Check("cargo xtask test --only manifests", manifests::check),
    ),
    Step::new(
        "fmt",
        "the code is formatted",
        Task::Cargo("fmt --all --check"),
    ),
    Step::new(
        "typos",
        "words are spelled right",
        Task::IfPossible("typos", tools::typos),
    ),
    Step::new(
        "deny",
        "licences, duplicate versions and sources of the dependencies are those that `deny.toml` allows",
        Task::IfPossible("cargo deny check licenses bans sources", tools::deny),
    ),
    Step::new(
        "ops",
        "the op table and `Amp` have every method of the locked Burn, in its shape",
        Task::Check("cargo xtask ops", ops::check),
    ),
    Step::new(
        "ops-table",
        "`book/src/ops.md` is the op table",
        Task::Check("cargo xtask ops-table --check", || ops_table::PAGE.check()),
    ),
    Step::new(
        "config",
        "`amp.toml` and `book/src/configuration.md` are the table of keys",
        Task::Check("cargo xtask config --check", || config::FILES.check()),
    ),
    Step::new(
        "pages",
        "the links of all pages lead somewhere, every Rust example of the book is tested, the pages on the design are short, `book/src/inside/laws.md` is the laws of the tests, and a type name is used once per published crate",
        Task::Check("the links of all Markdown pages", book::check),
    ),
    Step::new(
        "clippy",
        "all targets compile without a warning, with all GPU features: the suites on CUDA, the programs on CUDA and Vulkan",
        Task::Clippy(CUDA_FEATURES),
    ),
    Step::new(
        "test",
        "every unit test and integration test but those of the lab's programs, on the CPU backend",
        Task::Tests("test --workspace --tests"),
    ),
    Step::new(
        "cuda-kernels",
        "the tests of kernels, with the CUDA source that CubeCL writes, compiled for the CPU",
        Task::IfPossible(
            "cargo xtask cuda emulate kernels::",
            tools::emulated_kernels,
        ),
    ),
];

/// The steps of `cargo xtask test --rest`: those that need other builds of Burn or slow drivers.
pub const REST: &[Step] = &[
    Step::new(
        "package",
        "the published crates have what crates.io and docs.rs show",
        Task::Check("cargo package, without a build", package::check),
    ),
    Step::new(
        "book",
        "mdBook builds the book",
        Task::IfPossible("mdbook build book", tools::book),
    ),
    Step::new(
        "msrv",
        "burn-amp compiles with the Rust version that it declares",
        Task::IfPossible("cargo check with that version", msrv::check),
    ),
    Step::new(
        "programs",
        "the unit tests of the lab's programs, on the CPU backend",
        Task::Tests("test --workspace --bin bench --bin compare --bin footprint"),
    ),
    Step::new(
        "clippy-cpu",
        "the suites compile without a warning on the CPU backend, too",
        Task::Clippy(LAB_FEATURES),
    ),
    Step::new(
        "clippy-vulkan",
        "the suites compile without a warning on Vulkan, too",
        Task::Clippy(VULKAN_FEATURES),
    ),
    Step::new(
        "doc",
        "the documentation builds without a warning, and its links resolve",
        Task::Doc(CUDA_FEATURES),
    ),
    // By itself, because other packages of the workspace turn on features of Burn that burn-amp may have forgotten.
    Step::new(
        "check",
        "burn-amp turns on all features of Burn that it needs",
        Task::Cargo("check --package burn-amp --features cuda,vulkan,fusion"),
    ),
    // `distributed` changes the bounds of Burn's traits: only backends with collective operations can train.
    Step::new(
        "distributed",
        "burn-amp and its example compile with the feature `distributed`",
        Task::Cargo(
            "check --package burn-amp --no-default-features --features cuda,fusion,distributed,collective,train --lib --examples",
        ),
    ),
    Step::new(
        "mistakes",
        "what is said about every mistake is what `book/src/mistakes.md` says",
        Task::Check("cargo xtask mistakes --check", || mistakes::PAGE.check()),
    ),
    Step::new(
        "doctest",
        "the examples of the documentation and of the book compile and run",
        Task::Cargo("test --workspace --doc"),
    ),
    Step::new(
        "burn-0.22",
        "every op of Burn 0.22, and a program, has its own bits through burn-amp at `o0` and is near in BF16 and F16; random programs compute what casts by hand compute; a program without the patch is told",
        Task::Check(
            "the tests of burn-0.22, and programs as they are and patched",
            burn_0_22::check,
        ),
    ),
    // Tiny models on a driver without a device: another build of Burn, with tuning.
    Step::new(
        "cuda-dry",
        "a training step on CUDA launches, waits for and moves what the table says, and `book/src/cuda-steps.md` is that table",
        Task::Check("cargo xtask cuda dry --quick", cuda::check_steps),
    ),
    Step::new(
        "cuda-laws",
        "the laws of all ops with the CUDA source that CubeCL writes, compiled for the CPU",
        Task::IfPossible("cargo xtask cuda emulate laws::", tools::emulated_laws),
    ),
    Step::new(
        "cuda-random",
        "random programs with the CUDA source that CubeCL writes, compiled for the CPU",
        Task::IfPossible(
            "cargo xtask cuda emulate random::",
            tools::emulated_programs,
        ),
    ),
    Step::new(
        "cuda-compile",
        "NVRTC compiles every kernel of ours in these steps for sm_80 and sm_90, and none spills registers",
        Task::IfPossible(
            "cargo xtask cuda compile --quick --ours",
            tools::cuda_kernels,
        ),
    ),
    Step::new(
        "driver",
        "the Vulkan software driver is there",
        Task::IfPossible("apt-get install, if it is missing", tools::driver),
    ),
    Step::new(
        "vulkan",
        "the suite on Vulkan under Fusion but for the tests of kernels, which other steps run, and that kernels launch less than their references",
        Task::Vulkan(
            "test --workspace --test suite --test launches --features burn-amp-tests/vulkan,burn-amp-tests/fusion",
        ),
    ),
    Step::new(
        "burn-0.22-wgpu",
        "on Burn 0.22 the kernels are what the host computes, every op in F16 is near plain Burn, and a program trains, by way of WGSL on the software driver",
        Task::Vulkan(
            "test --manifest-path burn-0.22/cubecl/tests/Cargo.toml --target-dir target/burn-0.22/target --locked --test f16 --test kernels --test trains",
        ),
    ),
];

/// The steps of `--quick`, besides [`QUICK_TEST`]: those that need no build of Burn.
pub const QUICK: &[&str] = &[
    "manifests",
    "fmt",
    "typos",
    "ops",
    "ops-table",
    "config",
    "pages",
    "book",
];

/// The tests of `--quick`, with the features of the step `test`: what one of them has built, the other uses.
pub const QUICK_TEST: Step = Step::new(
    "quick-test",
    "the unit tests and the suite, on the CPU backend",
    Task::Tests(
        "test --workspace --lib --bin burn-amp --bin xtask --test suite --test zoo --test warnings",
    ),
);

/// All GPU features of the programs; the libraries have them by those of the tests. With the suites on the CPU backend.
const LAB_FEATURES: &str = "lab/cuda,lab/vulkan,lab/fusion,digits/cuda,digits/vulkan";

/// The same with the suites on CUDA.
const CUDA_FEATURES: &str = "lab/cuda,lab/vulkan,lab/fusion,digits/cuda,digits/vulkan,burn-amp-tests/cuda,burn-amp-tests/fusion";

/// The same with the suites on Vulkan.
const VULKAN_FEATURES: &str = "lab/cuda,lab/vulkan,lab/fusion,digits/cuda,digits/vulkan,zoo/vulkan,\
                               burn-amp-tests/vulkan,burn-amp-tests/fusion";

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::workspace;

    /// The table of CONTRIBUTING.md.
    fn table() -> String {
        let rows = |command: &str, steps: &[Step]| {
            let row = |step: &Step| format!("| {} | `{}` | {command} |\n", step.proves, step.name);
            steps.iter().map(row).collect::<String>()
        };
        let head = "| what is checked | step | command |\n|---|---|---|\n";
        head.to_owned() + &rows("`cargo xtask test`", TEST) + &rows("`--rest`", REST)
    }

    #[test]
    fn contributing_says_in_which_command_each_check_runs() {
        let page = fs::read_to_string(workspace::root().join("CONTRIBUTING.md")).unwrap();
        let table = table();
        assert!(
            page.replace("\r\n", "\n").contains(&table),
            "CONTRIBUTING.md lacks this table:\n\n{table}"
        );
    }

    #[test]
    fn continuous_integration_runs_every_step_of_the_rest() {
        let path = workspace::root().join(".github/workflows/ci.yml");
        let text = fs::read_to_string(path).unwrap();
        for step in REST {
            let runs = text
                .lines()
                .any(|line| line.split(' ').any(|word| word == step.name));
            assert!(runs, ".github/workflows/ci.yml: no `--only {}`", step.name);
        }
    }
}
