//! `cargo xtask cuda emulate`: runs the suite on the stand-in driver with the CUDA C++ that CubeCL writes, which the host's C++
//! compiler makes into code for the CPU.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::{self, Command},
    sync::atomic::{AtomicUsize, Ordering},
};

use anyhow::{Context, Result, ensure};
use clap::Args;

use super::{
    compiled,
    stand_in::{self, StandIn},
};
use crate::{
    test::modules::{self, Binary},
    workspace,
};

/// Tests that do not run unless they are named, by the beginning of their names, and why.
const LEFT_OUT: &[(&str, &str)] = &[
    (
        "amp_optimizer::",
        "dozens of runs under each policy, with the kernels of `kernels::optimizer`",
    ),
    (
        "list_optimizer::",
        "hundreds of steps, with the kernels of `kernels::optimizer`",
    ),
    ("long_runs::", "hundreds of steps"),
    (
        "random::",
        "minutes; `cargo xtask cuda emulate random::` runs them",
    ),
    (
        "resume::",
        "starts a process for each of many interrupted runs",
    ),
];

/// The modules of the suite that have test binaries of their own.
const PARTS: &[&str] = &["kernels", "laws", "random"];

/// The options of `cargo xtask cuda emulate`.
#[derive(Args, Default)]
pub struct Options {
    /// Runs the tests whose names contain one of these, also those that are left out else
    #[arg(value_name = "FILTER")]
    filters: Vec<String>,
}

impl Options {
    /// Those of the tests whose names contain `filter`.
    pub fn of(filter: &str) -> Self {
        Self {
            filters: vec![filter.to_owned()],
        }
    }

    /// The smallest test binary with all tests that the filters choose.
    fn target(&self) -> &'static str {
        let has_all = |part: &&str| {
            let is_of_part = |filter: &String| filter.starts_with(&format!("{part}::"));
            !self.filters.is_empty() && self.filters.iter().all(is_of_part)
        };
        PARTS.iter().copied().find(has_all).unwrap_or("suite")
    }

    fn chooses(&self, name: &str) -> bool {
        if self.filters.is_empty() {
            return !LEFT_OUT
                .iter()
                .any(|(left_out, _)| name.starts_with(left_out));
        }
        self.filters.iter().any(|filter| name.contains(filter))
    }
}

/// Runs the command.
///
/// # Errors
///
/// Returns an error if there is no C++ compiler, the suite does not compile, or a test fails.
pub fn run(options: &Options) -> Result<()> {
    has_compiler()?;
    let stand_in = StandIn::build()?;
    let folder = stand_in::work()?.join("emulate");
    let kernels = compiled::folder(&folder)?;
    let suite = build(options.target())?;
    if options.filters.is_empty() {
        for (left_out, why) in LEFT_OUT {
            println!("left out: {left_out}: {why}");
        }
    }

    let before = compiled::count(&kernels)?;
    let processes = AtomicUsize::new(0);
    let log = |process| folder.join(format!("{}-{process}.log", process::id()));
    let caches = tempfile::tempdir()?;
    let command = |binary: &Binary| {
        let mut command = binary.command();
        let process = processes.fetch_add(1, Ordering::Relaxed);
        let cache = caches.path().join(process.to_string());
        with_cache(&mut command, &cache).expect("the folder was just created");
        stand_in.run_kernels_under(&mut command, &kernels, &log(process));
        command
    };
    let result = modules::run(&suite, command, |name| options.chooses(name));
    println!(
        "{} kernels were compiled",
        compiled::count(&kernels)? - before
    );
    let refused = (0..processes.into_inner())
        .map(|process| refused(&log(process)))
        .collect::<Result<Vec<_>>>()?;
    for line in refused.into_iter().flatten().collect::<BTreeSet<_>>() {
        println!("{line}");
    }
    result.context("on CUDA's source")
}

/// Makes CubeCL look for kernels in a cache of this process, in which each is known by its hash: two kernels of one hash fail a
/// test.
fn with_cache(command: &mut Command, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    let text = format!("[compilation]\ncache = {{ file = {folder:?} }}\n");
    fs::write(folder.join("cubecl.toml"), text)?;
    command.current_dir(folder);
    Ok(())
}

/// Whether there is a C++ compiler.
///
/// # Errors
///
/// Returns an error if there is none.
pub fn has_compiler() -> Result<()> {
    let is_there = workspace::succeeds(Command::new("c++").arg("--version"));
    ensure!(
        is_there,
        "no C++ compiler, `c++`; on Debian `apt-get install g++`"
    );
    Ok(())
}

/// Builds a test binary with the features that Burn has in all tests: kernels are not tuned.
fn build(target: &str) -> Result<Vec<Binary>> {
    let mut cargo = workspace::cargo(&[
        "test",
        "--workspace",
        "--test",
        target,
        "--features",
        "burn-amp-tests/cuda",
    ]);
    println!("{}", workspace::line(&cargo));
    modules::build(&mut cargo)
}

