//! `TransactionOps`.

use burn_amp_core::transaction_ops;
use burn_amp_kernels::Kernels;
use burn_backend::{
    ExecutionError,
    ops::{TransactionOps, TransactionPrimitive, TransactionPrimitiveData},
};

use crate::{
    backend::Amp, cast::forward::forward, graph::Graph, policy::PolicySource, tensor::AmpTensor,
};

impl<B: Kernels, P: PolicySource, G: Graph<B>> TransactionOps<Self> for Amp<B, P, G> {
    transaction_ops! { forward! }
}

async fn tr_execute<B: Kernels, P: PolicySource, G: Graph<B>>(
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
