//! PyTorch's scenarios for its GradScaler (`test_cuda.py`), with `optim::GradScaler` on Burn's own `Autodiff`.
//!
//! Law: `GradScaler` does in PyTorch's scenarios what PyTorch's does.

mod calls;
mod loops;

use burn::backend::Autodiff;
use burn_amp::{
    config::LossScaling,
    optim::{GradScaler, Scaled, ScalerError, Unscaled, clip},
    scaling::LossScaleRecord,
};
use burn_amp_tests::prelude::*;

type B = PlainAutodiff;

/// PyTorch's rule. It has no limits; here they are those of normal F32 numbers.
fn pytorch(init: f32, growth_factor: f32, backoff_factor: f32, growth_interval: u32) -> GradScaler {
    GradScaler::new(DynamicLossScale {
        init,
        growth_factor,
        backoff_factor,
        growth_interval,
        min: 2f32.powi(-126),
        max: 2f32.powi(127),
        ..DynamicLossScale::default()
    })
    .unwrap()
}

/// The scaler that PyTorch's `_run_scaling_case` uses.
fn of_the_scaling_case() -> GradScaler {
    pytorch(128.0, 2.0, 0.5, 1)
}

/// Parameters whose gradients can be chosen, because the loss is their weighted sum.
#[derive(Module, Debug)]
struct Params<B: Backend> {
    all: Vec<Param<Tensor<B, 2>>>,
}

impl<B: AutodiffBackend> Params<B> {
    fn new(dtypes: &[DType]) -> Self {
        let param = |dtype: &DType| {
            let tensor = Tensor::<B, 2>::ones([3, 3], &here()).cast(*dtype).detach();
            Param::from_tensor(tensor)
        };
        Self {
            all: dtypes.iter().map(param).collect(),
        }
    }
}

/// Scaled gradients with the given values, each in the dtype of its parameter.
fn gradients(model: &Params<B>, scaler: &GradScaler, values: &[f32]) -> Scaled<GradientsParams> {
    let losses = model.all.iter().zip(values).map(|(param, value)| {
        let param = param.val();
        // NaN and inf must reach the gradient unchanged.
        (param * *value).sum().cast(DType::F32)
    });
    let loss = losses.reduce(|sum, loss| sum + loss).unwrap();
    scaler.scale(loss).backward().of::<B, _>(model)
}

fn value_of(grads: &GradientsParams, param: &Param<Tensor<B, 2>>) -> f32 {
    let grad = grads.get::<Plain, 2>(param.id).unwrap();
    assert_eq!(grad.dtype(), DType::F32);
    let values: Vec<f32> = grad.values();
    assert!(values.iter().all(|value| *value == values[0]));
    values[0]
}

/// Unscales gradients with the given values.
fn unscale(scaler: &mut GradScaler, model: &Params<B>, values: &[f32]) -> Unscaled {
    let grads = gradients(model, scaler, values);
    scaler.unscale(grads, model).unwrap()
}

/// The scale and the growth tracker after a step with a gradient.
fn after(scaler: &mut GradScaler, value: f32) -> (f32, u32) {
    let unscaled = unscale(scaler, &Params::<B>::new(&[DType::F32]), &[value]);
    assert_eq!(scaler.update(), Ok(unscaled.outcome()));
    (scaler.current_scale(), scaler.growth_tracker())
}

#[test]
fn update_scale() {
    let mut scaler = pytorch(4.0, 2.0, 0.25, 2);
    let steps = [1.0, 1.0, f32::INFINITY].map(|value| after(&mut scaler, value));
    assert_eq!(steps, [(4.0, 1), (8.0, 0), (2.0, 0)]);
}

#[test]
fn unscale_checks_every_gradient_of_every_dtype() {
    // F16 and F32 parameters in one model.
    let dtypes = [DType::F16, DType::F32, DType::F16, DType::F32];
    let model = Params::<B>::new(&dtypes);
    for (at, poison) in (0..4).zip([f32::INFINITY, f32::NAN, f32::NEG_INFINITY, f32::NAN]) {
        let mut scaler = pytorch(4.0, 2.0, 0.5, 2);
        let mut unscaled = unscale(&mut scaler, &model, &[1.0; 4]);
        let found = unscaled.gradients_mut().unwrap();
        assert!(model.all.iter().all(|param| value_of(found, param) == 1.0));

        let mut values = [1.0; 4];
        values[at] = poison;
        let unscaled = unscale(&mut scaler, &model, &values);
        assert_eq!(unscaled.outcome(), Outcome::Overflowed);
        assert_eq!(scaler.update(), Ok(Outcome::Overflowed));
    }
}

/// The check applies to scaled gradients: 2^127 × 2 overflows, although 2^127 is finite.
#[test]
fn the_scaled_gradient_is_checked() {
    let model = Params::<B>::new(&[DType::F32]);
    let mut scaler = pytorch(2.0, 2.0, 0.5, 2);
    let unscaled = unscale(&mut scaler, &model, &[2f32.powi(127)]);
    assert_eq!(unscaled.outcome(), Outcome::Overflowed);
}

#[test]
fn scale_multiplies_tensors_of_any_shape_in_f32() {
    let scaler = pytorch(65536.0, 2.0, 0.5, 2);
    let tensor = Tensor::<Plain, 3>::full([1, 2, 3], 4.0, &here());
    for dtype in [DType::F32, DType::F16] {
        let scaled = scaler.scale(tensor.clone().cast(dtype));
        assert_eq!(scaled.factor(), 65536.0);
        let back = scaled.unscale();
        assert_eq!(back.dtype(), DType::F32);
        assert_eq!(back.to_data(), tensor.to_data());
    }
}

