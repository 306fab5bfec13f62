//! Steps of lists of parameters, compared with Burn's own optimizers.

use burn::{
    optim::{
        AdamConfig, AdamWConfig, SgdConfig, SimpleOptimizer, decay::WeightDecayConfig,
        momentum::MomentumConfig,
    },
    tensor::{
        DType, FloatDType, Tensor, TensorData, TensorPrimitive, Tolerance,
        ops::{FloatTensor, FloatTensorOps},
    },
};
use burn_amp::optim::OptimizerConfig;
use burn_amp_kernels::{
    AmpBackend, loss_scale,
    optimizer::{self, ListStep, Listed, Rule, Stepped},
};
use burn_amp_tests::Plain;
use burn_backend::read_sync;

use super::{dtypes, float};

type Float = FloatTensor<Plain>;

/// Tensors of different sizes: smaller than a vector, odd, and large enough for several cubes.
const SHAPES: [[usize; 2]; 5] = [[1, 1], [3, 5], [8, 64], [33, 31], [128, 300]];

/// Numbers between -2 and 2 that repeat after a long time.
fn noise(len: usize, seed: usize) -> Vec<f64> {
    (0..len)
        .map(|at| ((at * 7919 + seed * 104_729 + 13) % 4001) as f64 / 1000.0 - 2.0)
        .collect()
}

