//! Mistakes of training programs, made on purpose: `cargo xtask mistakes` collects what they say.
//!
//! Run with the name of a mistake, it makes that one; most end in a panic. Without a name it lists them, each with what
//! is wrong.

use std::{env, process::ExitCode};

use burn::{backend::Flex, module::ParamId, optim::Adam, record::NamedMpkBytesRecorder};
use burn_amp::{
    Amp, Autodiff,
    config::{Locate, OverflowConfig, ReportConfig},
    optim::GradScaler,
};
use burn_amp_tests::prelude::*;

type B = Autodiff<Amp<Flex>>;

struct Mistake {
    name: &'static str,
    what: &'static str,
    make: fn(),
}

const MISTAKES: &[Mistake] = &[
    Mistake {
        name: "nothing_lowered",
        what: "`compute = \"auto\"` on a CPU",
        make: || configure(Config::default()),
    },
    Mistake {
        name: "configured_too_late",
        what: "`configure` after the first tensor",
        make: || {
            let _ = Tensor::<B, 1>::ones([1], &here());
            configure(in_f16());
        },
    },
    Mistake {
        name: "configured_twice",
        what: "`configure` a second time",
        make: || {
            configure(in_f16());
            configure(in_f16());
        },
    },
    Mistake {
        name: "wrong_number_in_code",
        what: "`loss_scale.rule.init = 1000.0` in code",
        make: || {
            let mut config = in_f16();
            config.loss_scale.rule.init = 1000.0;
            configure(config);
        },
    },
    Mistake {
        name: "preset_in_code",
        what: "`compute = Compute::F16` in code, with `preset = Preset::O0`",
        make: || {
            configure(Config {
                preset: Preset::O0,
                ..in_f16()
            });
        },
    },
    Mistake {
        name: "burns_autodiff",
        what: "`burn::backend::Autodiff<Amp<Flex>>`: Burn's `Autodiff`, not burn-amp's",
        make: || {
            type Outside = burn::backend::Autodiff<Amp<Flex>>;
            burn_amp::configure::<Amp<Flex>>(&here(), in_f16()).expect("it is valid");
            train::<Outside>(layer(), AdamConfig::new().init(), 1, 1.0);
        },
    },
    Mistake {
        name: "preset_alone",
        what: "`preset = \"o2\"` without `cast_params`",
        make: || {
            configure(with_preset(Preset::O2));
            train::<B>(layer(), AdamConfig::new().init(), 1, 1.0);
        },
    },
    Mistake {
        name: "plain_optimizer_and_half_parameters",
        what: "`preset = \"o2\"` with `cast_params` and Burn's own Adam",
        make: || {
            configure(with_preset(Preset::O2));
            train::<B>(cast_params(layer()), AdamConfig::new().init(), 1, 1.0);
        },
    },
    Mistake {
        name: "plain_optimizer_without_sync",
        what: "`loss_scale.sync = false` with Burn's own Adam",
        make: || {
            configure(without_sync());
            train::<B>(layer(), AdamConfig::new().init(), 2, 1.0);
        },
    },
    Mistake {
        name: "plain_adamw_without_sync",
        what: "the same with Burn's own AdamW and weight decay",
        make: || {
            configure(without_sync());
            let adamw = AdamWConfig::new().with_weight_decay(0.1);
            train::<B>(layer(), adamw.init(), 2, 1.0);
        },
    },
    Mistake {
        name: "loss_scale_optimizer_without_sync",
        what: "`loss_scale.sync = false` with `LossScaleOptimizer::new` around Burn's own Adam",
        make: || {
            configure(without_sync());
            let adam: OptimizerAdaptor<Adam, Linear<B>, B> = AdamConfig::new().init();
            train::<B>(layer(), LossScaleOptimizer::new(adam), 2, 1.0);
        },
    },
    Mistake {
        name: "static_scale",
        what: "`loss_scale.mode = \"static\"` at 2^127",
        make: || {
            let mut config = in_f16();
            config.loss_scale.mode = LossScaleMode::Static;
            config.loss_scale.rule.init = 2f32.powi(127);
            configure(config);
            train::<B>(layer(), AdamConfig::new().init(), 12, 1.0);
        },
    },
    Mistake {
        name: "data_with_inf",
        what: "a feature that is inf in every batch",
        make: || {
            configure(in_f16());
            let optimizer = AmpOptimizer::new(AdamConfig::new()).init();
            train::<B>(layer(), optimizer, 100, f32::INFINITY);
        },
    },
    Mistake {
        name: "data_with_inf_located",
        what: "the same with `overflow.locate = \"always\"` and `loss_scale.max_skips = 2`",
        make: || {
            let mut config = in_f16();
            config.overflow.locate = Locate::Always;
            config.loss_scale.max_skips = 2;
            configure(config);
            let optimizer = AmpOptimizer::new(AdamConfig::new()).init();
            train::<B>(layer(), optimizer, 100, f32::INFINITY);
        },
    },
    Mistake {
        name: "cast_that_overflows_located",
        what: "the same with features of 1e6 that an op has made",
        make: || {
            let mut config = in_f16();
            config.overflow.locate = Locate::Always;
            config.loss_scale.max_skips = 2;
            configure(config);
            let (mut model, device) = (layer::<B>(), Default::default());
            let mut optimizer = AmpOptimizer::new(AdamConfig::new()).init();
            for _ in 0..100 {
                let x = Tensor::<B, 2>::ones([2, 4], &device) * 1e6;
                let grads = model.forward(x).square().mean().backward();
                let grads = GradientsParams::from_grads(grads, &model);
                model = optimizer.step(0.05, model, grads);
            }
        },
    },
    Mistake {
        name: "sum_that_needs_a_scale_below_1",
        what: "a loss whose gradients are beyond 65504 without a scale",
        make: || {
            let mut config = in_f16();
            config.loss_scale.rule.init = 1.0;
            config.loss_scale.rule.search = false;
            configure(config);
            let w = Tensor::<B, 2>::ones([2, 2], &here()).require_grad();
            (w.clone().matmul(w.clone()) * 1e5).sum().backward();
            // Gradients of tensors that still exist are checked.
            drop(w);
        },
    },
    Mistake {
        name: "gradients_flushed_to_zero",
        what: "a static scale of 1 and a loss of 1e-7 times an activation",
        make: || {
            let mut config = in_f16();
            config.loss_scale.mode = LossScaleMode::Static;
            config.loss_scale.rule.init = 1.0;
            configure(config);
            let device = Default::default();
            let factors = Tensor::<B, 1, Int>::arange(1..257, &device).float() * 1e-9;
            let w = Tensor::<B, 2>::ones([1, 256], &device).require_grad();
            for _ in 0..8 {
                let y = Tensor::<B, 2>::ones([1, 1], &device).matmul(w.clone());
                (y * factors.clone().unsqueeze()).sum().backward();
            }
        },
    },
    Mistake {
        name: "gradients_that_vanish",
        what: "ten steps in f16 without loss scaling, whose gradients are below 2^-25",
        make: || {
            let mut config = in_f16();
            config.loss_scale.mode = LossScaleMode::Off;
            configure(config);
            let device = Default::default();
            let w = Tensor::<B, 2>::ones([16, 16], &device).require_grad();
            for _ in 0..10 {
                let y = Tensor::<B, 2>::ones([16, 16], &device).matmul(w.clone());
                (y * 1e-9).sum().backward();
            }
        },
    },
    Mistake {
        name: "overflow_in_bf16",
        what: "a sum beyond the range of bf16, with `overflow.locate = \"always\"`",
        make: || {
            configure(Config {
                compute: Compute::Bf16,
                overflow: OverflowConfig {
                    locate: Locate::Always,
                },
                ..Config::default()
            });
            let x = Tensor::<B, 2>::full([2, 2], 3e38, &here()).require_grad();
            x.clone().matmul(x).sum().backward();
        },
    },
    Mistake {
        name: "two_backward_passes",
        what: "`backward()` on a clone of a loss that `backward()` has consumed",
        make: || {
            configure(in_f16());
            let x = Tensor::<B, 1>::ones([2], &here()).require_grad();
            let loss = x.exp().sum();
            loss.clone().backward();
            loss.backward();
        },
    },
    Mistake {
        name: "record_of_a_plain_optimizer",
        what: "the record of Burn's own Adam, loaded into an `AmpOptimizer`",
        make: || {
            let adam: OptimizerAdaptor<Adam, Linear<B>, B> = AdamConfig::new().init();
            load_into_adam(adam);
        },
    },
    Mistake {
        name: "record_of_another_optimizer",
        what: "the record of an `AmpOptimizer` over SGD, loaded into one over Adam",
        make: || {
            let sgd = SgdConfig::new().with_momentum(Some(MomentumConfig::new()));
            load_into_adam(AmpOptimizer::new(sgd).init());
        },
    },
    Mistake {
        name: "report_that_cannot_be_written",
        what: "`report.output` in a folder that does not exist",
        make: || {
            configure(Config {
                report: ReportConfig {
                    steps: 1,
                    output: "no/such/folder/report".into(),
                    ..ReportConfig::default()
                },
                ..in_f16()
            });
            train::<B>(layer(), AdamConfig::new().init(), 4, 1.0);
        },
    },
    Mistake {
        name: "scaler_with_a_wrong_scale",
        what: "`GradScaler::new` with a scale of 1000",
        make: || {
            let rule = DynamicLossScale {
                init: 1000.0,
                ..DynamicLossScale::default()
            };
            GradScaler::new(rule).map_or_else(|error| eprintln!("{error}"), drop);
        },
    },
    Mistake {
        name: "scaler_set_to_a_wrong_scale",
        what: "`GradScaler::set_scale(1000.0)`",
        make: || {
            let mut scaler = GradScaler::new(DynamicLossScale::default()).expect("it is valid");
            let set = scaler.set_scale(1000.0);
            set.map_or_else(|error| eprintln!("{error}"), drop);
        },
    },
    Mistake {
        name: "scaler_updated_twice",
        what: "`GradScaler::update()` without gradients",
        make: || {
            let mut scaler = GradScaler::new(DynamicLossScale::default()).expect("it is valid");
            scaler
                .update()
                .map_or_else(|error| eprintln!("{error}"), drop);
        },
    },
];

