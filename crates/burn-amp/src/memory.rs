//! What a model's parameters cost in training, in bytes.

use std::fmt;

use burn::{
    module::{Module, ModuleVisitor, Param},
    optim::SimpleOptimizer,
    record::{BinBytesRecorder, FullPrecisionSettings, Recorder},
    tensor::{Tensor, backend::Backend},
};
use burn_amp_core::Preset;

use crate::{
    optim::{MasterWeights, Masters, OptimizerConfig},
    store::is_norm,
};

/// The bytes of a model's parameters, their gradients and the optimizer's state; activations come on top.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Memory {
    /// How many parameters there are.
    pub parameters: u64,
    /// The parameters as the model stores them.
    pub weights: u64,
    /// F32 master weights beside them.
    pub masters: u64,
    /// The gradients as a backward pass leaves them, one per parameter and in its dtype.
    pub gradients: u64,
    /// What the optimizer itself remembers, such as Adam's two moments.
    pub optimizer_state: u64,
}

impl Memory {
    /// All bytes.
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

    /// Bytes per parameter; 0 for a model without parameters.
    pub fn per_parameter(&self) -> f64 {
        match self.parameters {
            0 => 0.0,
            parameters => self.total() as f64 / parameters as f64,
        }
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        write!(
            f,
            "{} parameters, {:.1} bytes each: weights {:.1} MiB, masters {:.1}, gradients {:.1}, optimizer state {:.1}, \
             together {:.1} MiB",
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

/// An optimizer whose memory can be told: a configuration of Burn's, or [`MasterWeights`] over one.
pub trait Accounted {
    /// Where the F32 masters of parameters stored in BF16 are.
    fn masters(&self) -> Masters;

    /// The bytes that the optimizer remembers per element of a parameter of rank `D`, masters not counted.
    fn state_per_element<B: Backend, const D: usize>(&self, device: &B::Device) -> f64;
}

impl<C: OptimizerConfig> Accounted for C {
    fn masters(&self) -> Masters {
        Masters::None
    }

    /// Measured: the optimizer makes a step and its state is recorded, for two sizes.
    fn state_per_element<B: Backend, const D: usize>(&self, device: &B::Device) -> f64 {
        const SIZES: [usize; 2] = [1000, 2000];
        let [small, large] = SIZES.map(|len| {
            let mut shape = [1; D];
            shape[D - 1] = len;
            let ones = Tensor::<B, D>::ones(shape, device);
            let (_, state) = self.simple::<B>().step(0.0, ones.clone(), ones, None);
            let recorder = BinBytesRecorder::<FullPrecisionSettings>::default();
            let bytes: Vec<u8> = Recorder::<B>::record(&recorder, state, ())
                .expect("a state that was just made can be recorded in memory");
            bytes.len()
        });
        (large - small) as f64 / (SIZES[1] - SIZES[0]) as f64
    }
}

impl<C: OptimizerConfig> Accounted for MasterWeights<C> {
    fn masters(&self) -> Masters {
        self.masters()
    }

    fn state_per_element<B: Backend, const D: usize>(&self, device: &B::Device) -> f64 {
        self.config().state_per_element::<B, D>(device)
    }
}

/// What training `model` with `optimizer` costs per parameter under a preset with compute dtype BF16.
///
/// F16 costs the same, but for two more bytes per gradient of a low parameter, which is handed out unscaled in F32, and
/// for [`Masters::Split`], which is 4 bytes there.
///
/// ```
/// # use burn::{backend::Flex, nn::{Linear, LinearConfig}, optim::AdamConfig};
/// use burn_amp::{Preset, memory, optim::{MasterWeights, Masters}};
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
/// If the optimizer does: Muon takes matrices only.
pub fn estimate<B: Backend, M: Module<B>>(
    model: &M,
    preset: Preset,
    optimizer: &impl Accounted,
) -> Memory {
    struct Count<'a, O> {
        preset: Preset,
        optimizer: &'a O,
        memory: Memory,
        modules: Vec<bool>,
    }

    impl<B: Backend, O: Accounted> ModuleVisitor<B> for Count<'_, O> {
        fn enter_module(&mut self, _: &str, container_type: &str) {
            self.modules.push(is_norm(container_type));
        }

        fn exit_module(&mut self, _: &str, _: &str) {
            self.modules.pop();
        }

        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
            let elements = param.lazy_shape().num_elements() as u64;
            let in_norm = self.modules.last() == Some(&true);
            let low = match self.preset {
                Preset::O0 | Preset::O1 => false,
                Preset::O2 => !in_norm,
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
                    Masters::F32 if low => 4,
                    Masters::Split if low => 2,
                    Masters::F32 | Masters::Split | Masters::None => 0,
                };
            let state = self
                .optimizer
                .state_per_element::<B, D>(&param.lazy_device());
            memory.optimizer_state += (state * elements as f64) as u64;
        }
    }

    let mut count = Count {
        preset,
        optimizer,
        memory: Memory::default(),
        modules: Vec::new(),
    };
    model.visit(&mut count);
    count.memory
}
