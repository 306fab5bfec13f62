//! Law: a list of parameters steps as Burn's optimizers do: bit for bit in the reference, within an ulp in the kernel.

use burn::{
    optim::SimpleOptimizer,
    tensor::{Tolerance, ops::IntTensorOps},
};
use burn_amp_kernels::{
    loss_scale,
    optimizer::{
        self, ListStep, ListStepOf, Listed, ListedOf, Master, MasterOf, Moment, MomentFormat,
        Place, Rule, SteppedOf, StoredMomentOf,
    },
};
use burn_amp_tests::prelude::*;

use super::{dtypes, float};

mod forms;

type Float = FloatTensor<Plain>;

/// Tensors of different sizes: smaller than a vector, odd, and large enough for several cubes.
const SHAPES: [[usize; 2]; 5] = [[1, 1], [3, 5], [8, 64], [33, 31], [128, 300]];

/// Numbers between -2 and 2 that repeat after a long time.
fn noise(len: usize, seed: usize) -> Vec<f64> {
    (0..len)
        .map(|at| ((at * 7919 + seed * 104_729 + 13) % 4001) as f64 / 1000.0 - 2.0)
        .collect()
}

/// A tensor of [`noise`].
fn random(shape: [usize; 2], seed: usize, dtype: DType) -> Float {
    float(&noise(shape[0] * shape[1], seed), shape, dtype)
}

/// The tensor of a moment that is not packed.
fn unpacked(moment: &StoredMomentOf<Plain>) -> &Float {
    match moment {
        Moment::Wide(tensor) => tensor,
        Moment::Bf16(_) | Moment::Bits8(_) => panic!("the step changed the format of a moment"),
    }
}

/// The tensor of a master that is not split, if there is one.
fn unsplit(master: &MasterOf<Plain>) -> Option<&Float> {
    match master {
        Master::Parameter => None,
        Master::F32(tensor) => Some(tensor),
        Master::Offset(_) => panic!("the step changed the form of a master"),
    }
}

fn data(tensor: &Float) -> TensorData {
    read_sync(Plain::float_into_data(tensor.clone())).unwrap()
}

fn tensor(float: &Float) -> Tensor<Plain, 2> {
    Tensor::from_primitive(TensorPrimitive::Float(float.clone()))
}

fn primitive(tensor: Tensor<Plain, 2>) -> Float {
    tensor.into_primitive().tensor()
}

/// A configuration of Burn's with the moments of its state.
trait Burns: OptimizerConfig<Plain> {
    fn moments(state: &<Self::Optimizer as SimpleOptimizer<Plain>>::State<2>) -> Vec<Float> {
        let (_, moments) = Self::parts_of::<2>(state.clone()).unwrap();
        moments.into_iter().map(primitive).collect()
    }
}

impl Burns for AdamConfig {}
impl Burns for AdamWConfig {}
impl Burns for SgdConfig {}

fn step(rule: Rule, lr: f64, parameters: Vec<ListedOf<Plain>>) -> ListStepOf<Plain> {
    ListStep {
        rule,
        lr,
        scaled_by: None,
        unless_overflowed: None,
        clip: None,
        parameters,
    }
}

fn listed(parameter: Float, gradient: Float, moments: Vec<Float>, time: usize) -> ListedOf<Plain> {
    Listed {
        parameter,
        gradient,
        factor: 1.0,
        master: Master::Parameter,
        moments: moments.into_iter().map(Moment::Wide).collect(),
        key: 0,
        rounds_stochastically: false,
        time: time as i32,
        low: None,
    }
}

/// Undefined moments for a first step.
fn undefined(rule: Rule, shape: [usize; 2]) -> Vec<Float> {
    let nan = || float(&vec![f64::NAN; shape[0] * shape[1]], shape, DType::F32);
    (0..rule.moments()).map(|_| nan()).collect()
}

/// Asserts that the numbers differ by at most one step of F32 at the size of the largest operand that went into them.
fn assert_within_an_ulp(found: &Float, expected: &Float, operand: f32, what: &str) {
    let [found, expected] = [found, expected].map(data);
    for (found, expected) in found.iter::<f32>().zip(expected.iter::<f32>()) {
        let ulp = f32::EPSILON * expected.abs().max(operand);
        let error = (found - expected).abs();
        assert!(error <= ulp, "{what}: {found} instead of {expected}");
    }
}

