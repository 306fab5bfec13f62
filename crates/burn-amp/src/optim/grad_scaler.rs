//! Loss scaling by hand, for loops on Burn's own `Autodiff` and for gradients that a loss is made of.
//!
//! PyTorch's `GradScaler` with types for the order of calls: what is scaled is [`Scaled`], a step takes [`Unscaled`]
//! gradients only, and unscaling consumes the scaled ones.
//!
//! ```text
//! scale(loss) → Scaled<loss> → backward() → Scaled<gradients> → of(model) → unscale() → Unscaled → step()
//!                                                                                            update()
//! ```

use burn::{
    module::{AutodiffModule, ModuleVisitor, Param},
    optim::{GradientsParams, LearningRate, Optimizer},
    tensor::{
        DType, FloatDType, Tensor, TensorPrimitive,
        backend::{AutodiffBackend, Backend},
    },
};
use burn_amp_core::{LossScaleState, LossScaling, Outcome};
use burn_amp_kernels::Kernels;

use crate::loss_scale::LossScaleRecord;

/// Scales losses, unscales and checks gradients, and moves the scale.
///
/// ```
/// use burn::{backend::{Autodiff, Flex}, nn::{Linear, LinearConfig}, optim::SgdConfig, tensor::Tensor};
/// use burn_amp::{DynamicLossScale, optim::GradScaler};
///
/// type B = Autodiff<Flex>;
///
/// let device = Default::default();
/// let mut model: Linear<B> = LinearConfig::new(4, 2).init(&device);
/// let mut optimizer = SgdConfig::new().init();
/// let mut scaler = GradScaler::new(DynamicLossScale::default());
///
/// for _ in 0..3 {
///     let loss = model.forward(Tensor::<B, 2>::ones([1, 4], &device)).square().mean();
///     let mut grads = scaler.scale(loss).backward();
///     let grads = scaler.unscale(grads.of(&model), &model)?;
///     model = grads.step(&mut optimizer, 0.1, model); // nothing, if the gradients overflowed
///     scaler.update()?;
/// }
/// assert_eq!((scaler.current_scale(), scaler.growth_tracker()), (65536.0, 3));
/// # Ok::<(), burn_amp::optim::ScalerError>(())
/// ```
///
/// On backends of [`Autodiff`](crate::Autodiff) `backward()` does all this itself; there, set `loss_scale.mode = "off"`
/// before using this.
#[derive(Clone, Debug)]
pub struct GradScaler {
    scaling: LossScaling,
    state: LossScaleState,
    /// Whether gradients overflowed since the last update; `None` if none were unscaled.
    found_inf: Option<bool>,
    steps: u64,
    skipped_steps: u64,
}

/// What is wrong with the order of calls on a [`GradScaler`].
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum ScalerError {
    /// There is nothing to unscale.
    #[error(
        "no gradients for this model: was the loss computed from it, and were they taken before?"
    )]
    NoGradients,
    /// An update before anything was unscaled.
    #[error("nothing was unscaled since the last update; call `unscale` before `update`")]
    NothingUnscaled,
    /// Gradients of different scales cannot be added, and only those of the current scale can be unscaled.
    #[error(
        "these gradients are scaled by {found}, not by {expected}: the scale must not change between `scale` and \
         `unscale`; call `update` once per effective batch"
    )]
    OtherScale {
        /// The scale that the gradients carry.
        found: f32,
        /// The scale that is expected.
        expected: f32,
    },
}

/// Something that carries a loss scale.
#[derive(Clone, Debug)]
pub struct Scaled<T> {
    value: T,
    scale: f32,
}

/// Gradients without the loss scale; none after an overflow.
#[derive(Debug)]
#[must_use = "gradients are there to step with"]
pub struct Unscaled {
    gradients: Option<GradientsParams>,
}

impl GradScaler {
    /// A scaler at its first scale. A [`DynamicLossScale`](crate::DynamicLossScale) goes straight in here.
    pub fn new(scaling: impl Into<LossScaling>) -> Self {
        let scaling = scaling.into();
        Self {
            state: scaling.start(),
            scaling,
            found_inf: None,
            steps: 0,
            skipped_steps: 0,
        }
    }

