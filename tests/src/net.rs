//! A small net whose gradients overflow at will.

use std::sync::OnceLock;

use crate::prelude::*;

/// Two layers and a gain: five leaves, that is, tensors that require a gradient.
#[derive(Module, Debug)]
pub struct Net<B: burn::prelude::Backend> {
    first: Linear<B>,
    second: Linear<B>,
    gain: Param<Tensor<B, 2>>,
}

impl<B: AutodiffBackend> Net<B> {
    pub fn new(device: &B::Device) -> Self {
        Self {
            first: LinearConfig::new(4, 8).init(device),
            second: LinearConfig::new(8, 2).init(device),
            gain: Param::from_tensor(Tensor::ones([1, 2], device)),
        }
    }

    /// A net that has the same weights and ids on every backend of a process.
    pub fn seeded() -> Self {
        static RECORD: OnceLock<Vec<u8>> = OnceLock::new();
        let record = RECORD.get_or_init(|| seeded::<PlainAutodiff, _>(Net::<PlainAutodiff>::new));
        load::<B, _>(Self::new(&here()), record.clone())
    }

    pub fn loss(&self, device: &B::Device) -> Tensor<B, 1> {
        let x = Tensor::from_floats([[0.5, -1.0, 2.0, 0.25], [1.0, 0.75, -0.5, 0.125]], device);
        let y = self
            .second
            .forward(Relu::new().forward(self.first.forward(x)));
        (y * self.gain.val() - 1.0).square().mean()
    }
}

/// Adds `sum(leaf * poison)` to a loss, and so `poison` to the gradient of one leaf.
struct Poison<B: AutodiffBackend> {
    leaf: usize,
    value: f32,
    seen: usize,
    loss: Tensor<B, 1>,
}

impl<B: AutodiffBackend> ModuleVisitor<B> for Poison<B> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        if self.seen == self.leaf {
            let shape = param.val().shape();
            let mut poison = vec![0.0; shape.num_elements()];
            *poison.last_mut().unwrap() = self.value;
            let poison = TensorData::new(poison, shape);
            let poison = Tensor::from_data(poison, &self.loss.device());
            self.loss = self.loss.clone() + (param.val() * poison).sum();
        }
        self.seen += 1;
    }
}

/// Returns a loss that adds `value` to the gradient of leaf number `leaf`, and the number of leaves.
pub fn poisoned<B: AutodiffBackend>(
    net: &Net<B>,
    leaf: usize,
    value: f32,
) -> (Tensor<B, 1>, usize) {
    let device = net.gain.val().device();
    let mut poison = Poison {
        leaf,
        value,
        seen: 0,
        loss: net.loss(&device),
    };
    net.visit(&mut poison);
    (poison.loss, poison.seen)
}

/// The contents of a record, comparable whatever the order of its maps.
pub fn contents<B: AutodiffBackend>(record: impl Record<B>) -> serde_json::Value {
    serde_json::to_value(record.into_item::<FullPrecisionSettings>()).unwrap()
}
