//! Law: given the same gradients, every optimizer makes the same steps as on the plain backend, bit for bit.

use burn::optim::{LBFGSConfig, LineSearchFn};
use burn_amp_tests::prelude::*;

/// A configuration that makes an optimizer for any backend.
trait Make {
    fn make<B: AutodiffBackend>(
        &self,
        clipping: Option<&GradientClippingConfig>,
    ) -> impl Optimizer<Linear<B>, B>;
}

/// A macro, because Burn's configurations share no trait.
macro_rules! make {
    ($($config:ty),+) => {
        $(impl Make for $config {
            fn make<B: AutodiffBackend>(
                &self,
                clipping: Option<&GradientClippingConfig>,
            ) -> impl Optimizer<Linear<B>, B> {
                let optimizer = self.init();
                match clipping {
                    Some(clipping) => optimizer.with_grad_clipping(clipping.init()),
                    None => optimizer,
                }
            }
        })+
    };
}

make!(
    SgdConfig,
    AdamConfig,
    AdamWConfig,
    AdaGradConfig,
    RmsPropConfig,
    AdanConfig,
    MuonConfig
);

const INPUTS: usize = 6;
const OUTPUTS: usize = 4;

/// A layer without bias, because Muon accepts matrices only.
fn layer<B: AutodiffBackend>() -> Linear<B> {
    LinearConfig::new(INPUTS, OUTPUTS)
        .with_bias(false)
        .init(&here())
}

/// A loss whose gradient is known bit for bit, because the backward pass only multiplies by 1 and by the loss scale.
fn linear_loss<B: AutodiffBackend>(layer: &Linear<B>, step: usize) -> Tensor<B, 1> {
    let device = layer.weight.val().device();
    let values = noise::<B>(INPUTS * OUTPUTS + step, &device).slice([step..]);
    (layer.weight.val() * values.reshape([INPUTS, OUTPUTS])).sum()
}

/// Makes six steps; after the third, the optimizer is saved and another one loads its record.
fn steps<B: AutodiffBackend>(
    config: &impl Make,
    clipping: Option<&GradientClippingConfig>,
    start: &[u8],
) -> Vec<u8> {
    let mut model = load::<B, _>(layer(), start.to_vec());
    let mut optimizer = config.make::<B>(clipping);
    for step in 0..6 {
        if step == 3 {
            optimizer = reloaded(&optimizer, config.make::<B>(clipping));
        }
        let grads = linear_loss(&model, step).backward();
        let grads = GradientsParams::from_grads(grads, &model);
        assert_eq!(grads.len(), 1);
        model = optimizer.step(0.05, model, grads);
    }
    save::<B, _>(model)
}

fn same_steps(config: impl Make) {
    let start = seeded::<PlainAutodiff, _>(|_| layer());
    let clippings = [
        None,
        // Gradients are at most 1, and their norm is about √24 / 2.
        Some(GradientClippingConfig::Value(0.3)),
        Some(GradientClippingConfig::Norm(0.7)),
    ];
    for clipping in &clippings {
        let clipping = clipping.as_ref();
        let plain = steps::<PlainAutodiff>(&config, clipping, &start);
        assert!(plain != start);

        for_each_low_policy!(|| {
            let amp = steps::<AmpAutodiff>(&config, clipping, &start);
            assert!(amp == plain, "{clipping:?}");
        });
    }
}

#[test]
fn sgd_takes_the_plain_steps() {
    same_steps(SgdConfig::new());
    let momentum = MomentumConfig::new().with_momentum(0.9).with_dampening(0.1);
    for nesterov in [false, true] {
        same_steps(
            SgdConfig::new()
                .with_weight_decay(Some(WeightDecayConfig::new(0.05)))
                .with_momentum(Some(momentum.clone().with_nesterov(nesterov))),
        );
    }
}

#[test]
fn adam_takes_the_plain_steps() {
    same_steps(AdamConfig::new());
    same_steps(AdamConfig::new().with_amsgrad(true));
    same_steps(AdamConfig::new().with_weight_decay(Some(WeightDecayConfig::new(0.05))));
}

#[test]
fn adam_w_takes_the_plain_steps() {
    same_steps(AdamWConfig::new());
    same_steps(AdamWConfig::new().with_cautious_weight_decay(true));
}

#[test]
fn ada_grad_takes_the_plain_steps() {
    same_steps(AdaGradConfig::new().with_lr_decay(0.1));
}

#[test]
fn rms_prop_takes_the_plain_steps() {
    same_steps(RmsPropConfig::new());
    same_steps(RmsPropConfig::new().with_centered(true));
}

#[test]
fn adan_takes_the_plain_steps() {
    same_steps(AdanConfig::new().with_weight_decay(0.05));
}

#[test]
fn muon_takes_the_plain_steps() {
    same_steps(MuonConfig::new());
    same_steps(MuonConfig::new().with_weight_decay(Some(WeightDecayConfig::new(0.05))));
}

/// L-BFGS takes a function for losses and gradients, here of a quadratic function in F32. Burn does not save its state.
#[test]
fn l_bfgs_takes_the_plain_steps() {
    fn minimize<B: AutodiffBackend>(line_search: LineSearchFn, start: &[u8]) -> (Vec<u8>, f64) {
        let mut optimizer = LBFGSConfig::new()
            .with_max_iter(4)
            .with_line_search_fn(line_search)
            .init::<B>();
        let mut model = load::<B, _>(layer(), start.to_vec());
        let mut last = f64::INFINITY;
        for _ in 0..3 {
            (model, last) = optimizer.step(0.5, model, |model| {
                let device = model.weight.val().device();
                let target = noise::<B>(INPUTS * OUTPUTS, &device).reshape([INPUTS, OUTPUTS]);
                let curvature = noise::<B>(INPUTS, &device).reshape([INPUTS, 1]) + 1.5;
                let loss = ((model.weight.val() - target).square() * curvature).sum();
                let value = loss.clone().into_scalar().elem();
                (value, GradientsParams::from_grads(loss.backward(), &model))
            });
        }
        (save::<B, _>(model), last)
    }

    fn same() {
        let start = seeded::<PlainAutodiff, _>(|_| layer());
        for line_search in [LineSearchFn::None, LineSearchFn::StrongWolfe] {
            let plain = minimize::<PlainAutodiff>(line_search, &start);
            assert!(plain.1 < 1e-3, "{}", plain.1);
            assert!(
                minimize::<AmpAutodiff>(line_search, &start) == plain,
                "{line_search:?}"
            );
        }
    }
    for_each_low_policy!(same);
}
