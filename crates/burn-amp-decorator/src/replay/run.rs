//! A step that is run again in three forms.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::Arc,
};

use burn_amp_core::{
    Compute, Config, ConfigError, LossScaleMode, Op, Precision, Preset, ReplayConfig,
    overflow::{Cause, Locate},
    replay::{Call, Form, Nature as Kind, Outside, Replayed, Step},
};
use burn_autodiff::Autodiff;
use burn_backend::{
    AutodiffBackend,
    ops::FloatTensorOps,
    tensor::{Device, FloatTensor},
};
use parking_lot::Mutex;

use super::call::{self, Tensors};
use crate::{
    backend::Amp,
    cast::{again, locate::is_finite, record::values_of, scope::full_precision},
    distributed::Trainable,
    graph::{Origin, Probe, Tape},
    loss_scale::Passes,
    policy::{ConfigSource, Context, SetupError},
    precision, site,
    tensor::{AmpTensor, Reader, Recipe, Role, times},
};

/// The configuration source of steps that are run again. Their tensors have contexts of their own.
pub(super) struct Apart;

impl ConfigSource for Apart {
    fn config() -> Result<Config, ConfigError> {
        Ok(Config::default())
    }
}

/// The reason why a step cannot be run again in some form.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The configuration of the step is wrong here.
    #[error("the configuration of the step: {0}")]
    Config(#[from] SetupError),
    /// The file names an op that does not exist, or is not recorded.
    #[error("call {call}: there is no recorded op `{op}`")]
    Op {
        /// The number of the call.
        call: usize,
        /// The op.
        op: String,
    },
    /// The arguments in the file are not those of the op.
    #[error("call {call}: the arguments in the file are not those of `{op}`")]
    Arguments {
        /// The number of the call.
        call: usize,
        /// The op.
        op: String,
    },
    /// The loss is none of the tensors of the step.
    #[error("the loss was not made by a recorded op, so there is no backward pass to run")]
    Loss,
    /// The file was written without the values of tensors.
    #[error(
        "the file has no values of tensors, since `replay.with_values` was false; it can only be compared with another file"
    )]
    NoValues,
    /// An op does not run in this form on this device.
    #[error("call {call}, `{op}`: {message}")]
    Panic {
        /// The number of the call; that behind the last one is the backward pass.
        call: usize,
        /// The op.
        op: String,
        /// The message of the panic.
        message: String,
    },
}

/// Runs a step again on `device`: in the dtypes in which it was recorded, in F32 and in F64.
///
/// * On the backend on which it was recorded the first form computes the same bits, unless the backend sums in an order
///   that changes; [`Form::same`] compares. That of Flex has no such sums.
/// * The values of integer and bool tensors are those of the run in every form.
/// * In F32 and F64 the loss is not scaled, and casts that the program made itself are casts to F32 or F64.
///
/// ```no_run
/// use std::path::Path;
/// use burn::backend::Flex;
/// use burn_amp::replay::{Step, replay};
///
/// let step = Step::read(Path::new("step.safetensors"))?;
/// let replayed = replay::<Flex>(&step, &Default::default());
/// println!("{}", replayed.to_text(&step, false));
/// # Ok::<(), burn_amp::replay::ReadError>(())
/// ```
pub fn replay<B: Trainable>(step: &Step, device: &Device<B>) -> Replayed {
    let form = |all_in| {
        let form = run::<B>(step, device, all_in);
        form.map_err(|error| error.to_string())
    };
    Replayed {
        recorded: form(None),
        f32: form(Some(Precision::F32)),
        f64: form(Some(Precision::F64)),
    }
}

/// Runs a step in a form, searched for an overflow.
fn run<B: Trainable>(
    step: &Step,
    device: &Device<B>,
    all_in: Option<Precision>,
) -> Result<Form, ReplayError> {
    let context = Context::<B>::apart(config(step, all_in, Locate::Always)?, device)?;
    let ran = ran(step, device, all_in, context, values_of::<B>, |_| ())?;
    let calls = ran.calls.into_iter();
    let received = ran.received.into_iter();
    Ok(Form {
        calls: calls
            .map(|call| call.into_iter().map(|seen| seen.values).collect())
            .collect(),
        received: received.map(|values| Some(values?.range)).collect(),
        gradients: ran.gradients,
        cause: ran.cause,
    })
}

