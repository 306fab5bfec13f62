//! Loss scales that do not fit.

use super::*;

#[test]
fn a_static_scale_that_overflows_step_after_step_is_warned_of_once() {
    type B = AmpAutodiff<TooLarge>;
    let of_static = || warnings_with("static loss scale").len();

    assert_eq!(of_static(), 0);
    let weight = Tensor::<B, 1>::ones([2], &here()).require_grad();
    let pass = |factor: f32| {
        (weight.clone() * factor).sum().backward();
    };
    for _ in 0..3 {
        // Nine overflows in a row are not yet step after step.
        (0..9).for_each(|_| pass(f32::NAN));
        pass(1.0);
    }
    assert_eq!(of_static(), 0);

    let losses = train::<B>(layer(), SgdConfig::new().init());
    assert_eq!(losses[0], losses[19]);
    let [warning] = &warnings_with("static loss scale")[..] else {
        panic!("{} warnings", of_static());
    };
    for part in [
        "10 steps in a row",
        "2^40",
        "2 of 2 gradients",
        "loss_scale.init",
    ] {
        assert!(warning.contains(part), "{part}: {warning}");
    }
    let _ = train::<B>(layer(), SgdConfig::new().init());
    assert_eq!(of_static(), 1);
}

policy!(
    AtTheFloor,
    in_f16(|it| {
        it.loss_scale.rule.init = 0.5;
        it.loss_scale.rule.min = 0.5;
    })
);

/// Two losses in turn, of which one overflows at every scale: the other one's small gradients become zeros.
#[test]
fn overflows_at_the_smallest_scale_between_finite_steps_are_warned_of_once() {
    type B = AmpAutodiff<AtTheFloor>;
    let of_smallest = || warnings_with("smallest loss scale").len();

    let weight = Tensor::<B, 1>::ones([2], &here()).require_grad();
    for step in 0..40 {
        assert_eq!(of_smallest(), usize::from(step > 4));
        (weight.clone() * f32::NAN).sum().backward();
        weight.clone().sum().backward();
    }
    let [warning] = &warnings_with("smallest loss scale")[..] else {
        panic!("{} warnings", of_smallest());
    };
    says(warning, "5 times");
    says(warning, "own_loss_scale");
}

policy!(
    Falling,
    in_f16(|it| {
        it.loss_scale.rule.init = 2.0;
        it.loss_scale.rule.search = false;
    })
);

#[test]
fn a_loss_scale_that_falls_below_1_is_warned_of_once() {
    type B = AmpAutodiff<Falling>;
    let of_scale = || warnings_with("the loss scale fell below 1").len();

    let weight = Tensor::<B, 1>::ones([2], &here()).require_grad();
    for step in 0..4 {
        assert_eq!(of_scale(), usize::from(step > 1), "2, 1, 0.5, 0.25");
        (weight.clone() * f32::NAN).sum().backward();
    }
    let [warning] = &warnings_with("the loss scale fell below 1")[..] else {
        panic!("{} warnings", of_scale());
    };
    says(warning, "below 1, to 0.5");
    says(warning, "1 of 1 gradients not finite");
    says(warning, "own_loss_scale");
}

policy!(AtScale1, fixed_at(1.0));
policy!(AtScale16384, fixed_at(16384.0));

fn fixed_at(scale: f32) -> Config {
    in_f16(|it| {
        it.loss_scale.mode = LossScaleMode::Static;
        it.loss_scale.rule.init = scale;
    })
}

/// Ten passes whose gradient is noise of a size, of which one is looked at.
fn small_gradients<B: AutodiffBackend>(noise: &[f32]) {
    let noise = Tensor::<B, 2>::from_data(TensorData::new(noise.to_vec(), [64, 64]), &here());
    let weight = Tensor::<B, 2>::ones([64, 64], &here()).require_grad();
    for _ in 0..10 {
        let y = Tensor::ones([64, 64], &here()).matmul(weight.clone());
        (y * noise.clone()).sum().backward();
    }
}

#[test]
fn gradients_that_f16_flushes_to_zero_are_warned_of_once() {
    const FLUSHED: &str = "f16 flushed at least";
    let of_flushed = || warnings_with(FLUSHED).len();

    // The standard deviation is 1.5 times the least number of F16.
    let normal = Distribution::Normal(0.0, 1.5 * 2f64.powi(-24));
    let noise = Tensor::<burn::backend::Flex, 2>::random([64, 64], normal, &here());
    let noise = noise.values();
    assert_eq!(of_flushed(), 0);
    small_gradients::<AmpAutodiff<AtScale16384>>(&noise);
    assert_eq!(of_flushed(), 0);
    small_gradients::<AmpAutodiff<AtScale1>>(&noise);
    let [warning] = &warnings_with(FLUSHED)[..] else {
        panic!("{} warnings", of_flushed());
    };

    // The oracle is the cast of the values themselves.
    let is_flushed = |x: &&f32| f16::from_f32(**x) == f16::ZERO;
    let flushed = noise.iter().filter(is_flushed).count() as f64 / noise.len() as f64;
    let said = warning.split_once(FLUSHED).unwrap().1;
    let said: f64 = said
        .trim_start()
        .split(' ')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    // A lower bound, in whole percents. Of 4096 elements 0.7 % more or fewer is one standard deviation.
    assert!(said <= flushed * 100.0 + 3.0, "{said} of {flushed}");
    assert!(said >= 10.0 && flushed > 0.2, "{said} of {flushed}");
    says(warning, "of a gradient [64, 64]");
    says(warning, "at a loss scale of 1:");
}
