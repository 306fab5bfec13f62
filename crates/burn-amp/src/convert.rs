//! Casts a model's parameters to half precision, for the presets `o2` and `o3`.

use std::cell::Cell;

use burn::{
    module::{Module, ModuleMapper, Param},
    tensor::{DType, FloatDType, Tensor, backend::Backend},
};
use burn_amp_core::{Precision, Preset};

use crate::{modules::Modules, names::name_parameters};
use burn_amp_decorator::{Amped, Context, precision, warn};

/// Stores a model's parameters in the dtypes of the preset in force on its device.
///
/// | preset | parameters of norms, and their statistics | other parameters |
/// |---|---|---|
/// | `o0`, `o1` | F32 | F32 |
/// | `o2` | F32 | compute dtype |
/// | `o3` | compute dtype | compute dtype |
///
/// ```
/// # use burn::{backend::Flex, nn::{Linear, LinearConfig}, optim::{AdamConfig, Optimizer}};
/// use burn_amp::{cast_params, optim::AmpOptimizer};
/// # type B = burn_amp::Autodiff<burn_amp::Amp<Flex>>;
/// # let device = Default::default();
///
/// let model: Linear<B> = cast_params(LinearConfig::new(2, 2).init(&device));
/// let mut optimizer = AmpOptimizer::new(AdamConfig::new()).init();
/// # let _ = |grads| optimizer.step(1e-3, model, grads);
/// ```
///
/// * Train the model with an [`AmpOptimizer`](crate::optim::AmpOptimizer): gradients are F32, so a plain optimizer
///   would turn every parameter that it steps back into F32.
/// * The parameters learn their names, which reports of skipped steps show.
/// * `load_record` on the model stores the loaded parameters in the same dtypes, whatever the file's precision.
/// * A norm is a module whose type name ends in `Norm`, as those of Burn do. F64 parameters are not touched.
/// * Under `o3`, training turns the running statistics of batch norm back into F32, because they are accumulated.
///
/// # Panics
///
/// Panics if no policy is in force yet and the configuration is wrong; see
/// [`effective_config`](crate::effective_config).
#[doc(alias("O2", "O3", "half", "bfloat16"))]
pub fn cast_params<A: Amped, M: Module<A>>(model: M) -> M {
    let Some(device) = model.devices().into_iter().next() else {
        return model;
    };
    let context = Context::<A::Plain>::of::<A::Source>(&device);
    let model = cast_params_to(model, context.config.preset, context.policy.compute());
    name_parameters(&model);
    model
}

/// Stores a model's parameters in the dtypes of `preset` under the compute dtype `compute`, on any backend.
///
/// [`Preset::O1`] turns a model back into F32.
pub fn cast_params_to<B: Backend, M: Module<B>>(model: M, preset: Preset, compute: Precision) -> M {
    warn::parameters_were_cast();
    let compute = if compute.is_low() {
        compute
    } else {
        Precision::F32
    };
    let (norms, others) = match preset {
        Preset::O0 | Preset::O1 => (Precision::F32, Precision::F32),
        Preset::O2 => (Precision::F32, compute),
        Preset::O3 => (compute, compute),
    };
    model.map(&mut CastParams {
        norms: precision::to_float(norms),
        others: precision::to_float(others),
        modules: Modules::default(),
    })
}

struct CastParams {
    norms: FloatDType,
    others: FloatDType,
    modules: Modules,
}

impl<B: Backend> ModuleMapper<B> for CastParams {
    fn enter_module(&mut self, _: &str, container_type: &str) {
        self.modules.enter(container_type);
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.modules.exit();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
        let to = match self.modules.is_norm() {
            true => self.norms,
            false => self.others,
        };
        store_param(param, to, |tensor| store(tensor, to))
    }
}

/// Replaces the values of a parameter by others of dtype `to`. Values that are loaded into it later are stored in `to`
/// as well.
pub(crate) fn store_param<B: Backend, const D: usize>(
    param: Param<Tensor<B, D>>,
    to: FloatDType,
    values: impl FnOnce(Tensor<B, D>) -> Tensor<B, D>,
) -> Param<Tensor<B, D>> {
    let (id, tensor, mapper) = param.consume();
    let requires_grad = tensor.is_require_grad();
    let stored = values(tensor).set_require_grad(requires_grad);
    Param::from_mapped_value(id, stored, mapper.clone()).load_mapper(move |loaded| {
        // The mappers of earlier casts run inside this one, and must not round the values to their own dtype.
        if LOADING.replace(true) {
            return mapper.on_load(loaded);
        }
        scopeguard::defer!(LOADING.set(false));
        store(mapper.on_load(loaded), to)
    })
}

thread_local! {
    /// Whether the outermost load mapper, which was set last, is running.
    static LOADING: Cell<bool> = const { Cell::new(false) };
}

/// Casts values to another dtype, outside any graph.
fn store<B: Backend, const D: usize>(tensor: Tensor<B, D>, to: FloatDType) -> Tensor<B, D> {
    let from = tensor.dtype();
    if from == DType::F64 || from == to.into() {
        tensor
    } else {
        tensor.cast(to).detach()
    }
}
