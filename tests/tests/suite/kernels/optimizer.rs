//! Law: a list of parameters steps as Burn's optimizers do: bit for bit in the reference, within an ulp in the kernel.

use burn::{
    optim::{SimpleOptimizer, decay::WeightDecayConfig},
    tensor::{Tolerance, ops::IntTensorOps},
};
use burn_amp::optim::OptimizerConfig;
use burn_amp_kernels::{
    loss_scale,
    optimizer::{
        self, ListStep, ListStepOf, Listed, ListedOf, Master, MasterOf, Moment, MomentFormat,
        Place, Rule, Stepped, StoredMomentOf, rounding,
    },
};
use burn_amp_tests::prelude::*;

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

/// Makes steps with Burn's optimizer, and compares each with a step of the list from the same state: four of all shapes,
/// and three hundred of the small ones.
fn steps_as_burn<C: Burns>(config: &C) {
    same_steps(config, SHAPES, 4);
    let [one, odd, ..] = SHAPES;
    same_steps(config, [one, odd], 300);
}

fn same_steps<C: Burns, const N: usize>(config: &C, shapes: [[usize; 2]; N], last: usize) {
    let rule = config.rule().unwrap();
    let optimizer = config.simple();
    let mut parameters = shapes.map(|shape| random(shape, 1, DType::F32));
    let mut states = shapes.map(|_| None);
    for time in 1..=last {
        // In the last step nothing decays.
        let lr = if time == last { 0.0 } else { 0.01 };
        let gradients = shapes.map(|shape| random(shape, 3 * time, DType::F32));
        let list = || {
            let listed = shapes.iter().enumerate().map(|(at, shape)| {
                let moments = match &states[at] {
                    Some(state) => C::moments(state),
                    None => undefined(rule, *shape),
                };
                let (parameter, gradient) = (parameters[at].clone(), gradients[at].clone());
                listed(parameter, gradient, moments, time)
            });
            step(rule, lr, listed.collect())
        };
        let kernel = optimizer::step::<Plain>(list());
        // Where there is a kernel, a long run is one of the kernel.
        let has_reference = last < 300 || cfg!(not(feature = "cubecl"));
        let reference = has_reference.then(|| optimizer::step::<References>(list()));
        for at in 0..N {
            let (parameter, state) = optimizer.step(
                lr,
                tensor(&parameters[at]),
                tensor(&gradients[at]),
                states[at].take(),
            );
            let (parameter, state) = (primitive(parameter), state.unwrap());
            let moments = C::moments(&state);
            let reference = reference.as_ref().map(|reference| &reference[at]);
            #[cfg(not(feature = "fusion"))]
            if let Some(reference) = reference {
                assert_eq!(data(&reference.parameter), data(&parameter));
                for (found, expected) in reference.moments.iter().zip(&moments) {
                    assert_eq!(data(unpacked(found)), data(expected));
                }
            }
            let what = format!("{rule:?}, step {time}, {:?}", shapes[at]);
            for stepped in reference.into_iter().chain([&kernel[at]]) {
                assert_within_an_ulp(&stepped.parameter, &parameter, 2.0, &what);
                assert_eq!(stepped.moments.len(), moments.len());
                // A moment is a sum of a moment and a gradient, or of their squares.
                for (found, expected) in stepped.moments.iter().zip(&moments) {
                    assert_within_an_ulp(unpacked(found), expected, 4.0, &what);
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
    Plain::float_from_data(TensorData::from(state), &here())
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
            optimizer::step::<References>(list.clone()),
            optimizer::step::<Plain>(list),
        ] {
            let Stepped {
                parameter, moments, ..
            } = &stepped[0];
            let [first, second] = [&moments[0], &moments[1]].map(unpacked);
            let after: Vec<_> = [parameter, first, second].map(data).into();
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
                let expected = optimizer::step::<References>(expected).remove(0);
                let list = ListStep {
                    scaled_by: Some(state(16.0, false)),
                    unless_overflowed: Some(state(16.0, false)),
                    clip: Some(float(&[0.5], [1], DType::F32)),
                    ..step(
                        adam(),
                        0.1,
                        vec![Listed {
                            factor: 0.25,
                            master: match has_master {
                                true => Master::F32(master.clone()),
                                false => Master::Parameter,
                            },
                            low: low.map(FloatDType::from),
                            ..listed(parameter.clone(), gradient, moments(), 2)
                        }],
                    )
                };
                let unchanged = data(&parameter);
                for stepped in [
                    optimizer::step::<References>(list.clone()),
                    optimizer::step::<Plain>(list),
                ] {
                    let what = format!("{stored:?}, master: {has_master}");
                    let stepped = &stepped[0];
                    let near = |found: &Float, expected: &Float| {
                        assert_eq!(data(found).dtype, data(expected).dtype, "{what}");
                        let tolerance = Tolerance::<f64>::absolute(1e-6);
                        data(found).assert_approx_eq::<f64>(&data(expected), tolerance);
                    };
                    let written = unsplit(&stepped.master);
                    assert_eq!(written.is_some(), has_master);
                    let written = written.unwrap_or(&stepped.parameter);
                    if has_master || stored == wide {
                        near(written, &expected.parameter);
                    }
                    let rounded = Plain::float_cast(written.clone(), FloatDType::from(stored));
                    assert_eq!(data(&rounded), data(&stepped.parameter), "{what}");
                    for (found, expected) in stepped.moments.iter().zip(&expected.moments) {
                        near(unpacked(found), unpacked(expected));
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

/// The copy in low precision is that of the parameter as it is stored, also where its master knows it better.
#[test]
fn a_copy_of_a_parameter_is_rounded_from_what_is_stored() {
    let dtypes = || dtypes().into_iter().filter(|dtype| *dtype != DType::F64);
    for (stored, low) in dtypes().flat_map(|stored| dtypes().map(move |low| (stored, low))) {
        for overflowed in [false, true] {
            let master = random([9, 13], 1, DType::F32);
            let parameter = Plain::float_cast(master.clone(), FloatDType::from(stored));
            let list = ListStep {
                unless_overflowed: Some(state(16.0, overflowed)),
                ..step(
                    adam(),
                    0.1,
                    vec![Listed {
                        master: Master::F32(master),
                        low: Some(FloatDType::from(low)),
                        ..listed(
                            parameter,
                            random([9, 13], 2, DType::F32),
                            undefined(adam(), [9, 13]),
                            1,
                        )
                    }],
                )
            };
            for stepped in [
                optimizer::step::<References>(list.clone()),
                optimizer::step::<Plain>(list),
            ] {
                let copy = stepped[0].low.as_ref().unwrap();
                let parameter = stepped[0].parameter.clone();
                let expected = Plain::float_cast(parameter, FloatDType::from(low));
                let what = format!("{stored:?} in {low:?}, overflowed: {overflowed}");
                assert_eq!(data(copy), data(&expected), "{what}");
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
    let mut lists = Vec::new();
    for is_contiguous in [false, true] {
        let parameters = (0..100).map(|at| {
            let gradient = cases[at % cases.len()].clone();
            let shape = gradient.dims();
            let gradient = if is_contiguous {
                let data = gradient.into_data();
                Tensor::<Plain, 2>::from_data(data, &here())
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
    let found = optimizer::step::<Plain>(strided);
    let expected = optimizer::step::<References>(contiguous);
    assert_eq!(found.len(), 100);
    for (found, expected) in found.iter().zip(&expected) {
        let tolerance = Tolerance::<f32>::absolute(1e-6);
        data(&found.parameter).assert_approx_eq::<f32>(&data(&expected.parameter), tolerance);
        if data(&found.parameter).num_elements() > 0 {
            let moments = [found, expected].map(|stepped| data(unpacked(&stepped.moments[1])));
            let [found, expected] = moments;
            found.assert_approx_eq::<f32>(&expected, tolerance);
        }
    }
}

/// The formats in which moments are rounded.
const ROUNDED: [MomentFormat; 2] = [MomentFormat::Bf16, MomentFormat::Bits8];

/// The words of a moment that is rounded.
fn words(moment: &StoredMomentOf<Plain>) -> Vec<u32> {
    match moment {
        Moment::Wide(_) => panic!("the step changed the format of a moment"),
        Moment::Bf16(words) | Moment::Bits8(words) => {
            let data = read_sync(Plain::int_into_data(words.clone())).unwrap();
            data.iter::<u32>().collect()
        }
    }
}

/// The moment at a place with these values, rounded to the nearest.
fn rounded(values: &Float, format: MomentFormat, place: usize) -> StoredMomentOf<Plain> {
    optimizer::rounded::<Plain>(values.clone(), format, Place::at(place), None)
}

/// The numbers of a moment.
fn widened(moment: StoredMomentOf<Plain>, shape: [usize; 2], place: usize) -> Float {
    optimizer::widened::<Plain>(moment, shape.into(), DType::F32, Place::at(place))
}

/// The magnitudes of numbers of a format, counted in its steps.
fn steps(
    format: MomentFormat,
    moment: &StoredMomentOf<Plain>,
    shape: [usize; 2],
    place: usize,
) -> Vec<u32> {
    assert_eq!(moment.format(), format);
    let values = data(&widened(moment.clone(), shape, place));
    let values = values.iter::<f32>().map(|x| x.abs().to_bits());
    values.map(|bits| bits >> low_bits(format)).collect()
}

/// The bits of an F32 that a format does not have.
fn low_bits(format: MomentFormat) -> u32 {
    match format {
        MomentFormat::Wide => 0,
        MomentFormat::Bf16 => 16,
        MomentFormat::Bits8 => 20,
    }
}

/// The kernel draws the numbers of the reference, so that nearly all elements have the same bits; where a sum is rounded
/// differently by one F32 step, it may be rounded to the other neighbour.
#[test]
fn moments_are_rounded_by_the_same_draws_everywhere() {
    let momentum = MomentumConfig::new().with_nesterov(true);
    let rules = [
        adam(),
        OptimizerConfig::<Plain>::rule(&AdamWConfig::new().with_amsgrad(true)).unwrap(),
        OptimizerConfig::<Plain>::rule(&SgdConfig::new().with_momentum(Some(momentum))).unwrap(),
    ];
    for (rule, format) in rules
        .into_iter()
        .flat_map(|rule| ROUNDED.map(|format| (rule, format)))
    {
        for time in [1, 2, 7] {
            let list = || {
                let listed = SHAPES.iter().enumerate().map(|(at, shape)| {
                    let moments = (0..rule.moments()).map(|place| {
                        let values = random(*shape, place, DType::F32);
                        let values = match place {
                            0 => values,
                            _ => primitive(tensor(&values).abs()),
                        };
                        rounded(&values, format, place)
                    });
                    Listed {
                        moments: moments.collect(),
                        key: rounding::mixed(at as u32 + 10 * time as u32),
                        ..listed(
                            random(*shape, 1, DType::F32),
                            random(*shape, 2, DType::F32),
                            Vec::new(),
                            time,
                        )
                    }
                });
                step(rule, 0.01, listed.collect())
            };
            let reference = optimizer::step::<References>(list());
            let kernel = optimizer::step::<Plain>(list());
            let [mut same, mut all] = [0, 0];
            for ((found, expected), shape) in kernel.iter().zip(&reference).zip(SHAPES) {
                let what = format!("{rule:?}, {format:?}, step {time}");
                assert_within_an_ulp(&found.parameter, &expected.parameter, 2.0, &what);
                let moments = found.moments.iter().zip(&expected.moments);
                for (place, (found, expected)) in moments.enumerate() {
                    let [found, expected] =
                        [found, expected].map(|moment| steps(format, moment, shape, place));
                    for (found, expected) in found.into_iter().zip(expected) {
                        let is_near = found.abs_diff(expected) <= 1 || found.min(expected) == 0;
                        assert!(is_near, "{what}: {found:x}, {expected:x}");
                        same += usize::from(found == expected);
                        all += 1;
                    }
                }
            }
            assert!(same * 1000 >= all * 999, "{rule:?}: {same} of {all}");
        }
    }
}

/// The moments after a step are one of the two neighbours of what an F32 step computes from the same moments, and right on
/// average.
#[test]
fn rounded_moments_are_right_on_average() {
    for format in ROUNDED {
        right_on_average(format);
    }
}

fn right_on_average(format: MomentFormat) {
    let shape = [300, 400];
    let [parameter, gradient, first, second] =
        [1, 2, 3, 4].map(|seed| random(shape, seed, DType::F32));
    let second = primitive(tensor(&second).abs());
    let moments = [rounded(&first, format, 0), rounded(&second, format, 1)];
    let wide_moments: Vec<_> = (0..2)
        .map(|at| widened(moments[at].clone(), shape, at))
        .collect();
    let list = listed(parameter.clone(), gradient.clone(), wide_moments, 2);
    let exact = optimizer::step::<References>(step(adam(), 0.01, vec![list])).remove(0);
    let list = Listed {
        moments: moments.to_vec(),
        key: rounding::mixed(99),
        ..listed(parameter, gradient, Vec::new(), 2)
    };
    let kept = optimizer::step::<Plain>(step(adam(), 0.01, vec![list])).remove(0);
    let low = (1 << low_bits(format)) - 1;
    for (at, (kept, exact)) in kept.moments.into_iter().zip(&exact.moments).enumerate() {
        let kept = widened(kept, shape, at);
        let [kept, exact] = [&kept, unpacked(exact)].map(data);
        let (mut sum, mut variance) = (0.0, 0.0);
        for (kept, exact) in kept.iter::<f32>().zip(exact.iter::<f32>()) {
            // A block keeps no number below 2^-15 of its largest, which is at most 3.
            if exact.abs() < 3.0 * 2f32.powi(-15) {
                continue;
            }
            let below = f32::from_bits(exact.to_bits() & !low);
            let above = f32::from_bits((exact.to_bits() & !low) + low + 1);
            let size = f64::from(above) - f64::from(below);
            let error = (f64::from(kept) - f64::from(exact)) / size;
            // One F32 step, by which a kernel may differ, is at most 2^-16 of a step of the format.
            assert!(error.abs() <= 1.0 + 2f64.powi(-15), "{kept} for {exact}");
            let fraction = (f64::from(exact) - f64::from(below)) / size;
            sum += error;
            variance += fraction * (1.0 - fraction);
        }
        assert!(
            sum.abs() <= 4.0 * variance.sqrt(),
            "{format:?}: {sum}, variance {variance}"
        );
    }
}

#[test]
fn rounded_moments_survive_an_overflow() {
    for format in ROUNDED {
        let moments = [0, 1].map(|place| {
            let values = random([5, 7], place + 3, DType::F32);
            rounded(&primitive(tensor(&values).abs()), format, place)
        });
        let before = [0, 1].map(|at: usize| words(&moments[at]));
        let list = Listed {
            moments: moments.to_vec(),
            key: 5,
            ..listed(
                random([5, 7], 1, DType::F32),
                float(&[f64::NAN; 35], [5, 7], DType::F32),
                Vec::new(),
                3,
            )
        };
        let list = ListStep {
            unless_overflowed: Some(state(8.0, true)),
            ..step(adam(), 0.1, vec![list])
        };
        for stepped in [
            optimizer::step::<References>(list.clone()),
            optimizer::step::<Plain>(list),
        ] {
            assert!([0, 1].map(|at: usize| words(&stepped[0].moments[at])) == before);
        }
    }
}

/// A master in 16 bits beside a BF16 parameter is stepped as the F32 master: the kernel computes with the bits, the
/// reference in Burn's ops. The software driver of Vulkan has no BF16, so there the kernel gets the BF16 number in F32.
#[test]
fn split_masters_step_as_f32_masters() {
    let has_bf16 = dtypes().contains(&DType::BF16);
    let stored = if has_bf16 { DType::BF16 } else { DType::F32 };
    for (shape, scale) in SHAPES.into_iter().zip([1.0, 1e-20, 1e20, 1e-3, 1.0]) {
        let mut values = noise(shape[0] * shape[1], 7);
        values[0] = 0.0;
        for value in &mut values {
            *value *= scale;
        }
        let master = data(&float(&values, shape, DType::F32));
        let bits: Vec<u32> = master.iter::<f32>().map(f32::to_bits).collect();
        let upper: Vec<f64> = bits
            .iter()
            .map(|bits| f32::from_bits(bits.wrapping_add(0x8000) & 0xffff_0000).into())
            .collect();
        let offset: Vec<i16> = bits.iter().map(|bits| *bits as u16 as i16).collect();
        let offset = TensorData::new(offset, shape);
        let split = Master::Offset(Plain::int_from_data(offset, &here()));
        let moments = || undefined(adam(), shape);
        let gradient = random(shape, 2, DType::F32);
        let is_overflow = [None, Some(state(8.0, true))];
        for unless_overflowed in is_overflow {
            let list = |parameter, master| ListStep {
                unless_overflowed: unless_overflowed.clone(),
                ..step(
                    adam(),
                    0.01 * scale,
                    vec![Listed {
                        master,
                        ..listed(parameter, gradient.clone(), moments(), 1)
                    }],
                )
            };
            let parameter = float(&upper, shape, stored);
            let in_f32 = Master::F32(float(&values, shape, DType::F32));
            let expected = optimizer::step::<Plain>(list(parameter.clone(), in_f32)).remove(0);
            let expected = unsplit(&expected.master).unwrap();
            let mut found = vec![optimizer::step::<Plain>(list(
                parameter.clone(),
                split.clone(),
            ))];
            if has_bf16 {
                found.push(optimizer::step::<References>(list(
                    parameter.clone(),
                    split.clone(),
                )));
            }
            for mut found in found {
                let Stepped {
                    parameter, master, ..
                } = found.remove(0);
                let Master::Offset(offset) = master else {
                    panic!("the step changed the form of a master");
                };
                let offset = read_sync(Plain::int_into_data(offset)).unwrap();
                assert_eq!(offset.dtype, DType::I16);
                let parameter = data(&parameter);
                assert_eq!(parameter.dtype, stored);
                let joined = parameter.iter::<f32>().zip(offset.iter::<i16>());
                let joined = joined.map(|(parameter, offset)| {
                    assert_eq!(parameter.to_bits() & 0xffff, 0);
                    f32::from_bits(parameter.to_bits().wrapping_add_signed(offset.into()))
                });
                for (found, expected) in joined.zip(data(expected).iter::<f32>()) {
                    assert_eq!(found, expected, "{shape:?}, {scale}");
                }
            }
        }
    }
}

/// A BF16 parameter without a master moves on average by what an F32 parameter moves, though each step is a small part of
/// the distance to its neighbours.
#[cfg(not(feature = "vulkan"))]
#[test]
fn a_parameter_in_bf16_moves_on_average() {
    let shape = [64, 64];
    let rule = OptimizerConfig::<Plain>::rule(&SgdConfig::new()).unwrap();
    let ones = float(&[1.0; 4096], shape, DType::F32);
    for rounds_stochastically in [false, true] {
        let mut parameter = float(&[1.0; 4096], shape, DType::BF16);
        for time in 1..=64 {
            let list = Listed {
                key: rounding::mixed(time as u32),
                rounds_stochastically,
                ..listed(parameter, ones.clone(), Vec::new(), time)
            };
            parameter = optimizer::step::<Plain>(step(rule, 1e-4, vec![list]))
                .remove(0)
                .parameter;
        }
        assert_eq!(data(&parameter).dtype, DType::BF16);
        let mean = data(&parameter).iter::<f64>().sum::<f64>() / 4096.0;
        let moved = 1.0 - mean;
        if rounds_stochastically {
            // Below 1 the neighbours are 2^-8 apart; the standard error of 64 roundings of 4096 elements is below 3e-4.
            assert!((moved - 0.0064).abs() < 1e-3, "{moved}");
        } else {
            assert_eq!(moved, 0.0);
        }
    }
}
