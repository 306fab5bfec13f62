use burn::{
    module::Module,
    nn::LinearConfig,
    optim::{AdamConfig, GradientsParams, Optimizer},
    tensor::{DType, Tensor, activation::softmax},
};
use burn_amp_tests::*;

fn trains<P: PolicySource>() {
    type B<P> = AmpAutodiff<P>;
    let device = Default::default();
    let mut model = LinearConfig::new(8, 4).init::<B<P>>(&device);
    let mut optim = AdamConfig::new().init();
    let x = Tensor::<B<P>, 2>::random([16, 8], burn::tensor::Distribution::Default, &device);
    let mut losses = vec![];
    for _ in 0..20 {
        let y = model.forward(x.clone());
        assert!(matches!(
            burn_amp::storage_dtype(&y),
            DType::BF16 | DType::F16
        ));
        assert_eq!(y.dtype(), DType::F32);
        let s = softmax(y, 1);
        assert_eq!(burn_amp::storage_dtype(&s), DType::F32);
        let loss = (s - 0.25).square().mean() + model.weight.val().square().mean();
        losses.push(loss.clone().into_scalar());
        let grads = GradientsParams::from_grads(loss.backward(), &model);
        assert_eq!(grads.len(), 2);
        model = optim.step(1e-2, model, grads);
    }
    println!(
        "{losses:?} {:?}",
        burn_amp::loss_scale::<B<P>>(&device).scale()
    );
    assert!(losses[19] < losses[0]);
}
#[test]
fn t() {
    for_each_low_policy!(trains);
}
