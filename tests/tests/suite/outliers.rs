//! Law: a step with outlying gradients leaves no trace, if `gradients.max_norm_ratio` says which are.

use burn_amp::config::GradientsConfig;
use burn_amp_tests::prelude::*;

fn guarded(max_norm_ratio: u32) -> Config {
    in_f16(|it| {
        it.gradients = GradientsConfig { max_norm_ratio };
        it.loss_scale.rule.init = 16.0;
        it.loss_scale.rule.search = false;
    })
}

policy!(Guarded, guarded(8));
policy!(Unguarded, guarded(0));
policy!(OnDevice, {
    let guarded = guarded(8);
    Config {
        loss_scale: LossScaleConfig {
            sync: false,
            ..guarded.loss_scale
        },
        ..guarded
    }
});

type B = AmpAutodiff;

#[derive(Module, Debug)]
struct Net<B: Backend> {
    weight: Param<Tensor<B, 1>>,
}

/// Steps with gradients of these norms; returns the weight after each.
fn weights<O: Optimizer<Net<B>, B>>(
    optimizer: &mut O,
    norms: impl IntoIterator<Item = f32>,
) -> Vec<f32> {
    let mut net = Net {
        weight: Param::from_tensor(Tensor::<B, 1>::zeros([1], &here()).require_grad()),
    };
    let step = |norm: f32| {
        let loss = (net.weight.val() * norm).sum();
        net = stepped(optimizer, 1e-3, loss, net.clone());
        net.weight.val().to_data().iter::<f32>().next().unwrap()
    };
    norms.into_iter().map(step).collect()
}

/// Twenty norms of about 1, an outlier, and two more.
fn norms() -> Vec<f32> {
    let mut norms: Vec<_> = (0..20).map(|at| 1.0 + at as f32 / 32.0).collect();
    norms.extend([100.0, 1.0, 9.0]);
    norms
}

fn skips_the_outlier() {
    let mut optimizer = AmpOptimizer::new(AdamConfig::new()).init::<B, Net<B>>();
    let weights = weights(&mut optimizer, norms());
    // All steps but the one with the outlier are made, and with the bits of a run that never saw it.
    let mut without = norms();
    without.remove(20);
    let (plain, mut expected) = within::<Unguarded, _>(|| {
        let mut plain = AmpOptimizer::new(AdamConfig::new()).init::<B, Net<B>>();
        let expected = self::weights(&mut plain, without);
        (plain, expected)
    });
    expected.insert(20, expected[19]);
    assert_eq!(weights, expected);
    assert_eq!(
        (optimizer.skipped_outliers(), plain.skipped_outliers()),
        (1, 0)
    );
}

#[test]
fn a_step_with_an_outlier_is_skipped_as_if_it_had_not_been() {
    under_each!(skips_the_outlier, Guarded, OnDevice);
}

#[test]
fn clipping_looks_at_the_norm_before() {
    let _policy = enter::<Guarded>();
    let sgd = || SgdConfig::new().init::<B, Net<B>>();
    let mut optimizer = LossScaleOptimizer::new(sgd()).with_clipping(Clipping::GlobalNorm(1.0));
    let weights = weights(&mut optimizer, norms());
    assert_eq!(optimizer.skipped_outliers(), 1);
    assert_eq!(weights[20], weights[19]);
    assert!(weights[21] < weights[20]);
}

#[test]
fn without_the_key_an_outlier_is_stepped() {
    let _policy = enter::<Unguarded>();
    let mut optimizer = AmpOptimizer::new(SgdConfig::new()).init::<B, Net<B>>();
    let weights = weights(&mut optimizer, norms());
    assert!(weights[20] < weights[19] - 0.05);
    assert_eq!(optimizer.skipped_outliers(), 0);
}
