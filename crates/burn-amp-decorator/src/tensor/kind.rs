//! The kinds of tensors, as the tests of their readers name them.

use burn_amp_kernels::AmpBackend;

use super::{AmpTensor, Recipe, Role};
use crate::graph::Graph;

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident,)*) => {
        /// What a tensor stands for. The tests have a case for each kind and each way to read a tensor.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $($(#[$doc])* $kind,)*
        }

        impl Kind {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$kind),*];
        }
    };
}

kinds! {
    /// Its own values, and nothing is known about them.
    Plain,
    /// A parameter in a graph.
    Leaf,
    /// A parameter outside a graph.
    Parameter,
    /// A gradient.
    Gradient,
    /// A gradient whose factors have not been applied.
    Pending,
    /// Zeros and ones.
    ZerosAndOnes,
    /// One number.
    Filled,
    /// The rounded result of a saturating op.
    Saturated,
    /// The rounded concatenation of parts in several dtypes.
    Concatenated,
    /// A product in F16.
    Product,
    /// A view that has not been computed.
    View,
    /// Few elements that are stored in another shape.
    Reshaped,
    /// A chain that has not been computed.
    Chain,
    /// Squares of a chain.
    Squares,
    /// The sum of a chain and a tensor that is as large.
    Sum,
    /// A product that is to be scaled.
    Scaled,
    /// A product that is to be masked.
    Masked,
    /// A log-softmax that remembers its operand.
    LogSoftmax,
}

impl<B: AmpBackend, G: Graph<B>> AmpTensor<B, G> {
    /// What the tensor stands for.
    #[doc(hidden)]
    pub fn kind(&self) -> Kind {
        match (self.recipe(), &self.role) {
            (None, Role::Activation) => Kind::Plain,
            (None, Role::Leaf(_)) => Kind::Leaf,
            (None, Role::Parameter(_)) => Kind::Parameter,
            (None, Role::Gradient(_)) => Kind::Gradient,
            (Some(Recipe::ZerosAndOnes), _) => Kind::ZerosAndOnes,
            (Some(Recipe::Filled), _) => Kind::Filled,
            (Some(Recipe::Saturated(..)), _) => Kind::Saturated,
            (Some(Recipe::Cat(..)), _) => Kind::Concatenated,
            (Some(Recipe::Product(..)), _) => Kind::Product,
            (Some(Recipe::Chain(lazy)), _) => lazy.kind(),
            (Some(Recipe::Reshaped(_)), _) => Kind::Reshaped,
            (Some(Recipe::Scores(scores)), _) if scores.is_masked() => Kind::Masked,
            (Some(Recipe::Scores(_)), _) => Kind::Scaled,
            (Some(Recipe::LogSoftmax { .. }), _) => Kind::LogSoftmax,
            (Some(Recipe::Scaled(..)), _) => Kind::Pending,
        }
    }
}
