//! The node of a sum of values in a graph.

use burn_backend::Scalar;

use super::{
    Rest,
    joint::contribute,
    reference::{summed, terms},
    sums::SumsOfValues,
    term::{MomentsTerm, Term},
};
use crate::{graph::values, made, prelude::*};

/// Which sum of values is computed.
#[derive(Clone, Debug)]
pub struct MomentOf<B: Backend> {
    /// The shape in which `x` is read.
    pub grid: Shape,
    /// What is added to `x`: F32, of the grid's rank, 1 in each dimension that is summed over.
    pub before: Option<FloatTensor<B>>,
    /// The shape of the result: the grid's size in a dimension that is kept, 1 in one that is summed over.
    pub kept: Shape,
    /// Whether the values are squared.
    pub squared: bool,
    /// Whether it is a mean, not a sum.
    pub mean: bool,
}

/// Computes the sum, or the mean, of `x + before` or of its square.
pub fn moment<B: AmpBackend>(x: FloatTensor<B>, moment: MomentOf<B>) -> FloatTensor<B> {
    let MomentOf {
        grid,
        before,
        kept,
        squared,
        mean,
    } = moment;
    let sums = SumsOfValues { grid, kept, mean };
    B::run(OneMoment { sums, squared }, ([x], before).into()).one()
}

/// One of the sums of values, which is a node in a graph.
#[derive(Clone, Debug)]
struct OneMoment {
    sums: SumsOfValues,
    squared: bool,
}

impl Kernel for OneMoment {
    const NAME: &'static str = "burn_amp::moment";
    const IS_COMPOSED: bool = true;

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        let [sum, squares] = B::run(self.sums.clone(), operands).exactly();
        [if self.squared { squares } else { sum }].into()
    }

    /// For squares the node keeps `x` as it is stored, `before` and the sum or mean of the values; for the values nothing.
    fn record<B: AmpBackend, C: CheckpointStrategy>(self, operands: Graph<B, C>) -> Graph<B, C> {
        let operands = operands.floats;
        let values = values::<B, C>(&operands);
        let [sum, squares] = B::run(self.sums.clone(), values.clone().into()).exactly();
        made::float::<B>(&sum);
        let SumsOfValues { grid, kept, mean } = self.sums;
        let is_tracked = operands[0].is_tracked();
        let shape = operands[0].shape();
        let saved = SumSaved::<B> {
            count: terms(&shape, &kept),
            mean,
            shape,
            grid,
            terms: self.squared.then(|| Terms {
                x: (!is_tracked).then(|| values[0].clone()),
                before: values.get(1).cloned(),
                sum: sum.clone(),
            }),
        };
        let output = if self.squared { squares } else { sum };
        let reads_x = self.squared && is_tracked;
        [by_length!(operands, 1 2; N => {
            let operands = std::array::from_fn(|at| &operands[at]);
            let node = Recording::<B, C, _, N>::new(operands, |at| at == 0 && reads_x);
            node.finish(output, |_| saved)
        })]
        .into()
    }
}

/// What a sum saves. Its node has the operand `x`, and `before` if there is one.
#[derive(Clone, Debug)]
struct SumSaved<B: AmpBackend> {
    /// The number of terms of a sum.
    count: f64,
    mean: bool,
    /// The shape of `x`.
    shape: Shape,
    grid: Shape,
    /// For a sum of squares.
    terms: Option<Terms<B>>,
}

/// What the gradient of a sum of squares needs.
#[derive(Clone, Debug)]
struct Terms<B: AmpBackend> {
    /// The operand; `None` if the graph keeps it.
    x: Option<FloatTensor<B>>,
    before: Option<FloatTensor<B>>,
    /// The sum of `x + before`, or the mean.
    sum: FloatTensor<B>,
}

impl<B: AmpBackend> Node<B> for SumSaved<B> {
    fn backward<const N: usize>(self, mut pass: Pass<'_, B, N>) {
        let Self {
            count,
            mean,
            shape,
            grid,
            terms,
        } = self;
        let grad = pass.gradient();
        let device = device_of::<B>(&grad);
        let mut rest = Rest::plus(None);
        let mut values = None;
        let of_before = match terms {
            None if mean => {
                rest.of_sum = Some(B::float_div_scalar(grad.clone(), count.into()));
                Some(grad)
            }
            None => {
                rest.of_sum = Some(grad.clone());
                let before = pass.parent(1);
                before.map(|_| B::float_mul_scalar(grad, count.into()))
            }
            Some(Terms { x, before, sum }) => {
                values = x.or_else(|| pass.operand(0));
                let twice = |grad| B::float_mul_scalar(grad, Scalar::from(2f32));
                let factor = match mean {
                    // Twice the gradient over the number.
                    true => B::float_div_scalar(grad.clone(), (count / 2.0).into()),
                    false => twice(grad.clone()),
                };
                rest.before.clone_from(&before);
                rest.of_squares = Some(factor.clone());
                before.map(|before| {
                    let of_sums = B::float_mul(if mean { twice(grad) } else { factor }, sum);
                    summed::<B>(of_sums, &before.shape())
                })
            }
        };
        if let Some(gradient) = of_before {
            pass.register(1, gradient);
        }
        let term = Term::Moments(MomentsTerm {
            x: values,
            shape,
            grid,
            rest,
        });
        contribute(term, 0, &device, &mut pass);
    }
}
