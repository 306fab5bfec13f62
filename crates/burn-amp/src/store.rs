//! Presets `o2` and `o3`: models whose parameters are stored low.

use std::cell::Cell;

use burn::{
    module::{Module, ModuleMapper, Param},
    tensor::{DType, FloatDType, Tensor, backend::Backend},
};
use burn_amp_core::{Dtype, Preset};

use crate::{backend::AmpBackend, cast::precision as dtype, policy::Context};

/// Stores a model's parameters as the preset in force on its device says.
///
/// | preset | parameters of norms, and their statistics | other parameters |
/// |---|---|---|
/// | `o0`, `o1` | F32 | F32 |
/// | `o2` | F32 | compute dtype |
/// | `o3` | compute dtype | compute dtype |
///
/// ```
/// # use burn::{backend::Flex, nn::{Linear, LinearConfig}, optim::{AdamConfig, Optimizer}};
/// # type B = burn_amp::Autodiff<burn_amp::Amp<Flex>>;
/// # let device = Default::default();
/// let model: Linear<B> = burn_amp::convert(LinearConfig::new(2, 2).init(&device));
/// let mut optimizer = burn_amp::optim::MasterWeights::new(AdamConfig::new()).init();
/// # let _ = |grads| optimizer.step(1e-3, model, grads);
/// ```
///
/// * Train it with [`MasterWeights`](crate::optim::MasterWeights): gradients are F32, so a plain optimizer makes every
///   parameter that it steps F32 again.
/// * `load_record` on the converted model stores what it loads the same way, whatever the file's precision.
/// * A norm is a module whose type's name ends in `Norm`, as Burn's do. F64 parameters are not touched.
/// * Under `o3` training makes the running statistics of batch norm F32 again: they are sums.
///
/// # Panics
///
/// If no policy is in force yet and the configuration is wrong; see [`init`](crate::init).
pub fn convert<A: AmpBackend, M: Module<A>>(model: M) -> M {
    let Some(device) = model.devices().into_iter().next() else {
        return model;
    };
    let context = Context::<A::Plain>::of::<A::Source>(&device);
    convert_to(model, context.config.preset, context.policy.compute())
}

/// Stores a model's parameters as `preset` does under the compute dtype `compute`, on any backend.
///
/// With [`Preset::O1`] it brings a converted model back to F32.
pub fn convert_to<B: Backend, M: Module<B>>(model: M, preset: Preset, compute: Dtype) -> M {
    let compute = match compute.is_low() {
        true => compute,
        false => Dtype::F32,
    };
    let (norms, others) = match preset {
        Preset::O0 | Preset::O1 => (Dtype::F32, Dtype::F32),
        Preset::O2 => (Dtype::F32, compute),
        Preset::O3 => (compute, compute),
    };
    model.map(&mut Store {
        norms: dtype::to_float(norms),
        others: dtype::to_float(others),
        modules: Vec::new(),
    })
}

/// Whether a module type, as Burn names it to visitors, is a norm.
pub(crate) fn is_norm(container_type: &str) -> bool {
    container_type.ends_with("Norm")
}

struct Store {
    norms: FloatDType,
    others: FloatDType,
    /// Whether each module around is a norm, the innermost last.
    modules: Vec<bool>,
}

impl<B: Backend> ModuleMapper<B> for Store {
    fn enter_module(&mut self, _: &str, container_type: &str) {
        self.modules.push(is_norm(container_type));
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.modules.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
        let to = match self.modules.last() {
            Some(true) => self.norms,
            Some(false) | None => self.others,
        };
        store_param(param, to, |tensor| store(tensor, to))
    }
}

/// The parameter with other values, which are of dtype `to`; what is loaded into it is stored in `to` too.
pub(crate) fn store_param<B: Backend, const D: usize>(
    param: Param<Tensor<B, D>>,
    to: FloatDType,
    values: impl FnOnce(Tensor<B, D>) -> Tensor<B, D>,
) -> Param<Tensor<B, D>> {
    let (id, tensor, mapper) = param.consume();
    let requires_grad = tensor.is_require_grad();
    let stored = values(tensor).set_require_grad(requires_grad);
    Param::from_mapped_value(id, stored, mapper.clone()).load_mapper(move |loaded| {
        // A parameter that is stored another way now must not be rounded on the way by what it was before.
        match LOADING.replace(true) {
            true => mapper.on_load(loaded),
            false => {
                let _done = Loaded;
                store(mapper.on_load(loaded), to)
            }
        }
    })
}

thread_local! {
    /// Whether the load mapper that was set last is at work.
    static LOADING: Cell<bool> = const { Cell::new(false) };
}

/// Ends the load, also when a mapper panics.
struct Loaded;

impl Drop for Loaded {
    fn drop(&mut self) {
        LOADING.set(false);
    }
}

/// The values in another dtype, outside any graph.
fn store<B: Backend, const D: usize>(tensor: Tensor<B, D>, to: FloatDType) -> Tensor<B, D> {
    let from = tensor.dtype();
    match from == DType::F64 || from == to.into() {
        true => tensor,
        false => tensor.cast(to).detach(),
    }
}
