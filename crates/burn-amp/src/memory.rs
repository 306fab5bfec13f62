//! Estimates the memory that a model's parameters take in training.

use std::fmt;

use burn::{
    module::{Module, ModuleVisitor, Param},
    optim::SimpleOptimizer,
    record::{BinBytesRecorder, FullPrecisionSettings, Recorder},
    tensor::{Tensor, backend::Backend},
};
use burn_amp_core::Preset;

use crate::{
    modules::Modules,
    optim::{Masters, OptimizerConfig},
};

/// The bytes of a model's parameters, their gradients and the optimizer's state, without activations.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Memory {
    /// The number of parameters.
    pub parameters: u64,
    /// The bytes of the parameters as the model stores them.
    pub weights: u64,
    /// The bytes of their F32 master weights.
    pub masters: u64,
    /// The bytes of the gradients as a backward pass leaves them: one per parameter, in its dtype. A parameter in half
    /// precision that a pass uses several times has one in F32, which is not counted here.
    pub gradients: u64,
    /// The bytes of the optimizer's own state, such as Adam's two moments.
    pub optimizer_state: u64,
}

impl Memory {
    /// The sum of all bytes.
    pub fn total(&self) -> u64 {
        let Self {
            parameters: _,
            weights,
            masters,
            gradients,
            optimizer_state,
        } = self;
        weights + masters + gradients + optimizer_state
    }

    /// The bytes per parameter; 0 for a model without parameters.
    pub fn per_parameter(&self) -> f64 {
        if self.parameters == 0 {
            return 0.0;
        }
        self.total() as f64 / self.parameters as f64
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        write!(
            f,
            "{} parameters, {:.1} bytes each: weights {:.1} MiB, masters {:.1}, gradients {:.1}, optimizer state \
             {:.1}, together {:.1} MiB",
            self.parameters,
            self.per_parameter(),
            mib(self.weights),
            mib(self.masters),
            mib(self.gradients),
            mib(self.optimizer_state),
            mib(self.total()),
        )
    }
}

/// Estimates the memory that training `model` with `optimizer` takes under a preset with compute dtype BF16.
///
/// `optimizer` is one of Burn's optimizer configurations, [`MasterWeights`](crate::optim::MasterWeights) over one, or an
/// [`AmpOptimizer`](crate::optim::AmpOptimizer), whose moments may take fewer bytes.
/// F16 takes the same, with two exceptions: the gradient of a parameter in half precision takes two more bytes, because
/// it is unscaled in F32, and [`Masters::Split`] and [`Masters::Bits24`] take 4 bytes per parameter.
///
/// ```
/// # use burn::{backend::Flex, nn::{Linear, LinearConfig}, optim::AdamConfig};
/// use burn_amp::{memory, optim::{MasterWeights, Masters}, config::Preset};
///
/// let model: Linear<Flex> = LinearConfig::new(64, 64).with_bias(false).init(&Default::default());
/// let adam = MasterWeights::new(AdamConfig::new());
/// assert_eq!(memory::estimate(&model, Preset::O1, &adam).per_parameter(), 16.0);
/// let split = adam.with_masters(Masters::Split);
/// assert_eq!(memory::estimate(&model, Preset::O2, &split).per_parameter(), 14.0);
/// ```
///
/// # Panics
///
/// Panics if the optimizer cannot step one of the parameters: Muon accepts matrices only.
pub fn estimate<B: Backend, M: Module<B>>(
    model: &M,
    preset: Preset,
    optimizer: &impl OptimizerConfig<B>,
) -> Memory {
    let mut count = AddUp {
        preset,
        optimizer,
        memory: Memory::default(),
        modules: Modules::default(),
    };
    model.visit(&mut count);
    count.memory
}

struct AddUp<'a, O> {
    preset: Preset,
    optimizer: &'a O,
    memory: Memory,
    modules: Modules,
}

impl<B: Backend, O: OptimizerConfig<B>> ModuleVisitor<B> for AddUp<'_, O> {
    fn enter_module(&mut self, _: &str, container_type: &str) {
        self.modules.enter(container_type);
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.modules.exit();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        let elements = param.lazy_shape().num_elements() as u64;
        let low = match self.preset {
            Preset::O0 | Preset::O1 => false,
            Preset::O2 => !self.modules.is_norm(),
            Preset::O3 => true,
        };
        let stored = if low { 2 } else { 4 };
        let memory = &mut self.memory;
        memory.parameters += elements;
        memory.weights += stored * elements;
        if !param.is_require_grad() && B::ad_enabled(&param.lazy_device()) {
            return;
        }
        memory.gradients += stored * elements;
        memory.masters += elements
            * match self.optimizer.masters() {
                _ if !low => 0,
                Masters::F32 => 4,
                Masters::Split => 2,
                Masters::Bits24 => 1,
                Masters::Stochastic | Masters::None => 0,
            };
        let keeps_more = self.modules.keeps_more();
        let state = self.optimizer.moment_bytes(elements as usize, keeps_more);
        let state = state
            .unwrap_or_else(|| state_per_element::<B, D>(self.optimizer, &param.lazy_device()));
        memory.optimizer_state += (state * elements as f64).round() as u64;
    }
}

/// The bytes that an optimizer keeps per element of an F32 parameter with `D` dimensions.
///
/// They are measured: for two sizes, the optimizer makes a step and its state is recorded; the difference counts.
fn state_per_element<B: Backend, const D: usize>(
    optimizer: &impl OptimizerConfig<B>,
    device: &B::Device,
) -> f64 {
    const SIZES: [usize; 2] = [1000, 2000];
    let [small, large] = SIZES.map(|len| {
        let mut shape = [1; D];
        shape[D - 1] = len;
        let ones = Tensor::<B, D>::ones(shape, device);
        let (_, state) = optimizer.simple().step(0.0, ones.clone(), ones, None);
        let recorder = BinBytesRecorder::<FullPrecisionSettings>::default();
        let bytes: Vec<u8> = Recorder::<B>::record(&recorder, state, ())
            .expect("a state that was just made can be recorded in memory");
        bytes.len()
    });
    (large - small) as f64 / (SIZES[1] - SIZES[0]) as f64
}
