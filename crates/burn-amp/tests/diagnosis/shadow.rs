//! Ops and gradients against F32.
//!
//! Law: a comparison with F32 tells the error that each op makes, at its line, and nothing once it has ended.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::OnceLock,
};

use crate::common::*;
use burn::tensor::{
    module::{avg_pool2d, conv2d, interpolate},
    ops::{ConvOptions, FloatTensorOps, InterpolateMode, InterpolateOptions},
};
use burn_amp::diagnose::{Report, compare_gradients, record, shadow, shadow_in_f64};
use burn_amp_core::{shadow::ShadowReport, tune::tuned};

policy!(InF16, computing_in(Compute::F16, |_| {}));
policy!(
    SineInF16,
    computing_in(Compute::F16, |it| {
        it.ops = [Op::float_sin, Op::float_mul_scalar]
            .map(|op| (op, Class::Low))
            .into();
    })
);

policy!(InF32, computing_in(Compute::F32, |_| {}));

static TUNED: OnceLock<Config> = OnceLock::new();

policy!(Tuned, TUNED.get().expect("the test has tuned").clone());

type B<P> = Autodiff<Amp<Flex, P>>;

/// A shape that is wrong makes the op panic, in the reference first.
#[test]
fn an_op_that_panics_in_the_reference_leaves_later_reports_of_the_thread() {
    type A = Amp<Flex, InF16>;
    let device = Default::default();
    let seen = || {
        let shadowing = shadow();
        let here = line!() + 2;
        let x = Tensor::<A, 2>::ones([4, 4], &device);
        let y = x.clone().matmul(x);
        let report = shadowing.finish();
        drop(y);
        let is_here = |at: &burn_amp::diagnose::Shadowed| {
            let site = at.site.as_ref();
            site.is_some_and(|site| site.file.ends_with("shadow.rs") && site.line == here)
        };
        report.ops.iter().filter(|at| is_here(at)).count()
    };
    assert_eq!(seen(), 1);
    let shadowing = shadow();
    let wrong = catch_unwind(AssertUnwindSafe(|| {
        let [x, y] = [[2, 3], [4, 5]].map(|shape| Tensor::<A, 2>::ones(shape, &device));
        // Burn checks the shapes above the backend.
        let [x, y] = [x, y].map(|x| x.into_primitive().tensor());
        A::float_matmul(x, y)
    }));
    assert!(wrong.is_err());
    drop(shadowing);
    assert_eq!(seen(), 1);
}

#[derive(Module, Debug)]
struct Net<B: Backend> {
    wave: Param<Tensor<B, 2>>,
    plain: Param<Tensor<B, 2>>,
}

impl<B: Backend> Net<B> {
    fn new(device: &B::Device) -> Self {
        B::seed(device, 1);
        let random = || Tensor::random([16, 16], Distribution::Uniform(0.5, 1.0), device);
        Self {
            wave: Param::from_tensor(random()),
            plain: Param::from_tensor(random()),
        }
    }

    /// The product is in the compute dtype. The angle is some hundred, of which F16 has a quarter or half.
    fn loss(&self) -> Tensor<B, 1> {
        let plain = self.plain.val();
        let wave = (self.wave.val() * 700.0).sin();
        wave.mean() + plain.clone().matmul(plain).mean()
    }
}

#[test]
fn an_op_has_the_error_that_it_makes_at_its_line() {
    let device = Default::default();
    let x = Tensor::<B<InF16>, 2>::random([16, 16], Distribution::Default, &device);
    let shadowing = shadow();
    let here = line!();
    let product = x.clone().matmul(x);
    let sum = product.clone() + product;
    let report = shadowing.finish();
    drop(sum);

    let [matmul, add] = &report.ops[..] else {
        panic!("{report}")
    };
    assert_eq!((&*matmul.op, &*add.op), ("float_matmul", "float_add"));
    assert_eq!((matmul.stored, matmul.calls), (Precision::F16, 1));
    let line = |at: &burn_amp::diagnose::Shadowed| at.site.as_ref().unwrap().line;
    assert_eq!((line(matmul), line(add)), (here + 1, here + 2));
    // Two operands and a result are rounded by 2^-12 each at most on average; the sum of two equal numbers is exact.
    assert!(matmul.worst > 0.0 && matmul.worst < 3.0 * 2f64.powi(-12));
    assert_eq!(add.worst, 0.0);
}

#[test]
fn an_op_in_f32_has_no_error_beside_f32_and_that_of_f32_beside_f64() {
    let device = Default::default();
    let x = Tensor::<B<InF32>, 1>::random([64], Distribution::Default, &device);
    let (narrow, wide) = (shadow(), shadow_in_f64());
    let y = x.clone().exp();
    let (narrow, wide) = (narrow.finish(), wide.finish());

    let [x, y] = [x, y].map(|tensor| tensor.into_data().to_vec::<f32>().unwrap());
    let [exact, found]: [Vec<f64>; 2] = [
        x.iter().map(|x| f64::from(*x).exp()).collect(),
        y.iter().map(|y| f64::from(*y)).collect(),
    ];
    let expected = burn_amp_core::shadow::relative_error(&found, &exact);
    assert!(expected > 0.0);
    assert_eq!(narrow.ops[0].worst, 0.0);
    // Both exponentials in F64 are right to a few units of its epsilon.
    let difference = (wide.ops[0].worst - expected).abs();
    assert!(difference < 8.0 * f64::EPSILON, "{wide}");
}

