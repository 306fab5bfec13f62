//! Law: after an overflow, parameters and optimizer state are bit-identical to before, and the scale changes as in
//! PyTorch's tests.

use burn::{
    module::{Module, ModuleVisitor, Param},
    nn::{Linear, LinearConfig, Relu},
    optim::{
        AdaGradConfig, AdamConfig, AdamWConfig, GradientsParams, Optimizer, RmsPropConfig,
        SgdConfig, decay::WeightDecayConfig, momentum::MomentumConfig,
    },
    record::{FullPrecisionSettings, Record},
    tensor::{Tensor, TensorData, backend::AutodiffBackend},
};
use burn_amp::{loss_scale, scaling::Outcome};
use burn_amp_tests::{
    AmpAutodiff, Compute, Config, ConfigSource, DynamicLossScale, LossScaleConfig, LossScaleMode,
    computing_in, policy, scaling,
};

/// Two layers and a gain: five leaves, that is, tensors that require a gradient.
#[derive(Module, Debug)]
pub struct Net<B: burn::prelude::Backend> {
    first: Linear<B>,
    second: Linear<B>,
    gain: Param<Tensor<B, 2>>,
}

impl<B: AutodiffBackend> Net<B> {
    pub fn new(device: &B::Device) -> Self {
        Self {
            first: LinearConfig::new(4, 8).init(device),
            second: LinearConfig::new(8, 2).init(device),
            gain: Param::from_tensor(Tensor::ones([1, 2], device)),
        }
    }

    pub fn loss(&self, device: &B::Device) -> Tensor<B, 1> {
        let x = Tensor::from_floats([[0.5, -1.0, 2.0, 0.25], [1.0, 0.75, -0.5, 0.125]], device);
        let y = self
            .second
            .forward(Relu::new().forward(self.first.forward(x)));
        (y * self.gain.val() - 1.0).square().mean()
    }
}

/// Adds `sum(leaf * poison)` to a loss, and so `poison` to the gradient of one leaf.
struct Poison<B: AutodiffBackend> {
    leaf: usize,
    value: f32,
    seen: usize,
    loss: Tensor<B, 1>,
}

impl<B: AutodiffBackend> ModuleVisitor<B> for Poison<B> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        if self.seen == self.leaf {
            let shape = param.val().shape();
            let mut poison = vec![0.0; shape.num_elements()];
            *poison.last_mut().unwrap() = self.value;
            let poison = TensorData::new(poison, shape);
            let poison = Tensor::from_data(poison, &self.loss.device());
            self.loss = self.loss.clone() + (param.val() * poison).sum();
        }
        self.seen += 1;
    }
}

/// Returns a loss that adds `value` to the gradient of leaf number `leaf`, and the number of leaves.
pub fn poisoned<B: AutodiffBackend>(
    net: &Net<B>,
    leaf: usize,
    value: f32,
) -> (Tensor<B, 1>, usize) {
    let device = net.gain.val().device();
    let mut poison = Poison {
        leaf,
        value,
        seen: 0,
        loss: net.loss(&device),
    };
    net.visit(&mut poison);
    (poison.loss, poison.seen)
}

/// The contents of a record, comparable whatever the order of its maps.
pub fn contents<B: AutodiffBackend>(record: impl Record<B>) -> serde_json::Value {
    serde_json::to_value(record.into_item::<FullPrecisionSettings>()).unwrap()
}

policy!(
    /// F16 with a scale under which only the poison overflows, and a minimum low enough for all overflows of the test.
    SkippingForever,
    Config {
        loss_scale: DynamicLossScale {
            init: 256.0,
            min: 2f32.powi(-100),
            ..DynamicLossScale::default()
        }
        .into(),
        ..computing_in(Compute::F16)
    }
);

