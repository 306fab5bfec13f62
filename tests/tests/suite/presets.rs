//! Presets `o2` and `o3`: how parameters are stored, and how much memory they need.

use burn_amp::memory;
use burn_amp_tests::prelude::*;

type B = AmpAutodiff;

fn preset(preset: Preset) -> Config {
    let compute = match preset {
        Preset::O0 => Compute::F32,
        Preset::O1 | Preset::O2 | Preset::O3 => Compute::F16,
    };
    changed(computing_in(compute), |it| it.preset = preset)
}

policy!(O0, preset(Preset::O0));
policy!(O1, preset(Preset::O1));
policy!(O2, preset(Preset::O2));
policy!(O3, preset(Preset::O3));

/// A model with norms, with parameters and with running statistics, and with modules that are not norms.
#[derive(Module, Debug)]
struct Net<B: Backend> {
    tokens: Embedding<B>,
    batch: BatchNorm<B>,
    layers: Vec<(Linear<B>, LayerNorm<B>)>,
}

impl<B: Backend> Net<B> {
    fn new(device: &B::Device) -> Self {
        let layer = || {
            (
                LinearConfig::new(16, 16).init(device),
                LayerNormConfig::new(16).init(device),
            )
        };
        Self {
            tokens: EmbeddingConfig::new(32, 16).init(device),
            batch: BatchNormConfig::new(16).init(device),
            layers: vec![layer(), layer()],
        }
    }

    fn logits(&self) -> Tensor<B, 2> {
        let tokens =
            Tensor::<B, 2, Int>::from_ints([[1, 5, 9, 2], [30, 7, 7, 0]], &self.devices()[0]);
        let x = self.tokens.forward(tokens).reshape([8, 16, 1]);
        let mut x = self.batch.forward(x).reshape([8, 16]);
        for (linear, norm) in &self.layers {
            x = norm.forward(linear.forward(x)).tanh();
        }
        x
    }

    fn loss(&self) -> Tensor<B, 1> {
        let device = &self.devices()[0];
        let targets = Tensor::from_ints([0, 3, 15, 4, 4, 9, 1, 2], device);
        CrossEntropyLossConfig::new()
            .init(device)
            .forward(self.logits(), targets)
    }
}

/// The storage dtypes of the parameters of norms, those of the other parameters, and the bytes of all.
fn stored<B: Amped, M: Module<B>>(model: &M) -> (Vec<DType>, Vec<DType>, u64) {
    #[derive(Default)]
    struct Stored {
        modules: Vec<String>,
        norms: Vec<DType>,
        others: Vec<DType>,
        bytes: u64,
    }

    impl<B: Amped> ModuleVisitor<B> for Stored {
        fn enter_module(&mut self, _: &str, container_type: &str) {
            self.modules.push(container_type.to_string());
        }

        fn exit_module(&mut self, _: &str, _: &str) {
            self.modules.pop();
        }

        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
            let tensor = param.val();
            let dtype = storage_dtype(&tensor);
            self.bytes += (dtype.size() * tensor.shape().num_elements()) as u64;
            match self.modules.last().unwrap().as_str() {
                "Struct:BatchNorm" | "Struct:LayerNorm" => self.norms.push(dtype),
                "Struct:Linear" | "Struct:Embedding" => self.others.push(dtype),
                module => panic!("{module}"),
            }
        }
    }

    let mut stored = Stored::default();
    model.visit(&mut stored);
    (stored.norms, stored.others, stored.bytes)
}

fn net<P: ConfigSource>() -> Net<B> {
    let _policy = enter::<P>();
    let record = seeded::<PlainAutodiff, _>(Net::<PlainAutodiff>::new);
    cast_params(load::<B, _>(Net::new(&here()), record))
}

#[test]
fn each_preset_stores_parameters_as_it_says() {
    fn stores<P: ConfigSource>(norms: DType, others: DType) {
        let _policy = enter::<P>();
        let found = stored(&net::<P>());
        assert_eq!(found.0, vec![norms; 2 * 2 + 4]);
        assert_eq!(found.1, vec![others; 2 * 2 + 1]);
    }
    stores::<O0>(DType::F32, DType::F32);
    stores::<O1>(DType::F32, DType::F32);
    stores::<O2>(DType::F32, DType::F16);
    stores::<O3>(DType::F16, DType::F16);
}

/// The loss is near that of F32, and is not rounded when it is read, although the first op reads a table in F16.
#[test]
fn a_loss_is_f32_under_every_preset() {
    let record = seeded::<PlainAutodiff, _>(Net::<PlainAutodiff>::new);
    let plain = load::<PlainAutodiff, _>(Net::new(&here()), record);
    let expected: f32 = plain.loss().into_scalar().elem();

    fn loss<P: ConfigSource>() -> f32 {
        let _policy = enter::<P>();
        let loss = net::<P>().loss();
        assert_eq!(loss.dtype(), DType::F32);
        loss.into_scalar().elem()
    }
    assert_eq!(loss::<O0>(), expected);
    for found in [loss::<O1>(), loss::<O2>()] {
        // Two low layers between norms; for the tolerance compare `near`.
        let error = (found - expected).abs() / expected;
        assert!(error < 4.0 * 2f32.powi(-10), "{found}, {expected} in f32");
        assert_ne!(f32::from(burn::tensor::f16::from_f32(found)), found);
    }
}

