//! The models from weights that `examples/lab/pytorch/weights.py` saved, on its batch, against its loss.
//!
//! ```text
//! python examples/lab/pytorch/weights.py --model gpt --size tiny --out DIR
//! ZOO_TWINS=DIR cargo test -p zoo --test zoo twins -- --nocapture
//! ```

use std::path::{Path, PathBuf};

use burn::{
    backend::{Autodiff, Flex},
    prelude::*,
};
use zoo::{
    Entry, Example, Net, Size, Visitor, ZOO, ZooModel,
    models::wgan::{Wgan, WganConfig},
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

    fn example(&self) -> Example {
        Example::open(&self.path("example")).unwrap()
    }

    fn net<N: Net<B>>(&self, model: &N::Model) -> N {
        let net = N::init(model, &Default::default());
        weights::load::<B, _>(&self.path("weights"), net).unwrap()
    }

    fn compare(&self, tensor: &str, loss: Tensor<B, 1>) {
        let ours: f32 = loss.into_scalar();
        let theirs = self
            .example()
            .floats::<B, 1>(tensor, &Default::default())
            .unwrap();
        let theirs: f32 = theirs.into_scalar();
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

/// Compares the loss of a model with that of its twin.
impl Visitor for &Twin {
    type Output = ();

    fn visit<M: ZooModel>(self, _: &'static Entry, model: M) {
        let batch = M::read_batch::<B>(&self.example(), &Default::default()).unwrap();
        self.compare("loss", self.net::<M::TrainNet<B>>(&model).loss(&batch));
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
    let mut checked = 0;
    for entry in ZOO {
        let twin = Twin {
            name: entry.name,
            folder: Path::new(&folder).to_owned(),
        };
        if !twin.path("weights").exists() {
            continue;
        }
        if entry.name == "wgan" {
            let net = twin.net::<Wgan<B>>(&WganConfig::tiny());
            let batch = WganConfig::read_batch(&twin.example(), &Default::default()).unwrap();
            twin.compare("loss.critic", net.critic_loss(&batch));
            twin.compare("loss.generator", net.generator_loss(&batch));
        } else {
            zoo::visit(entry.name, Size::Tiny, &twin).unwrap();
        }
        checked += 1;
    }
    assert!(
        checked > 0,
        "no files of weights.py in {}",
        Path::new(&folder).display()
    );
}
