//! The report of a skipped step.

use std::{fmt, sync::Arc};

use burn_amp_core::{Precision, overflow::Cause};
use burn_backend::Shape;

use super::record::is_loss_scale;
use crate::param_name::ParamName;

/// The report of a skipped step: which gradients overflowed, at which loss scale.
#[derive(Clone, Debug, PartialEq)]
pub struct Skip {
    /// The number of the scaled backward pass, counting from 0.
    pub step: u64,
    /// The loss scale of that pass.
    pub scale: f32,
    /// The gradients that were not finite; empty if only those of another rank overflowed.
    pub overflowed: Vec<Overflow>,
    /// The number of gradients that were checked.
    pub gradients: usize,
    /// The op with which it began, if the step was searched for it (`overflow.locate`).
    pub cause: Option<Arc<Cause>>,
}

/// A gradient that was not finite: it contained inf or NaN.
#[derive(Clone, Debug, PartialEq)]
pub struct Overflow {
    /// The position of its parameter among the live parameters, in the order in which they were made.
    pub index: usize,
    /// The path of its parameter in the model, once it is known. An `AmpOptimizer` names
    /// the parameters in each step, a skipped one too, `cast_params` and
    /// `name_parameters` at any time.
    pub name: ParamName,
    /// The shape of the gradient.
    pub shape: Shape,
    /// The dtype of the gradient.
    pub dtype: Precision,
}

/// What is known of a scaled backward pass whose gradients were checked.
pub(crate) struct Checked {
    /// The loss scale of the pass.
    pub(crate) scale: f32,
    /// The gradients that were not finite.
    pub(crate) overflowed: Vec<Overflow>,
    /// The number of gradients that were checked.
    pub(crate) gradients: usize,
    pub(crate) decision: Decision,
    /// The op with which the overflow began, if it was found.
    pub(crate) cause: Option<Arc<Cause>>,
    /// The number of backward passes made since, while the outcome of this one was on the device.
    pub(crate) later: usize,
}

/// The verdict on one backward pass, after all ranks of a data-parallel run have been asked.
///
/// A *rank* is one of the workers that train replicas of a model; see [`ranks`](crate::ranks).
pub(crate) struct Decision {
    /// Whether any rank found a gradient that is not finite.
    pub(crate) found_inf: bool,
    /// The number of the pass among those that the ranks took together; `None` outside a data-parallel run.
    pub(crate) round: Option<u64>,
}

impl Decision {
    /// The verdict of a worker that trains alone.
    pub(crate) fn alone(found_inf: bool) -> Self {
        Self {
            found_inf,
            round: None,
        }
    }
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// The number of gradients that are listed before the rest is abbreviated.
        const SHOWN: usize = 4;

        let Self {
            step,
            scale,
            overflowed,
            gradients,
            cause,
        } = self;
        write!(f, "step {step}, loss scale {}: ", Readable(*scale))?;
        if overflowed.is_empty() {
            return f.write_str("gradients not finite on another rank");
        }
        write!(
            f,
            "{} of {gradients} gradients not finite (",
            overflowed.len()
        )?;
        for (at, overflow) in overflowed.iter().take(SHOWN).enumerate() {
            let separator = if at == 0 { "" } else { ", " };
            write!(f, "{separator}{overflow}")?;
        }
        f.write_str(if overflowed.len() > SHOWN {
            ", …)"
        } else {
            ")"
        })?;
        match cause {
            Some(cause) => write!(f, "; first in {cause}"),
            None => Ok(()),
        }
    }
}

/// A loss scale for a reader: `65536`, `0.25`, and `2^-24` or `2^40` where the digits would be many.
pub(crate) struct Readable(pub(crate) f32);

impl fmt::Display for Readable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(scale) = *self;
        if is_loss_scale(scale) && !(0.1..1e8).contains(&scale) {
            write!(f, "2^{}", scale.log2())
        } else {
            write!(f, "{}", f64::from(scale))
        }
    }
}

impl fmt::Display for Overflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            index,
            name,
            shape,
            dtype,
        } = self;
        write!(f, "#{index} ")?;
        if let Some(name) = name.get() {
            write!(f, "{name} ")?;
        }
        write!(f, "{dtype} {:?}", shape.as_slice())
    }
}