    /// The factor on the next loss; 1 without scaling.
    pub fn current_scale(&self) -> f32 {
        self.state.scale
    }

    /// Finite updates since the scale last changed.
    pub fn growth_tracker(&self) -> u32 {
        self.state.streak
    }

    /// Sets the scale, as PyTorch's `update(new_scale)`.
    pub fn set_scale(&mut self, scale: f32) {
        self.state.scale = scale;
    }

    /// A loss, or an output whose gradient becomes part of a loss, times the scale, in F32.
    pub fn scale<B: Backend, const D: usize>(&self, tensor: Tensor<B, D>) -> Scaled<Tensor<B, D>> {
        let scale = self.state.scale;
        Scaled {
            value: times(tensor, scale),
            scale,
        }
    }

    /// Checks and unscales a model's gradients, in F32. The scaled values are checked.
    ///
    /// Incurs one device-to-host read, none without scaling.
    ///
    /// # Errors
    ///
    /// If there are no gradients, or they carry another scale than the current one.
    pub fn unscale<B: AutodiffBackend<InnerBackend: Kernels>, M: AutodiffModule<B>>(
        &mut self,
        grads: Scaled<GradientsParams>,
        model: &M,
    ) -> Result<Unscaled, ScalerError> {
        grads.must_carry(self.state.scale)?;
        let gradients = grads.value;
        if let LossScaling::NoScale = self.scaling {
            return Ok(Unscaled {
                gradients: Some(gradients),
            });
        }
        let mut visitor = Unscale::<B> {
            gradients,
            factor: self.state.scale.recip(),
            flags: Vec::new(),
        };
        model.visit(&mut visitor);
        if visitor.flags.is_empty() {
            return Err(ScalerError::NoGradients);
        }
        let flags = Tensor::cat(visitor.flags, 0).into_data();
        let finite = flags.iter::<f32>().all(|flag| flag == 0.0);
        self.found_inf = Some(self.found_inf == Some(true) || !finite);
        Ok(Unscaled {
            gradients: finite.then_some(visitor.gradients),
        })
    }

    /// Moves the scale by what all `unscale`s since the last update found. Call it once per effective batch, after the
    /// steps of all optimizers.
    ///
    /// # Errors
    ///
    /// If nothing was unscaled.
    pub fn update(&mut self) -> Result<Outcome, ScalerError> {
        let outcome = match (self.found_inf.take(), self.scaling) {
            (Some(true), _) => Outcome::Overflowed,
            (Some(false), _) | (None, LossScaling::NoScale) => Outcome::Finite,
            (None, LossScaling::Static(_) | LossScaling::Dynamic(_)) => {
                return Err(ScalerError::NothingUnscaled);
            }
        };
        self.state = self.scaling.next(self.state, outcome);
        self.steps += 1;
        self.skipped_steps += u64::from(outcome == Outcome::Overflowed);
        Ok(outcome)
    }

    /// The state, for a checkpoint.
    pub fn record(&self) -> LossScaleRecord {
        LossScaleRecord {
            loss_scale: self.state,
            steps: self.steps,
            skipped_steps: self.skipped_steps,
        }
    }

    /// Goes on from a saved state, under this scaler's configuration.
    pub fn load(&mut self, record: LossScaleRecord) {
        self.state = self.scaling.resume(record.loss_scale);
        self.found_inf = None;
        self.steps = record.steps;
        self.skipped_steps = record.skipped_steps;
    }
}

impl<T> Scaled<T> {
    /// The factor it carries.
    pub fn factor(&self) -> f32 {
        self.scale
    }

    fn must_carry(&self, scale: f32) -> Result<(), ScalerError> {
        match self.scale == scale {
            true => Ok(()),
            false => Err(ScalerError::OtherScale {
                found: self.scale,
                expected: scale,
            }),
        }
    }
}

impl<B: Backend, const D: usize> Scaled<Tensor<B, D>> {
    /// The tensor without the scale, in F32 and unchecked: for gradients that become part of a loss.
    pub fn unscale(self) -> Tensor<B, D> {
        times(self.value, self.scale.recip())
    }
}

