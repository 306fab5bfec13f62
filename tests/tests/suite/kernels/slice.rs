//! Slices and values that are put into them: their gradients are Burn's, in random programs, and those of a loop over time move
//! bytes in proportion to its steps.

use std::cell::Cell;

use burn::backend::{Autodiff, autodiff::checkpoint::strategy};
use burn_amp_kernels::slice;
use instrumented::{Instrument, Instrumented, Value};

use super::prelude::*;

type BackendDevice = <Plain as burn_backend::BackendTypes>::Device;

/// The shape of the tensors that are cut and written to.
const WHOLE: [usize; 2] = [3, 6];

/// Numbers that a seed decides, each below the given one.
struct Numbers(Cell<u64>);

impl Numbers {
    fn below(&self, end: usize) -> usize {
        // SplitMix64.
        self.0.set(self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15));
        let mix = |x: u64, shift: u32, by: u64| (x ^ x >> shift).wrapping_mul(by);
        let mixed = mix(
            mix(self.0.get(), 30, 0xbf58_476d_1ce4_e5b9),
            27,
            0x94d0_49bb_1331_11eb,
        );
        (mixed >> 33) as usize % end
    }

    fn slices(&self) -> Vec<Slice> {
        let of = |size: usize| match self.below(8) {
            0 => Slice::full(),
            1 => Slice::new(0, None, 2),
            2 => Slice::new(0, None, -1),
            _ => {
                let start = self.below(size);
                Slice::from(start..start + 1 + self.below((size - start).min(2)))
            }
        };
        match self.below(3) {
            0 => vec![of(WHOLE[0]), of(WHOLE[1])],
            1 => vec![Slice::full(), of(WHOLE[1])],
            _ => vec![of(WHOLE[0])],
        }
    }
}

type Read<T> = fn(T, &[Slice]) -> T;
type Assign<T> = fn(T, &[Slice], T) -> T;

/// The ops of a graph: Burn's, or those under test.
struct Ops<B: Backend> {
    slice: Read<FloatTensor<B>>,
    assign: Assign<FloatTensor<B>>,
}

/// The gradients of all leaves of the random program of a seed. All numbers are small integers, so that no sum rounds.
fn gradients<B>(seed: u64, ops: &Ops<B>) -> Vec<Vec<f32>>
where
    B: AutodiffBackend<InnerBackend = Plain, Device = BackendDevice>,
{
    let numbers = Numbers(Cell::new(seed));
    let integers = |shape: &[usize]| {
        let values = (0..shape.iter().product()).map(|_| numbers.below(7) as f32 - 3.0);
        let data = TensorData::new(values.collect::<Vec<_>>(), shape.to_vec());
        B::float_from_data(data, &here())
    };
    let mut leaves = Vec::new();
    let mut leaf = |shape: &[usize]| {
        let tracked = numbers.below(3) > 0;
        let leaf = B::float_set_require_grad(integers(shape), tracked);
        leaves.extend(tracked.then(|| leaf.clone()));
        leaf
    };
    let shape_of = |slices: &[Slice]| {
        let sizes = WHOLE.iter().enumerate();
        let size = |(dim, size): (usize, &usize)| match slices.get(dim) {
            Some(slice) => slice.output_size(*size),
            None => *size,
        };
        sizes.map(size).collect::<Vec<usize>>()
    };
    let mut wholes = vec![leaf(&WHOLE)];
    let mut parts = Vec::new();
    for _ in 0..3 + numbers.below(8) {
        // Mostly the last one, as in a loop.
        let at = match numbers.below(4) {
            0 => numbers.below(wholes.len()),
            _ => wholes.len() - 1,
        };
        let whole = wholes[at].clone();
        let slices = numbers.slices();
        match numbers.below(4) {
            0 => parts.push((ops.slice)(whole, &slices)),
            1 => {
                let values = (ops.slice)(wholes[0].clone(), &slices);
                wholes.push((ops.assign)(whole, &slices, values));
            }
            _ => wholes.push((ops.assign)(whole, &slices, leaf(&shape_of(&slices)))),
        }
    }
    let last = wholes.len() - 1;
    let wholes = wholes.into_iter().enumerate();
    let read_again = wholes.filter(|(at, _)| *at == last || numbers.below(4) == 0);
    // It makes a graph of the loss in any case.
    let tracked = B::float_set_require_grad(integers(&[1]), true);
    let tensors = read_again.map(|(_, whole)| whole).chain(parts);
    let loss = tensors.fold(tracked, |loss, tensor| {
        let factors = integers(tensor.shape().as_slice());
        B::float_add(loss, B::float_sum(B::float_mul(tensor, factors)))
    });
    let grads = B::backward(loss);
    let gradients = leaves.iter().map(|leaf| match B::grad(leaf, &grads) {
        Some(gradient) => read(&gradient)
            .into_iter()
            .map(|value| value as f32)
            .collect(),
        None => Vec::new(),
    });
    gradients.collect()
}

