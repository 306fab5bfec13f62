//! Slices of a tensor, and values put into one, whose gradients move the slices alone.
//!
//! A recurrent net reads a slice of its input in each step and puts the new state into a slice of its output. In Burn's
//! graph the gradient of each slice is as large as the whole tensor: zeros with the gradient in its place, which are added
//! up; and values that are put into a tensor have the rest of its gradient copied. So the bytes of n steps grow with n².
//!
//! Here the gradient of a [`slice()`] is added to its place in the gradient that the tensor has so far. [`assign`] hands the
//! gradient of its result on as it is where nobody reads what the values replaced: values that are put into an untracked
//! tensor, one beside the other, as a loop over time does, have each their part of one gradient.
//!
//! There are no kernels here but Burn's. On Burn's `Autodiff` each op is one node, which saves nothing.

use std::{ops::Range, sync::Arc};

use burn_backend::Slice;

use crate::{graph::AtNode, prelude::*};

/// Reads a part of a tensor. Dimensions without a slice are read whole.
pub fn slice<B: AmpBackend>(x: FloatTensor<B>, slices: &[Slice]) -> FloatTensor<B> {
    let slices = slices.to_vec();
    B::run(Read { slices }, [x].into()).one()
}

/// Puts values into a part of a tensor of the same dtype.
pub fn assign<B: AmpBackend>(
    x: FloatTensor<B>,
    slices: &[Slice],
    values: FloatTensor<B>,
) -> FloatTensor<B> {
    let slices = slices.to_vec();
    B::run(Assign { slices }, [x, values].into()).one()
}

#[derive(Clone, Debug)]
struct Read {
    slices: Vec<Slice>,
}

impl Kernel for Read {
    const NAME: &'static str = "burn_amp::slice";
    const IS_COMPOSED: bool = true;

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        [B::float_slice(operands.one(), &self.slices)].into()
    }

    fn record<B: AmpBackend, C: CheckpointStrategy>(self, operands: Graph<B, C>) -> Graph<B, C> {
        let x = operands.one();
        let slices = self.slices.clone();
        let again = move |[x]: [FloatTensor<B>; 1]| B::float_slice(x, &slices);
        let node = Recording::<B, C, _, 1>::computed_again([&x], |_| false, again);
        let saved = ReadSaved {
            whole: x.primitive.shape(),
            slices: self.slices,
        };
        let part = B::float_slice(x.primitive, &saved.slices);
        [node.finish(part, |_| saved)].into()
    }
}

#[derive(Clone, Debug)]
struct ReadSaved {
    /// The shape of the tensor.
    whole: Shape,
    slices: Vec<Slice>,
}

impl<B: AmpBackend> Node<B> for ReadSaved {
    fn backward<const N: usize>(self, mut pass: Pass<'_, B, N>) {
        let grad = pass.gradient();
        let gradient = match pass.known(0, grad.clone()) {
            Some(known) => {
                let part = B::float_slice(known.clone(), &self.slices);
                let part = B::float_add(part, cast::<B>(grad, known.dtype()));
                B::float_slice_assign(known, &self.slices, part)
            }
            None => {
                let dtype = grad.dtype().into();
                let zeros = B::float_zeros(self.whole, &device_of::<B>(&grad), dtype);
                B::float_slice_assign(zeros, &self.slices, grad)
            }
        };
        pass.register(0, gradient);
    }
}

#[derive(Clone, Debug)]
struct Assign {
    slices: Vec<Slice>,
}