fn skips_exactly<O>(mut optimizer: O)
where
    O: Optimizer<Net<B>, B>,
{
    let _policy = burn_amp_tests::enter::<SkippingForever>();
    let device = Default::default();
    let mut net = Net::<B>::new(&device);
    let leaves = poisoned(&net, usize::MAX, 0.0).1;
    assert_eq!(leaves, 5);
    let step = |net: Net<B>, optimizer: &mut O, loss: Tensor<B, 1>| {
        let grads = GradientsParams::from_grads(loss.backward(), &net);
        let count = grads.len();
        (optimizer.step(0.1, net, grads), count)
    };

    for leaf in 0..leaves {
        for value in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
            let loss = net.loss(&device);
            let (stepped, count) = step(net, &mut optimizer, loss);
            assert_eq!(count, leaves);

            let before = (
                contents(stepped.clone().into_record()),
                contents(optimizer.to_record()),
            );
            let loss = poisoned(&stepped, leaf, value).0;
            let (skipped, count) = step(stepped, &mut optimizer, loss);
            let after = (
                contents(skipped.clone().into_record()),
                contents(optimizer.to_record()),
            );
            assert_eq!(count, 0, "leaf {leaf}, {value}");
            assert!(before == after, "leaf {leaf}, {value}");

            let skip = loss_scale::<B>(&device).last_skip().unwrap();
            assert!(skip.overflowed.len() < leaves, "{skip}");
            net = skipped;
        }
    }
}

type B = AmpAutodiff<SkippingForever>;

#[test]
fn no_parameter_and_no_optimizer_state_changes_by_a_bit() {
    let momentum = MomentumConfig::new().with_momentum(0.9);
    let decay = WeightDecayConfig::new(0.01);
    skips_exactly(
        SgdConfig::new()
            .with_momentum(Some(momentum))
            .with_weight_decay(Some(decay.clone()))
            .init(),
    );
    skips_exactly(AdamConfig::new().with_weight_decay(Some(decay)).init());
    skips_exactly(AdamWConfig::new().init());
    skips_exactly(RmsPropConfig::new().init());
    skips_exactly(AdaGradConfig::new().init());
}

policy!(
    TraceVector,
    Config {
        loss_scale: DynamicLossScale {
            init: 128.0,
            search: false,
            growth_interval: 3,
            ..DynamicLossScale::default()
        }
        .into(),
        ..computing_in(Compute::F16)
    }
);

#[test]
fn the_scale_follows_pytorchs_vector_through_backward() {
    let _policy = burn_amp_tests::enter::<TraceVector>();
    type B = AmpAutodiff<TraceVector>;
    let device = Default::default();
    let weight = Tensor::<B, 1>::from_floats([1.0, 2.0], &device).require_grad();
    let handle = loss_scale::<B>(&device);

    let (mut scales, mut trackers) = (vec![], vec![]);
    for step in "FFFIFFFFIIFFFFFFII".chars() {
        let factor = if step == 'I' { f32::INFINITY } else { 1.0 };
        let grads = (weight.clone() * factor).sum().backward();
        let (outcome, handed_out) = match step {
            'I' => (Outcome::Overflowed, vec![0.0, 0.0]),
            _ => (Outcome::Finite, vec![1.0f32, 1.0]),
        };
        assert_eq!(grads.outcome(), outcome);
        let gradient = weight.grad(&grads).unwrap();
        assert_eq!(gradient.to_data().to_vec::<f32>().unwrap(), handed_out);
        scales.push(handle.scale());
        trackers.push(handle.growth_tracker());
    }
    assert_eq!(
        scales,
        [
            128., 128., 256., 128., 128., 128., 256., 256., 128., 64., 64., 64., 128., 128., 128.,
            256., 128., 64.
        ]
    );
    assert_eq!(
        trackers,
        [1, 2, 0, 0, 1, 2, 0, 1, 0, 0, 1, 2, 0, 1, 2, 0, 0, 0]
    );
    assert_eq!((handle.steps(), handle.skipped_steps()), (18, 5));
    assert_eq!(
        handle.last_skip().unwrap().to_string(),
        "step 17, loss scale 128: 1 of 1 gradients not finite (#0 f32 [2])"
    );
}

policy!(TooHigh, {
    let init = 2f32.powi(40);
    Config {
        loss_scale: DynamicLossScale {
            init,
            search: false,
            max: init,
            ..DynamicLossScale::default()
        }
        .into(),
        ..computing_in(Compute::F16)
    }
});

