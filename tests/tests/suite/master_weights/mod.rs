//! Law: an optimizer under `MasterWeights` steps the masters as it steps F32 parameters, bit for bit.
//!
//! A *master* is an F32 copy of a parameter, or an encoding of one, which the optimizer steps instead of the parameter.

mod learns;
#[cfg(not(feature = "vulkan"))] // the software driver has no BF16
mod split;

use burn::optim::SimpleOptimizer;
use burn_amp::optim::MasterModel;
use burn_amp_tests::prelude::*;

use self::learns::{Mlp, Task, assert_stored, small_lr};

type B = AmpAutodiff;

/// F16 with a loss scale under which no step overflows, so that both runs make equally many steps.
fn fitting_scale() -> Config {
    in_f16(|it| it.loss_scale.rule.init = 1024.0)
}

policy!(FittingF16, fitting_scale());

/// The low dtypes that the backend under test supports.
const LOW: &[DType] = match cfg!(feature = "vulkan") {
    true => &[DType::F16],
    false => &[DType::F16, DType::BF16],
};

/// Under `MasterWeights` an optimizer steps the masters as it would step F32 parameters, and the parameters are the
/// rounded masters.
fn masters_are_stepped_as_f32<const D: usize>(
    config: impl OptimizerConfig<Plain>,
    shape: [usize; D],
) {
    for low in LOW.iter().copied() {
        let len = shape.iter().product();
        let start = noise::<Plain>(len, &here()).reshape(shape).cast(low);
        let inner = config.simple();
        let outer = MasterWeights::new(config.simple());
        let mut expected = (start.clone().cast(DType::F32), None);
        let mut found = (start.clone(), None);
        for step in 0..5 {
            let grad = noise::<Plain>(len + step, &here())
                .slice([step..])
                .reshape(shape);
            // The gradient of a low parameter is low on a plain backend and F32 under Amp.
            let grad = match step % 2 {
                0 => grad.cast(low),
                _ => grad,
            };
            expected = inner.step(1e-3, expected.0, grad.clone().cast(DType::F32), expected.1);
            found = outer.step(1e-3, found.0, grad, found.1);
            assert_eq!(found.0.dtype(), low);
            assert_eq!(
                found.0.to_data(),
                expected.0.clone().cast(low).to_data(),
                "step {step}"
            );
        }
        assert_ne!(found.0.to_data(), start.to_data());

        // Saving and loading the state changes no later step, whatever the settings.
        let loaded = from_bytes::<Plain, Option<_>>(bytes_of::<Plain>(found.1.clone()));
        let grad = noise::<Plain>(len, &here()).reshape(shape);
        let go_on = |state| outer.step(1e-3, found.0.clone(), grad.clone(), state);
        assert_eq!(
            go_on(loaded).0.to_data(),
            go_on(found.1.clone()).0.to_data()
        );
    }
}

#[test]
fn every_optimizer_steps_masters_as_f32() {
    let momentum = MomentumConfig::new().with_momentum(0.9);
    masters_are_stepped_as_f32(SgdConfig::new(), [4, 6]);
    masters_are_stepped_as_f32(SgdConfig::new().with_momentum(Some(momentum)), [4, 6]);
    masters_are_stepped_as_f32(AdamConfig::new(), [24]);
    masters_are_stepped_as_f32(AdamConfig::new().with_amsgrad(true), [2, 3, 4]);
    masters_are_stepped_as_f32(AdamWConfig::new(), [4, 6]);
    masters_are_stepped_as_f32(AdanConfig::new(), [4, 6]);
    masters_are_stepped_as_f32(AdaGradConfig::new(), [4, 6]);
    masters_are_stepped_as_f32(RmsPropConfig::new(), [4, 6]);
    masters_are_stepped_as_f32(MuonConfig::new(), [4, 6]);
}

/// The optimizer gets a parameter in F32 as it is, and no master is kept for it.
#[test]
fn a_parameter_in_f32_has_no_second_copy() {
    let config = AdamConfig::new();
    let start = noise::<Plain>(4096, &here());
    let grad = noise::<Plain>(4096, &here());
    let plain =
        SimpleOptimizer::<Plain>::step(&config.build(), 1e-3, start.clone(), grad.clone(), None);
    let (tensor, state) = MasterWeights::new(config.build()).step(1e-3, start, grad, None);
    assert_eq!(tensor.to_data(), plain.0.to_data());
    let with = bytes_of::<Plain>(state).len();
    let without = bytes_of::<Plain>(plain.1).len();
    assert!(with < without + 16, "{with} bytes, {without} without");
}

/// 100 steps of -1e-4 change a weight from 1 to 0.99 with masters, and not at all in half precision.
#[test]
fn small_updates_are_lost_without_masters_only() {
    for low in LOW.iter().copied() {
        let after = |masters: Masters| {
            let optimizer = MasterWeights::new(SgdConfig::new().build()).with_masters(masters);
            let mut weight = (Tensor::<Plain, 1>::ones([1], &here()).cast(low), None);
            for _ in 0..100 {
                let gradient = Tensor::<Plain, 1>::ones([1], &here());
                weight = optimizer.step(1e-4, weight.0, gradient, weight.1);
            }
            weight.0.into_data().iter::<f32>().next().unwrap()
        };
        let half_ulp = low.finfo().unwrap().epsilon as f32 / 4.0;
        assert_eq!(after(Masters::None), 1.0);
        for masters in [Masters::F32, Masters::Split] {
            assert!((after(masters) - 0.99).abs() <= half_ulp, "{masters:?}");
        }
    }
}

