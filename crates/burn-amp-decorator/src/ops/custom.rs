//! Custom ops, run under a cast class.

use burn_amp_core::Class;
use burn_amp_kernels::AmpBackend;
use burn_backend::tensor::FloatTensor;

use crate::{
    backend::Amp, cast::call::Call, graph::Graph, policy::ConfigSource, tensor::AmpTensor,
};

impl<B: AmpBackend, P: ConfigSource, G: Graph<B>> Amp<B, P, G> {
    /// Runs an op that Burn does not know, such as a kernel of your own, under a cast class.
    ///
    /// `op` receives the operands as tensors of the inner backend, all cast to the one dtype that the class gives them.
    /// Its result is cast as the class says.
    ///
    /// ```
    /// use burn::tensor::{backend::Backend, ops::FloatTensor};
    /// use burn_amp::{Amp, AmpBackend, config::{Class, ConfigSource}, extend::Graph};
    ///
    /// trait ScaledMatmul: Backend {
    ///     fn scaled_matmul(lhs: FloatTensor<Self>, rhs: FloatTensor<Self>, by: f32) -> FloatTensor<Self>;
    /// }
    ///
    /// impl<B: AmpBackend, P: ConfigSource, G: Graph<B>> ScaledMatmul for Amp<B, P, G>
    /// where
    ///     G::Inner: ScaledMatmul,
    /// {
    ///     fn scaled_matmul(lhs: FloatTensor<Self>, rhs: FloatTensor<Self>, by: f32) -> FloatTensor<Self> {
    ///         Self::custom_op(Class::Low, [lhs, rhs], |[lhs, rhs]| G::Inner::scaled_matmul(lhs, rhs, by))
    ///     }
    /// }
    /// ```
    #[doc(alias("custom_fwd", "custom_bwd"))]
    pub fn custom_op<const N: usize>(
        class: Class,
        operands: [AmpTensor<B, G>; N],
        op: impl FnOnce([FloatTensor<G::Inner>; N]) -> FloatTensor<G::Inner>,
    ) -> AmpTensor<B, G> {
        const { assert!(N > 0, "the policy of a custom op is that of its operands") };
        let mut call = Call::<B>::custom(class);
        operands.iter().for_each(|operand| call.float(operand));
        let call = call.decide();
        call.result(op(operands.map(|operand| call.cast(operand))))
    }
}