#[test]
fn a_scale_that_is_too_high_falls_until_training_goes_on() {
    let _policy = burn_amp_tests::enter::<TooHigh>();
    type B = AmpAutodiff<TooHigh>;
    let device = Default::default();
    let mut net = Net::<B>::new(&device);
    let mut optimizer = AdamConfig::new().init();
    let handle = loss_scale::<B>(&device);
    let first = net.loss(&device).into_scalar();
    for _ in 0..60 {
        let loss = net.loss(&device);
        let grads = GradientsParams::from_grads(loss.backward(), &net);
        net = optimizer.step(0.01, net, grads);
    }
    let last = net.loss(&device).into_scalar();
    assert!(handle.skipped_steps() > 10 && handle.skipped_steps() < 40);
    assert!(handle.scale() < 2f32.powi(30));
    assert!(last < 0.5 * first, "{first} -> {last}");
}

policy!(Static, {
    Config {
        loss_scale: LossScaleConfig {
            mode: LossScaleMode::Static,
            rule: DynamicLossScale {
                init: 1024.0,
                ..DynamicLossScale::default()
            },
            ..LossScaleConfig::default()
        },
        ..computing_in(Compute::F16)
    }
});

#[test]
fn a_static_scale_stays_and_skips_all_the_same() {
    let _policy = burn_amp_tests::enter::<Static>();
    type B = AmpAutodiff<Static>;
    let device = Default::default();
    let weight = Tensor::<B, 1>::from_floats([1.0], &device).require_grad();
    let mut grads = (weight.clone() * f32::NAN).sum().backward();
    assert!(weight.grad_remove(&mut grads).is_none());
    let grads = weight.clone().sum().backward();
    assert_eq!(grads.scale(), 1024.0);
    assert_eq!(weight.grad(&grads).unwrap().into_scalar(), 1.0);
    assert_eq!(loss_scale::<B>(&device).scale(), 1024.0);
}

policy!(Off, scaling(Compute::F16, LossScaleMode::Off));

#[test]
fn without_scaling_nothing_is_checked_or_held_back() {
    let _policy = burn_amp_tests::enter::<Off>();
    type B = AmpAutodiff<Off>;
    let device = Default::default();
    let weight = Tensor::<B, 1>::from_floats([1.0], &device).require_grad();
    let grads = (weight.clone() * f32::INFINITY).sum().backward();
    assert_eq!(weight.grad(&grads).unwrap().into_scalar(), f32::INFINITY);
    let handle = loss_scale::<B>(&device);
    assert_eq!((handle.scale(), handle.steps()), (1.0, 0));
}

policy!(Replacing, computing_in(Compute::F16));

#[test]
fn a_replaced_gradient_comes_back_as_it_was_given() {
    let _policy = burn_amp_tests::enter::<Replacing>();
    type B = AmpAutodiff<Replacing>;
    let device = Default::default();
    let weight = Tensor::<B, 1>::from_floats([1.0, 2.0], &device).require_grad();
    let mut grads = weight.clone().sum().backward();
    let given = Tensor::from_floats([0.1, -3.0], &device);
    weight.grad_replace(&mut grads, given);
    let back = weight.grad_remove(&mut grads).unwrap();
    assert_eq!(back.to_data().to_vec::<f32>().unwrap(), [0.1, -3.0]);
    assert!(weight.grad(&grads).is_none());
}

policy!(
    Tiny,
    Config {
        loss_scale: DynamicLossScale {
            search: false,
            ..DynamicLossScale::default()
        }
        .into(),
        ..computing_in(Compute::F16)
    }
);

/// Small gradients in F16: 1.3 × 2^-26 becomes 0 without scaling and survives with a scale of 2^16.
#[test]
fn a_gradient_too_small_for_f16_survives() {
    fn gradient<P: ConfigSource>() -> f32 {
        let _policy = burn_amp_tests::enter::<P>();
        let device = Default::default();
        let x = Tensor::<AmpAutodiff<P>, 2>::ones([1, 1], &device).require_grad();
        let one = Tensor::ones([1, 1], &device);
        let loss = x.clone().matmul(one) * (1.3 * 2f32.powi(-26));
        let grads = loss.sum().backward();
        x.grad(&grads).unwrap().into_scalar()
    }
    assert_eq!(gradient::<Off>(), 0.0);
    let kept = gradient::<Tiny>();
    assert!(
        (kept / (1.3 * 2f32.powi(-26)) - 1.0).abs() < 2f32.powi(-11),
        "{kept:e}"
    );
}
