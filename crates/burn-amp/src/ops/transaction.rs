//! `TransactionOps`.

use burn_amp_core::transaction_ops;
use burn_amp_kernels::Kernels;
use burn_backend::{
    ExecutionError,
    ops::{TransactionOps, TransactionPrimitive, TransactionPrimitiveData},
};

use crate::{backend::Amp, graph::Graph, policy::PolicySource, tensor::AmpTensor};

transaction_ops! { forward!
    async fn tr_execute(
        transaction: TransactionPrimitive<Self>,
    ) -> Result<TransactionPrimitiveData, ExecutionError> {
        G::Inner::tr_execute(TransactionPrimitive::new(
            transaction.read_floats.into_iter().map(AmpTensor::into_inner).collect(),
            transaction.read_qfloats,
            transaction.read_ints,
            transaction.read_bools,
        ))
        .await
    }
}
