//! The node of a sum of values in a graph.

use burn_backend::Scalar;

use super::{
    Rest, Spread,
    joint::contribute,
    reference::{summed, terms},
    sums::SumsOfValues,
    term::{MomentsTerm, Term},
};
use crate::{graph::Tracked, made, prelude::*};

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

/// Computes the sum, or the mean, of `x + before` or of its square. From a known [`Spread`] of `x`, its sums or its means, it does
/// so without reading `x`.
pub fn moment<B: AmpBackend>(
    x: FloatTensor<B>,
    moment: MomentOf<B>,
    known: Option<Spread<FloatTensor<B>>>,
) -> FloatTensor<B> {
    let MomentOf {
        grid,
        before,
        kept,
        squared,
        mean,
    } = moment;
    let op = OneMoment {
        count: terms(&grid, &kept),
        sums: SumsOfValues { grid, kept, mean },
        squared,
        is_known: known.is_some(),
    };
    let known = known.map(|Spread { sum, of_squares }| [sum, of_squares]);
    let operands = [x].into_iter().chain(known.into_iter().flatten());
    let operands: Vec<_> = operands.chain(before).collect();
    B::run(op, operands.into()).one()
}

/// One of the sums of values, which is a node in a graph.
#[derive(Clone, Debug)]
struct OneMoment {
    sums: SumsOfValues,
    /// The number of terms of a sum.
    count: f64,
    squared: bool,
    /// Whether the operands are `x`, both tensors of its spread, and perhaps what is added to it.
    is_known: bool,
}

impl OneMoment {
    /// The operands: `x`, its spread, and what is added to it.
    fn parts<T>(&self, operands: Vec<T>) -> (T, Option<[T; 2]>, Option<T>) {
        let mut operands = operands.into_iter();
        let mut next = || operands.next();
        let x = next().expect("a sum has an operand");
        let known = self.is_known.then(|| [next(), next()]);
        let known = known.map(|known| known.map(|tensor| tensor.expect("a spread is two tensors")));
        (x, known, next())
    }

    /// The sums of `x + before` and, if it is wanted, of its square.
    fn computed<B: AmpBackend>(
        &self,
        x: FloatTensor<B>,
        known: Option<[FloatTensor<B>; 2]>,
        before: Option<FloatTensor<B>>,
    ) -> (FloatTensor<B>, Option<FloatTensor<B>>) {
        let Some([sum, of_squares]) = known else {
            let [sum, squares] = B::run(self.sums.clone(), ([x], before).into()).exactly();
            return (sum, Some(squares));
        };
        // The mean of (x + b)² is that of (x - mean)² and (mean + b)²; sums are the count times means.
        let count = (!self.sums.mean).then(|| self.count.into());
        let times = |mean| match count {
            Some(count) => B::float_mul_scalar(mean, count),
            None => mean,
        };
        let sum = match before {
            Some(before) => B::float_add(sum, times(before)),
            None => sum,
        };
        let squares = self.squared.then(|| {
            let square = B::float_mul(sum.clone(), sum.clone());
            B::float_add(
                of_squares,
                match count {
                    Some(count) => B::float_div_scalar(square, count),
                    None => square,
                },
            )
        });
        (sum, squares)
    }
}

impl Kernel for OneMoment {
    const NAME: &'static str = "burn_amp::moment";
    const IS_COMPOSED: bool = true;

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        let (x, known, before) = self.parts(operands.floats);
        let (sum, squares) = self.computed::<B>(x, known, before);
        [squares.filter(|_| self.squared).unwrap_or(sum)].into()
    }

    /// For squares the node keeps `x` as it is stored, `before` and the sum or mean of the values; for the values nothing.
    fn record<B: AmpBackend, C: CheckpointStrategy>(self, operands: Graph<B, C>) -> Graph<B, C> {
        let (x, known, before) = self.parts(operands.floats);
        let known = known.map(|known| known.map(|tensor| tensor.primitive));
        let value = |tensor: &Tracked<B, C>| tensor.primitive.clone();
        let (sum, squares) = self.computed::<B>(value(&x), known, before.as_ref().map(value));
        made::float::<B>(&sum);
        let is_tracked = x.is_tracked();
        let saved = SumSaved::<B> {
            count: self.count,
            mean: self.sums.mean,
            shape: x.shape(),
            grid: self.sums.grid,
            terms: self.squared.then(|| Terms {
                x: (!is_tracked).then(|| value(&x)),
                before: before.as_ref().map(value),
                sum: sum.clone(),
            }),
        };
        let output = squares.filter(|_| self.squared).unwrap_or(sum);
        let reads_x = self.squared && is_tracked;
        let operands: Vec<_> = [x].into_iter().chain(before).collect();
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
        contribute(term, 0, &mut pass);
    }
}