#[test]
fn nothing_is_compared_after_the_end() {
    let device = Default::default();
    let x = Tensor::<B<InF16>, 2>::ones([4, 4], &device);
    let shadowing = shadow();
    let other = shadow();
    let _ = x.clone().matmul(x.clone());
    assert_eq!(shadowing.finish().ops.len(), 1);
    let _ = x.clone().matmul(x.clone());
    assert_eq!(other.finish().ops.len(), 2, "one at each line");
    drop(shadow());
    let _ = x.clone().matmul(x);
}

#[test]
fn the_gradient_of_an_angle_in_f16_points_elsewhere() {
    let device = Default::default();
    let net = Net::<B<SineInF16>>::new(&device);
    let [wave, plain] = &compare_gradients(&net, &device, Net::loss)[..] else {
        panic!("two parameters have gradients")
    };
    assert_eq!((&*wave.parameter, &*plain.parameter), ("wave", "plain"));
    assert!(wave.cosine < 0.999, "{wave:?}");
    assert!(plain.cosine > 0.99999, "{plain:?}");
    assert!((plain.norm_ratio - 1.0).abs() < 1e-3, "{plain:?}");
}

#[test]
fn a_policy_that_lowers_nothing_has_the_gradients_of_f32() {
    let device = Default::default();
    let net = Net::<B<InF32>>::new(&device);
    for error in compare_gradients(&net, &device, Net::loss) {
        assert!((error.cosine - 1.0).abs() < 1e-12, "{error:?}");
        assert_eq!(error.norm_ratio, 1.0, "{error:?}");
    }
}

/// A sine of some hundred, of which F16 has halves, and a product that moves more than a hundred times as much.
fn wave_and_product<P: ConfigSource>() {
    let device = Default::default();
    let wave = Tensor::<B<P>, 2>::full([16, 16], 700.2, &device).sin();
    let large = Tensor::<B<P>, 2>::ones([400, 400], &device);
    drop((wave, large.clone().matmul(large)));
}

#[test]
fn a_tuned_file_keeps_every_error_under_the_tolerance_for_1_percent_more_bytes_per_op() {
    const TOLERANCE: f64 = 0.01;

    fn measured<P: ConfigSource>() -> (ShadowReport, Report) {
        wave_and_product::<P>();
        let shadowing = shadow();
        wave_and_product::<P>();
        let shadowed = shadowing.finish();
        let recording = record::<B<P>>(&Default::default());
        wave_and_product::<P>();
        (shadowed, recording.finish())
    }
    let bytes = |report: &Report| {
        let totals = report.totals();
        let calls: u64 = totals.ops.values().map(|op| op.bytes).sum();
        (calls + totals.cast_bytes) as f64
    };

    let (before, cost_before) = measured::<SineInF16>();
    let worst = before.first_above(TOLERANCE).expect("the sine").clone();
    assert_eq!(worst.op, "float_sin");
    let proposed = tuned(&before, &cost_before, TOLERANCE);
    let file = proposed.to_string();
    let config = Config::from_toml(&file, Path::new("amp.toml")).unwrap();
    assert_eq!(config.ops[&Op::float_sin], Class::Full, "{file}");
    // The comment says what was measured, and where.
    let place = worst.site.as_ref().unwrap().to_string();
    assert!(file.contains(&place), "{file}");

    TUNED.set(config).unwrap();
    let (after, cost_after) = measured::<Tuned>();
    assert!(after.first_above(TOLERANCE).is_none(), "{after}");
    let more = bytes(&cost_after) / bytes(&cost_before);
    assert!(more <= 1.0 + 0.01 * proposed.ops.len() as f64, "{more}");
}

/// The arguments of a reference go by way of data, whatever they are.
#[test]
fn ops_with_arguments_of_every_kind_are_compared() {
    type A = Amp<Flex, InF16>;
    let device = Default::default();
    let image = Tensor::<A, 4>::ones([1, 2, 6, 6], &device);
    let kernel = Tensor::<A, 4>::ones([3, 2, 3, 3], &device);
    let x = Tensor::<A, 2>::from_floats([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], &device);
    let places = Tensor::<A, 2, Int>::from_ints([[2, 0, 1], [0, 1, 2]], &device);
    let shadowing = shadow();
    let _ = conv2d(
        image.clone(),
        kernel,
        None,
        ConvOptions::new([1, 2], [0, 1], [1, 1], 1),
    );
    let _ = avg_pool2d(image.clone(), [2, 2], [2, 2], [0, 0], true, false);
    let _ = interpolate(
        image,
        [3, 3],
        InterpolateOptions::new(InterpolateMode::Nearest),
    );
    let _ = x.clone().gather(1, places.clone());
    let _ = x.clone().slice([0..2, 1..3]);
    let _ = x.clone().flip([0, 1]);
    let _ = x.clone().expand([4, 2, 3]);
    let _ = x.clone().mask_fill(places.equal_elem(1), f32::NEG_INFINITY);
    let _ = Tensor::cat(vec![x.clone(), x.clone()], 0);
    let _ = x.clone().clamp(1.5, 4.5);
    let _ = x.sort_descending(1);
    let report = shadowing.finish();
    let compared = |op: &str| report.ops.iter().any(|at| at.op == op);
    for op in [
        Op::conv2d,
        Op::avg_pool2d,
        Op::interpolate,
        Op::float_gather,
        Op::float_slice,
        Op::float_flip,
        Op::float_expand,
        Op::float_mask_fill,
        Op::float_cat,
        Op::float_clamp,
        Op::float_sort,
    ] {
        assert!(compared(op.name()), "{op}: {report}");
    }
    assert_eq!(report.first_above(1e-3), None, "{report}");
}
