//! Law: each of Burn's optimizers without burn-amp's gets the warnings that a plain optimizer deserves, whatever ops
//! its step is made of.
//!
//! A warning is given once per process, so each optimizer trains in a process of its own: this same test binary.

use std::{env, process::Command};

use burn::optim::LBFGSConfig;
use burn_amp::{config::ParamPattern, optim::clip};
use burn_amp_tests::{apart::AmpAutodiff, prelude::*};

policy!(WithoutSync, in_f16(|it| it.loss_scale.sync = false));
policy!(O2, in_bf16(|it| it.preset = Preset::O2));
policy!(
    Named,
    in_bf16(|it| {
        it.parameters = [(ParamPattern::new("weight").unwrap(), Class::Full)].into();
    })
);

/// What a warning contains.
const UNDECIDED: &str =
    "a plain optimizer stepped with gradients whose outcome is still on the device";
const LOW: &str = "a plain optimizer stepped a parameter that is stored in bf16";
const NAMELESS: &str = "those that a plain optimizer makes in its step have none";

/// The optimizers of Burn, with weight decay where they have it.
const PLAIN: [&str; 10] = [
    "adam",
    "adam_decay",
    "adamw",
    "adamw_decay",
    "sgd",
    "adagrad",
    "rmsprop",
    "adan",
    "muon",
    "lbfgs",
];
/// Optimizers of burn-amp, and wrappers that need none of these warnings.
const OURS: [&str; 3] = ["amp_adamw", "amp_muon", "clipped_masters"];

type Layer<B> = Linear<B>;

fn loss<B: AutodiffBackend>(model: &Layer<B>) -> Tensor<B, 1> {
    let x = Tensor::<B, 2>::from_floats([[1.0, -0.5, 0.25, 2.0], [0.5, 1.5, -1.0, 0.0]], &here());
    (model.forward(x) - 0.5).square().mean()
}

fn train<B: AutodiffBackend>(mut model: Layer<B>, mut optimizer: impl Optimizer<Layer<B>, B>) {
    for _ in 0..3 {
        model = stepped(&mut optimizer, 0.05, loss(&model), model);
    }
}

/// Trains a model with an optimizer. A macro, because `B` is another type in each use, and bounds that name what all of
/// them need are longer than it.
macro_rules! train_with {
    ($B:ty, $model:expr, $name:expr) => {{
        let model: Layer<$B> = $model;
        let decay = || Some(WeightDecayConfig::new(0.1));
        match $name {
            "adam" => train(model, AdamConfig::new().init()),
            "adam_decay" => train(model, AdamConfig::new().with_weight_decay(decay()).init()),
            "adamw" => train(model, AdamWConfig::new().with_weight_decay(0.0).init()),
            "adamw_decay" => train(model, AdamWConfig::new().with_weight_decay(0.1).init()),
            "sgd" => {
                let momentum = Some(MomentumConfig::new());
                let sgd = SgdConfig::new().with_momentum(momentum);
                train(model, sgd.with_weight_decay(decay()).init());
            }
            "adagrad" => train(
                model,
                AdaGradConfig::new().with_weight_decay(decay()).init(),
            ),
            "rmsprop" => train(
                model,
                RmsPropConfig::new().with_weight_decay(decay()).init(),
            ),
            "adan" => train(model, AdanConfig::new().with_weight_decay(0.1).init()),
            "muon" => train(model, MuonConfig::new().with_weight_decay(decay()).init()),
            "lbfgs" => {
                let mut optimizer = LBFGSConfig::new().with_max_iter(2).init::<$B>();
                let _ = optimizer.step(0.05, model, |model: Layer<$B>| {
                    let loss = loss(&model);
                    let value = loss.clone().into_data().iter::<f64>().next().unwrap();
                    (value, GradientsParams::from_grads(loss.backward(), &model))
                });
            }
            "amp_adamw" => {
                let adamw = AdamWConfig::new().with_weight_decay(0.1);
                train(
                    model,
                    AmpOptimizer::new(adamw)
                        .with_clipping(Clipping::GlobalNorm(0.1))
                        .init(),
                );
            }
            "amp_muon" => {
                let muon = MuonConfig::new().with_weight_decay(decay());
                train(model, AmpOptimizer::new(muon).init());
            }
            "clipped_masters" => {
                let adamw = AdamWConfig::new().with_weight_decay(0.1);
                let mut optimizer = LossScaleOptimizer::new(MasterWeights::new(adamw).init());
                let mut grads = GradientsParams::from_grads(loss(&model).backward(), &model);
                clip::<$B, _>(&mut grads, &model, Clipping::GlobalNorm(0.1));
                let _ = optimizer.step(0.05, model, grads);
            }
            name => panic!("there is no optimizer `{name}`"),
        }
    }};
}

fn layer<B: AutodiffBackend>() -> Layer<B> {
    // Muon steps matrices only.
    LinearConfig::new(4, 3).with_bias(false).init(&here())
}

/// The variable that names the optimizer of the child process.
const OPTIMIZER: &str = "BURN_AMP_TESTS_OPTIMIZER";

#[test]
#[ignore = "the child process of the other tests"]
fn child() {
    let run = env::var(OPTIMIZER).unwrap();
    let (policy, name) = run.split_once(' ').unwrap();
    match policy {
        "without_sync" => train_with!(AmpAutodiff<WithoutSync>, layer(), name),
        "o2" => train_with!(AmpAutodiff<O2>, cast_params(layer()), name),
        "named" => {
            let model = layer();
            name_parameters(&model);
            train_with!(AmpAutodiff<Named>, model, name);
        }
        other => panic!("there is no policy `{other}`"),
    }
}

/// How often a process that trains says `warning`.
fn said(policy: &str, name: &str, warning: &str) -> usize {
    let child = Command::new(env::current_exe().unwrap())
        .args(["child", "--exact", "--ignored", "--nocapture"])
        .env(OPTIMIZER, format!("{policy} {name}"))
        .output()
        .unwrap();
    let text = String::from_utf8(child.stderr).unwrap();
    assert!(child.status.success(), "{policy} {name}: {text}");
    text.matches(warning).count()
}

#[test]
fn every_optimizer_of_burn_is_warned_of_and_none_of_ours() {
    for (policy, warning) in [
        ("without_sync", UNDECIDED),
        ("o2", LOW),
        ("named", NAMELESS),
    ] {
        for name in PLAIN {
            assert_eq!(said(policy, name, warning), 1, "{policy} {name}");
        }
        let tells_no_names = |name: &str| policy == "named" && name == "skip_and_masters";
        for name in OURS.into_iter().filter(|name| !tells_no_names(name)) {
            assert_eq!(said(policy, name, warning), 0, "{policy} {name}");
        }
    }
}
