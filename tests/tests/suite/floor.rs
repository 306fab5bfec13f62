//! Law: a loss that needs a scale below 1 trains as in F32, and one bad batch ends no run.

use burn_amp_tests::prelude::*;

type B = AmpAutodiff;

policy!(Default16, computing_in(Compute::F16));
policy!(OnDevice, in_f16(|it| it.loss_scale.sync = false));

/// The weights after a regression with targets of 200,000: the gradient of a prediction is 400,000 times `size`, and no
/// number of F16 is above 65504.
fn large_targets<B: AutodiffBackend>(size: f32) -> Vec<f32> {
    let x = Tensor::<B, 2>::full([4, 8], 1.0, &here());
    let mut weight = Tensor::<B, 2>::full([8, 1], 1.0, &here()).require_grad();
    for _ in 0..40 {
        let loss = (x.clone().matmul(weight.clone()) - 2e5).square().sum() * size;
        let mut grads = loss.backward();
        if let Some(gradient) = weight.grad_remove(&mut grads) {
            let stepped = weight.inner() - gradient * (1e-5 / size);
            weight = Tensor::from_inner(stepped).require_grad();
        }
    }
    weight.values()
}

#[test]
fn gradients_beyond_the_range_of_f16_train_as_in_f32() {
    fn trains() {
        let scale = loss_scale::<B>(&here());
        for size in [1.0, 16.0, 4096.0] {
            scale.reset();
            let expected = large_targets::<PlainAutodiff>(size);
            let found = large_targets::<B>(size);
            scale.settle();
            assert!(scale.scale() < 1.0 && scale.skipped_steps() <= 3);
            // All steps are nearly alike, and two or three of 40 were skipped.
            let made = (40 - scale.skipped_steps()) as f32 / 40.0;
            let ratio = (found[0] - 1.0) / (expected[0] - 1.0);
            assert!((ratio - made).abs() < 0.005, "{ratio}, {made} of the steps");
        }
    }
    under_each!(trains, Default16, OnDevice);
}

/// The losses of a policy gradient on probabilities. This loop once was given up at step 16.
fn policy_gradient<B: AutodiffBackend>() -> Vec<f32> {
    let device = Default::default();
    let record = seeded::<PlainAutodiff, _>(|device| -> Linear<PlainAutodiff> {
        LinearConfig::new(8, 16).init(device)
    });
    let mut model: Linear<B> = load::<B, _>(LinearConfig::new(8, 16).init(&device), record);
    let mut optimizer = SgdConfig::new().init();
    let noise = noise::<B>(8 * 64 + 60, &device);
    (0..60)
        .map(|step| {
            let x = noise.clone().slice(step..step + 512).reshape([64, 8]) * 8.0;
            let actions: Vec<i64> = (0..64).map(|at| (at * 7 + step as i64) % 16).collect();
            let actions = TensorData::new(actions, [64, 1]);
            let actions = Tensor::<B, 2, Int>::from_data(actions, &device);
            let probabilities = softmax(model.forward(x), 1);
            let loss = probabilities.log().gather(1, actions).mean().neg();
            let value = loss.clone().into_data().iter().next().unwrap();
            model = stepped(&mut optimizer, 0.01, loss, model.clone());
            value
        })
        .collect()
}

#[test]
fn a_policy_gradient_on_probabilities_trains_as_in_f32() {
    let _policy = enter_config!(computing_in(Compute::F16));
    let (found, expected) = (policy_gradient::<B>(), policy_gradient::<PlainAutodiff>());
    let scale = loss_scale::<B>(&here());
    let mean = |losses: &[f32]| losses[50..].iter().sum::<f32>() / 10.0;
    let (found_end, end) = (mean(&found), mean(&expected));
    assert!(end < 0.8 * expected[0]);
    assert!((found_end / end - 1.0).abs() < 0.05);
    assert!(scale.skipped_steps() <= 2);
}

/// A scale that starts at its floor, with `patience` and `hysteresis`.
fn at_the_floor(patience: u32, hysteresis: u32, sync: bool) -> Config {
    in_f16(|it| {
        it.loss_scale.rule.init = 0.5;
        it.loss_scale.rule.min = 0.5;
        it.loss_scale.rule.hysteresis = hysteresis;
        it.loss_scale.rule.patience = patience;
        it.loss_scale.sync = sync;
    })
}

/// Makes backward passes, of which those called `I` overflow, until one panics; returns its number and message.
fn passes<P: ConfigSource>(passes: &str) -> Option<(usize, String)> {
    let _policy = enter::<P>();
    let weight = Tensor::<B, 1>::ones([3], &here()).require_grad();
    for (at, pass) in passes.chars().enumerate() {
        let factor = if pass == 'I' { f32::NAN } else { 1.0 };
        let run = || (weight.clone() * factor).sum().backward();
        if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
            return Some((at, panic.downcast_ref::<String>().unwrap().clone()));
        }
    }
    None
}

