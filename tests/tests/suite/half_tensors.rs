//! Tensors that the user stores in half precision, and sums that half precision cannot hold.

use burn_amp_tests::prelude::*;

/// Under `o0`, ops of half-precision tensors are those of the plain backend.
// Fusion rounds fewer intermediate results when it has seen the same ops before.
#[cfg(not(feature = "fusion"))]
mod off {
    use burn::tensor::activation::log_softmax;
    use burn_amp_tests::prelude::*;

    policy!(
        /// The plain backend.
        Off,
        changed(Config::default(), |it| it.preset = Preset::O0)
    );

    /// The dtype and the data of some ops of an F16 tensor; the table gives them classes of every kind.
    fn of_f16<B: Backend>() -> Vec<(&'static str, DType, TensorData)> {
        let data = TensorData::from([[0.5f32, -1.25, 3.0], [2.0, 0.125, -0.75]]);
        let x = Tensor::<B, 2>::from_data(data, &here()).cast(DType::F16);
        let read = |name, x: Tensor<B, 2>| (name, x.dtype(), x.into_data());
        vec![
            read("exp", x.clone().exp()),
            read("sum", x.clone().sum_dim(1)),
            read("mean", x.clone().mean_dim(0)),
            read("square", x.clone().square()),
            read("log_softmax", log_softmax(x.clone(), 1)),
            read("matmul", x.clone().matmul(x.clone().transpose())),
            read("tanh", x.clone().tanh()),
            read("times", x.clone() * 0.3),
            read("plus", x.clone() + x),
        ]
    }

    #[test]
    fn with_everything_off_they_are_those_of_the_plain_backend() {
        let _policy = enter::<Off>();
        for ((name, dtype, data), (_, plain_dtype, plain)) in
            of_f16::<Amp>().into_iter().zip(of_f16::<Plain>())
        {
            assert_eq!((dtype, data), (plain_dtype, plain), "{name}");
        }
    }
}

/// The sum of 4096 ones that are stored low, added one by one onto one element. In BF16 it would stop at 256.
fn counts() {
    type B = Amp;
    let ones = Tensor::<B, 2>::ones([4096, 1], &here()).matmul(Tensor::ones([1, 1], &here()));
    assert!(storage_dtype(&ones) != DType::F32);
    let indices = Tensor::<B, 1, Int>::zeros([4096], &here());
    let zero = Tensor::<B, 2>::zeros([1, 1], &here()).matmul(Tensor::ones([1, 1], &here()));
    let sum = zero.select_assign(0, indices, ones, IndexingUpdateOp::Add);
    assert_eq!(sum.into_data().iter::<f32>().next(), Some(4096.0));
}

#[test]
fn sums_by_index_accumulate_in_f32() {
    for_each_low_policy!(counts);
}
