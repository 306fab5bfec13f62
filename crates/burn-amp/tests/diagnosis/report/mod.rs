//! The precision report of small programs. They are in a package with line tables, because a report names lines.

mod run;

mod advice;

use std::{env, fs, process::Command};

use crate::common::*;
use burn_amp::{
    diagnose::{self, Calls, Lint, Report, Sample, Why},
    observe::{CastCounter, set_observer},
};

fn in_bf16() -> Config {
    computing_in(Compute::Bf16, |_| {})
}

policy!(InBf16, in_bf16());

/// The calls of an op in a report, in the order of their lines.
fn of<'a>(report: &'a Report, op: &str) -> Vec<&'a Calls> {
    report.calls.iter().filter(|calls| calls.op == op).collect()
}

fn line(calls: &Calls) -> u32 {
    let site = calls.site.as_ref().expect("the program has line tables");
    assert!(site.file.contains("diagnosis/report/"), "{site:?}");
    site.line
}

#[test]
fn a_call_has_its_line_its_dtypes_its_casts_and_a_reason() {
    type B = Amp<Flex, InBf16>;
    let device = Default::default();
    let x = Tensor::<B, 2>::ones([4, 8], &device);
    let w = Tensor::<B, 2>::ones([8, 6], &device);
    let recording = diagnose::record::<B>(&device);
    let here = line!();
    let y = x.clone().matmul(w.clone());
    let exp = y.clone().exp();
    let full = full_precision(|| x.clone().matmul(w));
    let sum = y + x.slice([0..4, 0..6]);
    let lost = softmax(sum.clone(), 1) * 1e-9;
    let report = recording.finish();
    drop((exp, full, lost));

    use Precision::{BF16, F32};
    let class = |class: &str| Why::Class(class.into());
    let [low, in_f32] = of(&report, "float_matmul")[..] else {
        panic!("{report:#?}")
    };
    assert_eq!((line(low), line(in_f32)), (here + 1, here + 3));
    assert_eq!(low.site.as_ref().unwrap().function.split("::").last(), {
        Some("a_call_has_its_line_its_dtypes_its_casts_and_a_reason")
    });
    assert_eq!((&*low.operands, low.computed_in), (&[F32, F32][..], BF16));
    assert_eq!((low.result, &low.why), (Some(BF16), &class("low")));
    assert_eq!((low.count, low.flops), (1, 2 * 4 * 8 * 6));
    assert_eq!(low.shapes, [[4, 8], [8, 6]]);
    // 4 · 8 + 8 · 6 numbers, read in 4 bytes and written in 2; the result has 4 · 6.
    let [cast] = &low.casts[..] else {
        panic!("{low:#?}")
    };
    assert_eq!(
        (cast.from, cast.to, cast.made, cast.shared),
        (F32, BF16, 2, 0)
    );
    assert_eq!(cast.bytes, 80 * 6);
    assert_eq!(low.bytes, 80 * 4 + 24 * 2);
    assert_eq!(
        (in_f32.computed_in, &in_f32.why),
        (F32, &Why::FullPrecision)
    );

    let one = |op: &str| match of(&report, op)[..] {
        [calls] => calls,
        _ => panic!("{op}: {report:#?}"),
    };
    let exp = one("float_exp");
    assert_eq!((&*exp.operands, exp.computed_in), (&[BF16][..], F32));
    assert_eq!((line(exp), &exp.why), (here + 2, &class("full")));
    let add = one("float_add");
    assert_eq!(
        (&*add.operands, &add.why),
        (&[BF16, F32][..], &Why::Promoted)
    );
    assert_eq!(one("float_slice").why, Why::Operands);
    // The sum is in F32, so the softmax is, and the scalar is not lost.
    let softmax = one("softmax");
    assert_eq!(
        (softmax.result, &softmax.why),
        (Some(F32), &class("internal"))
    );
}

#[test]
fn a_scalar_that_would_be_lost_is_a_reason() {
    policy!(InF16, computing_in(Compute::F16, |_| {}));
    type B = Amp<Flex, InF16>;
    let device = Default::default();
    let x = Tensor::<B, 2>::ones([4, 8], &device);
    let low = x.clone().matmul(x.transpose());
    let recording = diagnose::record::<B>(&device);
    let _ = low + 1e-9;
    let report = recording.finish();
    let [calls] = of(&report, "float_add_scalar")[..] else {
        panic!("{report:#?}")
    };
    assert_eq!(
        (calls.computed_in, &calls.why),
        (Precision::F32, &Why::Scalar)
    );
}

type Model<B> = [Linear<B>; 2];

/// A step of training: a product for each layer, and the step of Adam.
fn step<P: ConfigSource>() -> impl FnMut() {
    type B<P> = Autodiff<Amp<Flex, P>>;
    let device = Default::default();
    let layer = || LinearConfig::new(16, 16).init::<B<P>>(&device);
    let mut model: Model<B<P>> = [layer(), layer()];
    let mut optimizer = AdamConfig::new().init();
    move || {
        let y = model[0].forward(Tensor::<B<P>, 2>::ones([8, 16], &device));
        // The second layer is used twice: its weight is cast once.
        let y = model[1].forward(model[1].forward(y));
        let grads = GradientsParams::from_grads(y.powi_scalar(2).mean().backward(), &model);
        model = optimizer.step(1e-3, model.clone(), grads);
    }
}

