//! Loss scaling by hand, for loops on Burn's own `Autodiff` and for losses that contain gradients.
//!
//! It is PyTorch's `GradScaler` with types that enforce the order of calls: scaled values are [`Scaled`], a step
//! accepts [`Unscaled`] gradients only, and unscaling consumes the scaled ones.
//!
//! ```text
//! scale(loss) → Scaled<loss> → backward() → Scaled<gradients> → of(model) → unscale() → Unscaled → step()
//!                                                                                            update()
//! ```

mod error;
mod scaled;

use burn::{
    module::AutodiffModule,
    optim::GradientsParams,
    tensor::{
        Tensor, TensorPrimitive,
        backend::{AutodiffBackend, Backend},
    },
};
use burn_amp_core::{ConfigError, DynamicLossScale, LossScaling, Outcome};
use burn_amp_kernels::{self as kernels, AmpBackend};

use super::gradients::replace_each;
use burn_amp_decorator::{
    LossScaleRecord,
    internal::{is_loss_scale, nearest_loss_scale},
    warn,
};

pub use error::ScalerError;
pub use scaled::{Scaled, Unscaled};

/// Scales losses, unscales and checks gradients, and moves the scale.
///
/// ```
/// use burn::{backend::{Autodiff, Flex}, nn::{Linear, LinearConfig}, optim::SgdConfig, tensor::Tensor};
/// use burn_amp::{optim::GradScaler, config::DynamicLossScale};
///
/// type B = Autodiff<Flex>;
///
/// let device = Default::default();
/// let mut model: Linear<B> = LinearConfig::new(4, 2).init(&device);
/// let mut optimizer = SgdConfig::new().init();
/// let mut scaler = GradScaler::new(DynamicLossScale::default())?;
///
/// for _ in 0..3 {
///     let loss = model.forward(Tensor::<B, 2>::ones([1, 4], &device)).square().mean();
///     let mut grads = scaler.scale(loss).backward();
///     let grads = scaler.unscale(grads.of(&model), &model)?;
///     model = grads.step(&mut optimizer, 0.1, model); // nothing, if the gradients overflowed
///     scaler.update()?;
/// }
/// assert_eq!((scaler.current_scale(), scaler.growth_tracker()), (65536.0, 3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The scale moves by PyTorch's rule from its first step on: `search` and `patience` have no part in it.
///
/// On backends of [`Autodiff`](crate::Autodiff) `backward()` does all this itself; there, set `loss_scale.mode = "off"`
/// before using this.
#[doc(alias("torch.amp", "loss scaler"))]
#[derive(Clone, Debug)]
pub struct GradScaler {
    scaling: LossScaling,
    /// The current scale, and the number of updates so far.
    progress: LossScaleRecord,
    /// Whether gradients overflowed since the last update; `None` if none were unscaled.
    found_inf: Option<bool>,
    /// The overflowed updates since the last finite one.
    in_a_row: u32,
}

impl GradScaler {
    /// Makes a scaler at its initial scale. A [`DynamicLossScale`] can be passed directly.
    ///
    /// # Errors
    ///
    /// Returns an error if one of the numbers would be refused in `amp.toml`: a scale or factor that is not a power of
    /// two, an interval of 0, limits in the wrong order.
    pub fn new(scaling: impl Into<LossScaling>) -> Result<Self, ConfigError> {
        let scaling = match scaling.into() {
            LossScaling::Dynamic(rule) => LossScaling::Dynamic(DynamicLossScale {
                search: false,
                ..rule
            }),
            scaling @ (LossScaling::NoScale | LossScaling::Static(_)) => scaling,
        };
        scaling.validate()?;
        Ok(Self {
            progress: LossScaleRecord::start(&scaling),
            scaling,
            found_inf: None,
            in_a_row: 0,
        })
    }

    /// Returns the factor on the next loss; 1 without scaling.
    #[doc(alias = "get_scale")]
    pub fn current_scale(&self) -> f32 {
        self.progress.scale()
    }

    /// Returns the number of finite updates since the scale last changed.
    pub fn growth_tracker(&self) -> u32 {
        self.progress.growth_tracker()
    }

