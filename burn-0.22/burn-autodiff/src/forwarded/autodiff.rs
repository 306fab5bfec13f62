//! The ops of [`Autodiff`]: those of burn-amp.

use super::*;

// Where nothing is lowered, ops that Burn's autodiff has whole are its own. Elsewhere each op of which Burn composes them
// runs in the precision that the policy gives it.
impl<B: Backend, C: CheckpointStrategy> FloatTensorOps<Self> for Autodiff<B, C> {
    float_tensor_ops! { amped! }

    fn float_hypot(lhs: FloatTensor<Self>, rhs: FloatTensor<Self>) -> FloatTensor<Self> {
        if lowers(&lhs) {
            let [lhs, rhs] = [lhs, rhs].map(AutodiffTensor::tracked);
            return AutodiffTensor::of(chosen::with::<C, _>(|| Amped::<B>::float_hypot(lhs, rhs)));
        }
        let [lhs, rhs] = [lhs, rhs].map(|x| recorded::<B>(&x));
        amped::<B>(Recorded::<B, C>::float_hypot(lhs, rhs))
    }
}

impl<B: Backend, C: CheckpointStrategy> IntTensorOps<Self> for Autodiff<B, C> {
    int_tensor_ops! { amped! }

    fn int_mask_select(
        tensor: IntTensor<Self>,
        mask: BoolTensor<Self>,
    ) -> impl Future<Output = IntTensor<Self>> + 'static + Send {
        B::int_mask_select(tensor, mask)
    }
}

impl<B: Backend, C: CheckpointStrategy> BoolTensorOps<Self> for Autodiff<B, C> {
    bool_tensor_ops! { amped! }

    fn bool_mask_select(
        tensor: BoolTensor<Self>,
        mask: BoolTensor<Self>,
    ) -> impl Future<Output = BoolTensor<Self>> + 'static + Send {
        B::bool_mask_select(tensor, mask)
    }
}

impl<B: Backend, C: CheckpointStrategy> ModuleOps<Self> for Autodiff<B, C> {
    module_ops! { amped! }

    fn batch_norm_train(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        epsilon: f64,
    ) -> BatchNormTrain<Self> {
        if lowers(&x) {
            let [x, gamma, beta] = [x, gamma, beta].map(AutodiffTensor::tracked);
            let trained =
                chosen::with::<C, _>(|| Amped::<B>::batch_norm_train(x, gamma, beta, epsilon));
            let [output, mean, variance] =
                [trained.output, trained.mean, trained.variance].map(AutodiffTensor::of);
            return BatchNormTrain::new(output, mean, variance);
        }
        let [x, gamma, beta] = [x, gamma, beta].map(|x| recorded::<B>(&x));
        let trained = Recorded::<B, C>::batch_norm_train(x, gamma, beta, epsilon);
        let [output, mean, variance] =
            [trained.output, trained.mean, trained.variance].map(amped::<B>);
        BatchNormTrain::new(output, mean, variance)
    }
}

/// Whether the policy of a tensor's device lowers ops.
fn lowers<B: Backend>(tensor: &AutodiffTensor<B>) -> bool {
    tensor.clone().tracked().context.policy.compute().is_low()
}

impl<B: Backend, C: CheckpointStrategy> ActivationOps<Self> for Autodiff<B, C> {
    activation_ops! { amped! }
}

impl<B: Backend, C: CheckpointStrategy> QTensorOps<Self> for Autodiff<B, C> {
    q_tensor_ops! { amped! }
}

impl<B: Backend, C: CheckpointStrategy> TransactionOps<Self> for Autodiff<B, C> {
    transaction_ops! { amped! }
}
