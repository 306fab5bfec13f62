//! The ops of [`Autodiff`] and [`Known`], generated from burn-amp's table.

use std::ops::Range;

use burn_amp_core::{
    activation_ops, bool_tensor_ops, float_tensor_ops, int_tensor_ops, module_ops, q_tensor_ops,
    transaction_ops,
};
use burn_autodiff_engine::{
    Autodiff as Recorded, checkpoint::strategy::CheckpointStrategy, chosen,
};
use burn_backend::{
    Backend, BoolDType, Distribution, ExecutionError, FloatDType, IntDType, Scalar, Shape, Slice,
    TensorData, TensorPrimitive,
    ops::*,
    quantization::{QuantScheme, QuantizationParametersPrimitive},
    tensor::{BoolTensor, Device, FloatTensor, IndexingUpdateOp, IntTensor, QuantizedTensor},
};
use burn_std::PadMode;

use crate::{
    backend::{Amped, Autodiff},
    known::Known,
    ops::{amped, recorded},
    tensor::AutodiffTensor,
};

/// Writes the method of one row, which calls the plain backend.
///
/// A macro, because a function cannot be generic over signatures.
macro_rules! known {
    ($($row:tt)*) => {
        forwarded! { (B) (plain) $($row)* }
    };
}

/// Writes the method of one row, which calls burn-amp under the checkpointing strategy of the backend. A macro for the same
/// reason as [`known!`].
macro_rules! amped {
    ($($row:tt)*) => {
        forwarded! { (Amped::<B>) (chosen) $($row)* }
    };
}

macro_rules! forwarded {
    (
        ($($to:tt)*) $how:tt $op:ident [$($async:ident.$await:ident)?] ($($x:ident: $type:ty as $kind:tt,)*)
        -> $ret:ty as $result:tt $(by $hand:ident)?
    ) => {
        #[inline]
        $($async)? fn $op($($x: $type),*) -> $ret {
            renamed!($how $result, called!($how, $($to)*::$op($(inner!($how $kind, $x)),*))$(.$await)?)
        }
    };
}

macro_rules! called {
    ((plain), $call:expr) => {
        $call
    };
    ((chosen), $call:expr) => {
        chosen::with::<C, _>(|| $call)
    };
}

/// A float tensor as an operand of the other backend.
macro_rules! given {
    ((plain) $x:expr) => {
        $x
    };
    ((chosen) $x:expr) => {
        $x.tracked()
    };
}

/// A float tensor as a result of the other backend.
macro_rules! made {
    ((plain) $x:expr) => {
        $x
    };
    ((chosen) $x:expr) => {
        AutodiffTensor::of($x)
    };
}

/// Converts an operand to the type that the other backend expects.
macro_rules! inner {
    ($how:tt [F], $x:ident) => {
        given!($how $x)
    };
    ((chosen) [&F], $x:ident) => {
        &$x.clone().tracked()
    };
    ($how:tt [Option<F>], $x:ident) => {
        $x.map(|x| given!($how x))
    };
    ($how:tt [Vec<F>], $x:ident) => {
        $x.into_iter().map(|x| given!($how x)).collect()
    };
    ($how:tt [QuantizationParametersPrimitive], $x:ident) => {
        QuantizationParametersPrimitive {
            scales: given!($how $x.scales),
            global: $x.global.map(|x| given!($how x)),
        }
    };
    ($how:tt [Primitive], $x:ident) => {
        match $x {
            TensorPrimitive::Float(tensor) => TensorPrimitive::Float(given!($how tensor)),
            TensorPrimitive::QFloat(tensor) => TensorPrimitive::QFloat(tensor),
        }
    };
    ($how:tt [TransactionPrimitive], $x:ident) => {
        TransactionPrimitive::new(
            $x.read_floats.into_iter().map(|x| given!($how x)).collect(),
            $x.read_qfloats,
            $x.read_ints,
            $x.read_bools,
        )
    };
    ($how:tt $kind:tt, $x:ident) => {
        $x
    };
}

/// Converts a result of the other backend.
macro_rules! renamed {
    ($how:tt [F], $result:expr) => {
        made!($how $result)
    };
    ($how:tt [Wide], $result:expr) => {
        made!($how $result)
    };
    ($how:tt [(F, F)], $result:expr) => {{
        let (one, other) = $result;
        (made!($how one), made!($how other))
    }};
    ($how:tt [(F, I)], $result:expr) => {{
        let (values, indices) = $result;
        (made!($how values), indices)
    }};
    ($how:tt [Primitive], $result:expr) => {
        match $result {
            TensorPrimitive::Float(tensor) => TensorPrimitive::Float(made!($how tensor)),
            TensorPrimitive::QFloat(tensor) => TensorPrimitive::QFloat(tensor),
        }
    };
    ($how:tt [DeformConv2dBackward], $result:expr) => {{
        let grads = $result;
        DeformConv2dBackward::new(
            made!($how grads.x_grad),
            made!($how grads.offset_grad),
            made!($how grads.weight_grad),
            grads.mask_grad.map(|x| made!($how x)),
            grads.bias_grad.map(|x| made!($how x)),
        )
    }};
    ($how:tt [MaxPool1dBackward], $result:expr) => {
        MaxPool1dBackward::new(made!($how $result.x_grad))
    };
    ($how:tt [MaxPool1dWithIndices], $result:expr) => {{
        let pooled = $result;
        MaxPool1dWithIndices::new(made!($how pooled.output), pooled.indices)
    }};
    ($how:tt [MaxPool2dBackward], $result:expr) => {
        MaxPool2dBackward::new(made!($how $result.x_grad))
    };
    ($how:tt [MaxPool2dWithIndices], $result:expr) => {{
        let pooled = $result;
        MaxPool2dWithIndices::new(made!($how pooled.output), pooled.indices)
    }};
    ($how:tt $kind:tt, $result:expr) => {
        $result
    };
}

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