/// The masters are saved as an F32 record, which plain Burn loads, and which gives the trained model when rounded.
#[test]
fn masters_are_saved_as_a_plain_f32_record() {
    fn saved() {
        let low = precision();
        let start = seeded::<PlainAutodiff, _>(Mlp::init::<PlainAutodiff>);
        for masters in [Masters::F32, Masters::Split] {
            let model = load::<B, _>(Mlp::init(&here()), start.clone());
            let mut model = cast_params_to(model, Preset::O2, low);
            let mut optimizer: OptimizerAdaptor<_, _, B> = MasterWeights::new(AdamConfig::new())
                .with_masters(masters)
                .init();
            let mut stepped = false;
            for step in 0..40 {
                let grads = Mlp::loss(&model, step).backward();
                let grads = GradientsParams::from_grads(grads, &model);
                stepped |= !grads.is_empty();
                model = optimizer.step(small_lr(low), model, grads);
            }
            assert!(stepped);
            let low_record = save::<B, _>(model.clone());
            let full = optimizer.master_model(model.clone());
            let record = save::<B, _>(full);
            assert!(record != low_record);
            // Plain Burn loads the record; rounded again, it is the trained model.
            let plain = load::<PlainAutodiff, _>(Mlp::init(&here()), record.clone());
            assert_eq!(plain.0.weight.val().dtype(), DType::F32);
            assert!(save::<PlainAutodiff, _>(plain) == record);
            let back = load::<B, _>(Mlp::init(&here()), record.clone());
            let back = cast_params_to(back, Preset::O2, low);
            // `cast_params_to` rounds ties like `Masters::F32`, but not like `Masters::Split`.
            if masters == Masters::F32 {
                assert!(save::<B, _>(back) == low_record);
            }
        }
    }

    for_each_low_policy!(saved);
}

/// A layer may transform its weights when it saves and loads them, for example to another layout. It also does so after
/// `cast_params_to` and in a model of masters.
#[test]
fn the_mappers_of_parameters_stay() {
    let _policy = enter::<FittingF16>();
    let mut model: Linear<B> = LinearConfig::new(4, 4).with_bias(false).init(&here());
    let plain = save::<B, _>(model.clone());
    model = load::<B, _>(model, plain.clone());
    model.weight = model
        .weight
        .save_mapper(|weight| (weight * 2.0).detach())
        .load_mapper(|weight| (weight * 0.5).detach());
    let doubled = save::<B, _>(model.clone());
    assert!(doubled != plain);

    let optimizer = MasterWeights::new(AdamConfig::new()).init::<B, Linear<B>>();
    let low = cast_params_to(model, Preset::O2, Precision::F16);
    let rounded = save::<B, _>(low.clone());
    assert!(rounded != doubled && rounded != plain);
    let full = optimizer.master_model(low.clone());
    for converted in [full, cast_params_to(low, Preset::O1, Precision::F16)] {
        assert!(save::<B, _>(converted.clone()) == rounded);
        // Loading undoes the transformation of saving, and rounds nothing.
        assert!(save::<B, _>(load::<B, _>(converted, doubled.clone())) == doubled);
    }
}

/// A record in half precision loads into a converted model, and `cast_params_to` also converts back.
#[test]
fn half_checkpoints_load_into_a_converted_model() {
    fn loads() {
        let recorder = BinBytesRecorder::<HalfPrecisionSettings>::default();
        let start = seeded::<PlainAutodiff, _>(Mlp::init::<PlainAutodiff>);
        let model = load::<B, _>(Mlp::init(&here()), start);
        let half: Vec<u8> =
            Recorder::<B>::record(&recorder, model.clone().into_record(), ()).unwrap();

        let converted = cast_params_to(Mlp::init::<B>(&here()), Preset::O2, Precision::F16);
        let loaded = converted.load_record(Recorder::<B>::load(&recorder, half, &here()).unwrap());
        assert_stored::<B, _>(&loaded, Precision::F16);
        let rounded = |linear: &Linear<B>| linear.weight.val().cast(FloatDType::F16).to_data();
        assert_eq!(rounded(&loaded.0), rounded(&model.0));
        assert!(loaded.0.weight.val().is_require_grad());

        let back = cast_params_to(loaded.clone(), Preset::O1, Precision::F16);
        assert_eq!(storage_dtype(&back.0.weight.val()), DType::F32);
        assert_eq!(rounded(&back.0), rounded(&model.0));
        // Converted back, the model loads a record without rounding.
        let full = save::<B, _>(model.clone());
        assert!(save::<B, _>(load::<B, _>(back.clone(), full.clone())) == full);
        let all = cast_params_to(back, Preset::O3, Precision::F16);
        assert_eq!(storage_dtype(&all.1.gamma.val()), DType::F16);
    }
    for_each_low_policy!(loads);
}
