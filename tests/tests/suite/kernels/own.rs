//! A kernel of one's own, which has nothing but a reference, compared with Burn's ops.

use burn_amp_kernels::{
    Kernel,
    kernel::{Meta, Tensors, TensorsOf},
};
use burn_amp_tests::prelude::*;

/// The square of a tensor times a factor, and the sum of its columns.
#[derive(Clone, Copy, Debug)]
struct Squares {
    factor: f32,
}

impl Kernel for Squares {
    const NAME: &'static str = "suite::squares";

    fn results(&self, operands: &Tensors<Meta>) -> Tensors<Meta> {
        let (shape, _) = &operands.floats[0];
        let sums = ([1, shape[1]].into(), DType::F32);
        [operands.floats[0].clone(), sums].into()
    }

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        let x = operands.one();
        let squares = B::float_mul_scalar(B::float_mul(x.clone(), x), self.factor.into());
        let sums = B::float_sum_dim(squares.clone(), 0);
        [squares, sums].into()
    }
}

const X: [[f32; 3]; 2] = [[1.0, -2.0, 0.5], [4.0, 0.25, -8.0]];

fn run<B: AmpBackend>(x: &Tensor<B, 2>) -> [Tensor<B, 2>; 2] {
    let x: FloatTensor<B> = x.clone().into_primitive().tensor();
    let results = B::run(Squares { factor: 0.5 }, [x].into()).exactly();
    results.map(|result| Tensor::from_primitive(TensorPrimitive::Float(result)))
}

#[test]
fn every_backend_computes_its_reference() {
    let x = Tensor::<Plain, 2>::from_data(X, &here());
    let [squares, sums] = run(&x);
    let expected = x.clone() * x * 0.5;
    assert_eq!(squares.into_data(), expected.clone().into_data());
    assert_eq!(sums.into_data(), expected.sum_dim(0).into_data());
}

#[test]
fn a_graph_has_the_gradients_of_its_reference() {
    let leaf = || Tensor::<PlainAutodiff, 2>::from_data(X, &here()).require_grad();
    let x = leaf();
    let [squares, sums] = run(&x);
    let grads = ((squares * 3.0).sum() + sums.sum()).backward();
    let found = x.grad(&grads).unwrap();
    let x = leaf();
    let squares = x.clone() * x.clone() * 0.5;
    let sums = squares.clone().sum_dim(0);
    let grads = ((squares * 3.0).sum() + sums.sum()).backward();
    let expected = x.grad(&grads).unwrap();
    assert_eq!(found.into_data(), expected.into_data());
}