fn burns<B: Backend>() -> Ops<B> {
    Ops {
        slice: B::float_slice,
        assign: B::float_slice_assign,
    }
}

fn ours<B: AmpBackend>() -> Ops<B> {
    Ops {
        slice: slice::slice::<B>,
        assign: slice::assign::<B>,
    }
}

/// How many random programs are compared.
const PROGRAMS: u64 = 60;

fn check<B>()
where
    B: AmpBackend + AutodiffBackend<InnerBackend = Plain, Device = BackendDevice>,
{
    let [burns, ours] = [burns::<B>(), ours::<B>()];
    let mut tracked = 0;
    for seed in 0..PROGRAMS {
        let expected = gradients::<B>(seed, &burns);
        assert_eq!(gradients::<B>(seed, &ours), expected, "program {seed}");
        tracked += u64::from(expected.iter().flatten().any(|value| *value != 0.0));
    }
    assert!(tracked > PROGRAMS / 2, "{tracked}");
}

#[test]
fn gradients_are_burns() {
    check::<PlainAutodiff>();
    check::<Autodiff<Plain, strategy::BalancedCheckpointing>>();
}

thread_local! {
    static MOVED: Cell<usize> = const { Cell::new(0) };
}

/// Counts the elements that ops write; of values that are put into a tensor, those values.
#[derive(Clone, Copy, Debug, Default)]
struct Moved;

impl Instrument<Plain> for Moved {
    /// The number of elements that the op writes, if that is known before.
    type Seen = Option<usize>;

    fn before<'a>(op: Op, operands: impl Iterator<Item = Value<'a, Plain>>) -> Option<usize> {
        let elements = operands.filter_map(|operand| Some(operand.meta()?.0.num_elements()));
        elements.min().filter(|_| op == Op::float_slice_assign)
    }

    fn after<'a>(seen: Option<usize>, results: impl Iterator<Item = Value<'a, Plain>>) {
        let elements = results.filter_map(|result| Some(result.meta()?.0.num_elements()));
        let elements = seen.unwrap_or_else(|| elements.sum());
        MOVED.set(MOVED.get() + elements);
    }
}

type Counted = Autodiff<Instrumented<Plain, Moved>>;

/// The elements that a loop over time writes, which cuts each step out of its input and puts each result into its output,
/// forwards or backwards.
fn moved(steps: usize, ops: &Ops<Counted>, reversed: bool) -> usize {
    let tensor = |rows: usize| {
        let data = TensorData::ones::<f32, _>([rows, 4]);
        Counted::float_from_data(data, &here())
    };
    let x = Counted::float_set_require_grad(tensor(steps), true);
    let mut y = tensor(steps);
    MOVED.set(0);
    for at in 0..steps {
        let at = if reversed { steps - 1 - at } else { at };
        let step = [Slice::from(at..at + 1)];
        let part = (ops.slice)(x.clone(), &step);
        y = (ops.assign)(y, &step, Counted::float_mul(part.clone(), part));
    }
    let grads = Counted::backward(Counted::float_sum(y));
    assert!(Counted::grad(&x, &grads).is_some());
    MOVED.take()
}

#[test]
fn a_loop_over_time_moves_bytes_in_proportion_to_its_steps() {
    // Further 50 steps, each after as many more.
    let added = |ops: Ops<Counted>, reversed| {
        let [few, more, many] = [50, 100, 150].map(|steps| moved(steps, &ops, reversed));
        [more - few, many - more]
    };
    for reversed in [false, true] {
        let [early, late] = added(ours(), reversed);
        assert_eq!(early, late);
    }
    // Burn's are what this law does not let through.
    let [early, late] = added(burns(), false);
    assert!(early < late, "{early}, {late}");
}