#[test]
fn o3_runs_low_what_o2_runs_in_f32() {
    fn exp_of<P: ConfigSource>() -> DType {
        let _policy = enter::<P>();
        storage_dtype(&net::<P>().logits().exp())
    }
    assert_eq!(exp_of::<O2>(), DType::F32);
    assert_eq!(exp_of::<O3>(), DType::F16);
    let loss: f32 = net::<O3>().loss().into_scalar().elem();
    assert!(loss.is_finite());
}

/// An estimate of weights, masters and optimizer state matches a model after a step and its optimizer's record.
#[test]
fn estimates_are_what_training_takes() {
    fn holds<P: ConfigSource>(preset: Preset, masters: Masters) {
        let _policy = enter::<P>();
        let mut model = net::<P>();
        let adam = MasterWeights::new(AdamConfig::new()).with_masters(masters);
        // The running statistics of batch norm have neither gradient nor state.
        let estimate = memory::estimate(&model, preset, &adam);
        assert_eq!(estimate.parameters, model.num_params() as u64);
        assert_eq!(estimate.weights, stored(&model).2, "{preset}");

        let mut optimizer = adam.init();
        loop {
            let grads = GradientsParams::from_grads(model.loss().backward(), &model);
            let overflowed = grads.is_empty();
            model = optimizer.step(1e-3, model, grads);
            if !overflowed {
                break;
            }
        }
        let bytes = bytes_of::<B>(Optimizer::<Net<B>, B>::to_record(&optimizer));
        let state = (estimate.masters + estimate.optimizer_state) as i64;
        // In addition to tensors, a record has less than 200 bytes of metadata per parameter: name, shapes and dtypes.
        let beside = bytes.len() as i64 - state;
        assert!(
            (0..200 * 12).contains(&beside),
            "{preset} {masters:?}: {state}, {} recorded",
            bytes.len()
        );
    }
    holds::<O1>(Preset::O1, Masters::F32);
    holds::<O2>(Preset::O2, Masters::F32);
    holds::<O3>(Preset::O3, Masters::F32);
    holds::<O3>(Preset::O3, Masters::None);
}

/// The numbers of the table in `book/src/memory.md`, and the state of every optimizer of Burn.
#[test]
fn bytes_per_parameter() {
    type B = PlainAutodiff;
    let linear: Linear<B> = LinearConfig::new(64, 64).with_bias(false).init(&here());
    let adam = MasterWeights::new(AdamConfig::new());
    let bytes = |preset, masters| {
        let found = memory::estimate(&linear, preset, &adam.clone().with_masters(masters));
        [
            found.weights,
            found.masters,
            found.gradients,
            found.optimizer_state,
        ]
        .map(|bytes| bytes as f64 / found.parameters as f64)
    };
    assert_eq!(bytes(Preset::O0, Masters::F32), [4.0, 0.0, 4.0, 8.0]);
    assert_eq!(bytes(Preset::O1, Masters::F32), [4.0, 0.0, 4.0, 8.0]);
    assert_eq!(bytes(Preset::O2, Masters::F32), [2.0, 4.0, 2.0, 8.0]);
    assert_eq!(bytes(Preset::O2, Masters::Split), [2.0, 2.0, 2.0, 8.0]);
    assert_eq!(bytes(Preset::O3, Masters::None), [2.0, 0.0, 2.0, 8.0]);
    // `MasterWeights` steps one parameter after the other.
    assert_eq!(bytes(Preset::O2, Masters::Bits24), [2.0, 2.0, 2.0, 8.0]);
    assert_eq!(bytes(Preset::O2, Masters::Stochastic), [2.0, 4.0, 2.0, 8.0]);

    let state = |optimizer: &dyn Fn() -> memory::Memory| {
        let found = optimizer();
        found.optimizer_state / found.parameters
    };
    macro_rules! state {
        ($config:expr) => {
            state(&|| memory::estimate(&linear, Preset::O1, &$config))
        };
    }
    let momentum = Some(MomentumConfig::new());
    assert_eq!(state!(SgdConfig::new()), 0);
    assert_eq!(state!(SgdConfig::new().with_momentum(momentum.clone())), 4);
    assert_eq!(state!(AdamConfig::new()), 8);
    assert_eq!(state!(AdamConfig::new().with_amsgrad(true)), 12);
    assert_eq!(state!(AdamWConfig::new()), 8);
    assert_eq!(state!(AdanConfig::new()), 16);
    assert_eq!(state!(AdaGradConfig::new()), 4);
    assert_eq!(state!(RmsPropConfig::new()), 12);
    assert_eq!(state!(MuonConfig::new()), 4);

    let estimate = memory::estimate(&linear, Preset::O2, &adam);
    assert_eq!(
        estimate.to_string(),
        "4096 parameters, 16.0 bytes each: weights 0.0 MiB, masters 0.0, gradients 0.0, optimizer state 0.0, together 0.1 MiB"
    );
}

/// A frozen parameter needs memory for its weight only.
#[test]
fn frozen_parameters_cost_their_weights() {
    let model: Linear<PlainAutodiff> = LinearConfig::new(8, 8).init(&here());
    let estimate = memory::estimate(&model.no_grad(), Preset::O1, &AdamConfig::new());
    assert_eq!((estimate.weights, estimate.total()), (4 * 72, 4 * 72));
}