/// Steps one parameter, by the reference and by the kernel.
fn both(list: ListStepOf<Plain>) -> [SteppedOf<Plain>; 2] {
    let [reference, kernel] = [
        optimizer::step::<References>(list.clone()),
        optimizer::step::<Plain>(list),
    ];
    [reference, kernel].map(|mut stepped| stepped.remove(0))
}

/// The moment at a place with these values, rounded to the nearest.
fn rounded(values: &Float, format: MomentFormat, place: usize) -> StoredMomentOf<Plain> {
    optimizer::rounded::<Plain>(values.clone(), format, Place::at(place), None)
}

/// The moments of Adam, the second of which is a sum of squares.
fn moments(shape: [usize; 2], seed: usize, format: MomentFormat) -> Vec<StoredMomentOf<Plain>> {
    let second = primitive(tensor(&random(shape, seed + 1, DType::F32)).abs());
    let values = [random(shape, seed, DType::F32), second];
    (0..2)
        .map(|place| rounded(&values[place], format, place))
        .collect()
}

/// The bits of a moment as it is stored.
fn bits(moment: &StoredMomentOf<Plain>) -> TensorData {
    match moment {
        Moment::Wide(tensor) => data(tensor),
        Moment::Bf16(words) | Moment::Bits8(words) => {
            read_sync(Plain::int_into_data(words.clone())).unwrap()
        }
    }
}

/// Makes steps with Burn's optimizer, and compares each with a step of the list from the same state: four of all shapes,
/// and three hundred of the small ones.
fn steps_as_burn<C: Burns>(config: &C) {
    same_steps(config, &SHAPES, 4);
    same_steps(config, &SHAPES[..2], 300);
}

fn same_steps<C: Burns>(config: &C, shapes: &[[usize; 2]], last: usize) {
    let rule = config.rule().unwrap();
    let optimizer = config.simple();
    let random = |seed| -> Vec<Float> {
        shapes
            .iter()
            .map(|shape| random(*shape, seed, DType::F32))
            .collect()
    };
    let mut parameters = random(1);
    let mut states: Vec<_> = shapes.iter().map(|_| None).collect();
    for time in 1..=last {
        // In the last step nothing decays.
        let lr = if time == last { 0.0 } else { 0.01 };
        let gradients = random(3 * time);
        let list = || {
            let listed = shapes.iter().enumerate().map(|(at, shape)| {
                let moments = match &states[at] {
                    Some(state) => C::moments(state),
                    None => undefined(rule, *shape),
                };
                listed(parameters[at].clone(), gradients[at].clone(), moments, time)
            });
            step(rule, lr, listed.collect())
        };
        let kernel = optimizer::step::<Plain>(list());
        // Where there is a kernel, a long run is one of the kernel.
        let has_reference = last < 300 || cfg!(not(feature = "cubecl"));
        let reference = has_reference.then(|| optimizer::step::<References>(list()));
        for (at, shape) in shapes.iter().enumerate() {
            let [parameter, gradient] = [&parameters[at], &gradients[at]].map(tensor);
            let (parameter, state) = optimizer.step(lr, parameter, gradient, states[at].take());
            let (parameter, state) = (primitive(parameter), state.unwrap());
            let moments = C::moments(&state);
            let reference = reference.as_ref().map(|reference| &reference[at]);
            let what = format!("{rule:?}, step {time}, {shape:?}");
            for (stepped, is_exact) in reference
                .map(|reference| (reference, cfg!(not(feature = "fusion"))))
                .into_iter()
                .chain([(&kernel[at], false)])
            {
                let near = if is_exact {
                    assert_same
                } else {
                    assert_within_an_ulp
                };
                near(&stepped.parameter, &parameter, 2.0, &what);
                assert_eq!(stepped.moments.len(), moments.len());
                // A moment is a sum of a moment and a gradient, or of their squares.
                for (found, expected) in stepped.moments.iter().zip(&moments) {
                    near(unpacked(found), expected, 4.0, &what);
                }
            }
            parameters[at] = parameter;
            states[at] = Some(state);
        }
    }
}

/// Asserts that the numbers have the same bits.
fn assert_same(found: &Float, expected: &Float, _: f32, what: &str) {
    assert_eq!(data(found), data(expected), "{what}");
}

fn decay() -> Option<WeightDecayConfig> {
    Some(WeightDecayConfig::new(0.05))
}

#[test]
fn adam_steps_as_burns_with_every_option() {
    for amsgrad in [false, true] {
        let adam = AdamConfig::new().with_amsgrad(amsgrad).with_epsilon(1e-8);
        steps_as_burn(&adam);
        steps_as_burn(&adam.with_weight_decay(decay()));
    }
}

