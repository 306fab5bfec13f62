use burn_autodiff::checkpoint::strategy::CheckpointStrategy;
use burn_backend::{
    get_device_settings,
    tensor::{BoolTensor, FloatTensor},
};

use super::ScalarOp;
use crate::{
    AmpBackend,
    graph::{Node, Pass, Recording, Tracked},
    made,
};

/// Computes the op as one node of the graph.
pub(crate) fn recorded<B: AmpBackend, C: CheckpointStrategy>(
    x: Tracked<B, C>,
    op: ScalarOp,
    scalar: f64,
) -> Tracked<B, C> {
    let keeps_signs = op == ScalarOp::LeakyRelu && x.is_tracked();
    let saved = Saved::<B> {
        op,
        scalar,
        negative: keeps_signs.then(|| negative::<B>(&x.primitive)),
    };
    let compute = move |[x]: [FloatTensor<B>; 1]| B::mixed_scalar(x, op, scalar);
    let node = Recording::<B, C, _, 1>::computed_again([&x], |_| false, compute);
    node.finish(compute([x.primitive]), |_| saved)
}

/// Returns where a tensor is negative.
fn negative<B: AmpBackend>(x: &FloatTensor<B>) -> BoolTensor<B> {
    let dtype = get_device_settings::<B>(&B::float_device(x)).bool_dtype;
    let negative = B::float_lower_elem(x.clone(), 0f32.into(), dtype);
    made::bool::<B>(&negative);
    negative
}

#[derive(Clone, Debug)]
struct Saved<B: AmpBackend> {
    op: ScalarOp,
    scalar: f64,
    /// Where the operand of a leaky ReLU is negative.
    negative: Option<BoolTensor<B>>,
}

impl<B: AmpBackend> Node<B> for Saved<B> {
    fn backward<const N: usize>(self, mut pass: Pass<'_, B, N>) {
        let grad = pass.gradient();
        let gradient = match (self.op, self.negative) {
            (ScalarOp::Add | ScalarOp::Sub, _) => grad,
            (ScalarOp::Mul | ScalarOp::Div, _) => B::mixed_scalar(grad, self.op, self.scalar),
            (ScalarOp::LeakyRelu, negative) => {
                let negative = negative.expect("the node of a leaky ReLU saves the signs");
                let scaled = B::mixed_scalar(grad.clone(), ScalarOp::Mul, self.scalar);
                B::float_mask_where(grad, negative, scaled)
            }
        };
        pass.register(0, gradient);
    }
}