#[test]
fn a_training_step_is_reported_per_step_and_the_casts_are_those_of_the_counter() {
    policy!(Counted, in_bf16());
    type B = Autodiff<Amp<Flex, Counted>>;
    let mut step = step::<Counted>();
    let counter = std::sync::Arc::new(CastCounter::default());
    let recording = diagnose::record::<B>(&Default::default());
    set_observer(Some(counter.clone()));
    (0..3).for_each(|_| step());
    set_observer(None);
    let report = recording.finish();
    assert_eq!((report.steps, report.compute), (3, Precision::BF16));

    let products = of(&report, "linear");
    let count: u64 = products.iter().map(|calls| calls.count).sum();
    assert_eq!(count, 9);
    let casts = products.iter().flat_map(|calls| &calls.casts);
    let (made, shared) = casts.fold((0, 0), |(made, shared), cast| {
        (made + cast.made, shared + cast.shared)
    });
    // Per step: the input, and two weights, of which the second one is used again. Biases are read in F32.
    assert_eq!((made, shared), (3 * 3, 3));
    let all = report.calls.iter().flat_map(|calls| &calls.casts);
    let all: u64 = all.map(|cast| cast.made + cast.shared).sum();
    // The counter does not see casts of results, and none of this model is cast.
    assert_eq!(all, counter.count());

    // The step of the optimizer runs in F32, because its operands are gradients.
    let gradients = report
        .calls
        .iter()
        .filter(|calls| calls.why == Why::Gradient);
    let ops: Vec<_> = gradients.clone().map(|calls| &*calls.op).collect();
    assert!(ops.contains(&"float_mul_scalar"), "{ops:?}");
    assert!(
        gradients
            .clone()
            .all(|calls| calls.computed_in == Precision::F32)
    );
    assert_eq!(report.totals().low_flops, 3 * 3 * 2 * 8 * 16 * 16);
}

#[test]
fn a_snapshot_is_the_same_on_every_run_and_changes_with_a_class() {
    policy!(Table, in_bf16());
    policy!(
        Changed,
        Config {
            ops: [(Op::linear, Class::Full)].into(),
            ..in_bf16()
        }
    );
    fn snapshot<P: ConfigSource>() -> String {
        type B<P> = Autodiff<Amp<Flex, P>>;
        let mut step = step::<P>();
        let recording = diagnose::record::<B<P>>(&Default::default());
        step();
        step();
        recording.finish().snapshot()
    }
    let expected = snapshot::<Table>();
    for _ in 0..20 {
        assert_eq!(snapshot::<Table>(), expected);
    }
    says(&expected, "linear  f32, f32, f32 -> bf16  x1  casts 2");
    let changed = snapshot::<Changed>();
    assert_ne!(changed, expected);
    says(&changed, "linear  f32, f32, f32 -> f32  x3\n");
}

policy!(
    InF16,
    Config {
        compute: Compute::F16,
        ..Config::default()
    }
);

#[test]
fn a_sample_says_how_many_values_a_cast_loses_if_it_is_asked_for() {
    type B = Amp<Flex, InF16>;

    let device = Default::default();
    // More values than are read; of four, one is beyond F16, two are below it, and a zero stays one.
    const ROWS: usize = 3 * 1024;
    let rows = [1e6, 1e-9, -1e-9, 0.0].repeat(ROWS);
    let x = Tensor::<B, 2>::from_data(TensorData::new(rows, [ROWS, 4]), &device);
    let product = |x: Tensor<B, 2>| x.matmul(Tensor::eye(4, &device));

    let recording = diagnose::record_with_samples::<B>(&device);
    drop(product(x.clone()));
    let report = recording.finish();
    // Tests on other threads are recorded too.
    let of_this = |report: &Report| -> Vec<_> {
        let calls = of(report, "float_matmul").into_iter();
        let calls = calls.filter(|calls| calls.shapes[0] == [ROWS, 4]);
        calls
            .flat_map(|calls| &calls.casts)
            .map(|cast| cast.sample)
            .collect()
    };
    // One of three values of x, and the 16 of the identity.
    let of_x = 4 * ROWS as u64 / 3;
    let expected = Sample {
        values: of_x + 16,
        overflowed: of_x / 4,
        flushed: of_x / 2,
    };
    assert_eq!(of_this(&report), [expected]);
    let text = report.to_text();
    says(&text, "Values lost in casts");
    assert!(report.to_html().contains("Values lost in casts"));

    let recording = diagnose::record::<B>(&device);
    drop(product(x));
    assert_eq!(of_this(&recording.finish()), [Sample::default()]);
}

#[test]
fn nothing_is_recorded_after_the_end_and_a_dropped_recording_ends() {
    type B = Amp<Flex, InBf16>;
    let device = Default::default();
    let x = Tensor::<B, 1>::ones([4], &device);
    drop(diagnose::record::<B>(&device));
    let recording = diagnose::record::<B>(&device);
    let _ = x.clone().exp();
    let report = recording.finish();
    assert_eq!(report.calls.len(), 1);
    let _ = x.exp();
    assert_eq!(report.calls.len(), 1);
}
