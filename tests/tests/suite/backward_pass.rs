//! Backward passes: a graph can be used once, facts about a tensor's values are forgotten where the graph is cut, and
//! no pass makes later ones slower.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Instant,
};

use burn::{
    nn::{Linear, LinearConfig},
    optim::{AdamConfig, GradientsParams, Optimizer, SgdConfig, momentum::MomentumConfig},
    tensor::{
        DType, Distribution, Int, Tensor,
        activation::log_softmax,
        backend::{AutodiffBackend, Backend},
    },
};
use burn_amp::{loss_scale, optim::SkipOnDevice, scaling::Outcome};
use burn_amp_tests::{
    AmpAutodiff, Compute, Config, ConfigSource, LossScaleConfig, Plain, PlainAutodiff,
    computing_in, for_each_low_policy, policy,
};

policy!(
    /// F16 with a loss scale that stays on the device.
    OnDevice,
    Config {
        loss_scale: LossScaleConfig {
            sync: false,
            ..LossScaleConfig::default()
        },
        ..computing_in(Compute::F16)
    }
);

fn panics(f: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(f)).is_err()
}

/// Calls `backward()` twice for one graph.
fn twice<B: AutodiffBackend>() {
    let device = Default::default();
    let weight = Tensor::<B, 2>::ones([2, 2], &device).require_grad();
    let loss = weight.clone().matmul(weight).sum();
    loss.clone().backward();
    loss.backward();
}

#[test]
fn a_consumed_graph_is_refused_as_on_the_plain_backend() {
    assert!(panics(twice::<PlainAutodiff>));
    fn refused<P: ConfigSource>() {
        assert!(panics(twice::<AmpAutodiff<P>>));
    }
    for_each_low_policy!(refused);
    refused::<OnDevice>();
}

/// The loss may be a parameter itself, as on the plain backend.
#[test]
fn a_loss_may_be_a_parameter() {
    fn gradient<B: AutodiffBackend>() -> f32 {
        let weight = Tensor::<B, 1>::ones([1], &Default::default()).require_grad();
        let grads = weight.clone().backward();
        weight
            .grad(&grads)
            .unwrap()
            .into_data()
            .iter()
            .next()
            .unwrap()
    }
    fn is_one<P: ConfigSource>() {
        assert_eq!(gradient::<AmpAutodiff<P>>(), 1.0);
    }
    assert_eq!(gradient::<PlainAutodiff>(), 1.0);
    for_each_low_policy!(is_one);
    is_one::<OnDevice>();
}

policy!(
    /// F16, for the one test that counts steps.
    Counted,
    computing_in(Compute::F16)
);

#[test]
fn a_pass_that_reaches_no_parameter_moves_no_scale() {
    type B = AmpAutodiff<Counted>;
    let device = Default::default();
    let weight = Tensor::<B, 1>::ones([2], &device).require_grad();
    let scale = loss_scale::<B>(&device);
    let loss = weight.clone().exp().sum();
    drop(weight);
    let grads = loss.backward();
    assert_eq!(grads.outcome(), Outcome::Finite);
    assert_eq!((scale.steps(), scale.growth_tracker()), (0, 0));
}

#[test]
fn an_f64_loss_is_scaled_on_the_device_in_f64() {
    type B = AmpAutodiff<OnDevice>;
    let device = Default::default();
    if !Plain::supports_dtype(&device, DType::F64) {
        return;
    }
    let weight = Tensor::<B, 1>::from_floats([2.0, 3.0], (&device, DType::F64)).require_grad();
    let grads = weight.clone().square().sum().backward();
    let gradient = weight.grad(&grads).unwrap();
    assert_eq!(
        gradient.into_data().iter::<f64>().collect::<Vec<_>>(),
        [4.0, 6.0]
    );
}

fn logits<B: Backend>(device: &B::Device) -> Tensor<B, 2> {
    Tensor::from_floats([[1.0, 2.0, -1.0]], device)
}

/// Returns two gradients: of a leaf whose values are a log-softmax, and of a weight below a log-softmax cut from the
/// graph. A leaf is a tensor that requires a gradient and is not the result of a recorded op.
fn cut<B: AutodiffBackend>() -> (Option<Vec<f32>>, Option<Vec<f32>>) {
    let device = Default::default();
    let index = Tensor::<B, 2, Int>::from_ints([[1]], &device);
    let values = |grad: Tensor<B::InnerBackend, 2>| grad.into_data().iter::<f32>().collect();

    let leaf = log_softmax(logits::<B>(&device), 1).require_grad();
    let grads = leaf.clone().gather(1, index.clone()).sum().backward();
    let of_leaf = leaf.grad(&grads).map(values);

    let weight = logits::<B>(&device).require_grad();
    let stopped = log_softmax(weight.clone(), 1).set_require_grad(false);
    let loss = stopped.gather(1, index).sum() + weight.clone().sum() * 0.5;
    let grads = loss.backward();
    (of_leaf, weight.grad(&grads).map(values))
}

#[test]
fn what_is_known_of_a_tensor_ends_where_the_graph_is_cut() {
    fn same<P: ConfigSource>() {
        let plain = cut::<PlainAutodiff>();
        assert_eq!(plain.0, Some(vec![0.0, 1.0, 0.0]));
        assert_eq!(cut::<AmpAutodiff<P>>(), plain);
    }
    for_each_low_policy!(same);
}

/// The median time of a step, in microseconds, in the second and in the last tenth of `steps` steps.
fn early_and_late<O>(mut optimizer: O, steps: usize) -> (f64, f64)
where
    O: Optimizer<Linear<AmpAutodiff<OnDevice>>, AmpAutodiff<OnDevice>>,
{
    let device = Default::default();
    let mut model = LinearConfig::new(8, 8).init::<AmpAutodiff<OnDevice>>(&device);
    let x = Tensor::random([4, 8], Distribution::Default, &device);
    let mut took: Vec<f64> = Vec::new();
    for _ in 0..steps {
        let start = Instant::now();
        let loss = model.forward(x.clone()).square().mean();
        let grads = GradientsParams::from_grads(loss.backward(), &model);
        model = optimizer.step(1e-3, model, grads);
        took.push(start.elapsed().as_secs_f64() * 1e6);
    }
    let tenth = steps / 10;
    let median = |part: &[f64]| {
        let mut part = part.to_vec();
        part.sort_by(f64::total_cmp);
        part[part.len() / 2]
    };
    (
        median(&took[tenth..2 * tenth]),
        median(&took[steps - tenth..]),
    )
}

/// A regression test: when the optimizer's state kept all passes, step 1,500 took 19 times as long as step 150.
#[cfg(not(feature = "cubecl"))]
#[test]
fn step_5000_costs_what_step_500_costs() {
    let momentum = || SgdConfig::new().with_momentum(Some(MomentumConfig::new()));
    let runs = [
        ("Adam", early_and_late(AdamConfig::new().init(), 5000)),
        (
            "SkipOnDevice, Adam",
            early_and_late(SkipOnDevice::new(AdamConfig::new()).init(), 5000),
        ),
        ("momentum", early_and_late(momentum().init(), 5000)),
        (
            "SkipOnDevice, momentum",
            early_and_late(SkipOnDevice::new(momentum()).init(), 5000),
        ),
    ];
    for (name, (early, late)) in runs {
        println!("{name}: {early:.0} µs early, {late:.0} µs late");
        // The load of the machine changes the medians of two parts of a run, but hardly by such a factor.
        assert!(
            late < 3.0 * early,
            "{name}: {early:.0} µs early, {late:.0} µs late"
        );
    }
}
