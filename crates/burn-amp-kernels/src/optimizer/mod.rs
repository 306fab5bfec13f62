//! One step of an optimizer over a list of parameters.
//!
//! [`step`] takes a [`ListStep`]. For every parameter of the
//! list it reads the gradient, the parameter or its F32 master, and the moments, once each; computes in F32 (F64 for
//! F64); and writes the parameter, the master and the moments, once each, and on request a copy of the parameter in low
//! precision. With a kernel, one launch takes 16 parameters, or more if there are so many that they would take more than
//! 12 launches, as far as the device has bindings; the arrays are updated in place where nobody else holds them.
//!
//! Moments may be kept in BF16 or in [blocks of 8 bits](blocks), and a BF16 parameter may do without a master: then both
//! are rounded [stochastically](rounding). Without a kernel, the host does the rounding, which reads and writes them. The
//! master of a BF16 parameter may be kept as an [`offset`] of 16 or 8 bits.
//!
//! The rules are those of Burn's `Adam`, `AdamW` and `Sgd`, op for op, so that the reference has their bits. A kernel may
//! contract a product and a sum into one operation, and is then at most one rounding away in each of them.

#[cfg(feature = "cubecl")]
mod block_code;
#[cfg(feature = "cubecl")]
mod block_kernel;
pub mod blocks;
#[cfg(feature = "cubecl")]
mod code;
#[cfg(feature = "cubecl")]
mod constants;
#[cfg(feature = "cubecl")]
mod element;
#[cfg(feature = "cubecl")]
mod kernel;
#[cfg(feature = "cubecl")]
mod launch;
mod master;
mod moment;
pub mod offset;
mod parts;
mod place;
#[cfg(feature = "cubecl")]
mod random;
mod reference;
pub mod rounding;
mod rule;
mod rule_reference;

pub use master::{Master, MasterOf, weights};
pub use moment::{Moment, MomentFormat, StoredMomentOf, rounded, undefined, widened};
pub use place::Place;
pub use rule::{AdamRule, Decay, Rule, SgdMomentum, SgdRule};

use burn_backend::{
    FloatDType,
    tensor::{FloatTensor, IntTensor},
};

use crate::AmpBackend;

/// Steps a list of parameters, which has at least one.
pub fn step<B: AmpBackend>(step: ListStepOf<B>) -> Vec<SteppedOf<B>> {
    let (step, tensors) = step.apart();
    let results = B::run(step.clone(), tensors);
    step.results_of(results)
}

/// A step in tensors of a backend.
pub type ListStepOf<B> = ListStep<FloatTensor<B>, IntTensor<B>>;

/// A parameter of a step, in tensors of a backend.
pub type ListedOf<B> = Listed<FloatTensor<B>, IntTensor<B>>;

/// A parameter after a step, in tensors of a backend.
pub type SteppedOf<B> = Stepped<FloatTensor<B>, IntTensor<B>>;

/// A step of an optimizer over a list of parameters, which are float tensors `F` and int tensors `I`.
#[derive(Clone, Debug)]
pub struct ListStep<F, I = F> {
    /// The optimizer, with its constants.
    pub rule: Rule,
    /// The learning rate.
    pub lr: f64,
    /// The state of the loss scale before the backward pass, by whose scale all gradients are divided; see
    /// [`loss_scale`](crate::loss_scale). `None` if they are not scaled, or by a factor that the host knows.
    pub scaled_by: Option<F>,
    /// The state of the loss scale after the backward pass. If the pass overflowed, parameters, masters and moments are
    /// left as they are, bit for bit. `None` if the host knows that it did not.
    pub unless_overflowed: Option<F>,
    /// A factor for the unscaled gradients: an F32 tensor of one element.
    pub clip: Option<F>,
    /// The parameters, all on one device.
    pub parameters: Vec<Listed<F, I>>,
}

/// A parameter of a [`ListStep`].
#[derive(Clone, Debug)]
pub struct Listed<F, I = F> {
    /// The parameter as it is stored, in any float dtype.
    pub parameter: F,
    /// Its gradient, of the same shape, in any float dtype.
    pub gradient: F,
    /// A factor for the gradient, applied before the others.
    pub factor: f32,
    /// The F32 master.
    pub master: Master<F, I>,
    /// The moments, as many as [`Rule::moments`] says, all in one format. Before the first step their values are
    /// undefined.
    pub moments: Vec<Moment<F, I>>,
    /// The key of the random numbers with which moments, or the parameter, are [rounded](rounding).
    pub key: u32,
    /// Whether a BF16 parameter without a master, or a master in 24 bits, is rounded stochastically, and not to the nearest.
    pub rounds_stochastically: bool,
    /// The number of this step: 1 for the first that the parameter makes.
    pub time: i32,
    /// Whether to return a copy of the new parameter in this dtype.
    pub low: Option<FloatDType>,
}

/// A parameter after a [`ListStep`].
#[derive(Clone, Debug)]
pub struct Stepped<F, I = F> {
    /// The parameter, in its dtype.
    pub parameter: F,
    /// Its master, in its form.
    pub master: Master<F, I>,
    /// Its moments. After a first step that was not made, their values are undefined.
    pub moments: Vec<Moment<F, I>>,
    /// The parameter in the dtype that was asked for.
    pub low: Option<F>,
}