#[test]
fn adam_w_steps_as_burns_with_every_option() {
    for options in 0..8 {
        let has = |option: u8| options >> option & 1 == 1;
        let adam_w = AdamWConfig::new()
            .with_amsgrad(has(0))
            .with_cautious_weight_decay(has(1))
            .with_weight_decay(if has(2) { 0.1 } else { 0.0 });
        steps_as_burn(&adam_w);
    }
}

#[test]
fn sgd_steps_as_burns_with_every_option() {
    let of = |nesterov, dampening| {
        let momentum = MomentumConfig::new().with_nesterov(nesterov);
        Some(momentum.with_dampening(dampening))
    };
    let momenta = [
        of(false, 0.0),
        of(false, 0.1),
        of(true, 0.0),
        of(true, 0.1),
        None,
    ];
    for momentum in momenta {
        let sgd = SgdConfig::new().with_momentum(momentum);
        steps_as_burn(&sgd);
        steps_as_burn(&sgd.with_weight_decay(decay()));
    }
}

fn adam() -> Rule {
    OptimizerConfig::<Plain>::rule(&AdamConfig::new()).unwrap()
}

/// A state of the loss scale after a pass that overflowed or not.
fn state(scale: f32, overflowed: bool) -> Float {
    let mut state = loss_scale::state(burn_amp::config::LossScaling::Static(scale).start());
    state[3] = f32::from(overflowed);
    Plain::float_from_data(TensorData::from(state), &here())
}

#[test]
fn after_an_overflow_nothing_changes() {
    use MomentFormat::{Bf16, Bits8, Wide};

    for (format, seeds) in [(Wide, 1000), (Bf16, 1), (Bits8, 1)] {
        for seed in 0..seeds {
            let parameter = random([5, 7], seed, DType::F32);
            let moments = moments([5, 7], seed + 1, format);
            let mut values = noise(35, seed);
            values[seed % 35] = f64::INFINITY;
            values[(seed + 9) % 35] = f64::NAN;
            let gradient = float(&values, [5, 7], DType::F32);
            let listed = Listed {
                moments: moments.clone(),
                key: 5,
                ..listed(parameter.clone(), gradient, vec![], 3)
            };
            let list = ListStep {
                unless_overflowed: Some(state(8.0, true)),
                ..step(adam(), 0.1, vec![listed])
            };
            for stepped in both(list) {
                assert!(data(&stepped.parameter) == data(&parameter), "step {seed}");
                let after = stepped.moments.iter().map(bits);
                assert!(after.eq(moments.iter().map(bits)), "step {seed}");
            }
        }
    }
}

/// The dtypes in which parameters are stored that are stepped in F32.
fn narrow() -> impl Iterator<Item = DType> {
    dtypes().into_iter().filter(|dtype| *dtype != DType::F64)
}

/// Scaled gradients that are clipped, in every dtype, of parameters in every dtype, with and without masters.
#[test]
fn gradients_are_unscaled_and_clipped_and_every_form_is_written() {
    for stored in narrow() {
        for gradient in narrow() {
            every_form_is_written(stored, gradient, DType::F32);
        }
    }
    if dtypes().contains(&DType::F64) {
        every_form_is_written(DType::F64, DType::F64, DType::F64);
    }
}

