//! Law: one optimizer entry equals the steps written by hand, bit for bit, under every policy.

mod masters;

mod records;

use burn_amp::optim::{MasterModel, clip};
use burn_amp_tests::{
    net::{Net, poisoned},
    prelude::*,
    trace::{Trace, calls},
};

fn config(preset: Preset, sync: bool) -> Config {
    in_f16(|it| {
        it.preset = preset;
        // Static, because the runs share a scale, which would otherwise fall at each overflow.
        it.loss_scale.mode = LossScaleMode::Static;
        it.loss_scale.rule.init = 256.0;
        it.loss_scale.sync = sync;
    })
}

policy!(O1Waits, config(Preset::O1, true));
policy!(O1Goes, config(Preset::O1, false));
policy!(O2Waits, config(Preset::O2, true));
policy!(O2Goes, config(Preset::O2, false));

type B = AmpAutodiff;

const STEPS: usize = 12;
/// The micro-batches that overflow: the first, the second or both of a step, and those of two steps in a row.
const OVERFLOWS: [usize; 6] = [0, 5, 8, 9, 10, 17];

fn net<P: ConfigSource>() -> Net<B> {
    let _policy = enter::<P>();
    cast_params(Net::seeded())
}

/// The gradients of one micro-batch; after an overflow they are missing or zeros.
fn grads<B: AutodiffBackend>(net: &Net<B>, batch: usize) -> GradientsParams {
    let loss = if OVERFLOWS.contains(&batch) {
        poisoned(net, batch % 5, f32::INFINITY).0
    } else {
        poisoned(net, batch % 5, batch as f32 / 8.0).0
    };
    GradientsParams::from_grads(loss.backward(), net)
}

/// The number of micro-batches of a step.
#[derive(Clone, Copy, Debug)]
enum Batch {
    Single,
    OfTwo,
}

impl Batch {
    /// The micro-batches of a step.
    fn parts(self, step: usize) -> std::ops::Range<usize> {
        match self {
            Self::Single => step..step + 1,
            Self::OfTwo => 2 * step..2 * step + 2,
        }
    }
}

/// Trains with an optimizer, which is saved and loaded halfway, and returns the parameters at the end.
fn train<P, O>(mut optimizer: O, batch: Batch) -> Vec<u8>
where
    P: ConfigSource,
    O: Optimizer<Net<B>, B>,
{
    let _policy = enter::<P>();
    let mut net = net::<P>();
    for step in 0..STEPS {
        let mut sum = GradientsAccumulator::new();
        for part in batch.parts(step) {
            sum.accumulate(&net, grads(&net, part));
        }
        net = optimizer.step(0.05, net, sum.grads());
        if step == STEPS / 2 {
            let record = bytes_of::<B>(optimizer.to_record());
            optimizer = optimizer.load_record(from_bytes::<B, _>(record));
        }
    }
    save::<B, _>(net)
}

/// Makes the policy's steps by hand: Burn's optimizer steps an F32 model, and the trained model is its rounded copy. A
/// step is left out if a part of its batch overflowed.
fn by_hand<P, C>(config: &C, clipping: Option<Clipping>, batch: Batch) -> Vec<u8>
where
    P: ConfigSource,
    C: OptimizerConfig<Amp>,
{
    let _policy = enter::<P>();
    assert!(P::config().unwrap().loss_scale.sync, "the host decides");
    let mut optimizer = config.adaptor::<B, Net<B>>();
    let mut net = net::<P>();
    let mut masters = cast_params_to(net.clone(), Preset::O1, Precision::F16);
    for step in 0..STEPS {
        let mut sum = GradientsAccumulator::new();
        for part in batch.parts(step) {
            sum.accumulate(&net, grads(&net, part));
        }
        if batch.parts(step).any(|part| OVERFLOWS.contains(&part)) {
            continue;
        }
        let mut grads = sum.grads();
        if let Some(clipping) = clipping {
            clip::<B, _>(&mut grads, &net, clipping);
        }
        masters = optimizer.step(0.05, masters, grads);
        net = cast_params(masters.clone());
    }
    save::<B, _>(net)
}

/// Calls a function with each optimizer configuration, with Burn's clipping of single gradients and, on the host, without it: on the
/// software driver these are the longest tests.
macro_rules! for_each_config {
    ($function:ident) => {{
        let momentum = MomentumConfig::new().with_momentum(0.9);
        let clippings = [None, Some(GradientClippingConfig::Norm(0.3))];
        let left_out = usize::from(cfg!(feature = "cubecl"));
        for clipping in clippings.into_iter().skip(left_out) {
            $function(AdamConfig::new().with_grad_clipping(clipping.clone()));
            $function(
                SgdConfig::new()
                    .with_momentum(Some(momentum.clone()))
                    .with_gradient_clipping(clipping),
            );
        }
    }};
}