#[test]
fn one_bad_batch_never_ends_a_run() {
    policy!(
        Default,
        at_the_floor(DynamicLossScale::default().patience, 1, true)
    );
    policy!(Tolerant, at_the_floor(1, 4, true));
    let bad_and_good = "IFFIFIF".repeat(20);
    assert_eq!(passes::<Default>(&bad_and_good), None);
    assert_eq!(passes::<Tolerant>(&bad_and_good), None);
    // Hysteresis 4 tolerates three overflows in a row at the floor as everywhere else.
    assert_eq!(passes::<Tolerant>(&"IIIF".repeat(5)), None);
    assert_eq!(passes::<Tolerant>("IIII").unwrap().0, 3);
}

#[test]
fn giving_up_says_where_how_often_at_which_scale_and_what_to_try() {
    let _policy = enter::<Three>();
    policy!(Three, at_the_floor(3, 1, true));
    let (at, message) = passes::<Three>("FIIFIII").unwrap();
    assert_eq!(at, 6);
    assert_eq!(
        message,
        "loss scale: gradients overflowed in 3 steps in a row, 3 of them at the smallest scale 0.5, so no scale prevents \
         it. The last: step 6, loss scale 0.5: 1 of 1 gradients not finite (#0 f32 [3]). \
         `overflow.locate = \"on_skip\"` says with which op it begins. Look for inf or NaN in the data and in the loss. If `compute = \"f32\"` has none, compute what overflows in f32, with `burn_amp::full_precision(|| ..)` or a class under `[ops]`; \
         or set `compute = \"bf16\"`, which has the range of f32. `loss_scale.min` is the smallest scale, \
         `loss_scale.patience` the number of overflows there after which training is given up [messages#training-is-given-up]"
    );
    // The reason for the end may be repaired, and the process goes on with another run.
    let scale = loss_scale::<B>(&std::default::Default::default());
    scale.reset();
    assert_eq!((scale.steps(), scale.last_skip()), (0, None));
    assert_eq!(passes::<Three>("IIFII"), None);
}

/// With the default configuration the way down from 16 takes two skipped steps, and then 20 follow at the floor.
#[test]
fn a_run_that_is_not_finite_at_any_scale_is_given_up_soon() {
    policy!(Never, computing_in(Compute::F16));
    let (at, message) = passes::<Never>(&"I".repeat(60)).unwrap();
    assert_eq!(at, 21);
    assert!(
        message.starts_with(
            "loss scale: gradients overflowed in 22 steps in a row, 20 of them at the smallest scale 2^-24"
        ),
        "{message}"
    );
}

#[test]
fn giving_up_names_the_parameters_of_an_amp_optimizer() {
    policy!(Named, at_the_floor(3, 1, true));
    policy!(NamedOnDevice, at_the_floor(3, 1, false));
    fn named() {
        type Net = (Linear<B>, Linear<B>);
        let layer = || LinearConfig::new(2, 2).init(&here());
        let mut net: Net = (layer(), layer());
        let mut optimizer = AmpOptimizer::new(SgdConfig::new()).init();
        let mut train = || {
            for _ in 0..5 {
                let loss = net.0.weight.val().sum() + net.1.weight.val().sum() * f32::NAN;
                net = stepped(&mut optimizer, 0.1, loss, net.clone());
            }
            loss_scale::<B>(&here()).settle();
        };
        let panic = catch_unwind(AssertUnwindSafe(&mut train)).unwrap_err();
        let message = panic.downcast_ref::<String>().unwrap();
        says(
            message,
            "1 of 2 gradients not finite (#1 1.weight f32 [2, 2])",
        );
    }
    under_each!(named, Named, NamedOnDevice);
}

#[test]
fn a_late_end_says_that_it_is_late() {
    let _policy = enter::<Late>();
    policy!(Late, at_the_floor(3, 1, false));
    assert_eq!(passes::<Late>("IIIFFFF"), None);
    let scale = loss_scale::<B>(&here());
    assert_eq!(scale.pending_steps(), 7);
    let panic = catch_unwind(AssertUnwindSafe(|| scale.settle())).unwrap_err();
    let message = panic.downcast_ref::<String>().unwrap();
    says(message, "step 2, loss scale 0.5");
    says(
        message,
        "It was 4 steps before the latest: with `loss_scale.sync = false`",
    );
    // A reset asks for nothing that is still on the device.
    assert_eq!(passes::<Late>("III"), None);
    scale.reset();
    assert_eq!((scale.pending_steps(), scale.steps()), (0, 0));
    let weight = Tensor::<B, 1>::ones([3], &here()).require_grad();
    assert_eq!(weight.sum().backward().outcome(), Outcome::Finite);
}
