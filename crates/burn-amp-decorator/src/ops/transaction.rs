//! `TransactionOps`.

use burn_amp_core::transaction_ops;
use burn_amp_kernels::AmpBackend;
use burn_backend::{
    ExecutionError,
    ops::{TransactionOps, TransactionPrimitive, TransactionPrimitiveData},
};

use crate::{
    backend::Amp, cast::forward::forward, graph::Graph, policy::ConfigSource, tensor::AmpTensor,
};

impl<B: AmpBackend, P: ConfigSource, G: Graph<B>> TransactionOps<Self> for Amp<B, P, G> {
    transaction_ops! { forward! }
}

async fn tr_execute<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    transaction: TransactionPrimitive<Amp<B, P, G>>,
) -> Result<TransactionPrimitiveData, ExecutionError> {
    let floats = transaction.read_floats.into_iter();
    G::Inner::tr_execute(TransactionPrimitive::new(
        floats.map(AmpTensor::into_inner).collect(),
        transaction.read_qfloats,
        transaction.read_ints,
        transaction.read_bools,
    ))
    .await
}