/// What was seen of a step that was run, as values of `V`.
pub(super) struct Ran<V> {
    /// The float results of each call.
    pub(super) calls: Vec<Vec<SeenResult<V>>>,
    /// The operands of each call that were there in low precision before it, by their numbers.
    pub(super) lowered: Vec<Vec<u64>>,
    /// The gradient that the backward pass made of the first result of each call.
    pub(super) received: Vec<Option<V>>,
    /// The gradient of each tensor from outside.
    pub(super) gradients: Vec<Option<V>>,
    /// The op with which the overflow began, if it was searched.
    cause: Option<Cause>,
}

/// What was seen of a float result.
pub(super) struct SeenResult<V> {
    /// The values as they are stored; `None` if they wait.
    pub(super) values: Option<V>,
    /// The dtype that the program sees.
    pub(super) logical: Precision,
    /// Whether it is in a graph.
    pub(super) is_tracked: bool,
    /// Whether nothing but the values, and which kind of product it is, counts for those who read it.
    pub(super) is_plain: bool,
    /// Whether it is a product of matrices, and whether it is one of rows and a weight.
    pub(super) is_product: [bool; 2],
}

/// Runs a step with every tensor in a dtype, or in those that were recorded. `look` reads a tensor, `begins` is told the
/// number of each call; that behind the last one is the backward pass.
pub(super) fn ran<B: Trainable, V: Send + 'static>(
    step: &Step,
    device: &Device<B>,
    all_in: Option<Precision>,
    context: &'static Context<B>,
    look: fn(FloatTensor<B>) -> V,
    mut begins: impl FnMut(usize),
) -> Result<Ran<V>, ReplayError> {
    if !step.has_values() {
        return Err(ReplayError::NoValues);
    }
    let mut at = 0;
    let ran = caught(step, &mut at, |at| {
        let mut tensors = Tensors::new();
        let mut leaves = Vec::new();
        for outside in &step.outside {
            let tensor = made(outside, step, device, all_in, context);
            let is_leaf = outside.nature == Kind::Leaf;
            leaves.push(tensor.handle().filter(|_| is_leaf));
            tensors.insert(outside.id, tensor);
        }
        let received: Vec<_> = step.calls.iter().map(|_| Received::default()).collect();
        let (mut calls, mut lowered) = (Vec::new(), Vec::new());
        for (call, received) in step.calls.iter().zip(&received) {
            begins(*at);
            let is_lowered = |id: &u64| tensors.get(id).is_some_and(AmpTensor::is_lowered);
            let operands = call.uses().map(|operand| operand.id);
            lowered.push(operands.filter(is_lowered).collect());
            let results = again(call, *at, step, device, all_in, &mut tensors)?;
            let mut seen = Vec::new();
            for (place, (mut result, recorded)) in
                results.into_iter().zip(&call.results).enumerate()
            {
                seen.push(SeenResult {
                    values: (!result.waits()).then(|| look(result.stored_values())),
                    logical: result.logical,
                    is_tracked: result.is_tracked(),
                    is_plain: result.is_plain() && result.recorded.is_of_values(),
                    is_product: [result.recorded.is_product, result.recorded.is_linear],
                });
                if place == 0 {
                    let node = result.own_node();
                    result = result.probed(received.probe::<B>(look));
                    // The probe has a node of its own, whose values the same op has made.
                    if let Some(made) = node.and_then(|node| context.locator.maker(node))
                        && let Some(node) = result.own_node()
                    {
                        context.locator.made(node, made);
                    }
                }
                tensors.insert(recorded.id, result);
            }
            calls.push(seen);
            *at += 1;
        }
        begins(*at);
        let loss = tensors.remove(&step.loss).ok_or(ReplayError::Loss)?;
        // The other tensors of a program are dropped by now, or stay; a backward pass does not ask.
        let dtype = loss.exact_dtype();
        let root: FloatTensor<Autodiff<B>> = loss.read(dtype, Reader::Cut);
        let values = root.primitive.clone();
        let scaled = match step.scale.filter(|_| all_in.is_none()) {
            Some(scale) => times::<Autodiff<B>>(root, scale),
            None => root,
        };
        let grads = Autodiff::<B>::backward(scaled);
        let cause = context.locator.end_of_step(|| is_finite::<B>(&values));
        let gradient = |leaf: FloatTensor<Autodiff<B>>| leaf.grad(&grads).map(look);
        Ok(Ran {
            calls,
            lowered,
            received: received.iter().map(Received::take).collect(),
            gradients: leaves.into_iter().map(|leaf| gradient(leaf?)).collect(),
            cause: cause.map(|cause| (*cause).clone()),
        })
    });
    context.locator.stop();
    ran
}

