//! Single calls: what each does to the scale, and the order in which they are allowed.

use super::*;

#[test]
fn the_scale_does_not_grow_into_infinity() {
    let mut scaler = pytorch(2f32.powi(126), 16.0, 0.5, 1);
    for _ in 0..2 {
        assert_eq!(after(&mut scaler, 1.0).0, 2f32.powi(127));
    }
}

/// `test_params_invalidated_with_grads_invalidated_between_unscale_and_step`: gradients that a program changes after
/// unscaling are not checked again.
#[test]
fn unscaled_gradients_are_not_checked_again() {
    let model = Params::<B>::new(&[DType::F32]);
    let mut scaler = of_the_scaling_case();
    let mut unscaled = unscale(&mut scaler, &model, &[1.0]);
    let id = model.all[0].id;
    let grads = unscaled.gradients_mut().unwrap();
    let grad = grads.remove::<Plain, 2>(id).unwrap();
    grads.register(id, grad * f32::INFINITY);
    let stepped = unscaled.step(&mut SgdConfig::new().init(), 1.0, model);
    let values: Vec<f32> = stepped.all[0].val().values();
    assert!(values.iter().all(|value| value.is_infinite()));
    assert_eq!(scaler.update(), Ok(Outcome::Finite));
}

/// The finite and infinite steps of Keras's `loss_scale_optimizer_test.py`.
#[test]
fn keras_finite_and_infinite_steps() {
    let mut model = Params::<B> {
        all: vec![Param::from_tensor(Tensor::from_floats(
            [[1.0, 2.0, 3.0, 4.0]],
            &here(),
        ))],
    };
    let values = |model: &Params<B>| -> Vec<f32> { model.all[0].val().values() };
    let mut scaler = GradScaler::new(DynamicLossScale {
        init: 1024.0,
        ..DynamicLossScale::default()
    })
    .unwrap();
    let mut sgd = SgdConfig::new().init();
    for (gradient, expected) in [
        ([1.0, 6.0, 7.0, 2.0], [0.5, -1.0, -0.5, 3.0]),
        ([f32::INFINITY, 1.0, 1.0, 1.0], [0.5, -1.0, -0.5, 3.0]),
        ([1.0, f32::NAN, 1.0, 1.0], [0.5, -1.0, -0.5, 3.0]),
    ] {
        let loss = (model.all[0].val() * Tensor::from_floats([gradient], &here())).sum();
        let grads = scaler.scale(loss).backward().of::<B, _>(&model);
        let grads = scaler.unscale(grads, &model).unwrap();
        model = grads.step(&mut sgd, 0.5, model);
        scaler.update().unwrap();
        assert_eq!(values(&model), expected);
    }
    assert_eq!(scaler.current_scale(), 256.0);
}

#[test]
fn calls_in_the_wrong_order_are_errors() {
    let model = Params::<B>::new(&[DType::F32]);
    let other = Params::<B>::new(&[DType::F32]);
    let mut scaler = of_the_scaling_case();
    assert_eq!(scaler.update(), Err(ScalerError::NothingUnscaled));

    let mut grads = scaler.scale((model.all[0].val() * 2.0).sum()).backward();
    assert_eq!(
        scaler
            .unscale(grads.of::<B, _>(&other), &other)
            .unwrap_err(),
        ScalerError::NoGradients
    );
    let stale = [grads.of::<B, _>(&model), gradients(&model, &scaler, &[1.0])];
    assert_eq!(
        scaler
            .unscale(grads.of::<B, _>(&model), &model)
            .unwrap_err(),
        ScalerError::NoGradients
    );

    let _ = unscale(&mut scaler, &model, &[1.0]);
    scaler.update().unwrap();
    let other_scale = ScalerError::OtherScale {
        found: 128.0,
        expected: 256.0,
    };
    let mut sum = gradients(&model, &scaler, &[1.0]);
    let [first, second] = stale;
    assert_eq!(sum.accumulate::<B, _>(first, &model), Err(other_scale));
    assert_eq!(scaler.unscale(second, &model).unwrap_err(), other_scale);
    assert_eq!(
        other_scale.to_string(),
        "these gradients are scaled by 128, not by 256: the scale must not change between `scale` and `unscale`; call \
         `update` once per effective batch"
    );
}