impl<B: AutodiffBackend, const D: usize> Scaled<Tensor<B, D>> {
    /// The backward pass from here.
    pub fn backward(self) -> Scaled<B::Gradients> {
        Scaled {
            value: self.value.backward(),
            scale: self.scale,
        }
    }
}

impl<G> Scaled<G> {
    /// The gradients of a model's parameters; they are taken out.
    pub fn of<B: AutodiffBackend<Gradients = G>, M: AutodiffModule<B>>(
        &mut self,
        model: &M,
    ) -> Scaled<GradientsParams> {
        Scaled {
            value: GradientsParams::from_module::<B, M>(&mut self.value, model),
            scale: self.scale,
        }
    }

    /// The gradient of one tensor.
    pub fn grad<B: AutodiffBackend<Gradients = G>, const D: usize>(
        &self,
        tensor: &Tensor<B, D>,
    ) -> Option<Scaled<Tensor<B::InnerBackend, D>>> {
        Some(Scaled {
            value: tensor.grad(&self.value)?,
            scale: self.scale,
        })
    }
}

impl Scaled<GradientsParams> {
    /// Adds the gradients of another micro-batch.
    ///
    /// # Errors
    ///
    /// If they carry another scale.
    pub fn accumulate<B: AutodiffBackend, M: AutodiffModule<B>>(
        &mut self,
        other: Self,
        model: &M,
    ) -> Result<(), ScalerError> {
        other.must_carry(self.scale)?;
        let mut sum = burn::optim::GradientsAccumulator::<M>::new();
        sum.accumulate(model, std::mem::take(&mut self.value));
        sum.accumulate(model, other.value);
        self.value = sum.grads();
        Ok(())
    }
}

impl Unscaled {
    /// Whether all gradients were finite.
    pub fn outcome(&self) -> Outcome {
        match self.gradients {
            Some(_) => Outcome::Finite,
            None => Outcome::Overflowed,
        }
    }

    /// The gradients, to clip or to look at; `None` after an overflow. They are not checked again.
    pub fn gradients_mut(&mut self) -> Option<&mut GradientsParams> {
        self.gradients.as_mut()
    }

    /// Steps, or skips the step after an overflow: then nothing changes, neither the model nor the optimizer.
    pub fn step<B, M, O>(self, optimizer: &mut O, lr: LearningRate, model: M) -> M
    where
        B: AutodiffBackend,
        M: AutodiffModule<B>,
        O: Optimizer<M, B>,
    {
        match self.gradients {
            Some(gradients) => optimizer.step(lr, model, gradients),
            None => model,
        }
    }
}

/// Replaces gradients by the unscaled ones and notes which of the scaled ones are not finite.
struct Unscale<B: AutodiffBackend> {
    gradients: GradientsParams,
    factor: f32,
    flags: Vec<Tensor<B::InnerBackend, 1>>,
}

impl<B: AutodiffBackend<InnerBackend: Kernels>> ModuleVisitor<B> for Unscale<B> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        let Some(grad) = self.gradients.remove::<B::InnerBackend, D>(param.id) else {
            return;
        };
        let grad = grad.into_primitive().tensor();
        let results = B::InnerBackend::unscale(vec![grad], self.factor);
        let [grad, flag] = results
            .try_into()
            .expect("`unscale` gives a tensor for each of its tensors, and the flags");
        let float = |tensor| TensorPrimitive::Float(tensor);
        let flag = Tensor::from_primitive(float(flag));
        self.flags.push(match self.flags.first() {
            Some(first) => flag.to_device(&first.device()),
            None => flag,
        });
        let grad = Tensor::<B::InnerBackend, D>::from_primitive(float(grad));
        self.gradients.register(param.id, grad);
    }
}

/// `tensor × factor` in F32, because F16 holds neither 65536 nor its reciprocal; F64 stays F64.
fn times<B: Backend, const D: usize>(tensor: Tensor<B, D>, factor: f32) -> Tensor<B, D> {
    match tensor.dtype() {
        DType::F16 | DType::BF16 => tensor.cast(FloatDType::F32) * factor,
        _ => tensor * factor,
    }
}
