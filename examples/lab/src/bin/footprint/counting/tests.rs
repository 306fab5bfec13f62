use burn::{
    backend::{Autodiff, Flex},
    prelude::*,
    tensor::activation::softmax,
};
use burn_backend::DType;

use super::*;

type B = Counting<Flex>;

fn ops(launches: &[Launch]) -> Vec<&'static str> {
    launches.iter().map(|launch| launch.op).collect()
}

#[test]
fn counts_what_is_read_and_written_but_not_views() {
    let device = Default::default();
    let x = Tensor::<B, 2>::ones([4, 8], &device);
    let (launches, sum) = recorded(|| x.clone().transpose().reshape([32]).neg().sum());
    assert_eq!(sum.into_scalar(), -32.0);
    assert_eq!(ops(&launches), ["float_neg", "float_sum"]);
    let moved: Vec<_> = launches.iter().map(|it| (it.read, it.written)).collect();
    assert_eq!(moved, [(128, 128), (128, 4)]);
}

#[test]
fn nothing_is_recorded_outside_and_other_kinds_of_tensors_count() {
    let device = Default::default();
    let x = Tensor::<B, 1>::ones([8], &device);
    let (launches, mask) = recorded(|| x.clone().greater_elem(0));
    assert_eq!((launches[0].read, launches[0].written), (32, 8));
    let (launches, _) = recorded(|| x.mask_fill(mask, 0));
    assert_eq!((launches[0].read, launches[0].written), (40, 32));
}

#[test]
fn a_cast_counts_unless_it_changes_nothing() {
    let device = Default::default();
    let x = Tensor::<B, 1>::ones([8], &device);
    let (launches, _) = recorded(|| x.clone().cast(DType::F32).cast(DType::BF16));
    assert_eq!(ops(&launches), ["float_cast"]);
    assert_eq!((launches[0].read, launches[0].written), (32, 16));
}

#[test]
fn launches_up_to_an_op_can_be_left_out() {
    let x = Tensor::<B, 1>::ones([8], &Default::default());
    let (launches, _) = recorded(|| {
        let x = x.abs();
        skip_through("float_neg");
        x.exp().neg().sum()
    });
    assert_eq!(ops(&launches), ["float_abs", "float_sum"]);
}

#[test]
fn a_product_is_told_from_the_sum_of_its_bias() {
    let launch = |op| Launch {
        op,
        dtype: None,
        read: 0,
        written: 0,
    };
    let products = [
        "float_matmul",
        "linear_x_backward",
        "conv2d_weight_backward",
    ];
    assert!(products.iter().all(|op| launch(op).is_product()));
    let others = ["conv2d_bias_backward", "linear_bias_backward", "float_add"];
    assert!(others.iter().all(|op| !launch(op).is_product()));
}

#[test]
fn a_kernel_is_one_launch_also_below_a_graph() {
    type Training = burn_amp::Autodiff<burn_amp::Amp<B, crate::precision::InBf16>>;
    let device = Default::default();
    let x = Tensor::<Training, 2>::ones([4, 8], &device).require_grad();
    let w = Tensor::<Training, 2>::ones([8, 8], &device);
    let (launches, _) = recorded(|| {
        let weights = softmax(x.matmul(w.clone()), 1);
        weights.matmul(w).sum().backward()
    });
    let names = ops(&launches);
    for kernel in ["burn_amp::softmax", "burn_amp::softmax_backward"] {
        assert_eq!(
            names.iter().filter(|name| **name == kernel).count(),
            1,
            "{names:?}"
        );
    }
    let plain = Tensor::<Autodiff<B>, 2>::ones([4, 8], &device).require_grad();
    let (launches, _) = recorded(|| softmax(plain, 1).sum().backward());
    assert!(!ops(&launches).contains(&"burn_amp::softmax"));
}

/// From the gradients to the parameters of the next forward pass, a step moves each array once.
#[test]
fn a_step_of_the_optimizer_reads_and_writes_each_array_once() {
    use burn::{
        nn::{Linear, LinearConfig},
        optim::{AdamConfig, GradientsParams, Optimizer},
    };
    use burn_amp::optim::{AmpOptimizer, LossScaleOptimizer, Moments};

    type Training = burn_amp::Autodiff<burn_amp::Amp<B, crate::precision::InF16>>;
    const WIDTH: usize = 256;
    /// Bytes per parameter of the third step.
    fn moved<O: Optimizer<Linear<Training>, Training>>(mut optimizer: O) -> f64 {
        let device = Default::default();
        let config = LinearConfig::new(WIDTH, WIDTH).with_bias(false);
        let mut layer: Linear<Training> = config.init(&device);
        let x = Tensor::<Training, 2>::ones([4, WIDTH], &device) * 1e-3;
        let mut bytes = 0;
        for _ in 0..3 {
            let grads = layer.forward(x.clone()).mean().backward();
            let (launches, next) = recorded(|| {
                let grads = GradientsParams::from_grads(grads, &layer);
                optimizer.step(1e-3, layer, grads)
            });
            layer = next;
            bytes = launches.iter().map(Launch::bytes).sum();
        }
        bytes as f64 / (WIDTH * WIDTH) as f64
    }
    let adam = || AmpOptimizer::new(AdamConfig::new());
    // The gradient, and parameter and moments twice; the copy in F16 for the next forward pass.
    let [f32, bf16] = [4.0 + 8.0 + 16.0 + 2.0, 4.0 + 8.0 + 8.0 + 2.0];
    let together = moved(adam().init());
    let small = moved(adam().with_moments(Moments::Bf16).init());
    let smallest = moved(adam().with_moments(Moments::Bits8).init());
    let one_by_one = moved(LossScaleOptimizer::new(AdamConfig::new().init()));
    println!(
        "bytes per parameter: {together}, BF16 moments {small}, 8-bit moments {smallest}, one by one {one_by_one}"
    );
    assert!(together <= 1.15 * f32, "{together}");
    assert!(small <= 1.15 * bf16, "{small}");
    assert!(smallest <= 1.15 * (4.0 + 8.0 + 4.0 + 2.0), "{smallest}");
    assert!(one_by_one > 3.0 * together, "{one_by_one}");
}
