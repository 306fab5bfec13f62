//! Law: the optimizer that steps all parameters together ends as Burn's own, parameter by parameter, and either reads
//! the other's files.

mod files;

use std::fs;

use burn::record::{FileRecorder, NamedMpkFileRecorder};
use burn_amp_tests::{
    net::{Net, contents, poisoned},
    prelude::*,
};

mod formats;

policy!(StoredLow, in_f16(|it| it.preset = Preset::O2));

type B = AmpAutodiff;
type Fused<C, B> = LossScaleOptimizer<AmpAdaptor<C, Net<B>, B>>;

/// A net that has the same weights and ids on every backend and in every process.
fn net<B: AutodiffBackend>() -> Net<B> {
    static RECORD: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    let record = RECORD.get_or_init(|| {
        let net = Net::<PlainAutodiff>::new(&here());
        save::<PlainAutodiff, _>(net.map(&mut Fixed))
    });
    load::<B, _>(Net::new(&here()), record.clone())
}

/// Gives parameters fixed values.
struct Fixed;

impl<B: AutodiffBackend> ModuleMapper<B> for Fixed {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
        param.map(|tensor| {
            let shape = tensor.shape();
            noise::<B>(shape.num_elements(), &tensor.device()).reshape(shape)
        })
    }
}

fn grads<B: AutodiffBackend>(net: &Net<B>, step: usize) -> GradientsParams {
    let (loss, _) = poisoned(net, step % 5, 0.5);
    GradientsParams::from_grads(loss.backward(), net)
}

fn steps<B: AutodiffBackend + Amped, O: Optimizer<Net<B>, B>>(
    mut net: Net<B>,
    optimizer: &mut O,
    steps: std::ops::Range<usize>,
) -> Net<B> {
    if steps.start == 0 {
        burn_amp::loss_scale::<B>(&here()).reset();
    }
    for step in steps {
        let grads = grads(&net, step);
        net = optimizer.step(0.02, net, grads);
    }
    net
}

/// Asserts that both nets have the same bits where the op on a list is Burn's ops, and are near each other elsewhere.
fn assert_same(found: Vec<u8>, expected: Vec<u8>, what: &str) {
    if cfg!(not(feature = "cubecl")) {
        return assert!(found == expected, "{what}");
    }
    let [found, expected] = [found, expected].map(|net| {
        let net = load::<PlainAutodiff, _>(Net::new(&here()), net);
        let mut values = Values(Vec::new());
        net.visit(&mut values);
        values.0
    });
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.into_iter().zip(expected) {
        // Eight steps of at most 0.02, each of them with the rounding of a few ops in F32; a value in F16 may be rounded to
        // its neighbour.
        let error = (found - expected).abs();
        assert!(error < 2e-3, "{what}: {found} and not {expected}");
    }
}

/// The values of all parameters.
struct Values(Vec<f32>);

impl<B: AutodiffBackend> ModuleVisitor<B> for Values {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        self.0.extend(param.val().into_data().iter::<f32>());
    }
}

fn ends_as_one_by_one<C>(config: C)
where
    C: OptimizerConfig<Amp> + Clone + std::fmt::Debug,
{
    let ends = |what: &str| {
        let mut together: Fused<C, B> = AmpOptimizer::new(config.clone()).init();
        let one_by_one = AmpOptimizer::new(OneByOne(config.clone()));
        let mut burns: Fused<OneByOne<C>, B> = one_by_one.init();
        assert!(together.inner().is_fused() && !burns.inner().is_fused());
        let found = save::<B, _>(steps::<B, _>(cast_params(net()), &mut together, 0..8));
        let expected = save::<B, _>(steps::<B, _>(cast_params(net()), &mut burns, 0..8));
        assert_same(found, expected, &format!("{config:?}, {what}"));
    };
    within::<InF16, _>(|| ends("stored in F32"));
    within::<StoredLow, _>(|| ends("stored in half precision"));
}

#[test]
fn all_parameters_together_end_as_one_by_one() {
    let decay = || Some(WeightDecayConfig::new(0.01));
    let momentum = MomentumConfig::new();
    let clipping = burn::grad_clipping::GradientClippingConfig::Norm(0.1);
    let nesterov = momentum.clone().with_nesterov(true);
    let (adam, adam_w, sgd) = (AdamConfig::new, AdamWConfig::new, SgdConfig::new);
    ends_as_one_by_one(adam());
    ends_as_one_by_one(adam().with_grad_clipping(Some(clipping)));
    ends_as_one_by_one(adam().with_amsgrad(true).with_weight_decay(decay()));
    ends_as_one_by_one(adam_w().with_weight_decay(0.1));
    ends_as_one_by_one(adam_w().with_cautious_weight_decay(true));
    ends_as_one_by_one(sgd());
    ends_as_one_by_one(sgd().with_momentum(Some(momentum)));
    let sgd = sgd().with_momentum(Some(nesterov));
    ends_as_one_by_one(sgd.with_weight_decay(decay()));
}

