//! Law: on Flex each model computes the same bits in a second run, and the same loss in training and in `valid()` where plain
//! Burn has. Where a row has the same bits in every batch is listed.

use burn::{
    module::AutodiffModule,
    prelude::*,
    tensor::{ElementConversion, TensorData, backend::AutodiffBackend},
};
use burn_amp::{
    golden::Golden,
    optim::{AmpOptimizer, GradientNorm},
    scaling::own_loss_scale,
};
use burn_amp_tests::{Compute, InForce, computing_in, enter, in_f16, policy, within};
use zoo::{
    Draw, Entry, LEARNING_RATE, Labelled, Net, Size, Visitor, ZOO, ZooModel,
    models::{
        gpt::{Gpt, GptConfig},
        mlp::{Mlp, MlpConfig},
        recurrent::{Recurrent, RecurrentConfig},
        resnet::{ResNet, ResNetConfig},
    },
    visit,
};

use super::Plain;

type B = burn_amp::Autodiff<burn_amp::Amp<Plain, InForce>>;
type PlainAutodiff = burn::backend::Autodiff<Plain>;
type Valid = burn_amp::Amp<Plain, InForce>;

policy!(F32, computing_in(Compute::F32));
policy!(F16, in_f16(|it| it.loss_scale.rule.init = 256.0));

/// With these weights BERT has another loss in `valid()` in plain Burn: Flex has kernels without a graph that add up otherwise.
const SEED: u64 = 4;

/// What is asked of a model, and whether it holds. `None` if it does not apply.
struct Same {
    again: bool,
    valid: Option<bool>,
    /// [`valid`](Self::valid) of plain Burn.
    plain: Option<bool>,
}

/// Whether the loss of a net has the same bits in training and in `valid()`.
fn is_same_in_valid<B: AutodiffBackend, M: ZooModel>(
    net: &M::TrainNet<B>,
    model: &M,
    draw: impl Fn() -> Draw,
) -> bool {
    let device = Default::default();
    let batch = model.batch::<B>(draw(), &device);
    let of_training: f32 = net.loss(&batch).into_scalar().elem();
    let batch = model.batch::<B::InnerBackend>(draw(), &device);
    let of_valid: f32 = net.valid().loss(&batch).into_scalar().elem();
    of_training.to_bits() == of_valid.to_bits()
}

/// A run of some steps.
fn run<M: ZooModel>(model: &M, batch: &M::Batch<B>) -> Golden {
    let device = Default::default();
    // As in a new process, the loss scale starts afresh.
    let _own = own_loss_scale::<B>(&device);
    B::seed(&device, SEED);
    let mut net = M::TrainNet::<B>::init(model, &device);
    let norm = GradientNorm::default();
    let optimizer = AmpOptimizer::new(burn::optim::AdamConfig::new()).init();
    let mut optimizer = optimizer.with_gradient_norm(&norm);
    let mut golden = Golden::of::<B>(&device);
    for _ in 0..3 {
        let (next, loss) = M::step(net, batch, &mut optimizer, LEARNING_RATE);
        net = next;
        let norm = norm.value().unwrap_or_default();
        golden.step(loss.into_scalar().elem(), norm as f32);
    }
    golden
}

struct Bits;

impl Visitor for Bits {
    type Output = Same;

    fn visit<M: ZooModel>(self, entry: &Entry, model: M) -> Same {
        let device = Default::default();
        let draw = || Draw::train(entry.batch_size(Size::Tiny), 0);
        let batch = model.batch::<B>(draw(), &device);
        B::seed(&device, SEED);
        let net = M::TrainNet::<B>::init(&model, &device);
        // Dropout and the statistics of a batch norm are for training.
        let text = format!("{net:?}");
        let differs_by_design = ["BatchNorm", "Dropout"]
            .iter()
            .any(|layer| text.contains(layer));
        let applies = !differs_by_design && entry.name != "wgan";
        let valid = applies.then(|| is_same_in_valid::<B, M>(&net, &model, draw));
        let plain = applies.then(|| {
            PlainAutodiff::seed(&device, SEED);
            let net = M::TrainNet::<PlainAutodiff>::init(&model, &device);
            is_same_in_valid::<PlainAutodiff, M>(&net, &model, draw)
        });
        Same {
            again: run(&model, &batch) == run(&model, &batch),
            valid,
            plain,
        }
    }
}

