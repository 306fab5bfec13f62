//! Law: an overflow skips exactly the step that would have used its gradients.
//!
//! An *effective batch* is all micro-batches whose gradients are summed for one step. It is skipped whole, and steps of
//! other optimizers are not skipped.

use burn_amp::extend::NoGraph;
use burn_amp_tests::prelude::*;

type B = AmpAutodiff;

fn config(sync: bool) -> Config {
    in_f16(|it| {
        // Static, because the tests share a scale, which would otherwise fall at each overflow.
        it.loss_scale.mode = LossScaleMode::Static;
        it.loss_scale.rule.init = 256.0;
        it.loss_scale.sync = sync;
    })
}

policy!(Waits, config(true));
policy!(Goes, config(false));

#[derive(Module, Debug)]
struct Net<B: Backend> {
    backbone: Linear<B>,
    head: Linear<B>,
    /// A head that only one of the losses uses.
    auxiliary: Linear<B>,
}

impl<B: AutodiffBackend> Net<B> {
    fn new() -> Self {
        let layer = |outputs| {
            LinearConfig::new(4, outputs)
                .with_bias(false)
                .init::<B>(&here())
        };
        let net = Self {
            backbone: layer(4),
            head: layer(1),
            auxiliary: layer(1),
        };
        // Initialized at once, because a clone of a layer that is not would draw its own weights.
        net.weights();
        net
    }

    fn features(&self) -> Tensor<B, 2> {
        self.backbone.forward(Tensor::ones([1, 4], &here()))
    }

    /// A loss that uses the backbone and the head.
    fn loss(&self, factor: f32) -> Tensor<B, 1> {
        self.head.forward(self.features()).sum() * factor
    }

    /// A loss that uses the backbone and the auxiliary head.
    fn auxiliary_loss(&self, factor: f32) -> Tensor<B, 1> {
        self.auxiliary.forward(self.features()).sum() * factor
    }

    fn grads(&self, loss: Tensor<B, 1>) -> GradientsParams {
        GradientsParams::from_grads(loss.backward(), self)
    }

    /// The weights of the backbone, of the head and of the auxiliary head.
    fn weights(&self) -> [Vec<f32>; 3] {
        let values = |weight: &Param<Tensor<B, 2>>| weight.val().values();
        [
            values(&self.backbone.weight),
            values(&self.head.weight),
            values(&self.auxiliary.weight),
        ]
    }

    /// Whether each of these weights differs from that of another model.
    fn moved(&self, from: &Self) -> [bool; 3] {
        let (now, before) = (self.weights(), from.weights());
        std::array::from_fn(|at| now[at] != before[at])
    }
}

const FINITE: f32 = 1e-2;
const OVERFLOW: f32 = f32::INFINITY;

/// If one micro-batch overflows, the whole effective batch is skipped: on the host, on the device, by any optimizer.
#[test]
fn an_effective_batch_is_skipped_if_a_part_of_it_overflowed() {
    fn skips<B, O>(mut optimizer: O)
    where
        B: AutodiffBackend<InnerBackend: Amped<Graph = NoGraph>> + Amped,
        O: Optimizer<Net<B>, B>,
    {
        let net = Net::<B>::new();
        let mut step = |factors: [f32; 2]| {
            let mut sum = GradientsAccumulator::new();
            for factor in factors {
                sum.accumulate(&net, net.grads(net.loss(factor)));
            }
            let stepped = optimizer.step(0.1, net.clone(), sum.grads());
            stepped.moved(&net)
        };
        for _ in 0..2 {
            assert_eq!(step([FINITE, OVERFLOW]), [false; 3]);
            assert_eq!(step([OVERFLOW, FINITE]), [false; 3]);
            assert_eq!(step([FINITE, FINITE]), [true, true, false]);
            assert_eq!(step([OVERFLOW, OVERFLOW]), [false; 3]);
            assert_eq!(step([FINITE, FINITE]), [true, true, false]);
        }
    }
    type Sgd = OptimizerAdaptor<burn::optim::Sgd<burn_amp_tests::Amp>, Net<B>, B>;
    fn skips_under() {
        let over_plain: Sgd = SgdConfig::new().init();
        skips::<B, _>(LossScaleOptimizer::new(over_plain));
        skips::<B, _>(AmpOptimizer::new(SgdConfig::new()).init());
    }
    under_each!(skips_under, Waits, Goes);
}

/// A parameter that only the finite micro-batch uses is skipped with the other parameters of the effective batch.
#[test]
fn parameters_that_the_overflow_did_not_reach_are_skipped_with_the_others() {
    fn skips() {
        let net = Net::<B>::new();
        let mut optimizer = AmpOptimizer::new(SgdConfig::new()).init();
        let mut sum = GradientsAccumulator::new();
        sum.accumulate(&net, net.grads(net.loss(OVERFLOW)));
        sum.accumulate(&net, net.grads(net.auxiliary_loss(FINITE)));
        let stepped = optimizer.step(0.1, net.clone(), sum.grads());
        assert_eq!(stepped.moved(&net), [false; 3]);
    }
    under_each!(skips, Waits, Goes);
}