fn every_form_is_written(stored: DType, gradient: DType, wide: DType) {
    let shape = [9, 13];
    let cast = |tensor: &Float, to: DType| Plain::float_cast(tensor.clone(), to.into());
    let low = dtypes().into_iter().find(|dtype| *dtype == DType::F16);
    let parameter = random(shape, 1, stored);
    let master = random(shape, 5, wide);
    let gradient = random(shape, 2, gradient);
    let moments = || [3, 4].map(|seed| primitive(tensor(&random(shape, seed, wide)).abs()));
    for has_master in [false, true] {
        let what = format!("{stored:?}, master: {has_master}");
        let weights = if has_master {
            master.clone()
        } else {
            cast(&parameter, wide)
        };
        let factor = 0.25 / 16.0 * 0.5;
        let plain = Plain::float_mul_scalar(cast(&gradient, wide), factor.into());
        let expected = step(
            adam(),
            0.1,
            vec![listed(weights, plain, moments().into(), 2)],
        );
        let expected = optimizer::step::<References>(expected).remove(0);
        let list = Listed {
            factor: 0.25,
            master: match has_master {
                true => Master::F32(master.clone()),
                false => Master::Parameter,
            },
            low: low.map(FloatDType::from),
            ..listed(parameter.clone(), gradient.clone(), moments().into(), 2)
        };
        let list = ListStep {
            scaled_by: Some(state(16.0, false)),
            unless_overflowed: Some(state(16.0, false)),
            clip: Some(float(&[0.5], [1], DType::F32)),
            ..step(adam(), 0.1, vec![list])
        };
        let unchanged = data(&parameter);
        for stepped in both(list) {
            let near = |found: &Float, expected: &Float| {
                let [found, expected] = [found, expected].map(data);
                assert_eq!(found.dtype, expected.dtype, "{what}");
                found.assert_approx_eq::<f64>(&expected, Tolerance::absolute(1e-6));
            };
            let written = unsplit(&stepped.master);
            assert_eq!(written.is_some(), has_master);
            let written = written.unwrap_or(&stepped.parameter);
            if has_master || stored == wide {
                near(written, &expected.parameter);
            }
            assert_same(&cast(written, stored), &stepped.parameter, 0.0, &what);
            for (found, expected) in stepped.moments.iter().zip(&expected.moments) {
                near(unpacked(found), unpacked(expected));
            }
            if let Some(low) = low {
                let copy = stepped.low.as_ref().unwrap();
                assert_same(copy, &cast(&stepped.parameter, low), 0.0, &what);
            }
        }
        // The step was given clones, so it must not write to them.
        assert_eq!(data(&parameter), unchanged, "a shared parameter");
    }
}

/// The copy in low precision is that of the parameter as it is stored, also where its master knows it better.
#[test]
fn a_copy_of_a_parameter_is_rounded_from_what_is_stored() {
    for (stored, low) in narrow().flat_map(|stored| narrow().map(move |low| (stored, low))) {
        for overflowed in [false, true] {
            let master = random([9, 13], 1, DType::F32);
            let parameter = Plain::float_cast(master.clone(), stored.into());
            let gradient = random([9, 13], 2, DType::F32);
            let list = Listed {
                master: Master::F32(master),
                low: Some(low.into()),
                ..listed(parameter, gradient, undefined(adam(), [9, 13]), 1)
            };
            let list = ListStep {
                unless_overflowed: Some(state(16.0, overflowed)),
                ..step(adam(), 0.1, vec![list])
            };
            for stepped in both(list) {
                let expected = Plain::float_cast(stepped.parameter, low.into());
                let what = format!("{stored:?} in {low:?}, overflowed: {overflowed}");
                assert_same(stepped.low.as_ref().unwrap(), &expected, 0.0, &what);
            }
        }
    }
}

#[test]
fn gradients_have_any_layout_and_any_number() {
    let values = noise(24, 1);
    let source = || tensor(&float(&values, [4, 6], DType::F32));
    let mut cases = vec![
        source().transpose(),
        source().slice([1..3, 2..5]),
        source().slice([1..3, 2..5]).transpose(),
        source().slice([2..3, 0..6]).expand([3, 6]),
    ];
    // On CUDA, reading a tensor without elements fails in burn-cubecl: a launch without cubes is refused.
    if cfg!(not(feature = "cuda")) {
        cases.push(Tensor::empty([0, 6], &here()));
    }
    let list = |place: fn(Tensor<Plain, 2>) -> Tensor<Plain, 2>| {
        let parameters = (0..100).map(|at| {
            let gradient = cases[at % cases.len()].clone();
            let shape = gradient.dims();
            let parameter = random(shape, at, DType::F32);
            listed(
                parameter,
                primitive(place(gradient)),
                undefined(adam(), shape),
                1,
            )
        });
        step(adam(), 0.1, parameters.collect())
    };
    let found = optimizer::step::<Plain>(list(|strided| strided));
    let contiguous = list(|gradient| Tensor::from_data(gradient.into_data(), &here()));
    let expected = optimizer::step::<References>(contiguous);
    assert_eq!(found.len(), 100);
    for (found, expected) in found.iter().zip(&expected) {
        let near = |of: fn(&SteppedOf<Plain>) -> &Float| {
            let [found, expected] = [found, expected].map(|stepped| data(of(stepped)));
            found.assert_approx_eq::<f32>(&expected, Tolerance::absolute(1e-6));
        };
        near(|stepped| &stepped.parameter);
        if data(&found.parameter).num_elements() > 0 {
            near(|stepped| unpacked(&stepped.moments[1]));
        }
    }
}