fn in_f16() -> Config {
    Config {
        compute: Compute::F16,
        ..Config::default()
    }
}

fn with_preset(preset: Preset) -> Config {
    Config {
        preset,
        compute: Compute::Bf16,
        ..Config::default()
    }
}

fn without_sync() -> Config {
    Config {
        loss_scale: LossScaleConfig {
            sync: false,
            ..LossScaleConfig::default()
        },
        ..in_f16()
    }
}

#[track_caller]
fn configure(config: Config) {
    if let Err(error) = burn_amp::configure::<B>(&here(), config) {
        eprintln!("{error}");
    }
}

/// Loads what an optimizer saves after a step into an `AmpOptimizer` over Adam.
fn load_into_adam(mut optimizer: impl Optimizer<Linear<B>, B>) {
    type Loaded = <LossScaleOptimizer<AmpAdaptor<AdamConfig, Linear<B>, B>> as Optimizer<
        Linear<B>,
        B,
    >>::Record;

    configure(in_f16());
    // The record of a plain optimizer has the ids of the parameters as its fields, which are random otherwise.
    let mut model = layer::<B>();
    model.bias = None;
    model.weight.id = ParamId::from(1);
    let x = Tensor::<B, 2>::ones([2, 4], &here());
    let _ = stepped(&mut optimizer, 0.05, model.forward(x).mean(), model);
    let recorder = NamedMpkBytesRecorder::<FullPrecisionSettings>::default();
    let saved = Recorder::<B>::record(&recorder, optimizer.to_record(), ());
    let saved = saved.expect("a record can be written to memory");
    if let Err(error) = Recorder::<B>::load::<Loaded>(&recorder, saved, &here()) {
        eprintln!("{error}");
    }
}

fn layer<A: Backend>() -> Linear<A> {
    A::seed(&here(), 42);
    LinearConfig::new(4, 3).init(&here())
}

fn train<A: AutodiffBackend>(
    mut model: Linear<A>,
    mut optimizer: impl Optimizer<Linear<A>, A>,
    steps: usize,
    feature: f32,
) {
    for _ in 0..steps {
        let x = Tensor::<A, 2>::full([2, 4], feature, &here());
        let grads = model.forward(x).square().mean().backward();
        let grads = GradientsParams::from_grads(grads, &model);
        model = optimizer.step(0.05, model, grads);
    }
}

fn main() -> ExitCode {
    let Some(name) = env::args().nth(1) else {
        for Mistake { name, what, .. } in MISTAKES {
            println!("{name}\t{what}");
        }
        return ExitCode::SUCCESS;
    };
    match MISTAKES.iter().find(|mistake| mistake.name == name) {
        Some(mistake) => {
            (mistake.make)();
            ExitCode::SUCCESS
        }
        None => {
            eprintln!("no mistake has the name `{name}`");
            ExitCode::FAILURE
        }
    }
}