fn random(shape: [usize; 2], seed: usize, dtype: DType) -> Float {
    float(&noise(shape[0] * shape[1], seed), shape, dtype)
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

fn step(rule: Rule, lr: f64, parameters: Vec<Listed<Plain>>) -> ListStep<Plain> {
    ListStep {
        rule,
        lr,
        scaled_by: None,
        unless_overflowed: None,
        clip: None,
        parameters,
    }
}

fn listed(parameter: Float, gradient: Float, moments: Vec<Float>, time: usize) -> Listed<Plain> {
    Listed {
        parameter,
        gradient,
        factor: 1.0,
        master: None,
        moments,
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

/// Makes steps with Burn's optimizer, and compares each with a step of the list from the same state.
fn steps_as_burn<C: Burns>(config: &C) {
    let rule = config.rule().unwrap();
    let optimizer = config.simple();
    let mut parameters = SHAPES.map(|shape| random(shape, 1, DType::F32));
    let mut states = SHAPES.map(|_| None);
    for time in 1..=4 {
        // In the last step nothing decays.
        let lr = if time == 4 { 0.0 } else { 0.01 };
        let gradients = SHAPES.map(|shape| random(shape, 3 * time, DType::F32));
        let list = || {
            let listed = SHAPES.iter().enumerate().map(|(at, shape)| {
                let moments = match &states[at] {
                    Some(state) => C::moments(state),
                    None => undefined(rule, *shape),
                };
                let (parameter, gradient) = (parameters[at].clone(), gradients[at].clone());
                listed(parameter, gradient, moments, time)
            });
            step(rule, lr, listed.collect())
        };
        let reference = optimizer::reference::<Plain>(list());
        let kernel = Plain::optimizer_step(list());
        for at in 0..SHAPES.len() {
            let (parameter, state) = optimizer.step(
                lr,
                tensor(&parameters[at]),
                tensor(&gradients[at]),
                states[at].take(),
            );
            let (parameter, state) = (primitive(parameter), state.unwrap());
            let moments = C::moments(&state);
            #[cfg(not(feature = "fusion"))]
            {
                assert_eq!(data(&reference[at].parameter), data(&parameter));
                for (found, expected) in reference[at].moments.iter().zip(&moments) {
                    assert_eq!(data(found), data(expected));
                }
            }
            let what = format!("{rule:?}, step {time}, {:?}", SHAPES[at]);
            for stepped in [&reference[at], &kernel[at]] {
                assert_within_an_ulp(&stepped.parameter, &parameter, 2.0, &what);
                assert_eq!(stepped.moments.len(), moments.len());
                // A moment is a sum of a moment and a gradient, or of their squares.
                for (found, expected) in stepped.moments.iter().zip(&moments) {
                    assert_within_an_ulp(found, expected, 4.0, &what);
                }
            }
            parameters[at] = parameter;
            states[at] = Some(state);
        }
    }
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
    for amsgrad in [false, true] {
        for cautious in [false, true] {
            for weight_decay in [0.0, 0.1] {
                let adam_w = AdamWConfig::new()
                    .with_amsgrad(amsgrad)
                    .with_cautious_weight_decay(cautious)
                    .with_weight_decay(weight_decay);
                steps_as_burn(&adam_w);
            }
        }
    }
}

#[test]
fn sgd_steps_as_burns_with_every_option() {
    for nesterov in [false, true] {
        for dampening in [0.0, 0.1] {
            let momentum = MomentumConfig::new()
                .with_nesterov(nesterov)
                .with_dampening(dampening);
            let sgd = SgdConfig::new().with_momentum(Some(momentum));
            steps_as_burn(&sgd);
            steps_as_burn(&sgd.with_weight_decay(decay()));
        }
    }
    steps_as_burn(&SgdConfig::new());
    steps_as_burn(&SgdConfig::new().with_weight_decay(decay()));
}

fn adam() -> Rule {
    OptimizerConfig::<Plain>::rule(&AdamConfig::new()).unwrap()
}

/// A state of the loss scale after a pass that overflowed or not.
fn state(scale: f32, overflowed: bool) -> Float {
    let mut state = loss_scale::state(burn_amp::config::LossScaling::Static(scale).start());
    state[3] = f32::from(overflowed);
    Plain::float_from_data(TensorData::from(state), &Default::default())
}

#[test]
fn after_an_overflow_nothing_changes() {
    for seed in 0..1000 {
        let parameter = random([5, 7], seed, DType::F32);
        let moments = vec![
            random([5, 7], seed + 1, DType::F32),
            random([5, 7], seed + 2, DType::F32),
        ];
        let mut values = noise(35, seed);
        values[seed % 35] = f64::INFINITY;
        values[(seed + 9) % 35] = f64::NAN;
        let gradient = float(&values, [5, 7], DType::F32);
        let before: Vec<_> = [&parameter, &moments[0], &moments[1]].map(data).into();
        let listed = listed(parameter, gradient, moments, 3);
        let list = ListStep {
            unless_overflowed: Some(state(8.0, true)),
            ..step(adam(), 0.1, vec![listed])
        };
        for stepped in [
            optimizer::reference::<Plain>(list.clone()),
            Plain::optimizer_step(list),
        ] {
            let Stepped {
                parameter, moments, ..
            } = &stepped[0];
            let after: Vec<_> = [parameter, &moments[0], &moments[1]].map(data).into();
            assert!(after == before, "step {seed}");
        }
    }
}

/// Scaled gradients that are clipped, in every dtype, of parameters in every dtype, with and without masters.
#[test]
fn gradients_are_unscaled_and_clipped_and_every_form_is_written() {
    let low = dtypes().into_iter().find(|dtype| *dtype == DType::F16);
    for stored in dtypes() {
        for gradient in dtypes() {
            let wide = stored == DType::F64;
            if wide != (gradient == DType::F64) {
                continue;
            }
            let wide = if wide { DType::F64 } else { DType::F32 };
            for has_master in [false, true] {
                let shape = [9, 13];
                let parameter = random(shape, 1, stored);
                let master = random(shape, 5, wide);
                let weights = if has_master {
                    master.clone()
                } else {
                    Plain::float_cast(parameter.clone(), FloatDType::from(wide))
                };
                let gradient = random(shape, 2, gradient);
                let moments = || {
                    [3, 4]
                        .map(|seed| primitive(tensor(&random(shape, seed, wide)).abs()))
                        .to_vec()
                };
                let factor = 0.25 / 16.0 * 0.5;
                let plain = Plain::float_mul_scalar(
                    Plain::float_cast(gradient.clone(), FloatDType::from(wide)),
                    factor.into(),
                );
                let expected = step(adam(), 0.1, vec![listed(weights, plain, moments(), 2)]);
                let expected = optimizer::reference::<Plain>(expected).remove(0);
                let list = ListStep {
                    scaled_by: Some(state(16.0, false)),
                    unless_overflowed: Some(state(16.0, false)),
                    clip: Some(float(&[0.5], [1], DType::F32)),
                    ..step(
                        adam(),
                        0.1,
                        vec![Listed {
                            factor: 0.25,
                            master: has_master.then(|| master.clone()),
                            low: low.map(FloatDType::from),
                            ..listed(parameter.clone(), gradient, moments(), 2)
                        }],
                    )
                };
                let unchanged = data(&parameter);
                for stepped in [
                    optimizer::reference::<Plain>(list.clone()),
                    Plain::optimizer_step(list),
                ] {
                    let what = format!("{stored:?}, master: {has_master}");
                    let stepped = &stepped[0];
                    let near = |found: &Float, expected: &Float| {
                        assert_eq!(data(found).dtype, data(expected).dtype, "{what}");
                        let tolerance = Tolerance::<f64>::absolute(1e-6);
                        data(found).assert_approx_eq::<f64>(&data(expected), tolerance);
                    };
                    assert_eq!(stepped.master.is_some(), has_master);
                    let written = stepped.master.as_ref().unwrap_or(&stepped.parameter);
                    if has_master || stored == wide {
                        near(written, &expected.parameter);
                    }
                    let rounded = Plain::float_cast(written.clone(), FloatDType::from(stored));
                    assert_eq!(data(&rounded), data(&stepped.parameter), "{what}");
                    for (found, expected) in stepped.moments.iter().zip(&expected.moments) {
                        near(found, expected);
                    }
                    if let Some(low) = low {
                        let of_parameter =
                            Plain::float_cast(stepped.parameter.clone(), FloatDType::from(low));
                        assert_eq!(
                            data(stepped.low.as_ref().unwrap()),
                            data(&of_parameter),
                            "{what}"
                        );
                    }
                }
                // The step was given clones, so it must not write to them.
                assert_eq!(
                    data(&parameter),
                    unchanged,
                    "{what}",
                    what = "a shared parameter"
                );
            }
        }
    }
}

#[test]
fn gradients_have_any_layout_and_any_number() {
    let values = noise(24, 1);
    let source = || tensor(&float(&values, [4, 6], DType::F32));
    let cases = [
        source().transpose(),
        source().slice([1..3, 2..5]),
        source().slice([1..3, 2..5]).transpose(),
        source().slice([2..3, 0..6]).expand([3, 6]),
        Tensor::empty([0, 6], &Default::default()),
    ];
    let mut lists = Vec::new();
    for is_contiguous in [false, true] {
        let parameters = (0..100).map(|at| {
            let gradient = cases[at % cases.len()].clone();
            let shape = gradient.dims();
            let gradient = if is_contiguous {
                let data = gradient.into_data();
                Tensor::<Plain, 2>::from_data(data, &Default::default())
            } else {
                gradient
            };
            listed(
                random(shape, at, DType::F32),
                primitive(gradient),
                undefined(adam(), shape),
                1,
            )
        });
        lists.push(step(adam(), 0.1, parameters.collect()));
    }
    let [strided, contiguous] = <[_; 2]>::try_from(lists).unwrap();
    let found = Plain::optimizer_step(strided);
    let expected = optimizer::reference::<Plain>(contiguous);
    assert_eq!(found.len(), 100);
    for (found, expected) in found.iter().zip(&expected) {
        let tolerance = Tolerance::<f32>::absolute(1e-6);
        data(&found.parameter).assert_approx_eq::<f32>(&data(&expected.parameter), tolerance);
        if data(&found.parameter).num_elements() > 0 {
            let [found, expected] = [found, expected].map(|stepped| data(&stepped.moments[1]));
            found.assert_approx_eq::<f32>(&expected, tolerance);
        }
    }
}