/// What the driver refused, line by line; removes the log.
fn refused(log: &Path) -> Result<Vec<String>> {
    if !log.exists() {
        return Ok(Vec::new());
    }
    let text = fs::read_to_string(log).with_context(|| log.display().to_string())?;
    fs::remove_file(log)?;
    Ok(text.lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_parts_of_the_suite_have_a_binary_of_their_own() {
        let target = |filters: &[&str]| {
            let filters = filters.iter().map(ToString::to_string).collect();
            Options { filters }.target()
        };
        assert_eq!(target(&["kernels::softmax", "kernels::cat"]), "kernels");
        assert_eq!(target(&["random::"]), "random");
        assert_eq!(target(&["kernels::", "random::"]), "suite");
        assert_eq!(target(&["kernels::", "norms::"]), "suite");
        assert_eq!(target(&["softmax"]), "suite");
        assert_eq!(target(&[]), "suite");
    }

    #[test]
    fn what_is_left_out_runs_if_it_is_named() {
        for (left_out, _) in LEFT_OUT {
            let name = format!("{left_out}::some_test");
            assert!(!Options::default().chooses(&name), "{name}");
            let filters = vec![(*left_out).to_owned()];
            assert!(Options { filters }.chooses(&name), "{name}");
        }
        assert!(Options::default().chooses("kernels::softmax::a_test"));
    }

    /// Runs the kernel `it` of one array; returns the array, or what was written to the standard error.
    fn try_to_run(
        body: &str,
        blocks: usize,
        threads: usize,
        numbers: usize,
    ) -> Result<Vec<f32>, String> {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("it.cu");
        let includes =
            "#include <cuda_runtime.h>\n#include <mma.h>\ntypedef unsigned char uint8;\n";
        let shared = "extern __shared__ __align__(16) uint8 dynamic_shared_mem[];";
        let kernel = format!(
            "{includes}extern \"C\" __global__ void __launch_bounds__(64) it(float* x) {{\n{shared}\n\
             float *shared = reinterpret_cast<float*>(&dynamic_shared_mem[0]);\nuint i = threadIdx.x;\n{body}\n}}\n"
        );
        fs::write(&source, kernel).unwrap();
        let program = folder.path().join("run");
        let sources = ["run.c", "native.c", "blocks.c"];
        let mut cc = stand_in::compiler();
        // Kernels find what they call in the program.
        cc.args(["-pthread", "-rdynamic", "-o"]).arg(&program);
        cc.args(sources.map(|source| stand_in::sources_folder().join(source)));
        workspace::run(cc.arg("-ldl")).unwrap();
        let output = Command::new(program)
            .arg(&source)
            .arg("it")
            .args([blocks, threads, numbers].map(|count| count.to_string()))
            .env("STAND_IN_KERNELS", folder.path())
            .env("STAND_IN_HEADERS", stand_in::headers_folder())
            .output()
            .unwrap();
        if !output.status.success() {
            return Err(String::from_utf8(output.stderr).unwrap());
        }
        let numbers = String::from_utf8(output.stdout).unwrap();
        Ok(numbers.lines().map(|x| x.parse().unwrap()).collect())
    }

    /// The array, or `None` where there is no compiler.
    fn ran(body: &str, blocks: usize, threads: usize, numbers: usize) -> Option<Vec<f32>> {
        has_compiler().ok()?;
        Some(try_to_run(body, blocks, threads, numbers).unwrap())
    }

    fn failed(body: &str) -> Option<String> {
        has_compiler().ok()?;
        Some(try_to_run(body, 1, 64, 64).unwrap_err())
    }

    #[test]
    fn threads_of_a_block_exchange_values_through_shared_memory_and_shuffles() {
        // Written forwards and read backwards, then each number is that of the other half of the warp.
        let body = "shared[i] = i; __syncthreads(); float mine = shared[63 - i];\n\
                    x[blockIdx.x * 64 + i] = __shfl_xor_sync(-1, mine, 16);";
        let Some(found) = ran(body, 2, 64, 128) else {
            return;
        };
        let expected: Vec<_> = (0..128).map(|i| (63 - ((i % 64) ^ 16)) as f32).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_tile_is_a_product_of_tiles_in_half_precision() {
        // A diagonal times a matrix that counts, each rounded to BF16.
        let body = "__nv_bfloat16 *a = reinterpret_cast<__nv_bfloat16*>(shared), *b = a + 256;\n\
                    for (uint k = i; k < 256; k += 32) { a[k] = __nv_bfloat16(k / 16 == k % 16 ? 2.0 : 0.0); b[k] = __nv_bfloat16(k); }\n\
                    __syncwarp();\n\
                    using namespace nvcuda::wmma;\n\
                    fragment<matrix_a, 16, 16, 16, __nv_bfloat16, row_major> fa; fragment<matrix_b, 16, 16, 16, __nv_bfloat16, row_major> fb;\n\
                    fragment<accumulator, 16, 16, 16, float> sum; fill_fragment(sum, 1.0f);\n\
                    load_matrix_sync(fa, a, 16); load_matrix_sync(fb, b, 16); mma_sync(sum, fa, fb, sum);\n\
                    store_matrix_sync(x, sum, 16, mem_row_major);";
        let Some(found) = ran(body, 1, 32, 256) else {
            return;
        };
        let expected: Vec<_> = (0..256).map(|i| 2.0 * i as f32 + 1.0).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn what_a_kernel_does_wrong_is_said_with_its_name() {
        let cases = [
            (
                "if (i < 16) __syncwarp(); else __syncthreads();",
                "a deadlock",
            ),
            (
                "if (i % 2) x[i] = __shfl_sync(-1, x[i], 0); else __syncwarp();",
                "a deadlock",
            ),
            (
                "x[i + (1ull << 40)] = 1.0f;",
                "touches memory that is not there",
            ),
            ("x[i] = i / (i - i);", "divides an integer by zero"),
            ("x[i] = __not_an_intrinsic(x[i]);", "__not_an_intrinsic"),
            ("asm volatile(\"nop;\");", "PTX in it is not emulated"),
        ];
        for (body, expected) in cases {
            let Some(message) = failed(body) else {
                return;
            };
            assert!(message.contains(expected), "{body}: {message}");
            assert!(message.contains("kernel it"), "{body}: {message}");
        }
    }
}