impl Kernel for Assign {
    const NAME: &'static str = "burn_amp::slice_assign";
    const IS_COMPOSED: bool = true;

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        let [x, values] = operands.exactly();
        [B::float_slice_assign(x, &self.slices, values)].into()
    }

    fn record<B: AmpBackend, C: CheckpointStrategy>(self, operands: Graph<B, C>) -> Graph<B, C> {
        let [x, values] = operands.exactly();
        let replaced = Part::of(&self.slices, &x.primitive.shape());
        let read = if x.is_tracked() {
            AtNode::<Part>::find(x.node.id).map(|part| part.lock().clone())
        } else {
            Some(Part::default())
        };
        let saved = AssignSaved {
            values: values.primitive.shape(),
            is_read: read.as_ref().is_none_or(|read| read.overlaps(&replaced)),
            slices: self.slices.clone(),
            read: read.map(|mut read| {
                if values.is_tracked() {
                    read.extend(&replaced);
                }
                Arc::new(AtNode::from(read))
            }),
        };
        let slices = self.slices;
        let again = {
            let slices = slices.clone();
            move |[x, values]: [FloatTensor<B>; 2]| B::float_slice_assign(x, &slices, values)
        };
        let node = Recording::<B, C, _, 2>::computed_again([&x, &values], |_| false, again);
        // The only clone of `x` is written to in its place.
        let result = B::float_slice_assign(x.primitive, &slices, values.primitive);
        let read = saved.read.clone();
        let result = node.finish(result, |_| saved);
        if let Some(read) = read {
            read.wait_at(result.node.id);
        }
        [result].into()
    }
}

#[derive(Clone, Debug)]
struct AssignSaved {
    slices: Vec<Slice>,
    /// The shape of the values.
    values: Shape,
    /// Whether the gradient of the tensor is read where the values are.
    is_read: bool,
    /// The part of the result's gradient that is read, if it is known.
    read: Option<Arc<AtNode<Part>>>,
}

impl<B: AmpBackend> Node<B> for AssignSaved {
    fn backward<const N: usize>(self, mut pass: Pass<'_, B, N>) {
        let grad = pass.gradient();
        if pass.parent(1).is_some() {
            pass.register(1, B::float_slice(grad.clone(), &self.slices));
        }
        if pass.parent(0).is_none() {
            return;
        }
        pass.register(
            0,
            if self.is_read {
                let dtype = grad.dtype().into();
                let zeros = B::float_zeros(self.values, &device_of::<B>(&grad), dtype);
                B::float_slice_assign(grad, &self.slices, zeros)
            } else {
                grad
            },
        );
    }
}

/// A part of a tensor: the indices in each dimension, or nothing.
#[derive(Clone, Debug, Default)]
struct Part(Option<Vec<Range<usize>>>);

impl Part {
    /// The part that contains the slices of a tensor of this shape.
    fn of(slices: &[Slice], shape: &Shape) -> Self {
        let sizes = shape.iter().enumerate();
        let ranges = sizes.map(|(dim, size)| match slices.get(dim) {
            Some(slice) => slice.to_range(*size),
            None => 0..*size,
        });
        Self(Some(ranges.collect()))
    }

    fn overlaps(&self, other: &Self) -> bool {
        let (Some(one), Some(other)) = (&self.0, &other.0) else {
            return false;
        };
        let mut dims = one.iter().zip(other);
        dims.all(|(one, other)| one.start < other.end && other.start < one.end)
    }

    /// Makes it contain another part too, and whatever lies between them.
    fn extend(&mut self, other: &Self) {
        match (&mut self.0, &other.0) {
            (Some(ranges), Some(others)) => {
                for (range, other) in ranges.iter_mut().zip(others) {
                    *range = range.start.min(other.start)..range.end.max(other.end);
                }
            }
            (ranges, others) => *ranges = ranges.take().or_else(|| others.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_beside_one_another_do_not_overlap() {
        let shape = Shape::new([2, 6]);
        let part = |range: Range<i32>| Part::of(&[(0..2).into(), range.into()], &shape);
        let mut read = Part::default();
        assert!(!read.overlaps(&part(0..6)));
        for at in [2..3, 3..4, 1..2] {
            assert!(!read.overlaps(&part(at.clone())), "{at:?}");
            read.extend(&part(at));
        }
        for (at, overlaps) in [
            (0..1, false),
            (0..2, true),
            (2..3, true),
            (4..6, false),
            (-2..6, false),
        ] {
            assert_eq!(read.overlaps(&part(at.clone())), overlaps, "{at:?}");
        }
        assert!(read.overlaps(&Part::of(&[], &shape)));
        let every_second = Slice::new(0, None, 2);
        assert!(read.overlaps(&Part::of(&[(0..1).into(), every_second], &shape)));
    }
}