#[test]
fn the_state_goes_from_one_scaler_to_another() {
    let mut from = pytorch(4.0, 4.0, 0.5, 3);
    for value in [1.0, 1.0, 1.0, f32::NAN, 1.0] {
        after(&mut from, value);
    }
    assert_eq!((from.current_scale(), from.growth_tracker()), (8.0, 1));

    let recorder = BinBytesRecorder::<HalfPrecisionSettings>::default();
    let saved: Vec<u8> = Recorder::<Plain>::record(&recorder, from.record(), ()).unwrap();
    let loaded: LossScaleRecord = Recorder::<Plain>::load(&recorder, saved, &here()).unwrap();
    assert_eq!((loaded.steps(), loaded.skipped_steps()), (5, 1));
    let mut to = pytorch(64.0, 4.0, 0.5, 3);
    to.load(loaded);
    assert_eq!(to.record(), from.record());
}

/// A scale is clamped to the limits of another configuration; a static scale stays as it is.
///
/// PyTorch accepts any number. Here a scale is a power of two, and a record with any other could not be loaded.
#[test]
fn a_scale_that_is_set_can_be_saved_and_read_again() {
    let mut scaler = GradScaler::new(DynamicLossScale::default()).unwrap();
    let read_again = |scaler: &GradScaler| {
        let record = serde_json::to_string(&scaler.record()).unwrap();
        serde_json::from_str::<burn_amp::scaling::LossScaleRecord>(&record).unwrap()
            == scaler.record()
    };
    for scale in [2f32.powi(-126), 0.25, 1024.0, 2f32.powi(127)] {
        scaler.set_scale(scale).unwrap();
        assert_eq!(scaler.current_scale(), scale);
        assert!(read_again(&scaler));
    }
    scaler.set_scale(1024.0).unwrap();
    for (found, nearest) in [
        (1000.0, 1024.0),
        (700.0, 512.0),
        (768.0, 512.0),
        (0.0, 2f32.powi(-126)),
        (-8.0, 2f32.powi(-126)),
        (1e-40, 2f32.powi(-126)),
        (f32::INFINITY, 2f32.powi(127)),
    ] {
        let error = ScalerError::NoLossScale { found, nearest };
        assert_eq!(scaler.set_scale(found), Err(error));
    }
    assert_eq!(
        scaler.set_scale(1000.0).unwrap_err().to_string(),
        "1000 is no loss scale; expected a power of two from 2^-126 to 2^127, so that unscaling is exact; the nearest is \
         1024"
    );
    assert!(scaler.set_scale(f32::NAN).is_err());
    assert_eq!(scaler.current_scale(), 1024.0);
    assert!(read_again(&scaler));
}

#[test]
fn a_saved_state_obeys_the_configuration_that_loads_it() {
    let mut large = GradScaler::new(DynamicLossScale {
        init: 2f32.powi(30),
        max: 2f32.powi(40),
        ..DynamicLossScale::default()
    })
    .unwrap();
    let record = large.record();
    let mut capped = GradScaler::new(DynamicLossScale::default()).unwrap();
    capped.load(record);
    assert_eq!(capped.current_scale(), 2f32.powi(24));
    let mut fixed = GradScaler::new(LossScaling::Static(128.0)).unwrap();
    fixed.load(record);
    assert_eq!(fixed.current_scale(), 128.0);
    let mut off = GradScaler::new(LossScaling::NoScale).unwrap();
    off.load(record);
    assert_eq!(off.current_scale(), 1.0);
    large.load(capped.record());
    assert_eq!(large.current_scale(), 2f32.powi(24));
}

/// PyTorch asserts two of these; the others would be a scale that no record can hold, or arithmetic that fails later.
#[test]
fn settings_are_checked_as_in_a_file() {
    let refused = |rule: DynamicLossScale, expected: &str| {
        let message = GradScaler::new(rule).unwrap_err().to_string();
        assert_eq!(message, format!("code: loss_scale.{expected}"));
    };
    let refused_with = |change: fn(&mut DynamicLossScale), expected| {
        let mut rule = DynamicLossScale::default();
        change(&mut rule);
        refused(rule, expected);
    };
    refused_with(
        |rule| rule.growth_interval = 0,
        "growth_interval: expected a whole number from 1 to 4294967295, found 0",
    );
    refused_with(
        |rule| rule.growth_factor = 1.0,
        "growth_factor: expected a power of two from 2 to 2^127, found 1",
    );
    refused_with(
        |rule| rule.init = 1000.0,
        "init: expected a power of two from 2^-126 to 2^127, found 1000; the nearest is 1024",
    );
    refused_with(
        |rule| (rule.min, rule.max, rule.init) = (4.0, 1.0, 2.0),
        "init: expected loss_scale.min <= loss_scale.init <= loss_scale.max, found 4 <= 2 <= 1",
    );
    assert!(GradScaler::new(LossScaling::Static(3.0)).is_err());
}

/// Outside the limits, an overflow never raises the scale and a finite step never lowers it.
#[test]
fn a_scale_set_outside_the_limits_moves_towards_them_only() {
    let mut scaler = GradScaler::new(DynamicLossScale {
        min: 1.0,
        growth_interval: 1,
        ..DynamicLossScale::default()
    })
    .unwrap();
    for (scale, value, expected) in [
        (0.5, f32::INFINITY, 0.5),
        (0.5, 1.0, 1.0),
        (2f32.powi(30), 1.0, 2f32.powi(30)),
        (2f32.powi(30), f32::INFINITY, 2f32.powi(29)),
    ] {
        scaler.set_scale(scale).unwrap();
        assert_eq!(after(&mut scaler, value).0, expected);
    }
}