/// Two optimizers step two groups of parameters of one model; a step of one does not end the effective batch of the
/// other.
#[test]
fn groups_of_parameters_skip_by_themselves() {
    fn skips() {
        let net = Net::<B>::new();
        let mut optimizers = [(); 2].map(|()| AmpOptimizer::new(SgdConfig::new()).init());
        let groups = [net.backbone.weight.id, net.head.weight.id];
        for (factors, expected) in [
            ([FINITE, OVERFLOW], [false, false, false]),
            ([FINITE, FINITE], [true, true, false]),
        ] {
            let mut sums = [(); 2].map(|()| GradientsAccumulator::new());
            for factor in factors {
                let mut grads = net.loss(factor).backward();
                for (sum, group) in sums.iter_mut().zip(groups) {
                    let grads = GradientsParams::from_params(&mut grads, &net, &[group]);
                    sum.accumulate(&net, grads);
                }
            }
            let mut stepped = net.clone();
            for (optimizer, mut sum) in optimizers.iter_mut().zip(sums) {
                stepped = optimizer.step(1.0, stepped, sum.grads());
            }
            assert_eq!(stepped.moved(&net), expected);
        }
    }
    under_each!(skips, Waits, Goes);
}

/// The head is stepped after every batch, the backbone after every second one; a skipped step of the head does not end
/// the effective batch of the backbone.
#[test]
fn groups_of_parameters_accumulate_as_long_as_they_like() {
    fn skips() {
        let net = Net::<B>::new();
        let mut every = AmpOptimizer::new(SgdConfig::new()).init();
        let mut second = AmpOptimizer::new(SgdConfig::new()).init();
        let mut sum = GradientsAccumulator::new();
        let mut stepped = net.clone();
        for (factor, head) in [(OVERFLOW, false), (FINITE, true)] {
            let mut grads = net.loss(factor).backward();
            let of = |grads: &mut _, weight: &Param<_>| {
                GradientsParams::from_params(grads, &net, &[weight.id])
            };
            sum.accumulate(&net, of(&mut grads, &net.backbone.weight));
            stepped = every.step(1.0, stepped, of(&mut grads, &net.head.weight));
            assert_eq!(stepped.moved(&net), [false, head, false]);
        }
        stepped = second.step(1.0, stepped, sum.grads());
        assert_eq!(stepped.moved(&net), [false, true, false]);
    }
    under_each!(skips, Waits, Goes);
}

/// An overflow skips no step if the program takes no gradients of the pass, or only the gradient of an input.
#[test]
fn a_pass_whose_gradients_nobody_uses_skips_no_step() {
    fn steps() {
        let net = Net::<B>::new();
        let mut optimizer = AmpOptimizer::new(SgdConfig::new()).init();
        let grads = net.grads(net.loss(FINITE));
        net.loss(OVERFLOW).backward();
        let input = Tensor::<B, 2>::ones([1, 4], &here()).require_grad();
        let loss = net.head.forward(input.clone()).sum() * OVERFLOW;
        let _ = input.grad(&loss.backward());
        let stepped = optimizer.step(0.1, net.clone(), grads);
        assert_eq!(stepped.moved(&net), [true, true, false]);
    }
    under_each!(steps, Waits, Goes);
}

/// An overflow of a generator's loss is also in the discriminator's gradients, but the discriminator's step uses the
/// gradients of its own, finite loss.
#[test]
fn a_generators_overflow_skips_no_step_of_the_discriminator() {
    fn steps() {
        let (generator, discriminator) = (Net::<B>::new(), Net::new());
        let mut optimizers = [(); 2].map(|()| AmpOptimizer::new(AdamConfig::new()).init());
        let fake = generator.features();
        let loss = discriminator.head.forward(fake).sum() * OVERFLOW;
        let grads = generator.grads(loss);
        let stepped = optimizers[0].step(0.1, generator.clone(), grads);
        assert_eq!(stepped.moved(&generator), [false; 3]);

        let grads = discriminator.grads(discriminator.loss(FINITE));
        let stepped = optimizers[1].step(0.1, discriminator.clone(), grads);
        assert_eq!(stepped.moved(&discriminator), [true, true, false]);
    }
    under_each!(steps, Waits, Goes);
}

/// An overflow at the last step of one optimizer does not affect the next optimizer.
#[test]
fn an_overflow_skips_no_step_of_an_optimizer_that_is_made_later() {
    fn steps() {
        let net = Net::<B>::new();
        let mut first = AmpOptimizer::new(AdamConfig::new()).init();
        let stepped = first.step(0.1, net.clone(), net.grads(net.loss(OVERFLOW)));
        assert_eq!(stepped.moved(&net), [false; 3]);
        let mut second = AmpOptimizer::new(SgdConfig::new()).init();
        let stepped = second.step(0.1, net.clone(), net.grads(net.loss(FINITE)));
        assert_eq!(stepped.moved(&net), [true, true, false]);
    }
    under_each!(steps, Waits, Goes);
}
