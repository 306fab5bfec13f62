//! Law: with Burn 0.22, masters are stepped as F32 parameters are, bit for bit, and a saved optimizer goes on exactly.

use burn::{
    module::{Module, Param},
    nn::{LayerNorm, LayerNormConfig, Linear, LinearConfig},
    optim::{AdamConfig, GradientsParams, ModuleOptimizer, OptimizerRecord, SgdConfig},
    tensor::{DType, Device, Distribution, Tensor},
};
use burn_amp::{
    config::{Compute, Config, DynamicLossScale, Preset},
    optim::{Clipping, MasterWeights, cast_params, clip, global_norm},
};

#[derive(Module, Debug)]
struct Net {
    first: Linear,
    norm: LayerNorm,
    second: Linear,
}

impl Net {
    fn new(device: &Device) -> Self {
        Self {
            first: LinearConfig::new(8, 16).init(device),
            norm: LayerNormConfig::new(16).init(device),
            second: LinearConfig::new(16, 4).init(device),
        }
    }

    fn loss(&self, x: Tensor<2>) -> Tensor<1> {
        let hidden = self.norm.forward(self.first.forward(x)).tanh();
        self.second.forward(hidden).square().mean()
    }
}

/// F16 with the preset `o2` and a first scale that the first pass overflows at.
fn device() -> Device {
    let device = Device::flex().autodiff();
    let config = Config {
        compute: Compute::F16,
        preset: Preset::O2,
        loss_scale: DynamicLossScale {
            init: 2f32.powi(40),
            max: 2f32.powi(40),
            search: false,
            ..DynamicLossScale::default()
        }
        .into(),
        ..Config::default()
    };
    burn_amp::configure(&device, config).expect("no tensor was made before");
    device
}

fn step(model: Net, optimizer: &mut ModuleOptimizer, x: &Tensor<2>) -> Net {
    let gradients = GradientsParams::from_grads(model.loss(x.clone()).backward(), &model);
    optimizer.step(0.01, model, gradients)
}

fn bits(model: &Net) -> Vec<u32> {
    let parameters = [&model.first.weight, &model.second.weight];
    let values = |weight: &Param<Tensor<2>>| {
        let values = weight.val().inner().cast(DType::F32);
        values.into_data().try_to_vec::<f32>().expect("it is F32")
    };
    let values = parameters.into_iter().flat_map(values);
    values.map(f32::to_bits).collect()
}

#[test]
fn a_model_in_half_is_stepped_from_masters_and_resumes_exactly() {
    let device = device();
    device.seed(3);
    let mut model = cast_params(Net::new(&device)).expect("burn-amp is in the tests");
    let stored = |model: &Net| {
        [
            model.first.weight.val().inner().dtype(),
            model.norm.gamma.val().inner().dtype(),
        ]
    };
    assert_eq!(stored(&model), [DType::F16, DType::F32]);
    let x = Tensor::<2>::random([16, 8], Distribution::Default, &device);
    let new = || ModuleOptimizer::from(MasterWeights::new(AdamConfig::new().build()));
    let mut optimizer = new();
    let scale = burn_amp::loss_scale(&device).expect("burn-amp is in the tests");
    while scale.steps() < scale.skipped_steps() + 4 {
        let (skipped, before) = (scale.skipped_steps(), bits(&model));
        model = step(model, &mut optimizer, &x);
        let is_skipped = scale.skipped_steps() > skipped;
        assert_eq!(
            bits(&model) == before,
            is_skipped,
            "a skipped step changes nothing"
        );
    }
    assert_eq!(stored(&model), [DType::F16, DType::F32]);

    let bytes = optimizer.to_record().into_bytes().expect("it is saved");
    let record = OptimizerRecord::from_bytes(bytes).expect("it is loaded");
    let mut resumed = new().load_record(record);
    let mut same = model.clone();
    for _ in 0..4 {
        model = step(model, &mut optimizer, &x);
        same = step(same, &mut resumed, &x);
        assert_eq!(bits(&model), bits(&same));
    }
}

/// A weight of 1 and steps of 2^-13: F16 keeps no sum of 1 and less than 2^-12.
#[test]
fn small_updates_are_lost_without_masters_only() {
    let device = Device::flex();
    let gradient = || Tensor::<1>::ones([4], &device).cast(DType::F32);
    let run = |steps: usize, dtype: DType| {
        use burn::optim::Optimizer;
        let sgd = MasterWeights::new(SgdConfig::new().build());
        let mut tensor = Tensor::<1>::ones([4], &device).cast(dtype);
        let mut state = None;
        for _ in 0..steps {
            (tensor, state) = sgd.step(2f64.powi(-13), tensor, gradient(), state);
        }
        assert_eq!(tensor.dtype(), dtype);
        let values = tensor.cast(DType::F32).into_data();
        values.try_to_vec::<f32>().expect("it is F32")
    };
    assert_eq!(run(64, DType::F16), run(64, DType::F32));
    assert_eq!(run(64, DType::F16), vec![1.0 - 64.0 * 2f32.powi(-13); 4]);
    let mut lost = Tensor::<1>::ones([4], &device).cast(DType::F16);
    for _ in 0..64 {
        lost = lost - gradient().cast(DType::F16) * 2f32.powi(-13);
    }
    let lost = lost.cast(DType::F32).into_data().try_to_vec::<f32>();
    assert_eq!(lost.expect("it is F32"), [1.0; 4]);
}

#[test]
fn gradients_are_clipped_together() {
    let device = Device::flex();
    let parameters = [
        Param::from_tensor(Tensor::<1>::zeros([2], &device)),
        Param::from_tensor(Tensor::<1>::zeros([2], &device)),
    ];
    let values = [[3.0, 4.0], [0.0, 12.0]];
    let gradients = || {
        let mut gradients = GradientsParams::new();
        for (param, values) in parameters.iter().zip(values) {
            gradients.register(param.id, Tensor::<1>::from_floats(values, &device));
        }
        gradients
    };
    let model = parameters.to_vec();
    let read = |gradients: &GradientsParams| {
        parameters.each_ref().map(|param| {
            let gradient = gradients.get::<1>(param.id).expect("it stays");
            gradient.into_data().try_to_vec::<f32>().expect("it is F32")
        })
    };
    // 3² + 4² + 12² = 13².
    let norm = global_norm(&gradients(), &model).expect("there are gradients");
    assert_eq!(norm.into_scalar::<f32>(), 13.0);
    for (max, factor) in [(6.5, 0.5), (100.0, 1.0)] {
        let mut clipped = gradients();
        let norm = clip(&mut clipped, &model, Clipping::GlobalNorm(max));
        assert_eq!(norm.expect("it is needed").into_scalar::<f32>(), 13.0);
        for (found, exact) in read(&clipped).iter().flatten().zip(values.iter().flatten()) {
            // 1e-6 is added to the norm, and three operations round.
            assert!((found - exact * factor).abs() <= 1e-6 * exact, "{found}");
        }
    }
    let mut clamped = gradients();
    assert!(clip(&mut clamped, &model, Clipping::Value(3.5)).is_none());
    assert_eq!(read(&clamped), [[3.0, 3.5], [0.0, 3.5]]);
    // After an overflow there are none.
    assert!(
        clip(
            &mut GradientsParams::new(),
            &model,
            Clipping::GlobalNorm(1.0)
        )
        .is_none()
    );
}