    /// Sets the scale, as PyTorch's `update(new_scale)` does.
    ///
    /// # Errors
    ///
    /// Returns an error if `scale` is not a power of two: scaling and unscaling would round, and a record of it could
    /// not be read.
    pub fn set_scale(&mut self, scale: f32) -> Result<(), ScalerError> {
        if !is_loss_scale(scale) {
            return Err(ScalerError::NoLossScale {
                found: scale,
                nearest: nearest_loss_scale(scale),
            });
        }
        self.progress.loss_scale.scale = scale;
        Ok(())
    }

    /// Multiplies a loss, or an output whose gradient becomes part of a loss, by the scale, in F32.
    pub fn scale<B: Backend, const D: usize>(&self, tensor: Tensor<B, D>) -> Scaled<Tensor<B, D>> {
        Scaled::new(tensor, self.current_scale())
    }

    /// Checks and unscales a model's gradients, in F32. The check looks at the scaled values.
    ///
    /// Incurs one device-to-host read; none without scaling.
    ///
    /// # Errors
    ///
    /// Returns an error if there are no gradients, or they carry a scale other than the current one.
    #[doc(alias = "unscale_")]
    pub fn unscale<B: AutodiffBackend<InnerBackend: AmpBackend>, M: AutodiffModule<B>>(
        &mut self,
        grads: Scaled<GradientsParams>,
        model: &M,
    ) -> Result<Unscaled, ScalerError> {
        grads.must_carry(self.current_scale())?;
        let mut gradients = grads.value;
        if let LossScaling::NoScale = self.scaling {
            return Ok(Unscaled {
                gradients: Some(gradients),
            });
        }
        let factor = self.current_scale().recip();
        let mut flags: Vec<Tensor<B::InnerBackend, 1>> = Vec::new();
        replace_each::<B, M>(&mut gradients, model, |grad| {
            let results = kernels::unscale::unscale::<B::InnerBackend>(vec![grad], factor);
            let [grad, flag] = results
                .try_into()
                .expect("`unscale` gives a tensor for each of its tensors, and the flags");
            let flag = Tensor::from_primitive(TensorPrimitive::Float(flag));
            flags.push(match flags.first() {
                Some(first) => flag.to_device(&first.device()),
                None => flag,
            });
            grad
        });
        if flags.is_empty() {
            return Err(ScalerError::NoGradients);
        }
        let flags = Tensor::cat(flags, 0).into_data();
        let finite = flags.iter::<f32>().all(|flag| flag == 0.0);
        self.found_inf = Some(self.found_inf == Some(true) || !finite);
        Ok(Unscaled {
            gradients: finite.then_some(gradients),
        })
    }

    /// Moves the scale according to all calls of `unscale` since the last update. Call it once per effective batch
    /// (after the last of the micro-batches whose gradients are summed), after the steps of all optimizers.
    ///
    /// # Errors
    ///
    /// Returns an error if nothing was unscaled.
    pub fn update(&mut self) -> Result<Outcome, ScalerError> {
        let outcome = match (self.found_inf.take(), self.scaling) {
            (Some(true), _) => Outcome::Overflowed,
            (Some(false), _) | (None, LossScaling::NoScale) => Outcome::Finite,
            (None, LossScaling::Static(_) | LossScaling::Dynamic(_)) => {
                return Err(ScalerError::NothingUnscaled);
            }
        };
        self.progress = self.progress.next(&self.scaling, outcome);
        self.in_a_row = match outcome {
            Outcome::Finite => 0,
            Outcome::Overflowed => self.in_a_row.saturating_add(1),
        };
        if let LossScaling::Static(scale) = self.scaling {
            warn::of_static_scale(self.in_a_row, scale, format_args!("loss scale {scale}"));
        }
        Ok(outcome)
    }

    /// Returns the state, for a checkpoint.
    #[doc(alias = "state_dict")]
    pub fn record(&self) -> LossScaleRecord {
        self.progress
    }

    /// Continues from a saved state, under this scaler's configuration.
    #[doc(alias = "load_state_dict")]
    pub fn load(&mut self, record: LossScaleRecord) {
        self.progress = record.resumed(&self.scaling);
        self.found_inf = None;
        self.in_a_row = 0;
    }
}
