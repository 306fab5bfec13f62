//! The names of parameters, for the reports of skipped steps.

use std::{collections::HashMap, sync::Arc};

use burn::{
    module::{Module, ModuleVisitor, Param, ParamId},
    tensor::{Tensor, TensorPrimitive},
};

use burn_amp_decorator::{Amped, warn};

/// Tells the parameters of a module their names, so that [`Skip`](crate::scaling::Skip) and the message at the end of a
/// run that only overflows name the gradients.
///
/// An [`AmpOptimizer`](crate::optim::AmpOptimizer) does it in each step, from the first one on, and the report of a step
/// that was skipped before has the names too; [`cast_params`](crate::cast_params) does it when it stores the parameters.
/// `[parameters]` in `amp.toml` knows the parameters by these names: call it when the model is made or loaded.
///
/// The step of a plain optimizer makes new parameters, which have no names yet; a skipped step leaves them as they are.
/// So with a plain optimizer it is enough to call this when a pass overflowed, before or after `last_skip` is read.
///
/// ```
/// # use burn::{backend::Flex, nn::LinearConfig};
/// # use burn_amp::config::{Compute, Config, ConfigError, ConfigSource};
/// # struct InF16;
/// # impl ConfigSource for InF16 {
/// #     fn config() -> Result<Config, ConfigError> {
/// #         Ok(Config { compute: Compute::F16, ..Default::default() })
/// #     }
/// # }
/// type B = burn_amp::Autodiff<burn_amp::Amp<Flex, InF16>>;
///
/// let device = Default::default();
/// let model = LinearConfig::new(2, 3).init::<B>(&device);
/// burn_amp::scaling::name_parameters(&model);
///
/// (model.weight.val() * f32::INFINITY).sum().backward();
/// let skip = burn_amp::loss_scale::<B>(&device).last_skip().unwrap();
/// assert_eq!(skip.to_string(), "step 0, loss scale 16: 1 of 1 gradients not finite (#0 weight f32 [2, 3])");
/// ```
pub fn name_parameters<A: Amped, M: Module<A>>(module: &M) {
    Names::default().tell(module);
}

/// The names of a model's parameters, by their ids.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names(HashMap<ParamId, Arc<str>>);

impl Names {
    /// Whether no parameter was told its name yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Tells the parameters of a module their names. The paths are put together at the first call, and again if the
    /// module has got a parameter that it did not have.
    pub(crate) fn tell<A: Amped, M: Module<A>>(&mut self, module: &M) {
        for collects in [self.0.is_empty(), true] {
            let mut visitor = Tell {
                names: self,
                path: collects.then(Vec::new),
                knows_all: true,
            };
            module.visit(&mut visitor);
            if visitor.knows_all {
                return;
            }
        }
    }
}

struct Tell<'a> {
    names: &'a mut Names,
    /// The path of the current module, if names are put together.
    path: Option<Vec<String>>,
    knows_all: bool,
}

impl<A: Amped> ModuleVisitor<A> for Tell<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<A, D>>) {
        let Names(names) = &mut *self.names;
        if let Some(path) = &self.path {
            names.insert(param.id, path.join(".").into());
        }
        let Some(name) = names.get(&param.id) else {
            self.knows_all = false;
            return;
        };
        if let TensorPrimitive::Float(tensor) = param.val().into_primitive()
            && let Some(origin) = tensor.role.origin()
        {
            origin.name().set(name);
            let rules = &tensor.context.config.parameters;
            if origin.was_nameless() && origin.class(rules).is_some() {
                warn::of_late_name(name);
            }
        }
    }

    fn enter_module(&mut self, name: &str, _: &str) {
        if let Some(path) = &mut self.path {
            path.push(name.to_string());
        }
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        if let Some(path) = &mut self.path {
            path.pop();
        }
    }
}
