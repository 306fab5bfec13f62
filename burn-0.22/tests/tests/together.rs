//! Law: with Burn 0.22, the step of all parameters together is that of Burn's optimizers, bit for bit, in BF16; a saved optimizer goes
//! on exactly, also Burn's from ours and ours from Burn's; moments in fewer bytes take them.

use burn::{
    module::{Module, ModuleMapper, Param},
    optim::{
        AdamConfig, AdamWConfig, GradientsAccumulator, GradientsParams, ModuleOptimizer,
        OptimizerRecord, SgdConfig, decay::WeightDecayConfig, momentum::MomentumConfig,
    },
    tensor::{DType, Device, Tensor},
};
use burn_amp::{
    Error,
    config::{Compute, Config},
    optim::{
        AmpModuleOptimizer, AmpOptimizer, Clipping, GradientNorm, ListConfig, MasterWeights,
        Masters, Moments, clip,
    },
};
use burn_amp_tests::net::Net;

const STEPS: usize = 6;
const LR: f64 = 0.01;

fn device() -> Device {
    let device = Device::flex().autodiff();
    let config = Config {
        compute: Compute::Bf16,
        ..Config::default()
    };
    let _is_set = burn_amp::configure(&device, config);
    device
}

/// An optimizer under test.
#[derive(Clone)]
enum Any {
    Burns(ModuleOptimizer),
    Together(AmpModuleOptimizer),
}

impl Any {
    fn step(&mut self, net: Net, gradients: GradientsParams) -> Net {
        match self {
            Self::Burns(optimizer) => optimizer.step(LR, net, gradients),
            Self::Together(optimizer) => optimizer.step(LR, net, gradients),
        }
    }

    /// Makes steps.
    fn train(&mut self, mut net: Net, steps: usize, device: &Device) -> Net {
        for _ in 0..steps {
            let gradients = net.gradients(device);
            net = self.step(net, gradients);
        }
        net
    }

    /// The record after a way through bytes.
    fn record(&self) -> OptimizerRecord {
        let record = match self {
            Self::Burns(optimizer) => optimizer.to_record(),
            Self::Together(optimizer) => optimizer.to_record(),
        };
        let bytes = record.into_bytes().expect("it is saved");
        OptimizerRecord::from_bytes(bytes).expect("it is loaded")
    }

    fn load(self, record: OptimizerRecord) -> Self {
        match self {
            Self::Burns(optimizer) => Self::Burns(optimizer.load_record(record)),
            Self::Together(optimizer) => Self::Together(optimizer.load_record(record)),
        }
    }
}

/// Checks that Burn's optimizer, ours and ours for a `Learner` make the same steps, and go on from each other's records.
fn same_steps<C: ListConfig>(config: C, burns: ModuleOptimizer) {
    let device = device();
    let ours = AmpOptimizer::new(config);
    let fresh = [
        Any::Burns(burns),
        Any::Together(ours.init().expect("burn-amp is in the tests")),
        Any::Burns(ours.init_for_learner().expect("burn-amp is in the tests")),
    ];
    let net = Net::new(&device);
    let mut records = Vec::new();
    let mut trained = Vec::new();
    for mut optimizer in fresh.clone() {
        let after = optimizer.train(net.clone(), STEPS, &device);
        records.push(optimizer.record());
        trained.push((after, optimizer));
    }
    let expected = trained[0].0.bits();
    assert_ne!(expected, net.bits());
    for (after, _) in &trained {
        assert!(after.bits() == expected, "another step than Burn's");
    }
    let (after, optimizer) = &mut trained[0];
    let before = after.clone();
    let expected = optimizer.train(before.clone(), STEPS, &device).bits();
    for from in 0..fresh.len() {
        for to in fresh.clone() {
            let record = OptimizerRecord::from_bytes(
                std::mem::take(&mut records[from])
                    .into_bytes()
                    .expect("it is saved"),
            );
            let mut resumed = to.load(record.expect("it is loaded"));
            records[from] = resumed.record();
            let after = resumed.train(before.clone(), STEPS, &device);
            assert!(after.bits() == expected, "resumed from {from}");
        }
    }
}

