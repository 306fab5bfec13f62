//! Law: three defects of burn-cubecl 0.21.0 are named by a comparison with Flex, with a program that compiles and shows them.
//!
//! `BLESS=1` writes the programs anew; a second run compiles them.

#[allow(dead_code, reason = "a program has a main function")]
#[rustfmt::skip]
mod expanded;
#[allow(dead_code, reason = "a program has a main function")]
#[rustfmt::skip]
mod permuted;
#[allow(dead_code, reason = "a program has a main function")]
#[rustfmt::skip]
mod scattered;

use std::{env, fs, path::Path};

use burn_amp::replay::{Compared, Comparison, Side, Step, compare, write_next_step};
use burn_amp_tests::prelude::*;

policy!(InF32, computing_in(Compute::F32));

type B = AmpAutodiff;

/// Writes a step on the backend under test, and compares it with Flex.
fn compared(step: impl FnOnce()) -> (Step, Comparison) {
    let file = env::temp_dir().join(format!(
        "{}_{:?}_defect.safetensors",
        std::process::id(),
        std::thread::current().id()
    ));
    {
        let _policy = enter::<InF32>();
        write_next_step::<B>(&here(), &file);
        step();
    }
    let step = Step::read(&file).unwrap();
    fs::remove_file(&file).unwrap();
    let subject = Side::<Plain> {
        device: &here(),
        path: "burn_amp_tests::Plain",
        all_in: None,
    };
    let reference = Side::<Flex> {
        device: &Default::default(),
        path: "burn::backend::Flex",
        all_in: None,
    };
    let comparison = compare(&step, &subject, &reference, 1.0, |_| ()).unwrap();
    (step, comparison)
}

/// Asserts that the first difference is that of a call, with the program in a file of this test.
fn assert_named(step: &Step, comparison: &Comparison, op: &str, what: &str, program: &str) {
    let text = comparison.to_text(step, true);
    let first = comparison
        .differences
        .first()
        .unwrap_or_else(|| panic!("{text}"));
    assert_eq!(step.calls[first.call].op, op, "{text}");
    let found = match first.what {
        Compared::Result(_) => "result",
        Compared::Gradient(_) => "gradient",
    };
    assert_eq!(found, what, "{text}");
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/suite/defects")
        .join(program);
    let written = first.program.as_ref().unwrap_or_else(|| panic!("{text}"));
    if env::var_os("BLESS").is_some() {
        fs::write(&file, written).unwrap();
    }
    assert_eq!(
        &fs::read_to_string(&file).unwrap(),
        written,
        "{program}; BLESS=1 writes it anew"
    );
}

#[test]
fn scattering_to_one_element_many_times_is_named() {
    let (step, comparison) = compared(|| {
        let x = Tensor::<B, 2>::zeros([1, 1], &here()).require_grad();
        let indices = Tensor::<B, 2, Int>::zeros([2048, 2], &here());
        let values = Tensor::<B, 1>::random([2048], Distribution::Default, &here());
        let sum = x.scatter_nd(indices, values, IndexingUpdateOp::Add);
        sum.sum().backward();
    });
    assert_named(
        &step,
        &comparison,
        "float_scatter_nd",
        "result",
        "scattered.rs",
    );
    assert!(!scattered::different().is_empty());
}

#[test]
fn the_gradient_of_an_expanded_tensor_before_a_transposition_is_named() {
    let (step, comparison) = compared(|| {
        let b =
            Tensor::<B, 4>::random([1, 1, 1, 16], Distribution::Default, &here()).require_grad();
        let x = Tensor::<B, 4>::random([4, 8, 16, 16], Distribution::Default, &here());
        let y = (x + b.expand([4, 8, 16, 16])).swap_dims(2, 3);
        let weight = Tensor::<B, 4>::random([4, 8, 16, 16], Distribution::Default, &here());
        (y * weight).sum().backward();
    });
    assert_named(&step, &comparison, "float_add", "gradient", "expanded.rs");
    assert!(!expanded::different().is_empty());
}

#[test]
fn the_mean_of_a_permuted_tensor_is_named() {
    let (step, comparison) = compared(|| {
        let x = Tensor::<B, 4>::random([2, 3, 4, 4], Distribution::Default, &here()).require_grad();
        x.permute([0, 3, 2, 1]).mean().backward();
    });
    assert_named(&step, &comparison, "float_mean", "result", "permuted.rs");
    assert!(!permuted::different().is_empty());
}
