//! Law: each op, alone in a step, computes the same bits when the step is run again from its file, and differs nowhere from itself when it
//! is compared call by call.

use std::path::PathBuf;

use burn_amp::replay::{Side, Step, compare, replay, write_next_step};
use burn_amp_tests::{
    cases::{Case, Operand, Output, Setting},
    prelude::*,
};

use super::drive::is_driven;

/// The file to which the steps of a policy are written.
fn file(name: &str) -> PathBuf {
    let of_process = format!("{}_law_{name}.safetensors", std::process::id());
    std::env::temp_dir().join(of_process)
}

policy!(InF16, scaling(Compute::F16, LossScaleMode::Off));
policy!(InBf16, scaling(Compute::Bf16, LossScaleMode::Off));

type B = burn_amp::Autodiff<Amp>;

/// Whether a call of the op is recorded: it has a float result. The others enter as values.
fn is_recorded(op: Op) -> bool {
    let result = op.shape().rsplit("->").next().unwrap().replace(' ', "");
    let is_float = matches!(&*result, "F" | "Wide" | "(F,F)" | "(F,I)")
        || result.starts_with("MaxPool")
        || result.starts_with("DeformConv");
    is_float && op.trait_name() != "QTensorOps"
}

/// Calls the case of an op with leaves; an error if Burn's `Autodiff` cannot run the op.
fn call<B: AutodiffBackend>(op: Op, stored: FloatDType) -> std::thread::Result<Called<B>> {
    let case = Case::<B>::of(op).expect("the op has a class");
    let leaf = |operand: &Operand| {
        let values = B::float_from_data(operand.data(), &here());
        B::float_set_require_grad(B::float_cast(values, stored), true)
    };
    let leaves: Vec<_> = case.operands.iter().map(leaf).collect();
    let first = leaves[0].clone();
    let run = || case.run(leaves, &Setting::default());
    let outputs = catch_unwind(AssertUnwindSafe(run))?;
    Ok(Called { first, outputs })
}

/// What a call was made with, and what it returned.
struct Called<B: AutodiffBackend> {
    first: FloatTensor<B>,
    outputs: Vec<Output<B>>,
}

/// Runs the case of an op in a step that is written; `None` if Burn's `Autodiff` cannot run the op.
fn step(op: Op, stored: FloatDType, name: &str) -> Option<Step> {
    write_next_step::<B>(&here(), file(name));
    let Called { first, outputs } = call::<B>(op, stored).ok()?;
    let mut loss = B::float_sum(first);
    for output in outputs {
        if let Output::Float(output) = output {
            loss = B::float_add(loss, B::float_sum(output));
        }
    }
    B::backward(loss);
    Some(Step::read(&file(name)).unwrap_or_else(|error| panic!("{op}: {error}")))
}

/// What differs if the backend is compared with itself: nothing should.
fn difference(step: &Step) -> Option<String> {
    let device = here();
    let side = Side::<Plain> {
        device: &device,
        path: "burn_amp_tests::Plain",
        all_in: None,
    };
    let comparison = compare(step, &side, &side, 1.0, |_| ()).unwrap();
    let is_whole = comparison.results > 0 && comparison.not_compared.is_empty();
    (!is_whole || !comparison.differences.is_empty()).then(|| comparison.to_text(step, true))
}

fn has_the_same_bits(name: &str) {
    let mut failures = Vec::new();
    let mut count = 0;
    let ops = Op::ALL.iter().copied();
    let ops =
        ops.filter(|op| is_recorded(*op) && is_driven(*op) && Case::<Plain>::of(*op).is_some());
    for op in ops {
        for stored in [FloatDType::F32, FloatDType::F16, FloatDType::BF16] {
            let Some(step) = step(op, stored, name) else {
                let plain = call::<PlainAutodiff>(op, FloatDType::F32);
                assert!(plain.is_err(), "{op} runs without Amp");
                continue;
            };
            count += 1;
            let replayed = replay::<Plain>(&step, &here());
            let is_called = step.calls.iter().any(|call| call.op == op.name());
            let is_same = match &replayed.recorded {
                Ok(form) => form.same(&step).is_all(),
                Err(_) => false,
            };
            let runs = replayed.f32.is_ok() && replayed.f64.is_ok();
            if !(is_called && is_same && runs) {
                let text = replayed.to_text(&step, true);
                failures.push(format!("{op}, {stored:?}, is called: {is_called}\n{text}"));
            }
            if cfg!(not(feature = "cubecl")) {
                failures.extend(difference(&step).map(|text| format!("{op}, {stored:?}: {text}")));
            }
        }
    }
    let _ = std::fs::remove_file(file(name));
    println!("{count} steps");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(count > 300, "{count}");
}

#[test]
fn each_op_that_is_run_again_has_the_same_bits_in_f16() {
    within::<InF16, _>(|| has_the_same_bits("f16"));
}

#[test]
fn each_op_that_is_run_again_has_the_same_bits_in_bf16() {
    within::<InBf16, _>(|| has_the_same_bits("bf16"));
}
