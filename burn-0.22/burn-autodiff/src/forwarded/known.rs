//! The ops of [`Known`]: those of the plain backend.

use super::*;

// Ops that Burn composes of others stand in no table. A backend may have its own.
impl<B: Backend> FloatTensorOps<Self> for Known<B> {
    float_tensor_ops! { known! }

    fn float_hypot(lhs: FloatTensor<Self>, rhs: FloatTensor<Self>) -> FloatTensor<Self> {
        B::float_hypot(lhs, rhs)
    }

    fn float_mask_select(
        tensor: FloatTensor<Self>,
        mask: BoolTensor<Self>,
    ) -> impl Future<Output = FloatTensor<Self>> + 'static + Send {
        B::float_mask_select(tensor, mask)
    }

    fn float_pad(
        tensor: FloatTensor<Self>,
        padding: &[(usize, usize)],
        mode: PadMode,
    ) -> FloatTensor<Self> {
        B::float_pad(tensor, padding, mode)
    }

    fn float_sum_dims(tensor: FloatTensor<Self>, dims: &[usize]) -> FloatTensor<Self> {
        B::float_sum_dims(tensor, dims)
    }

    fn float_topk_with_indices(
        tensor: FloatTensor<Self>,
        dim: usize,
        k: usize,
        indices: IntDType,
    ) -> (FloatTensor<Self>, IntTensor<Self>) {
        B::float_topk_with_indices(tensor, dim, k, indices)
    }
}

impl<B: Backend> IntTensorOps<Self> for Known<B> {
    int_tensor_ops! { known! }

    fn int_mask_select(
        tensor: IntTensor<Self>,
        mask: BoolTensor<Self>,
    ) -> impl Future<Output = IntTensor<Self>> + 'static + Send {
        B::int_mask_select(tensor, mask)
    }

    fn int_pad(
        tensor: IntTensor<Self>,
        padding: &[(usize, usize)],
        mode: PadMode,
    ) -> IntTensor<Self> {
        B::int_pad(tensor, padding, mode)
    }

    fn int_square(tensor: IntTensor<Self>) -> IntTensor<Self> {
        B::int_square(tensor)
    }

    fn int_topk_with_indices(
        tensor: IntTensor<Self>,
        dim: usize,
        k: usize,
    ) -> (IntTensor<Self>, IntTensor<Self>) {
        B::int_topk_with_indices(tensor, dim, k)
    }
}

impl<B: Backend> BoolTensorOps<Self> for Known<B> {
    bool_tensor_ops! { known! }

    fn bool_mask_select(
        tensor: BoolTensor<Self>,
        mask: BoolTensor<Self>,
    ) -> impl Future<Output = BoolTensor<Self>> + 'static + Send {
        B::bool_mask_select(tensor, mask)
    }
}

impl<B: Backend> ModuleOps<Self> for Known<B> {
    module_ops! { known! }

    fn batch_norm(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        mean: FloatTensor<Self>,
        variance: FloatTensor<Self>,
        epsilon: f64,
    ) -> FloatTensor<Self> {
        B::batch_norm(x, gamma, beta, mean, variance, epsilon)
    }

    fn batch_norm_train(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        epsilon: f64,
    ) -> BatchNormTrain<Self> {
        let trained = B::batch_norm_train(x, gamma, beta, epsilon);
        BatchNormTrain::new(trained.output, trained.mean, trained.variance)
    }

    fn batch_norm_train_backward(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        mean: FloatTensor<Self>,
        variance: FloatTensor<Self>,
        epsilon: f64,
        output_grad: FloatTensor<Self>,
    ) -> BatchNormTrainBackward<Self> {
        let grads = B::batch_norm_train_backward(x, gamma, mean, variance, epsilon, output_grad);
        BatchNormTrainBackward::new(grads.x_grad, grads.gamma_grad, grads.beta_grad)
    }

    fn fold4d(
        x: FloatTensor<Self>,
        output_size: [usize; 2],
        kernel_size: [usize; 2],
        options: UnfoldOptions,
    ) -> FloatTensor<Self> {
        B::fold4d(x, output_size, kernel_size, options)
    }
}

impl<B: Backend> ActivationOps<Self> for Known<B> {
    activation_ops! { known! }
}

impl<B: Backend> QTensorOps<Self> for Known<B> {
    q_tensor_ops! { known! }
}

impl<B: Backend> TransactionOps<Self> for Known<B> {
    transaction_ops! { known! }
}
