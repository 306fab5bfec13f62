use burn_backend::Scalar;

use super::{
    Moment, Moments,
    joint::contribute,
    reference::{summed, terms},
    sums,
    term::{self, Term},
};
use crate::{made, prelude::*};

/// Computes a sum or a mean as one node of the graph. For squares it keeps `x` as it is stored, `before` and the sum or mean
/// of the values; for the values nothing.
pub(crate) fn recorded_moment<B: AmpBackend, C: CheckpointStrategy>(
    x: Tracked<B, C>,
    moment: Moment<Autodiff<B, C>>,
) -> Tracked<B, C> {
    let before = moment.before.as_ref();
    let values = before.map(|before| before.primitive.clone());
    let Moments { sum, squares } = sums::moments::<B>(
        x.primitive.clone(),
        moment.grid.clone(),
        values.clone(),
        moment.kept.clone(),
        moment.mean,
    );
    made::float::<B>(&sum);
    let shape = x.shape();
    let saved = Saved::<B> {
        count: terms(&shape, &moment.kept),
        mean: moment.mean,
        shape,
        grid: moment.grid,
        terms: moment.squared.then(|| Terms {
            x: (!x.is_tracked()).then(|| x.primitive.clone()),
            before: values,
            sum: sum.clone(),
        }),
    };
    let output = if moment.squared { squares } else { sum };
    let reads_x = moment.squared && x.is_tracked();
    let operands: Vec<_> = std::iter::once(&x).chain(before).collect();
    by_length!(operands, 1 2; N => {
        let operands = std::array::from_fn(|at| operands[at]);
        let node = Recording::<B, C, _, N>::new(operands, |at| at == 0 && reads_x);
        node.finish(output, |_| saved)
    })
}

/// What a sum saves. Its node has the operand `x`, and `before` if there is one.
#[derive(Clone, Debug)]
struct Saved<B: AmpBackend> {
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

impl<B: AmpBackend> Node<B> for Saved<B> {
    fn backward<const N: usize>(self, mut pass: Pass<'_, B, N>) {
        let Self {
            count,
            mean,
            shape,
            grid,
            terms,
        } = self;
        let grad = pass.gradient();
        let device = B::float_device(&grad);
        let mut moments = term::Moments {
            shape,
            grid,
            squares: None,
            of_sum: None,
        };
        let of_before = match terms {
            None if mean => {
                moments.of_sum = Some(B::float_div_scalar(grad.clone(), count.into()));
                Some(grad)
            }
            None => {
                moments.of_sum = Some(grad.clone());
                let before = pass.parent(1);
                before.map(|_| B::float_mul_scalar(grad, count.into()))
            }
            Some(Terms { x, before, sum }) => {
                let x = x.or_else(|| pass.operand(0));
                let twice = |grad| B::float_mul_scalar(grad, Scalar::from(2f32));
                let factor = match mean {
                    // Twice the gradient over the number.
                    true => B::float_div_scalar(grad.clone(), (count / 2.0).into()),
                    false => twice(grad.clone()),
                };
                moments.squares = Some(term::Squares {
                    x: x.expect("the operand is saved or read"),
                    before: before.clone(),
                    factor: factor.clone(),
                });
                before.map(|before| {
                    let of_sums = B::float_mul(if mean { twice(grad) } else { factor }, sum);
                    summed::<B>(of_sums, &before.shape())
                })
            }
        };
        if let Some(gradient) = of_before {
            pass.register(1, gradient);
        }
        contribute(Term::Moments(moments), 0, &device, &mut pass);
    }
}