#[test]
fn steps_are_those_of_burns_optimizers_and_so_are_records() {
    let adam = AdamConfig::new().with_weight_decay(Some(WeightDecayConfig::new(0.1)));
    same_steps(adam.clone(), adam.init());
    let adam_w = AdamWConfig::new().with_amsgrad(true);
    same_steps(adam_w.clone(), adam_w.init());
    let adam_w = AdamWConfig::new()
        .with_cautious_weight_decay(true)
        .with_weight_decay(0.1);
    same_steps(adam_w.clone(), adam_w.init());
    let momentum = MomentumConfig::new().with_nesterov(true);
    let sgd = SgdConfig::new()
        .with_momentum(Some(momentum))
        .with_gradient_clipping(Some(burn::grad_clipping::GradientClippingConfig::Norm(0.1)));
    same_steps(sgd.clone(), sgd.init());
    let plain = SgdConfig::new();
    same_steps(plain.clone(), plain.init());
}

/// As in Burn, the states of another optimizer are none.
#[test]
fn a_record_of_another_optimizer_begins_anew() {
    let device = device();
    let net = Net::new(&device);
    let adam = || AmpOptimizer::new(AdamConfig::new()).init();
    let adam = || Any::Together(adam().expect("burn-amp is in the tests"));
    let momentum = Some(MomentumConfig::new());
    let sgd = || AmpOptimizer::new(SgdConfig::new().with_momentum(momentum.clone())).init();
    let sgd = || Any::Together(sgd().expect("burn-amp is in the tests"));
    for (from, to) in [(adam(), sgd()), (sgd(), adam())] {
        let mut from = from;
        from.train(net.clone(), STEPS, &device);
        let fresh = to.clone().train(net.clone(), STEPS, &device).bits();
        let loaded = to.load(from.record()).train(net.clone(), STEPS, &device);
        assert!(loaded.bits() == fresh, "a foreign state was used");
    }
}

/// A clone of an optimizer goes on alone.
#[test]
fn a_clone_is_another_optimizer() {
    let device = device();
    let optimizer = AmpOptimizer::new(AdamConfig::new()).init();
    let mut optimizer = Any::Together(optimizer.expect("burn-amp is in the tests"));
    let net = optimizer.train(Net::new(&device), STEPS, &device);
    let mut other = optimizer.clone();
    let once = optimizer.train(net.clone(), STEPS, &device);
    let again = other.train(net, STEPS, &device);
    assert_eq!(once.bits(), again.bits());
}

#[test]
fn moments_in_fewer_bytes_resume_exactly() {
    let device = device();
    let bytes = |optimizer: &Any| optimizer.record().into_bytes().expect("it is saved").len();
    let mut sizes = Vec::new();
    for moments in [Moments::F32, Moments::Bf16, Moments::Bits8] {
        let new = || {
            let optimizer = AmpOptimizer::new(AdamConfig::new()).with_moments(moments);
            Any::Together(optimizer.init().expect("burn-amp is in the tests"))
        };
        let mut optimizer = new();
        let net = optimizer.train(Net::new(&device), STEPS, &device);
        sizes.push(bytes(&optimizer));
        let mut resumed = new().load(optimizer.record());
        let after = optimizer.train(net.clone(), STEPS, &device);
        assert_eq!(
            resumed.train(net, STEPS, &device).bits(),
            after.bits(),
            "{moments:?}"
        );
    }
    // Two moments of a weight of 64 by 96.
    let [wide, bf16, bits8] = sizes[..] else {
        unreachable!("three formats")
    };
    let saved = |bytes: usize| 2 * 64 * 96 * bytes;
    // The names of a record take some bytes, too, and so do the scales of blocks.
    assert!((wide - bf16).abs_diff(saved(2)) < 512, "{sizes:?}");
    assert!((wide - bits8).abs_diff(saved(3)) < 1024, "{sizes:?}");
}

/// The step of all clips as `clip` and a step after it do, up to the rounding of the norm.
#[test]
fn gradients_are_clipped_and_measured_together() {
    let device = device();
    let net = Net::new(&device);
    let norm = GradientNorm::default();
    let ours = AmpOptimizer::new(SgdConfig::new())
        .with_clipping(Clipping::GlobalNorm(0.01))
        .with_gradient_norm(&norm);
    let refused = ours.init_for_learner().err();
    assert!(matches!(refused, Some(Error::OneByOne)));
    let mut ours = ours.init().expect("burn-amp is in the tests");
    let after = ours.step(LR, net.clone(), net.gradients(&device));

    let mut gradients = net.gradients(&device);
    let measured = clip(&mut gradients, &net, Clipping::GlobalNorm(0.01));
    let measured = measured.expect("there are gradients").into_scalar::<f32>();
    let expected = SgdConfig::new().init().step(LR, net.clone(), gradients);
    let found = norm.value().expect("a step was made");
    assert!(
        (found - f64::from(measured)).abs() <= 1e-5 * found,
        "{found}"
    );
    assert!(found > 0.01, "it is clipped");
    for (found, expected) in after.bits().iter().zip(expected.bits()) {
        let [found, expected] = [*found, expected].map(f32::from_bits);
        // The steps are 1e-4 long in all, and the norms differ in their last bits.
        assert!((found - expected).abs() <= 1e-4 * 1e-5 + f32::EPSILON * expected.abs());
    }
}