policy!(
    /// F32 throughout.
    InF32,
    changed(Config::default(), |it| it.preset = Preset::O0)
);

/// On a software driver a step takes a twentieth of a second.
const MANY: usize = if cfg!(feature = "cubecl") { 40 } else { 300 };

/// Takes [`MANY`] steps; returns the net and its last loss.
fn many_steps<B: AutodiffBackend>(mut optimizer: impl Optimizer<Net<B>, B>) -> (Vec<u8>, f32) {
    let mut net = net::<B>();
    let mut last = 0.0;
    for step in 0..MANY {
        let (loss, _) = poisoned(&net, step % 5, 0.1);
        last = loss.clone().into_scalar().elem();
        net = stepped(&mut optimizer, 0.005, loss, net);
    }
    (save::<B, _>(net), last)
}

fn ends_as_burns_own<C>(config: C)
where
    C: OptimizerConfig<Plain> + OptimizerConfig<Amp> + Clone + std::fmt::Debug,
{
    let _policy = enter::<InF32>();
    let (burns, expected) = many_steps::<PlainAutodiff>(config.adaptor::<PlainAutodiff, _>());
    let list: Fused<C, B> = AmpOptimizer::new(config.clone()).init();
    assert!(list.inner().is_fused());
    let (found, loss) = many_steps::<B>(list);
    if cfg!(not(feature = "cubecl")) {
        assert!(found == burns, "{config:?}");
        assert_eq!(loss, expected, "{config:?}");
    }
    println!("{config:?}: loss {loss}, of Burn's {expected}");
    // Where rounding may differ by an ulp per step.
    assert!(
        (loss - expected).abs() <= 1e-4 * expected.abs().max(0.1),
        "{config:?}: {loss} and not {expected}"
    );
}

/// In F32 the list is Burn's own optimizer, with every option.
///
/// A GPU backend takes each option once and not in all combinations: the tests of the kernel compare single steps of
/// those.
#[test]
fn many_steps_in_f32_end_as_burns_own() {
    let combines = cfg!(not(feature = "cubecl"));
    let decay = || Some(WeightDecayConfig::new(0.01));
    for (amsgrad, cautious) in [(false, false), (false, true), (true, false), (true, true)] {
        let adam = AdamConfig::new().with_amsgrad(amsgrad);
        if !cautious && (combines || !amsgrad) {
            ends_as_burns_own(adam.clone());
        }
        if cautious && (combines || amsgrad) {
            ends_as_burns_own(adam.with_weight_decay(decay()));
        }
        let adam_w = AdamWConfig::new().with_amsgrad(amsgrad);
        let adam_w = adam_w.with_cautious_weight_decay(cautious);
        if combines {
            ends_as_burns_own(adam_w.clone().with_weight_decay(0.0));
        }
        if combines || cautious == amsgrad {
            ends_as_burns_own(adam_w.with_weight_decay(0.1));
        }
    }
    let momentum = MomentumConfig::new;
    let nesterov = momentum().with_nesterov(true);
    let undampened = momentum().with_dampening(0.0);
    let momenta = [None, Some(momentum()), Some(nesterov), Some(undampened)];
    for (index, momentum) in momenta.into_iter().enumerate() {
        let sgd = SgdConfig::new().with_momentum(momentum);
        if combines || index % 2 == 0 {
            ends_as_burns_own(sgd.clone());
        }
        if combines || index % 2 == 1 {
            ends_as_burns_own(sgd.with_weight_decay(decay()));
        }
    }
}

#[test]
fn what_has_no_rule_steps_one_by_one_and_says_so() {
    let _policy = enter::<InF16>();
    let optimizer: Fused<RmsPropConfig, B> = AmpOptimizer::new(RmsPropConfig::new()).init();
    assert!(!optimizer.inner().is_fused());
}

/// A step does not write to parameters or states that somebody else holds.
#[test]
fn clones_of_the_model_and_of_the_optimizer_keep_their_values() {
    let _policy = enter::<InF16>();
    let mut optimizer: Fused<AdamConfig, B> = AmpOptimizer::new(AdamConfig::new()).init();
    let model = steps::<B, _>(net(), &mut optimizer, 0..2);
    let (kept, kept_optimizer) = (model.clone(), optimizer.clone());
    let before = save::<B, _>(kept.clone());
    let state_before = contents::<B>(Optimizer::<Net<B>, B>::to_record(kept_optimizer.inner()));
    steps::<B, _>(model, &mut optimizer, 2..4);
    assert!(save::<B, _>(kept) == before);
    let state = contents::<B>(Optimizer::<Net<B>, B>::to_record(kept_optimizer.inner()));
    assert!(state == state_before);
}
