//! Law: an op that is not part of Burn, with a backward pass of its own, runs under Amp with one `impl`.

use burn::{
    backend::{
        Autodiff,
        autodiff::{
            checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
            grads::Gradients,
            ops::{Backward, Ops, OpsKind},
        },
    },
    tensor::ops::ActivationOps,
};
use burn_amp::{Amp, extend::Graph};
use burn_amp_tests::{
    near::{Named, assert_near},
    prelude::*,
};

/// `relu(lhs · rhs + bias)` as one op, where `bias` is a row.
trait MatmulAddRelu: Backend {
    fn matmul_add_relu(
        lhs: FloatTensor<Self>,
        rhs: FloatTensor<Self>,
        bias: FloatTensor<Self>,
    ) -> FloatTensor<Self>;
}

/// Like a kernel, this accepts only operands of the same dtype.
impl MatmulAddRelu for Plain {
    fn matmul_add_relu(
        lhs: FloatTensor<Self>,
        rhs: FloatTensor<Self>,
        bias: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let [lhs_dtype, rhs_dtype, bias_dtype] = [&lhs, &rhs, &bias].map(TensorMetadata::dtype);
        assert_eq!((lhs_dtype, lhs_dtype), (rhs_dtype, bias_dtype));
        Self::relu(Self::float_add(Self::float_matmul(lhs, rhs), bias))
    }
}

impl<B: MatmulAddRelu, C: CheckpointStrategy> MatmulAddRelu for Autodiff<B, C> {
    fn matmul_add_relu(
        lhs: FloatTensor<Self>,
        rhs: FloatTensor<Self>,
        bias: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        #[derive(Debug)]
        struct MatmulAddReluBackward;

        impl<B: MatmulAddRelu> Backward<B, 3> for MatmulAddReluBackward {
            /// The saved tensors: both factors and the output.
            type State = [FloatTensor<B>; 3];

            fn backward(
                self,
                ops: Ops<Self::State, 3>,
                grads: &mut Gradients,
                _: &mut Checkpointer,
            ) {
                let [lhs, rhs, output] = ops.state;
                let grad = B::relu_backward(output, grads.consume::<B>(&ops.node));
                let parents = [
                    B::float_matmul(grad.clone(), B::float_transpose(rhs)),
                    B::float_matmul(B::float_transpose(lhs), grad.clone()),
                    B::float_sum_dim(grad, 0),
                ];
                for (node, grad) in ops.parents.into_iter().zip(parents) {
                    if let Some(node) = node {
                        grads.register::<B>(node.id, grad);
                    }
                }
            }
        }

        let [l, r, b] = [lhs, rhs, bias].map(|tensor| (tensor.primitive, tensor.node));
        let output = B::matmul_add_relu(l.0.clone(), r.0.clone(), b.0);
        match MatmulAddReluBackward
            .prepare::<C>([l.1, r.1, b.1])
            .compute_bound()
            .stateful()
        {
            OpsKind::Tracked(prep) => prep.finish([l.0, r.0, output.clone()], output),
            OpsKind::UnTracked(prep) => prep.finish(output),
        }
    }
}

impl<B: AmpBackend, P: ConfigSource, G: Graph<B>> MatmulAddRelu for Amp<B, P, G>
where
    G::Inner: MatmulAddRelu,
{
    fn matmul_add_relu(
        lhs: FloatTensor<Self>,
        rhs: FloatTensor<Self>,
        bias: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        Self::custom_op(Class::Low, [lhs, rhs, bias], |[lhs, rhs, bias]| {
            G::Inner::matmul_add_relu(lhs, rhs, bias)
        })
    }
}

fn matmul_add_relu<B: MatmulAddRelu>(
    lhs: Tensor<B, 2>,
    rhs: Tensor<B, 2>,
    bias: Tensor<B, 2>,
) -> Tensor<B, 2> {
    let [lhs, rhs, bias] = [lhs, rhs, bias].map(|tensor| tensor.into_primitive().tensor());
    Tensor::from_primitive(TensorPrimitive::Float(B::matmul_add_relu(lhs, rhs, bias)))
}

/// The output of the op and the gradients of a loss of it; the left operand is the result of another op.
fn run<B: AutodiffBackend + MatmulAddRelu>(inspect: impl Fn(&Tensor<B, 2>)) -> (Named, Named) {
    let leaf = |rows: usize, columns: usize| {
        let values = noise::<B>(rows * columns, &here()) * 0.5 + 0.25;
        values.reshape([rows, columns]).require_grad()
    };
    let leaves = [leaf(5, 4), leaf(4, 3), leaf(1, 3)];
    let [x, weight, bias] = leaves.clone();
    let output = matmul_add_relu(
        x.clone().matmul(x.transpose()).slice([0..5, 0..4]),
        weight,
        bias,
    );
    inspect(&output);
    let grads = output.clone().square().mean().backward();
    let gradients = leaves.map(|leaf| leaf.grad(&grads).unwrap().into_data());
    let names = ["x", "weight", "bias"].map(str::to_string);
    (
        vec![("output".to_string(), output.into_data())],
        names.into_iter().zip(gradients).collect(),
    )
}

#[test]
fn it_runs_low_and_its_gradients_are_near_f32() {
    fn near() {
        let (output, gradients) = run::<PlainAutodiff>(|_| ());
        let found = run::<AmpAutodiff>(|output| {
            assert!(matches!(storage_dtype(output), DType::F16 | DType::BF16));
            assert_eq!(output.dtype(), DType::F32);
        });
        // Every path has two matrix products forward and four backward, which round by half an epsilon each.
        assert_near(&found.0, &output, 2.0 * epsilon());
        assert_near(&found.1, &gradients, 3.0 * epsilon());
    }
    for_each_low_policy!(near);
}

#[test]
fn in_full_precision_it_is_the_plain_op() {
    fn same() {
        let plain = run::<PlainAutodiff>(|_| ());
        let full = full_precision(|| {
            run::<AmpAutodiff>(|output| assert_eq!(storage_dtype(output), DType::F32))
        });
        assert_eq!(full, plain);
    }
    for_each_low_policy!(same);
}

#[test]
fn without_a_graph_it_runs_low_too() {
    fn low() {
        let [lhs, rhs, bias] = [[2, 2], [2, 2], [1, 2]]
            .map(|shape| Tensor::<burn_amp_tests::Amp, 2>::ones(shape, &here()));
        let output = matmul_add_relu(lhs, rhs, bias);
        assert!(matches!(storage_dtype(&output), DType::F16 | DType::BF16));
        assert_eq!(output.values(), [3.0; 4]);
    }
    for_each_low_policy!(low);
}
