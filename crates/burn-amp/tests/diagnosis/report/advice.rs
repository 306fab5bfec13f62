//! What a report advises.

use super::*;

#[test]
fn each_pattern_of_the_advice_is_found_at_its_line() {
    policy!(
        Unscaled,
        Config {
            compute: Compute::F16,
            loss_scale: LossScaleConfig {
                mode: LossScaleMode::Off,
                ..LossScaleConfig::default()
            },
            ops: [(Op::float_sum, Class::Low)].into(),
            ..Config::default()
        }
    );
    type B = Amp<Flex, Unscaled>;
    let device = Default::default();
    let x = Tensor::<B, 2>::ones([64, 64], &device);
    let low = x.clone().matmul(x);
    let mask = Tensor::tril_mask([64, 64], 0, &device);
    let row = Tensor::<B, 2>::from_data([[0.5; 64]], &device);

    let recording = diagnose::record::<B>(&device);
    let here = line!();
    let log = softmax(low.clone(), 1).log();
    let masked = low.clone().mask_fill(mask.clone(), -1e9);
    let sum = low.clone().sum();
    let product = row.clone().expand([64, 64]).matmul(low.clone());
    // What the remedies say.
    let log_softmax = burn::tensor::activation::log_softmax(low.clone(), 1);
    let filled = low.clone().mask_fill(mask, f32::NEG_INFINITY);
    let cast = row.cast(burn::tensor::DType::F16).expand([64, 64]);
    let after_cast = cast.matmul(low.clone());
    let report = recording.finish();
    drop((log, masked, sum, product, log_softmax, filled, after_cast));

    let advice = report.advice();
    let mut told: Vec<_> = advice
        .iter()
        .map(|advice| (advice.lint, advice.site.as_ref().map(|site| site.line)))
        .collect();
    told.sort_by_key(|(_, line)| *line);
    assert_eq!(
        told,
        [
            (Lint::Unscaled, None),
            (Lint::LogOfRounded, Some(here + 1)),
            (Lint::MaskConstant, Some(here + 2)),
            (Lint::LowReduction, Some(here + 3)),
            (Lint::CastAfterExpand, Some(here + 4)),
        ]
    );
}