#[test]
fn the_same_code_follows_every_policy() {
    fn follows<C: OptimizerConfig<Amp> + Clone>(config: C) {
        for (clipping, batches) in [
            (None, [Batch::OfTwo, Batch::Single]),
            (
                Some(Clipping::GlobalNorm(0.5)),
                [Batch::Single, Batch::OfTwo],
            ),
            (Some(Clipping::Value(0.1)), [Batch::OfTwo, Batch::Single]),
        ] {
            // On the software driver the first, for this is the longest test there; and the kernel for the norm of all gradients adds
            // in the order in which they lie in memory, where the sums of two parts lie as the host or the device left them.
            let tried = if cfg!(feature = "cubecl") { 1 } else { 2 };
            for batch in batches.into_iter().take(tried) {
                let mut optimizer = AmpOptimizer::new(config.clone());
                if let Some(clipping) = clipping {
                    optimizer = optimizer.with_clipping(clipping);
                }
                let together = [
                    train::<O1Waits, _>(optimizer.init(), batch),
                    train::<O1Goes, _>(optimizer.init(), batch),
                    train::<O2Waits, _>(optimizer.init(), batch),
                    train::<O2Goes, _>(optimizer.init(), batch),
                ];
                assert!(together[0] == together[1] && together[2] == together[3]);
                let low = by_hand::<O2Waits, C>(&config, clipping, batch);
                let expected = by_hand::<O1Waits, C>(&config, clipping, batch);
                assert!(low != expected);
                if cfg!(not(feature = "cubecl")) {
                    assert!(together[0] == expected && together[2] == low);
                }
                // The kernels for all parameters, and for the norm of all gradients, round in another order.
                if cfg!(not(feature = "cubecl")) || clipping.is_none() {
                    let mut optimizer = AmpOptimizer::new(OneByOne(config.clone()));
                    if let Some(clipping) = clipping {
                        optimizer = optimizer.with_clipping(clipping);
                    }
                    assert!(train::<O1Waits, _>(optimizer.init(), batch) == expected);
                    assert!(train::<O1Goes, _>(optimizer.init(), batch) == expected);
                    assert!(train::<O2Waits, _>(optimizer.init(), batch) == low);
                    assert!(train::<O2Goes, _>(optimizer.init(), batch) == low);
                }
            }
        }
    }
    for_each_config!(follows);
}

/// `LossScaleOptimizer` works over masters and over Burn's optimizer, and waits for the device.
#[test]
fn the_wrapper_takes_each_part_alone() {
    fn takes<C: OptimizerConfig<Amp> + Clone>(config: C) {
        let _policy = enter::<O1Goes>();
        let masters = || MasterWeights::new(config.clone());
        for batch in [Batch::Single, Batch::OfTwo] {
            let expected = by_hand::<O1Waits, C>(&config, None, batch);
            assert!(
                train::<O1Waits, _>(LossScaleOptimizer::new(masters().init()), batch) == expected
            );
            assert!(
                train::<O1Goes, _>(LossScaleOptimizer::new(masters().init()), batch) == expected
            );
            let plain = LossScaleOptimizer::new(config.adaptor::<B, _>());
            assert!(train::<O1Goes, _>(plain, batch) == expected);

            let expected = by_hand::<O2Waits, C>(&config, None, batch);
            assert!(
                train::<O2Waits, _>(LossScaleOptimizer::new(masters().init()), batch) == expected
            );
            assert!(
                train::<O2Goes, _>(LossScaleOptimizer::new(masters().init()), batch) == expected
            );
        }
    }
    for_each_config!(takes);
}

/// If the policy needs nothing from it, it makes the same ops as Burn's optimizer, and its state is as large, except for a
/// few bytes. Two kinds of ops are made in the step and not in the passes around it: gradients are unscaled, and
/// parameters are cast for the next forward pass.
#[test]
fn it_is_burns_optimizer_where_the_policy_needs_nothing() {
    type T = burn_amp::Autodiff<burn_amp::Amp<Trace<Plain>, InF16>>;
    type Ops = Vec<(Op, Vec<DType>)>;

    /// The ops of three steps and a forward pass, those of the steps of the optimizer alone, and the size of its record.
    fn ops(mut optimizer: impl Optimizer<Net<T>, T>) -> (Ops, usize, usize) {
        let mut net = Net::<T>::new(&here());
        let mut ops = Vec::new();
        let mut of_steps = 0;
        for _ in 0..3 {
            let mut grads = GradientsParams::new();
            ops.extend(calls(|| {
                let loss = net.loss(&here()) * 1e-3;
                grads = GradientsParams::from_grads(loss.backward(), &net);
            }));
            assert_eq!(grads.len(), 5);
            let before = net.clone();
            let step = calls(|| net = optimizer.step(0.1, before, grads));
            of_steps += step.len();
            ops.extend(step);
        }
        ops.extend(calls(|| drop(net.loss(&here()) * 1e-3)));
        ops.sort_by_key(|(op, dtypes)| format!("{op} {dtypes:?}"));
        (ops, of_steps, bytes_of::<T>(optimizer.to_record()).len())
    }

    let one_by_one = ops(AdamConfig::new().init());
    let amp = ops(AmpOptimizer::new(AdamConfig::new()).init());
    assert!(one_by_one.0 == amp.0, "ops");
    assert!(one_by_one.1 < amp.1, "casts of parameters are in the step");
    // The record also has the loss scale, and tags of a few bytes per parameter.
    let more = amp.2 - one_by_one.2;
    assert!(more < 100, "{more} bytes more than {}", one_by_one.2);
}
