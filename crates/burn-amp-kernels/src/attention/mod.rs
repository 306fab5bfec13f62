//! Attention in mixed precision, as one op.
//!
//! [`forward`]: `softmax(q kᵀ · scale) v` with the options of
//! Burn's `attention`. The matrix products read and write the dtype of the operands; the soft cap, the bias and the
//! softmax are computed in F32. A row whose scores are all masked gives 0, as in Burn.
//!
//! A graph keeps the operands, and none of the tensors with one number per pair of positions. The backward pass
//! computes the probabilities `p` again:
//!
//! ```text
//! dv = pᵀ g      dp = g vᵀ      ds = p (dp - sum(dp p) / sum(p))      dq = ds k · scale      dk = dsᵀ q · scale
//! ```

mod reference;

use burn_backend::ops::AttentionModuleOptions;

use reference::{gradients, weights};

use crate::{graph::values, prelude::*};

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

/// Computes attention in mixed precision.
pub fn forward<B: AmpBackend>(operands: Attention<B>) -> FloatTensor<B> {
    let Attention {
        query,
        key,
        value,
        mask,
        bias,
        options,
    } = operands;
    let operands = Tensors::from(([query, key, value], bias)).with_bools(mask);
    B::run(AttentionForward { options }, operands).one()
}

#[derive(Clone, Copy, Debug)]
struct AttentionForward {
    options: AttentionModuleOptions,
}

impl AttentionForward {
    fn operands<B: Backend>(&self, mut operands: TensorsOf<B>) -> Attention<B> {
        let mask = operands.bools.pop();
        let ([query, key, value], bias) = operands.and_maybe();
        Attention {
            query,
            key,
            value,
            mask,
            bias,
            options: self.options,
        }
    }
}

impl Kernel for AttentionForward {
    const NAME: &'static str = "burn_amp::attention";
    const IS_COMPOSED: bool = true;

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        let operands = self.operands::<B>(operands);
        let value = operands.value.clone();
        [B::float_matmul(weights::<B>(operands).probabilities, value)].into()
    }

    /// The node keeps the operands.
    fn record<B: AmpBackend, C: CheckpointStrategy>(self, operands: Graph<B, C>) -> Graph<B, C> {
        let saved = AttentionSaved {
            attention: self,
            mask: operands.bools.first().cloned(),
        };
        let values = Tensors::from(values::<B, C>(&operands.floats)).with_bools(operands.bools);
        let output = B::run(self, values).one();
        let operands = operands.floats;
        [by_length!(operands, 3 4; N => {
            let operands = std::array::from_fn(|at| &operands[at]);
            Recording::<B, C, _, N>::new(operands, |_| true).finish(output, |_| saved)
        })]
        .into()
    }
}

#[derive(Clone, Debug)]
struct AttentionSaved<B: Backend> {
    attention: AttentionForward,
    mask: Option<BoolTensor<B>>,
}

impl<B: AmpBackend> Node<B> for AttentionSaved<B> {
    fn backward<const N: usize>(self, mut pass: Pass<'_, B, N>) {
        let operands = Vec::from_iter((0..N).filter_map(|at| pass.operand(at)));
        let operands = Tensors::from(operands).with_bools(self.mask);
        let operands = self.attention.operands::<B>(operands);
        let gradients = gradients::<B>(operands, pass.gradient());
        for (at, gradient) in gradients.into_iter().enumerate() {
            if let Some(gradient) = gradient
                && pass.parent(at).is_some()
            {
                pass.register(at, seen::<B>(gradient));
            }
        }
    }
}
