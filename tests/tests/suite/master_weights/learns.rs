//! Models stored in half precision learn as those in F32.

use super::*;

/// A task: a model, and its loss on fixed batches.
pub(super) trait Task {
    type Model<B: AutodiffBackend>: AutodiffModule<B>;

    fn init<B: AutodiffBackend>(device: &B::Device) -> Self::Model<B>;
    fn loss<B: AutodiffBackend>(model: &Self::Model<B>, step: usize) -> Tensor<B, 1>;
}

/// A model of two layers, trained on noise.
pub(super) struct Mlp;

impl Task for Mlp {
    type Model<B: AutodiffBackend> = (Linear<B>, LayerNorm<B>, Linear<B>);

    fn init<B: AutodiffBackend>(device: &B::Device) -> Self::Model<B> {
        (
            LinearConfig::new(16, 32).init(device),
            LayerNormConfig::new(32).init(device),
            LinearConfig::new(32, 4).init(device),
        )
    }

    fn loss<B: AutodiffBackend>(
        (first, norm, second): &Self::Model<B>,
        step: usize,
    ) -> Tensor<B, 1> {
        let device = first.weight.val().device();
        let from = (step % 8) * 16;
        let x = noise::<B>(16 * 16 * 2, &device)
            .slice(from..from + 256)
            .reshape([16, 16]);
        let target = x.clone().slice([0..16, 0..4]).square() * 3.0;
        let y = second.forward(norm.forward(first.forward(x)).tanh());
        (y - target).square().mean()
    }
}

const STEPS: usize = 300;

/// Trains, and returns the mean loss of the last 8 steps, which are a cycle of batches, the model and the optimizer.
fn train<T: Task, B: AutodiffBackend, O: Optimizer<T::Model<B>, B>>(
    mut model: T::Model<B>,
    mut optimizer: O,
    lr: f64,
) -> (f32, T::Model<B>, O) {
    let mut losses = Vec::new();
    for step in 0..STEPS {
        let loss = T::loss(&model, step);
        losses.push(loss.clone().into_scalar().elem::<f32>());
        model = stepped(&mut optimizer, lr, loss, model);
    }
    let last = &losses[STEPS - 8..];
    (last.iter().sum::<f32>() / 8.0, model, optimizer)
}

/// A learning rate so small that rounding to `low` loses most updates of a parameter.
pub(super) fn small_lr(low: Precision) -> f64 {
    match low {
        Precision::BF16 => 5e-4,
        _ => 5e-5,
    }
}

fn learns_as_f32<T: Task>() {
    let low = precision();
    let lr = small_lr(low);
    let start = seeded::<PlainAutodiff, _>(T::init::<PlainAutodiff>);
    let plain = load::<PlainAutodiff, _>(T::init(&here()), start.clone());
    let initial: f32 = T::loss(&plain, 0).into_scalar().elem();
    let (expected, ..) = train::<T, PlainAutodiff, _>(plain, AdamConfig::new().init(), lr);

    let model = || {
        let model = load::<B, _>(T::init(&here()), start.clone());
        cast_params_to(model, Preset::O2, low)
    };
    for masters in [Masters::F32, Masters::Split] {
        let optimizer = MasterWeights::new(AdamConfig::new()).with_masters(masters);
        let (found, model, _) = train::<T, B, _>(model(), optimizer.init(), lr);
        assert!(
            (found - expected).abs() <= 0.01 * expected,
            "{low} with {masters:?}: loss {found}, {expected} in f32, {initial} at the start"
        );
        assert_stored::<B, _>(&model, low);
    }

    let optimizer = MasterWeights::new(AdamConfig::new()).with_masters(Masters::None);
    let (stalled, ..) = train::<T, B, _>(model(), optimizer.init(), lr);
    assert!(
        stalled > 1.01 * expected,
        "{low} without masters: loss {stalled}, {expected} in f32"
    );
}

