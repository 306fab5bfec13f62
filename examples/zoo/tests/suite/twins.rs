//! The models from weights that `examples/lab/pytorch/weights.py` saved, on its batch, against its loss.
//!
//! ```text
//! python examples/lab/pytorch/weights.py --model gpt --size tiny --out DIR
//! ZOO_TWINS=DIR cargo test -p zoo --test suite twins -- --nocapture
//! ```

use std::path::{Path, PathBuf};

use burn::{
    backend::{Autodiff, Flex},
    prelude::*,
    tensor::TensorData,
};
use burn_store::{ModuleStore, SafetensorsStore};
use zoo::{
    Labelled, Masked, Net, Sequences, ZooModel,
    models::{
        bert::{Bert, BertConfig, Passages},
        gpt::{Gpt, GptConfig},
        lstm::{Lstm, LstmConfig},
        mlp::{Mlp, MlpConfig},
        resnet::{ResNet, ResNetConfig},
        tabular::{Rows, Tabular, TabularConfig},
        unet::{UNet, UNetConfig},
        wgan::{Images, Wgan, WganConfig},
    },
    weights,
};

/// Batch norms use the statistics of the batch only on a backend that records gradients.
type B = Autodiff<Flex>;

/// The tolerance of the loss: both sides compute in F32, whose epsilon is 1.2e-7, but sum in different orders.
const TOLERANCE: f32 = 1e-4;

/// The files of one model.
struct Twin {
    name: &'static str,
    folder: PathBuf,
}

impl Twin {
    fn path(&self, what: &str) -> PathBuf {
        let Self { name, folder } = self;
        folder.join(format!("{name}-tiny.{what}.safetensors"))
    }

    fn data(&self, tensor: &str) -> TensorData {
        let mut store = SafetensorsStore::from_file(self.path("example"));
        let snapshot = store.get_snapshot(tensor).unwrap();
        snapshot.expect(tensor).to_data().unwrap()
    }

    fn floats<const D: usize>(&self, tensor: &str) -> Tensor<B, D> {
        Tensor::from_data(self.data(tensor), &Default::default())
    }

    fn ints<const D: usize>(&self, tensor: &str) -> Tensor<B, D, Int> {
        Tensor::from_data(self.data(tensor), &Default::default())
    }

    fn labelled<const D: usize>(&self) -> Labelled<B, D> {
        Labelled {
            x: self.floats("batch.x"),
            target: self.ints("batch.target"),
        }
    }

    fn sequences(&self) -> Sequences<B> {
        Sequences {
            tokens: self.ints("batch.tokens"),
            target: self.ints("batch.target"),
        }
    }

    fn net<N: Net<B>>(&self, model: &N::Model) -> N {
        let net = N::init(model, &Default::default());
        weights::load::<B, _>(&self.path("weights"), net).unwrap()
    }

    fn check<N: Net<B>>(&self, model: N::Model, batch: <N::Model as ZooModel>::Batch<B>) {
        self.compare("loss", self.net::<N>(&model).loss(&batch));
    }

    fn compare(&self, tensor: &str, loss: Tensor<B, 1>) {
        let ours: f32 = loss.into_scalar();
        let theirs: f32 = self.floats::<1>(tensor).into_scalar();
        println!(
            "{:<10} {tensor:<14} {ours:.6} here, {theirs:.6} in PyTorch",
            self.name
        );
        assert!(
            (ours - theirs).abs() <= TOLERANCE * theirs.abs(),
            "{}",
            self.name
        );
    }
}

#[test]
fn from_the_same_weights_comes_the_loss_of_pytorch() {
    let Some(folder) = std::env::var_os("ZOO_TWINS") else {
        eprintln!(
            "left out: ZOO_TWINS names no folder with files of examples/lab/pytorch/weights.py"
        );
        return;
    };
    type Check = fn(&Twin);
    let checks: [(&str, Check); 11] = [
        ("mlp", |twin| {
            twin.check::<Mlp<B>>(MlpConfig::tiny(), twin.labelled())
        }),
        ("mlp-medium", |twin| {
            twin.check::<Mlp<B>>(MlpConfig::tiny_medium(), twin.labelled());
        }),
        ("mlp-large", |twin| {
            twin.check::<Mlp<B>>(MlpConfig::tiny_large(), twin.labelled());
        }),
        ("tabular", |twin| {
            let batch = Rows {
                categorical: twin.ints("batch.categorical"),
                numeric: twin.floats("batch.numeric"),
                target: twin.floats("batch.target").int(),
            };
            twin.check::<Tabular<B>>(TabularConfig::tiny(), batch);
        }),
        ("resnet18", |twin| {
            twin.check::<ResNet<B>>(ResNetConfig::tiny(), twin.labelled());
        }),
        ("resnet50", |twin| {
            twin.check::<ResNet<B>>(ResNetConfig::tiny_50(), twin.labelled());
        }),
        ("unet", |twin| {
            let batch = Masked {
                x: twin.floats("batch.x"),
                target: twin.floats("batch.target").int(),
            };
            twin.check::<UNet<B>>(UNetConfig::tiny(), batch);
        }),
        ("bert", |twin| {
            let batch = Passages {
                sequences: twin.sequences(),
                types: twin.ints("batch.types"),
            };
            twin.check::<Bert<B>>(BertConfig::tiny(), batch);
        }),
        ("gpt", |twin| {
            twin.check::<Gpt<B>>(GptConfig::tiny(), twin.sequences())
        }),
        ("lstm", |twin| {
            twin.check::<Lstm<B>>(LstmConfig::tiny(), twin.labelled())
        }),
        ("wgan", |twin| {
            let net = twin.net::<Wgan<B>>(&WganConfig::tiny());
            let batch = Images {
                images: twin.floats("batch.images"),
                noise: twin.floats("batch.noise"),
            };
            twin.compare("loss.critic", net.critic_loss(&batch));
            twin.compare("loss.generator", net.generator_loss(&batch));
        }),
    ];

    let mut checked = 0;
    for (name, check) in checks {
        let folder = Path::new(&folder).to_owned();
        let twin = Twin { name, folder };
        if twin.path("weights").exists() {
            check(&twin);
            checked += 1;
        }
    }
    assert!(
        checked > 0,
        "no files of weights.py in {}",
        Path::new(&folder).display()
    );
}