/// Runs `f`, which says at which call it is; a panic is an error of that call.
pub(super) fn caught<T>(
    step: &Step,
    at: &mut usize,
    f: impl FnOnce(&mut usize) -> Result<T, ReplayError>,
) -> Result<T, ReplayError> {
    catch_unwind(AssertUnwindSafe(|| f(&mut *at))).unwrap_or_else(|panic| {
        let op = step.calls.get(*at).map_or("backward", |call| &call.op);
        Err(ReplayError::Panic {
            call: *at,
            op: op.to_owned(),
            message: message(&*panic),
        })
    })
}

/// The gradient of a result, once the backward pass has reached it.
struct Received<V>(Arc<Mutex<Option<V>>>);

impl<V> Default for Received<V> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<V: Send + 'static> Received<V> {
    fn probe<B: Trainable>(&self, look: fn(FloatTensor<B>) -> V) -> Probe<B> {
        let received = self.0.clone();
        Arc::new(move |gradient| *received.lock() = Some(look(gradient.clone())))
    }

    fn take(&self) -> Option<V> {
        self.0.lock().take()
    }
}

/// The configuration under which a form runs: that of the step, or one that lowers nothing.
pub(super) fn config(
    step: &Step,
    all_in: Option<Precision>,
    locate: Locate,
) -> Result<Config, SetupError> {
    let mut config = Config::from_toml(&step.config, Path::new("amp.toml"))?;
    if all_in.is_some() {
        config.preset = Preset::O1;
        config.compute = Compute::F32;
        config.loss_scale.mode = LossScaleMode::Off;
    }
    config.overflow.locate = locate;
    config.replay = ReplayConfig::default();
    Ok(config)
}

/// Makes a tensor from outside.
fn made<B: Trainable>(
    outside: &Outside,
    step: &Step,
    device: &Device<B>,
    all_in: Option<Precision>,
    context: &'static Context<B>,
) -> AmpTensor<B, Tape> {
    let values = B::float_from_data(call::to_burn(&step.data[outside.data]), device);
    let values = match all_in {
        Some(dtype) => precision::cast::<B>(values, dtype),
        None => values,
    };
    made_of(outside, values, all_in, context)
}

/// Makes a tensor from outside of values.
pub(super) fn made_of<B: Trainable>(
    outside: &Outside,
    values: FloatTensor<B>,
    all_in: Option<Precision>,
    context: &'static Context<B>,
) -> AmpTensor<B, Tape> {
    let mut tensor = AmpTensor::<B, Tape>::new(Autodiff::<B>::from_inner(values), context);
    tensor.facts_mut().logical = all_in.unwrap_or(outside.logical);
    let origin = || {
        let origin = Arc::new(Origin::default());
        if let Some(parameter) = &outside.parameter {
            origin.name().set(&Arc::from(&**parameter));
        }
        origin
    };
    tensor.facts_mut().role = match outside.nature {
        Kind::Leaf | Kind::Parameter => Role::Parameter(origin()),
        Kind::Gradient => Role::Gradient(Passes::none()),
        Kind::Plain | Kind::ZerosAndOnes | Kind::Filled => Role::Activation,
    };
    match outside.nature {
        Kind::Leaf => Amp::<B, Apart, Tape>::float_set_require_grad(tensor, true),
        Kind::ZerosAndOnes => tensor.with_recipe(Recipe::ZerosAndOnes),
        Kind::Filled => tensor.with_recipe(Recipe::Filled),
        Kind::Plain | Kind::Parameter | Kind::Gradient => tensor,
    }
}

/// Runs a call again.
pub(super) fn again<B: Trainable>(
    call: &Call,
    at: usize,
    step: &Step,
    device: &Device<B>,
    all_in: Option<Precision>,
    tensors: &mut Tensors<B>,
) -> Result<Vec<AmpTensor<B, Tape>>, ReplayError> {
    let unknown = || ReplayError::Op {
        call: at,
        op: call.op.clone(),
    };
    let op = call.op.parse().map_err(|()| unknown())?;
    let run = again::of::<B, Apart, Tape>(op).ok_or_else(unknown)?;
    let mut run = || {
        let mut given = call::arguments(call, step, device, all_in, tensors)?;
        match op {
            // A move to another device stays on the one that there is.
            Op::float_to_device => Some(given.pop()?.tensors().to_vec()),
            _ => run(given),
        }
    };
    let results = site::at(call.site.clone(), || match call.full_precision {
        true => full_precision(run),
        false => run(),
    });
    results.ok_or_else(|| ReplayError::Arguments {
        call: at,
        op: call.op.clone(),
    })
}

/// What a panic said.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("it panicked").to_owned()
}