fn same(precision: &str) -> Vec<String> {
    let mut other = Vec::new();
    for entry in ZOO {
        let Same {
            again,
            valid,
            plain,
        } = visit(entry.name, Size::Tiny, Bits).unwrap();
        let told = format!(
            "{} in {precision}: again {again}, valid {valid:?}, in plain Burn {plain:?}",
            entry.name
        );
        println!("{told}");
        if !again || valid == Some(false) && plain == Some(true) {
            other.push(told);
        }
    }
    other
}

#[test]
fn a_second_run_has_the_same_bits_and_so_has_valid() {
    let mut other = Vec::new();
    {
        let _policy = enter::<F32>();
        other.extend(same("f32"));
    }
    {
        let _policy = enter::<F16>();
        other.extend(same("f16"));
    }
    // Where a driver adds up in an order that changes, the table above says so.
    assert!(
        cfg!(feature = "vulkan") || other.is_empty(),
        "{}",
        other.join("\n")
    );
}

/// Whether each row of a batch has the bits that it has alone: the model, and whether it does.
fn rows<M: ZooModel, const D: usize>(
    name: &'static str,
    model: M,
    row: impl Fn(&M::Batch<Valid>, usize) -> M::Batch<Valid>,
    forward: impl Fn(&M::Net<Valid>, M::Batch<Valid>) -> Tensor<Valid, D>,
) -> (&'static str, bool) {
    let device = Default::default();
    let net = M::Net::<Valid>::init(&model, &device);
    let batch = model.batch::<Valid>(Draw::train(5, 0), &device);
    let bits = |data: TensorData| data.iter::<f32>().map(f32::to_bits).collect::<Vec<_>>();
    let all = bits(forward(&net, batch.clone()).into_data());
    let alone = (0..5).flat_map(|at| bits(forward(&net, row(&batch, at)).into_data()));
    (name, alone.eq(all))
}

fn all_rows() -> Vec<(&'static str, bool)> {
    fn labelled<const D: usize>(batch: &Labelled<Valid, D>, at: usize) -> Labelled<Valid, D> {
        Labelled {
            x: batch.x.clone().narrow(0, at, 1),
            target: batch.target.clone().narrow(0, at, 1),
        }
    }
    let recurrent = |net: &Recurrent<Valid>, batch: Labelled<Valid, 3>| net.forward(batch.x);
    vec![
        rows("mlp", MlpConfig::tiny(), labelled, |net: &Mlp<_>, batch| {
            net.forward(batch.x)
        }),
        rows(
            "mlp-large",
            MlpConfig::tiny_large(),
            labelled,
            |net: &Mlp<_>, batch| net.forward(batch.x),
        ),
        rows(
            "resnet18",
            ResNetConfig::tiny(),
            labelled,
            |net: &ResNet<_>, batch| net.forward(batch.x),
        ),
        rows("lstm", RecurrentConfig::tiny(), labelled, recurrent),
        rows(
            "gpt",
            GptConfig::tiny(),
            |batch, at| zoo::Sequences {
                tokens: batch.tokens.clone().narrow(0, at, 1),
                target: batch.target.clone().narrow(0, at, 1),
            },
            |net: &Gpt<_>, batch| net.forward(batch.tokens),
        ),
    ]
}

/// In f32 and f16: Flex multiplies one row by a matrix with another kernel than five.
const ON_FLEX: [(&str, [bool; 2]); 5] = [
    ("mlp", [false, false]),
    ("mlp-large", [true, false]),
    ("resnet18", [true, false]),
    ("lstm", [true, false]),
    ("gpt", [true, true]),
];

#[test]
fn a_row_has_the_same_bits_in_every_batch_where_the_book_says_so() {
    let in_f32 = within::<F32, _>(all_rows);
    let in_f16 = within::<F16, _>(all_rows);
    let found = in_f32.into_iter().zip(in_f16);
    let found: Vec<_> = found
        .map(|((name, f32), (_, f16))| (name, [f32, f16]))
        .collect();
    println!("{found:?}");
    assert!(cfg!(feature = "vulkan") || found == ON_FLEX, "{found:?}");
}
