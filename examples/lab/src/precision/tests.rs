use burn::backend::Flex;

use super::*;

struct Scales;

impl InPrecision<Flex> for Scales {
    type Output = Option<f32>;

    fn call<B, R>(self, loss_scale: Option<LossScale>) -> Option<f32>
    where
        B: AutodiffBackend<Device = <Flex as burn::tensor::backend::BackendTypes>::Device>,
        R: Recipe<B>,
    {
        loss_scale.map(|scale| scale.scale())
    }
}

#[test]
fn each_precision_has_its_own_policy() {
    let scales = Precision::ALL.map(|precision| {
        let device = Default::default();
        let scale = precision.with::<Flex, _>(&device, &Config::default(), Scales);
        (precision.name(), scale.unwrap())
    });
    let expected = [
        ("f32", None),
        ("amp-bf16", Some(1.0)),
        ("amp-f16", Some(16.0)),
        ("amp-f16-static-128", Some(128.0)),
        ("amp-f16-unscaled", Some(1.0)),
        ("amp-decomposed", Some(1.0)),
        ("o2", Some(1.0)),
        ("o2-moments", Some(1.0)),
        ("o2-split", Some(1.0)),
        ("o2-stochastic", Some(1.0)),
        ("o2-moments-8", Some(1.0)),
        ("o2-split-8", Some(1.0)),
        ("o2-24-8", Some(1.0)),
        ("o2-stochastic-8", Some(1.0)),
    ];
    assert_eq!(scales, expected);
}