/// Asserts that parameters of norms are stored in F32 and all others in `low`.
pub(super) fn assert_stored<B: Amped, M: Module<B>>(model: &M, low: Precision) {
    struct Stored {
        low: Precision,
        modules: Vec<String>,
        counts: [usize; 2],
    }

    impl<B: Amped> ModuleVisitor<B> for Stored {
        fn enter_module(&mut self, _: &str, container_type: &str) {
            self.modules.push(container_type.to_string());
        }

        fn exit_module(&mut self, _: &str, _: &str) {
            self.modules.pop();
        }

        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
            let module = self.modules.last().unwrap();
            let is_norm = module == "Struct:LayerNorm";
            let expected = match is_norm {
                true => "f32",
                false => self.low.name(),
            };
            let stored = storage_dtype(&param.val());
            assert_eq!(format!("{stored:?}").to_lowercase(), expected, "{module}");
            self.counts[usize::from(is_norm)] += 1;
        }
    }

    let mut stored = Stored {
        low,
        modules: Vec::new(),
        counts: [0; 2],
    };
    model.visit(&mut stored);
    assert!(stored.counts.iter().all(|count| *count > 0));
}

#[test]
fn an_mlp_in_half_learns_as_in_f32() {
    let _policy = enter::<FittingF16>();
    under_each!(learns_as_f32::<Mlp>, InBf16, FittingF16);
    assert_eq!(loss_scale::<Amp>(&here()).skipped_steps(), 0);
}

/// Left out on the software driver for Vulkan, which would take minutes for 1800 steps.
#[cfg(not(feature = "vulkan"))]
mod transformer {
    use burn::nn::{
        Embedding, EmbeddingConfig,
        loss::CrossEntropyLossConfig,
        transformer::{TransformerEncoder, TransformerEncoderConfig, TransformerEncoderInput},
    };
    use burn::tensor::{Int, TensorData};

    use super::*;

    /// A transformer encoder that learns to repeat the token two positions earlier.
    #[derive(Module, Debug)]
    struct SmallTransformer<B: Backend> {
        tokens: Embedding<B>,
        positions: Embedding<B>,
        encoder: TransformerEncoder<B>,
        head: Linear<B>,
    }

    struct Transformer;

    impl Task for Transformer {
        type Model<B: AutodiffBackend> = SmallTransformer<B>;

        fn init<B: AutodiffBackend>(device: &B::Device) -> Self::Model<B> {
            SmallTransformer {
                tokens: EmbeddingConfig::new(8, 16).init(device),
                positions: EmbeddingConfig::new(8, 16).init(device),
                encoder: TransformerEncoderConfig::new(16, 32, 2, 1)
                    .with_dropout(0.0)
                    .init(device),
                head: LinearConfig::new(16, 8).init(device),
            }
        }

        fn loss<B: AutodiffBackend>(model: &Self::Model<B>, step: usize) -> Tensor<B, 1> {
            let device = model.head.weight.val().device();
            let token = |row: usize, column: usize| {
                let i = (step % 4) * 8 + row;
                ((i * 7 + column * (3 + i % 5)) % 8) as i32
            };
            let table = |shift: usize| {
                let values: Vec<i32> = (0..8 * 8)
                    .map(|at| token(at / 8, (at % 8 + 8 - shift) % 8))
                    .collect();
                Tensor::<B, 2, Int>::from_data(TensorData::new(values, [8, 8]), &device)
            };
            let positions = Tensor::<B, 1, Int>::arange(0..8, &device).unsqueeze::<2>();
            let x = model.tokens.forward(table(0)) + model.positions.forward(positions);
            let y = model.encoder.forward(TransformerEncoderInput::new(x));
            let logits = model.head.forward(y).reshape([64, 8]);
            let loss = CrossEntropyLossConfig::new().init(&device);
            loss.forward(logits, table(2).reshape([64]))
        }
    }

    #[test]
    fn a_transformer_in_half_learns_as_in_f32() {
        under_each!(learns_as_f32::<Transformer>, InBf16, FittingF16);
    }
}