/// The parts of an effective batch are added before the step.
#[test]
fn accumulated_gradients_make_one_step() {
    let device = device();
    let net = Net::new(&device);
    let step = |optimizer: &mut Any| {
        let mut sum = GradientsAccumulator::new();
        for _ in 0..3 {
            sum.accumulate(&net, net.gradients(&device));
        }
        optimizer.step(net.clone(), sum.grads()).bits()
    };
    let ours = AmpOptimizer::new(AdamConfig::new()).init();
    let ours = step(&mut Any::Together(ours.expect("burn-amp is in the tests")));
    assert_eq!(ours, step(&mut Any::Burns(AdamConfig::new().init())));
}

/// A weight that is used several times in a pass, by losses that are computed before and after the backward pass of another one.
#[test]
fn each_loss_reaches_a_weight_that_others_have_reached() {
    let device = device();
    let weight = Tensor::<2>::full([8, 8], 0.5, &device).require_grad();
    let product = || Tensor::<2>::ones([4, 8], &device).matmul(weight.clone());
    let loss = || (product() + product() + product()).sum();
    let [first, second] = [loss(), loss()];
    let [second, first] = [second.backward(), first.backward()];
    for grads in [first, second, loss().backward()] {
        let gradient = weight.grad(&grads).expect("the weight has a gradient");
        let values: Vec<f32> = gradient.into_data().try_to_vec().expect("read as F32");
        assert_eq!(values, [12.0; 64]);
    }
}

/// The step writes the copies of weights that the next forward pass reads in low precision.
#[test]
fn the_next_pass_casts_no_weight() {
    let device = device();
    let made = |mut optimizer: Any| {
        let net = optimizer.train(Net::new(&device), 2, &device);
        let recording = burn_amp::diagnose::record(&device).expect("burn-amp is in the tests");
        net.loss(&device);
        let calls = recording.finish().calls;
        let casts = calls.iter().flat_map(|call| &call.casts);
        casts.map(|cast| cast.made).sum::<u64>()
    };
    let burns = made(Any::Burns(AdamConfig::new().init()));
    let ours = AmpOptimizer::new(AdamConfig::new()).init();
    let ours = made(Any::Together(ours.expect("burn-amp is in the tests")));
    assert_eq!(burns - ours, 2, "there are two weights of products");
}

/// Stores parameters in BF16.
struct Halve;

impl ModuleMapper for Halve {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.map(|tensor| tensor.detach().cast(DType::BF16).detach().require_grad())
    }
}

/// Masters in F32 are those of `MasterWeights`, and all forms go on exactly from their records.
#[test]
fn masters_of_bf16_parameters_resume_exactly() {
    let device = device();
    let net = Net::new(&device).map(&mut Halve);
    assert!(net.dtypes().iter().all(|dtype| *dtype == DType::BF16));
    let mut expected = Any::Burns(MasterWeights::new(AdamConfig::new().build()).into());
    let expected = expected.train(net.clone(), STEPS, &device).bits();
    for masters in [
        Masters::F32,
        Masters::Split,
        Masters::Bits24,
        Masters::Stochastic,
        Masters::None,
    ] {
        let new = || {
            let optimizer = AmpOptimizer::new(AdamConfig::new()).with_masters(masters);
            Any::Together(optimizer.init().expect("burn-amp is in the tests"))
        };
        let mut optimizer = new();
        let after = optimizer.train(net.clone(), STEPS, &device);
        assert!(after.dtypes().iter().all(|dtype| *dtype == DType::BF16));
        assert_eq!(
            after.bits() == expected,
            masters == Masters::F32,
            "{masters:?}"
        );
        let mut resumed = new().load(optimizer.record());
        let again = resumed.train(after.clone(), STEPS, &device).bits();
        let on = optimizer.train(after, STEPS, &device).bits();
        assert!(on == again, "{masters:?}");
    }
}
