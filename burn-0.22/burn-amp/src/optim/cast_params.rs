//! Casts a model's parameters to half precision, for the presets `o2` and `o3`.

use burn::{
    module::{Module, ModuleMapper, Param},
    tensor::{DType, Tensor},
};

use super::modules::Modules;
use crate::{
    Error,
    config::{Compute, Preset},
    effective_config,
};

/// Casts the parameters of a model to the compute dtype of its device, as the preset in force there says: all of them under
/// `o3`; under `o2` all but those of modules whose name ends in `Norm`; none otherwise. Parameters in F64 stay as they are.
/// The casts are made again when a record is loaded.
///
/// # Errors
///
/// Returns an error if burn-amp is not in the program, the configuration is wrong, or the device cannot compute in the
/// dtype that it asks for.
pub fn cast_params<M: Module>(model: M) -> Result<M, Error> {
    let Some(device) = model.devices().into_iter().next() else {
        return Ok(model);
    };
    let config = effective_config(&device)?;
    let low = match config.compute {
        Compute::F16 => DType::F16,
        Compute::Bf16 => DType::BF16,
        // The configuration in force has the dtype that `auto` has chosen.
        Compute::Auto | Compute::F32 => return Ok(model),
    };
    Ok(match config.preset {
        Preset::O0 | Preset::O1 => model,
        preset @ (Preset::O2 | Preset::O3) => model.map(&mut CastParams {
            low,
            casts_norms: preset == Preset::O3,
            modules: Modules::default(),
        }),
    })
}

/// Casts parameters.
struct CastParams {
    low: DType,
    casts_norms: bool,
    modules: Modules,
}

impl ModuleMapper for CastParams {
    fn enter_module(&mut self, _: &str, container_type: &str) {
        self.modules.enter(container_type);
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.modules.exit();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if self.modules.is_norm() && !self.casts_norms {
            return param;
        }
        let to = self.low;
        let (id, tensor, mapper) = param.consume();
        let stored = store(tensor.clone(), to).set_require_grad(tensor.is_require_grad());
        Param::from_mapped_value(id, stored, mapper.clone())
            .load_mapper(move |loaded| store(mapper.on_load(loaded), to))
    }
}

fn store<const D: usize>(tensor: Tensor<D>, to: DType) -> Tensor<D> {
    if matches!(tensor.dtype(), DType::F64) || tensor.dtype() == to {
        tensor
    } else {
        tensor.cast(to).detach()
    }
}
