//! A ReLU, or a leaky one, of a tensor as it lies in memory.

use super::{Affine, End, Rest, op};
use crate::{graph::saved::is_offering, prelude::*, scalar, sign_mask};

/// Computes a ReLU or a leaky ReLU of a tensor in low precision, in its order of memory, in F32 and rounded once. On Burn's `Autodiff` it is
/// one node, which keeps the result, as the next op does: the sign of it tells that of `x`.
pub fn rectified<B: AmpBackend>(x: FloatTensor<B>, end: End) -> FloatTensor<B> {
    B::run(Rectified { end }, [x].into()).one()
}

/// The chain that is nothing but its end.
fn only<T>(end: End, x: &impl TensorMetadata) -> Affine<T> {
    Affine {
        end,
        ..Affine::identity(x.shape())
    }
}

#[derive(Clone, Copy, Debug)]
struct Rectified {
    end: End,
}

impl Kernel for Rectified {
    const NAME: &'static str = "burn_amp::rectified";
    const IS_COMPOSED: bool = true;

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        let x = operands.one();
        let (chain, dtype) = (only(self.end, &x), x.dtype().into());
        [op::forward::<B>(x, chain, None, dtype)].into()
    }

    fn record<B: AmpBackend, C: CheckpointStrategy>(self, operands: Graph<B, C>) -> Graph<B, C> {
        let x = operands.one();
        // Of a result that the next op keeps in eight bits nothing more is kept than a mask.
        let output = match self.end {
            End::LeakyRelu(slope) if is_offering() => {
                let slope = slope.value().into();
                scalar::forward::<Autodiff<B, C>>(x, scalar::ScalarOp::LeakyRelu, slope)
            }
            _ if is_offering() => sign_mask::relu::<Autodiff<B, C>>(x),
            end => {
                let of_result = end.of_result();
                let of_result =
                    of_result.expect("the result of a ReLU tells the sign of its operand");
                let node = Recording::<B, C, _, 1>::new([&x], |_| false);
                let keep = |output: &FloatTensor<B>| KeptResult::<B> {
                    end: of_result,
                    output: output.clone(),
                };
                node.finish(rectified::<B>(x.primitive, end), keep)
            }
        };
        [output].into()
    }
}

/// The result, which the graph keeps, and the function whose gradient it tells.
#[derive(Clone, Debug)]
struct KeptResult<B: AmpBackend> {
    end: End,
    output: FloatTensor<B>,
}

impl<B: AmpBackend> Node<B> for KeptResult<B> {
    fn backward<const N: usize>(self, mut pass: Pass<'_, B, N>) {
        let Self { end, output } = self;
        let (grad, chain) = (pass.gradient(), only(end, &output));
        let dtype = output.dtype().into();
        let gradient = op::backward::<B>(output, chain, grad, Rest::plus(None), dtype);
        pass.register(0, gradient);
    }
}
