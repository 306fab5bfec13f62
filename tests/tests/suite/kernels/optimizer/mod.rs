//! Law: a list of parameters steps as Burn's optimizers do: bit for bit in the reference, within an ulp in the kernel.

mod written;

mod as_burn;

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
