//! Attention in mixed precision, as one op.
//!
//! [`AmpBackend::mixed_attention`](crate::AmpBackend::mixed_attention): `softmax(q kᵀ · scale) v` with the options of
//! Burn's `attention`. The matrix products read and write the dtype of the operands; the soft cap, the bias and the
//! softmax are computed in F32. A row whose scores are all masked gives 0, as in Burn.
//!
//! A graph keeps the operands, and none of the tensors with one number per pair of positions. The backward pass
//! computes the probabilities `p` again:
//!
//! ```text
//! dv = pᵀ g      dp = g vᵀ      ds = p (dp - sum(dp p) / sum(p))      dq = ds k · scale      dk = dsᵀ q · scale
//! ```

mod node;
mod reference;

use burn_backend::{
    Backend,
    ops::AttentionModuleOptions,
    tensor::{BoolTensor, FloatTensor},
};

pub(crate) use node::recorded;
pub use reference::{reference, reference_backward};

/// The operands of an attention: queries, keys and values `[batch, heads, positions, width]` of one dtype.
#[derive(Clone, Debug)]
pub struct Attention<B: Backend> {
    /// `[batch, heads, n, width]`.
    pub query: FloatTensor<B>,
    /// `[batch, heads, m, width]`.
    pub key: FloatTensor<B>,
    /// `[batch, heads, m, width]`.
    pub value: FloatTensor<B>,
    /// The pairs of positions that are left out, `[batch, heads, n, m]`.
    pub mask: Option<BoolTensor<B>>,
    /// What is added to the scores, in any float dtype; it is broadcast to `[batch, heads, n, m]`.
    pub bias: Option<FloatTensor<B>>,
    /// The scale, the soft cap, and whether attention is causal.
    pub options: AttentionModuleOptions,
}

/// The gradients of an attention, in the dtypes of the operands.
#[derive(Debug)]
pub struct AttentionGradients<B: Backend> {
    /// The gradient of the queries.
    pub query: FloatTensor<B>,
    /// The gradient of the keys.
    pub key: FloatTensor<B>,
    /// The gradient of the values.
    pub value: FloatTensor<B>,
    /// The gradient of the bias.
    pub bias: Option<FloatTensor<B>>,
}
