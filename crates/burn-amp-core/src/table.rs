//! The table: one row for each method of Burn 0.21.0's seven op traits, in Burn's order.
//!
//! ```text
//!     Low         float_matmul                     (F, F) -> F;
//!     Full/Widest float_div                        (F, F) -> F;
//!     Pass        int_into_data                    async (I) -> Result<TensorData, ExecutionError>;
//!     Internal    gelu                             (F) -> F
//!                 by hand "one kernel reads x as it is stored";
//! ```
//!
//! A row is a cast class, Burn's name of the method and the shape of its signature. `Full/Widest` means `Full` under
//! F16 and `Widest` under BF16. `Pass` is not a cast class: the op does no float arithmetic, or its caller chooses the
//! dtype. A row `by rule` says what else happens to the op in `Amp`, the decorator, which has a rule for it; a row `by hand`
//! gives the reason why it has a handwritten function instead of a generated method.
//!
//! The words of a shape: `F`, `I`, `Bool` and `Q` are float, int, bool and quantized tensors, `Primitive` is a float or
//! quantized tensor, and `Wide` is a float result that stays in F32 whatever dtype it was computed in. A type that
//! Burn writes with `<B>` is written without it. Every other word is the Rust type.
//!
//! The rows of each trait are a macro, which passes them to a macro of the caller; see [`row`](crate::row). `Amp`, the
//! recording backend of the tests and [`Op`](crate::Op) are all generated from these rows. They are macros and not a
//! constant, because no function can make methods from data.
//!
//! Classes that may be surprising have their reasons in [`reasons`](crate::reasons).

#[doc(hidden)]
#[macro_export]
macro_rules! float_tensor_ops { ($($then:tt)*) => { $crate::read_rows! { [$($then)*] FloatTensorOps {
    Pass        float_from_data                  (TensorData, &Device) -> F;
    Pass        float_random                     (Shape, Distribution, &Device, FloatDType) -> F
                by rule "a Bernoulli tensor is known to hold zeros and ones";
    Pass        float_zeros                      (Shape, &Device, FloatDType) -> F
                by rule "a tensor that is filled with one number is known to be";
    Pass        float_ones                       (Shape, &Device, FloatDType) -> F
                by rule "a tensor that is filled with one number is known to be";
    Pass        float_full                       (Shape, Scalar, &Device, FloatDType) -> F
                by rule "a tensor that is filled with one number is known to be";
    Pass        float_into_data                  async (F) -> Result<TensorData, ExecutionError>
                by hand "the data has the logical dtype";
    #[cfg(not(burn_0_22))]
    Pass        float_device                     (&F) -> Device;
    Pass        float_to_device                  (F, &Device) -> F
                by hand "the policy is that of the target device";
    Keep        float_into_int                   (F, IntDType) -> I;
    Pass        float_empty                      (Shape, &Device, FloatDType) -> F
                by rule "a tensor that is filled with one number is known to be";
    Keep        float_repeat_dim                 (F, usize, usize) -> F;
    Widest      float_add                        (F, F) -> F
                by rule "an F32 tensor of one element does not widen the other operand; a norm of images that is added to another one is rounded";
    Keep        float_add_scalar                 (F, Scalar) -> F
                by rule "a scalar that the dtype of x would round acts in F32";
    Keep        float_clamp_min                  (F, Scalar) -> F
                by rule "the bounds are compared with x in F32";
    Keep        float_clamp_max                  (F, Scalar) -> F
                by rule "the bounds are compared with x in F32";
    Keep        float_clamp                      (F, Scalar, Scalar) -> F
                by rule "the bounds are compared with x in F32";
    Widest      float_sub                        (F, F) -> F
                by rule "an F32 tensor of one element does not widen the other operand";
    Keep        float_sub_scalar                 (F, Scalar) -> F
                by rule "a scalar that the dtype of x would round acts in F32";
    Widest      float_mul                        (F, F) -> F
                by hand "zeros and ones, and an F32 tensor of one element, do not widen the other operand; in F16 a product remembers its operands";
    Keep        float_mul_scalar                 (F, Scalar) -> F
                by rule "a scalar that the dtype of x would round acts in F32";
    Full/Widest float_div                        (F, F) -> F
                by rule "an F32 tensor of one element does not widen the other operand";
    Keep        float_div_scalar                 (F, Scalar) -> F
                by rule "a scalar that the dtype of x would round acts in F32";
    Full        float_remainder                  (F, F) -> F;
    Full        float_remainder_scalar           (F, Scalar) -> F;
    Low         float_matmul                     (F, F) -> F;
    Widest      float_cross                      (F, F, usize) -> F;
    Keep        float_neg                        (F) -> F;
    Full        float_recip                      (F) -> F;
    Keep        float_transpose                  (F) -> F
                by rule "a view of a tensor in low precision may be read as it is";
    Keep        float_swap_dims                  (F, usize, usize) -> F
                by rule "a view of a tensor in low precision may be read as it is";
    Keep        float_permute                    (F, &[usize]) -> F
                by rule "a view of a tensor in low precision may be read as it is";
    Keep        float_flip                       (F, &[usize]) -> F;
    Keep        float_reshape                    (F, Shape) -> F
                by rule "few elements, and those of a tensor in low precision, stay stored as they are; gradients of a bias are added together";
    Keep        float_gather                     (usize, F, I) -> F
                by rule "reading one log-probability per row avoids the gradient of the whole log-softmax";
    #[cfg(not(burn_0_22))]
    Full        float_scatter_add                (usize, F, I, F) -> F;
    #[cfg(burn_0_22)]
    Full        float_scatter                    (usize, F, I, F, IndexingUpdateOp) -> F;
    Full        float_scatter_nd                 (F, I, F, IndexingUpdateOp) -> F;
    Keep        float_gather_nd                  (F, I) -> F
                by rule "its gradient is summed in F32";
    Keep        float_select                     (F, usize, I) -> F
                by rule "its gradient is summed in F32";
    #[cfg(not(burn_0_22))]
    Full        float_select_add                 (F, usize, I, F) -> F;
    #[cfg(burn_0_22)]
    Full        float_select_assign              (F, usize, I, F, IndexingUpdateOp) -> F;
    Keep        float_slice                      (F, &[Slice]) -> F
                by rule "its gradient is added to its place in that of the whole tensor";
    Widest      float_slice_assign               (F, &[Slice], F) -> F
                by rule "a tensor that is filled with one number does not widen the others; values side by side share one gradient";
    Widest      float_mask_where                 (F, Bool, F) -> F
                by rule "a tensor that is filled with one number does not widen the others";
    Keep        float_mask_fill                  (F, Bool, Scalar) -> F
                by rule "it waits for a softmax, which masks on its way";
    Widest      float_equal                      (F, F, BoolDType) -> Bool;
    Widest      float_not_equal                  (F, F, BoolDType) -> Bool;
    Keep        float_equal_elem                 (F, Scalar, BoolDType) -> Bool;
    Keep        float_not_equal_elem             (F, Scalar, BoolDType) -> Bool;
    Widest      float_greater                    (F, F, BoolDType) -> Bool;
    Keep        float_greater_elem               (F, Scalar, BoolDType) -> Bool;
    Widest      float_greater_equal              (F, F, BoolDType) -> Bool;
    Keep        float_greater_equal_elem         (F, Scalar, BoolDType) -> Bool;
    Widest      float_lower                      (F, F, BoolDType) -> Bool;
    Keep        float_lower_elem                 (F, Scalar, BoolDType) -> Bool;
    Widest      float_lower_equal                (F, F, BoolDType) -> Bool;
    Keep        float_lower_equal_elem           (F, Scalar, BoolDType) -> Bool;
    Pass        float_detach                     (F) -> F
                by hand "a detached parameter is still a copy of it";
    Pass        float_set_require_grad           (F, bool) -> F
                by hand "makes a leaf, whose gradient is checked and whose casts are shared";
    Pass        float_is_require_grad            (&F) -> bool;
    Full        float_sum                        (F) -> F
                by rule "one kernel reads x as it is stored";
    Full        float_sum_dim                    (F, usize) -> F
                by rule "one kernel reads x as it is stored";
    Full        float_prod                       (F) -> F;
    Full        float_prod_dim                   (F, usize) -> F;
    Full        float_mean                       (F) -> F
                by rule "one kernel reads x as it is stored";
    Full        float_mean_dim                   (F, usize) -> F
                by rule "one kernel reads x as it is stored";
    Full        float_cumsum                     (F, usize) -> F;
    Full        float_cumprod                    (F, usize) -> F;
    Keep        float_cummin                     (F, usize) -> F
                by rule "its gradient is summed in F32";
    Keep        float_cummax                     (F, usize) -> F
                by rule "its gradient is summed in F32";
    Pass        float_cast                       (F, FloatDType) -> F
                by hand "sets the logical dtype too";
    Full        float_exp                        (F) -> F;
    Full        float_log                        (F) -> F;
    Full        float_log1p                      (F) -> F;
    Full        float_powf                       (F, F) -> F;
    Full        float_powi                       (F, I) -> F;
    Full        float_powi_scalar                (F, Scalar) -> F
                by rule "a square is computed by the sum that reads it";
    Full        float_powi_scalar_impl           (F, Scalar) -> F;
    Full        float_powf_scalar                (F, Scalar) -> F;
    Full        float_powf_scalar_impl           (F, Scalar) -> F;
    Full        float_sqrt                       (F) -> F
                by rule "few elements are computed in the shape in which they are stored";
    Keep        float_abs                        (F) -> F;
    Full        float_cos                        (F) -> F;
    Full        float_sin                        (F) -> F;
    Full        float_tan                        (F) -> F;
    Full        float_cosh                       (F) -> F;
    Full        float_sinh                       (F) -> F;
    Keep        float_tanh                       (F) -> F
                by rule "a result in low precision remembers its operand";
    Full        float_acos                       (F) -> F;
    Full        float_acosh                      (F) -> F;
    Full        float_asin                       (F) -> F;
    Full        float_asinh                      (F) -> F;
    Full        float_atan                       (F) -> F;
    Full        float_atanh                      (F) -> F;
    Full/Widest float_atan2                      (F, F) -> F;
    Keep        float_round                      (F) -> F;
    Keep        float_floor                      (F) -> F;
    Keep        float_ceil                       (F) -> F;
    Keep        float_trunc                      (F) -> F;
    Full        float_erf                        (F) -> F;
    Widest      float_cat                        (Vec<F>, usize) -> F
                by hand "a tensor that is filled with one number does not widen the others; parts in low precision and in F32 are stored low";
    Keep        float_argmax                     (F, usize, IntDType) -> I;
    Keep        float_argtopk                    (F, usize, usize, IntDType) -> I;
    Keep        float_topk                       (F, usize, usize) -> F;
    Keep        float_argmin                     (F, usize, IntDType) -> I;
    Keep        float_max                        (F) -> F;
    Keep        float_max_dim                    (F, usize) -> F
                by rule "a report sees the indices that a graph keeps";
    Keep        float_max_dim_with_indices       (F, usize, IntDType) -> (F,I);
    Keep        float_min                        (F) -> F;
    Keep        float_min_dim                    (F, usize) -> F
                by rule "a report sees the indices that a graph keeps";
    Keep        float_min_dim_with_indices       (F, usize, IntDType) -> (F,I);
    Keep        float_max_abs                    (F) -> F;
    Keep        float_max_abs_dim                (F, usize) -> F;
    Keep        float_any                        (F, BoolDType) -> Bool;
    Keep        float_any_dim                    (F, usize, BoolDType) -> Bool;
    Keep        float_all                        (F, BoolDType) -> Bool;
    Keep        float_all_dim                    (F, usize, BoolDType) -> Bool;
    Keep        float_sign                       (F) -> F
                by rule "the signs of a gradient are no gradient";
    Keep        float_expand                     (F, Shape) -> F;
    Keep        float_sort                       (F, usize, bool) -> F
                by rule "a report sees the indices that a graph keeps";
    Keep        float_sort_with_indices          (F, usize, bool, IntDType) -> (F,I);
    Keep        float_argsort                    (F, usize, bool, IntDType) -> I;
    Widest      float_grid_sample_2d             (F, F, GridSampleOptions) -> F;
    Keep        float_unfold                     (F, usize, usize, usize) -> F
                by rule "its gradient is summed in F32";
    Keep        float_is_nan                     (F, BoolDType) -> Bool;
    Keep        float_is_inf                     (F, BoolDType) -> Bool;
} } } }

#[doc(hidden)]
#[macro_export]
macro_rules! int_tensor_ops { ($($then:tt)*) => { $crate::read_rows! { [$($then)*] IntTensorOps {
    Pass        int_empty                        (Shape, &Device, IntDType) -> I;
    Pass        int_into_data                    async (I) -> Result<TensorData, ExecutionError>;
    Pass        int_from_data                    (TensorData, &Device) -> I;
    #[cfg(not(burn_0_22))]
    Pass        int_device                       (&I) -> Device;
    Pass        int_to_device                    (I, &Device) -> I;
    Pass        int_reshape                      (I, Shape) -> I;
    Pass        int_slice                        (I, &[Slice]) -> I;
    Pass        int_slice_assign                 (I, &[Slice], I) -> I;
    Pass        int_into_float                   (I, FloatDType) -> F;
    Pass        int_mask_where                   (I, Bool, I) -> I;
    Pass        int_mask_fill                    (I, Bool, Scalar) -> I;
    Pass        int_gather                       (usize, I, I) -> I;
    #[cfg(not(burn_0_22))]
    Pass        int_scatter_add                  (usize, I, I, I) -> I;
    #[cfg(burn_0_22)]
    Pass        int_scatter                      (usize, I, I, I, IndexingUpdateOp) -> I;
    Pass        int_scatter_nd                   (I, I, I, IndexingUpdateOp) -> I;
    Pass        int_gather_nd                    (I, I) -> I;
    Pass        int_select                       (I, usize, I) -> I;
    #[cfg(not(burn_0_22))]
    Pass        int_select_add                   (I, usize, I, I) -> I;
    #[cfg(burn_0_22)]
    Pass        int_select_assign                (I, usize, I, I, IndexingUpdateOp) -> I;
    Pass        int_repeat_dim                   (I, usize, usize) -> I;
    Pass        int_cat                          (Vec<I>, usize) -> I;
    Pass        int_equal                        (I, I, BoolDType) -> Bool;
    Pass        int_not_equal                    (I, I, BoolDType) -> Bool;
    Pass        int_equal_elem                   (I, Scalar, BoolDType) -> Bool;
    Pass        int_not_equal_elem               (I, Scalar, BoolDType) -> Bool;
    Pass        int_greater                      (I, I, BoolDType) -> Bool;
    Pass        int_greater_elem                 (I, Scalar, BoolDType) -> Bool;
    Pass        int_greater_equal                (I, I, BoolDType) -> Bool;
    Pass        int_greater_equal_elem           (I, Scalar, BoolDType) -> Bool;
    Pass        int_lower                        (I, I, BoolDType) -> Bool;
    Pass        int_lower_elem                   (I, Scalar, BoolDType) -> Bool;
    Pass        int_lower_equal                  (I, I, BoolDType) -> Bool;
    Pass        int_lower_equal_elem             (I, Scalar, BoolDType) -> Bool;
    Pass        int_add                          (I, I) -> I;
    Pass        int_add_scalar                   (I, Scalar) -> I;
    Pass        int_powi                         (I, I) -> I;
    Pass        int_powi_scalar                  (I, Scalar) -> I;
    Pass        int_powi_scalar_impl             (I, Scalar) -> I;
    Pass        int_clamp_min                    (I, Scalar) -> I;
    Pass        int_clamp_max                    (I, Scalar) -> I;
    Pass        int_clamp                        (I, Scalar, Scalar) -> I;
    Pass        int_sub                          (I, I) -> I;
    Pass        int_sub_scalar                   (I, Scalar) -> I;
    Pass        int_mul                          (I, I) -> I;
    Pass        int_mul_scalar                   (I, Scalar) -> I;
    Pass        int_div                          (I, I) -> I;
    Pass        int_div_scalar                   (I, Scalar) -> I;
    Pass        int_remainder                    (I, I) -> I;
    Pass        int_remainder_scalar             (I, Scalar) -> I;
    Pass        int_matmul                       (I, I) -> I;
    Pass        int_neg                          (I) -> I;
    Pass        int_zeros                        (Shape, &Device, IntDType) -> I;
    Pass        int_ones                         (Shape, &Device, IntDType) -> I;
    Pass        int_full                         (Shape, Scalar, &Device, IntDType) -> I;
    Pass        int_sum                          (I) -> I;
    Pass        int_sum_dim                      (I, usize) -> I;
    Pass        int_prod                         (I) -> I;
    Pass        int_prod_dim                     (I, usize) -> I;
    Pass        int_mean                         (I) -> I;
    Pass        int_mean_dim                     (I, usize) -> I;
    Pass        int_cumsum                       (I, usize) -> I;
    Pass        int_cumprod                      (I, usize) -> I;
    Pass        int_cummin                       (I, usize) -> I;
    Pass        int_cummax                       (I, usize) -> I;
    Pass        int_argmax                       (I, usize) -> I;
    Pass        int_argtopk                      (I, usize, usize) -> I;
    Pass        int_topk                         (I, usize, usize) -> I;
    Pass        int_argmin                       (I, usize) -> I;
    Pass        int_max                          (I) -> I;
    Pass        int_max_dim                      (I, usize) -> I;
    Pass        int_max_dim_with_indices         (I, usize) -> (I,I);
    Pass        int_max_abs                      (I) -> I;
    Pass        int_max_abs_dim                  (I, usize) -> I;
    Pass        int_min                          (I) -> I;
    Pass        int_min_dim                      (I, usize) -> I;
    Pass        int_min_dim_with_indices         (I, usize) -> (I,I);
    Pass        int_abs                          (I) -> I;
    Pass        int_transpose                    (I) -> I;
    Pass        int_swap_dims                    (I, usize, usize) -> I;
    Pass        int_permute                      (I, &[usize]) -> I;
    Pass        int_flip                         (I, &[usize]) -> I;
    Pass        int_random                       (Shape, Distribution, &Device, IntDType) -> I;
    Pass        int_arange_step                  (Range<i64>, usize, &Device, IntDType) -> I;
    Pass        int_arange                       (Range<i64>, &Device, IntDType) -> I;
    Pass        int_any                          (I, BoolDType) -> Bool;
    Pass        int_any_dim                      (I, usize, BoolDType) -> Bool;
    Pass        int_all                          (I, BoolDType) -> Bool;
    Pass        int_all_dim                      (I, usize, BoolDType) -> Bool;
    Pass        int_sign                         (I) -> I;
    Pass        int_expand                       (I, Shape) -> I;
    Pass        int_sort                         (I, usize, bool) -> I;
    Pass        int_sort_with_indices            (I, usize, bool) -> (I,I);
    Pass        int_argsort                      (I, usize, bool) -> I;
    Pass        bitwise_and                      (I, I) -> I;
    Pass        bitwise_and_scalar               (I, Scalar) -> I;
    Pass        bitwise_or                       (I, I) -> I;
    Pass        bitwise_or_scalar                (I, Scalar) -> I;
    Pass        bitwise_xor                      (I, I) -> I;
    Pass        bitwise_xor_scalar               (I, Scalar) -> I;
    Pass        bitwise_not                      (I) -> I;
    Pass        bitwise_left_shift               (I, I) -> I;
    Pass        bitwise_left_shift_scalar        (I, Scalar) -> I;
    Pass        bitwise_right_shift              (I, I) -> I;
    Pass        bitwise_right_shift_scalar       (I, Scalar) -> I;
    Pass        int_cast                         (I, IntDType) -> I;
    Pass        int_unfold                       (I, usize, usize, usize) -> I;
} } } }

#[doc(hidden)]
#[macro_export]
macro_rules! bool_tensor_ops { ($($then:tt)*) => { $crate::read_rows! { [$($then)*] BoolTensorOps {
    Pass        bool_empty                       (Shape, &Device, BoolDType) -> Bool;
    Pass        bool_zeros                       (Shape, &Device, BoolDType) -> Bool;
    Pass        bool_ones                        (Shape, &Device, BoolDType) -> Bool;
    Pass        bool_into_data                   async (Bool) -> Result<TensorData, ExecutionError>;
    Pass        bool_from_data                   (TensorData, &Device) -> Bool;
    Pass        bool_into_int                    (Bool, IntDType) -> I;
    Pass        bool_into_float                  (Bool, FloatDType) -> F;
    #[cfg(not(burn_0_22))]
    Pass        bool_device                      (&Bool) -> Device;
    Pass        bool_to_device                   (Bool, &Device) -> Bool;
    Pass        bool_reshape                     (Bool, Shape) -> Bool;
    Pass        bool_slice                       (Bool, &[Slice]) -> Bool;
    Pass        bool_slice_assign                (Bool, &[Slice], Bool) -> Bool;
    Pass        bool_mask_where                  (Bool, Bool, Bool) -> Bool;
    Pass        bool_mask_fill                   (Bool, Bool, Scalar) -> Bool;
    Pass        bool_gather                      (usize, Bool, I) -> Bool;
    Pass        bool_scatter_or                  (usize, Bool, I, Bool) -> Bool;
    Pass        bool_select                      (Bool, usize, I) -> Bool;
    Pass        bool_select_or                   (Bool, usize, I, Bool) -> Bool;
    Pass        bool_repeat_dim                  (Bool, usize, usize) -> Bool;
    Pass        bool_cat                         (Vec<Bool>, usize) -> Bool;
    Pass        bool_equal                       (Bool, Bool) -> Bool;
    Pass        bool_not_equal                   (Bool, Bool) -> Bool;
    Pass        bool_equal_elem                  (Bool, Scalar) -> Bool;
    Pass        bool_not_equal_elem              (Bool, Scalar) -> Bool;
    Pass        bool_not                         (Bool) -> Bool;
    Pass        bool_and                         (Bool, Bool) -> Bool;
    Pass        bool_or                          (Bool, Bool) -> Bool;
    Pass        bool_xor                         (Bool, Bool) -> Bool;
    Pass        bool_transpose                   (Bool) -> Bool;
    Pass        bool_swap_dims                   (Bool, usize, usize) -> Bool;
    Pass        bool_permute                     (Bool, &[usize]) -> Bool;
    Pass        bool_flip                        (Bool, &[usize]) -> Bool;
    Pass        bool_any                         (Bool) -> Bool;
    Pass        bool_any_dim                     (Bool, usize) -> Bool;
    Pass        bool_all                         (Bool) -> Bool;
    Pass        bool_all_dim                     (Bool, usize) -> Bool;
    Pass        bool_argwhere                    async (Bool, IntDType) -> I;
    Pass        bool_expand                      (Bool, Shape) -> Bool;
    Pass        bool_unfold                      (Bool, usize, usize, usize) -> Bool;
} } } }

#[doc(hidden)]
#[macro_export]
macro_rules! module_ops { ($($then:tt)*) => { $crate::read_rows! { [$($then)*] ModuleOps {
    Keep        embedding                        (F, I) -> F
                by rule "its gradient is summed in F32";
    Full        embedding_backward               (F, F, I) -> F;
    Low         linear                           (F, F, Option<F>) -> F
                by hand "its weight gradient is one product over all rows, rounded once; its bias is added in F32";
    Low         linear_x_backward                (F, F) -> F;
    Low         linear_weight_backward           (F, F) -> Wide;
    Full        linear_bias_backward             (F) -> F;
    Low         conv1d                           (F, F, Option<F>, ConvOptions<1>) -> F
                by hand "its weight gradient is split among the cubes of a device, and that of an F32 parameter is written in F32";
    Low         conv1d_x_backward                (F, F, F, ConvOptions<1>) -> F;
    Low         conv1d_weight_backward           (F, F, F, ConvOptions<1>) -> Wide;
    Full        conv1d_bias_backward             (F, F, F) -> F;
    Low         conv2d                           (F, F, Option<F>, ConvOptions<2>) -> F
                by hand "its weight gradient is split among the cubes of a device, and that of an F32 parameter is written in F32";
    Low         conv2d_x_backward                (F, F, F, ConvOptions<2>) -> F;
    Low         conv2d_weight_backward           (F, F, F, ConvOptions<2>) -> Wide;
    Full        conv2d_bias_backward             (F, F, F) -> F;
    Internal    deform_conv2d                    (F, F, F, Option<F>, Option<F>, DeformConvOptions<2>) -> F;
    Internal    deform_conv2d_backward           (F, F, F, Option<F>, Option<F>, F, DeformConvOptions<2>)
                                                 -> DeformConv2dBackward;
    Low         conv3d                           (F, F, Option<F>, ConvOptions<3>) -> F
                by rule "`simulate` may round its operands";
    Low         conv3d_x_backward                (F, F, F, ConvOptions<3>) -> F;
    Low         conv3d_weight_backward           (F, F, F, ConvOptions<3>) -> Wide;
    Full        conv3d_bias_backward             (F, F, F) -> F;
    Low         conv_transpose1d                 (F, F, Option<F>, ConvTransposeOptions<1>) -> F
                by hand "a GPU adds the windows of its output in F32; its weight gradient is split among the cubes of a device, and that of an F32 parameter is written in F32";
    Low         conv_transpose1d_x_backward      (F, F, ConvTransposeOptions<1>) -> F;
    Low         conv_transpose1d_weight_backward (F, F, F, ConvTransposeOptions<1>) -> Wide;
    Full        conv_transpose1d_bias_backward   (F, F, F) -> F;
    Low         conv_transpose2d                 (F, F, Option<F>, ConvTransposeOptions<2>) -> F
                by hand "a GPU adds the windows of its output in F32; its weight gradient is split among the cubes of a device, and that of an F32 parameter is written in F32";
    Low         conv_transpose2d_x_backward      (F, F, ConvTransposeOptions<2>) -> F;
    Low         conv_transpose2d_weight_backward (F, F, F, ConvTransposeOptions<2>) -> Wide;
    Full        conv_transpose2d_bias_backward   (F, F, F) -> F;
    Low         conv_transpose3d                 (F, F, Option<F>, ConvTransposeOptions<3>) -> F;
    Low         conv_transpose3d_x_backward      (F, F, ConvTransposeOptions<3>) -> F;
    Low         conv_transpose3d_weight_backward (F, F, F, ConvTransposeOptions<3>) -> Wide;
    Full        conv_transpose3d_bias_backward   (F, F, F) -> F;
    Keep        unfold4d                         (F, [usize; 2], UnfoldOptions) -> F;
    Internal    avg_pool1d                       (F, usize, usize, usize, bool, bool) -> F;
    Internal    avg_pool1d_backward              (F, F, usize, usize, usize, bool, bool) -> F;
    Internal    avg_pool2d                       (F, [usize; 2], [usize; 2], [usize; 2], bool, bool) -> F;
    Internal    avg_pool2d_backward              (F, F, [usize; 2], [usize; 2], [usize; 2], bool, bool) -> F;
    Internal    adaptive_avg_pool2d              (F, [usize; 2]) -> F;
    Internal    adaptive_avg_pool2d_backward     (F, F) -> F;
    Internal    adaptive_avg_pool1d              (F, usize) -> F;
    Internal    adaptive_avg_pool1d_backward     (F, F) -> F;
    Keep        max_pool1d                       (F, usize, usize, usize, usize, bool) -> F
                by rule "a graph keeps the indices, and not the operand";
    #[cfg(not(burn_0_22))]
    Keep        max_pool1d_with_indices          (F, usize, usize, usize, usize, bool) -> MaxPool1dWithIndices;
    #[cfg(burn_0_22)]
    Keep        max_pool1d_with_indices          (F, usize, usize, usize, usize, bool, IntDType) -> MaxPool1dWithIndices;
    Widest      max_pool1d_with_indices_backward (F, usize, usize, usize, usize, bool, F, I) -> MaxPool1dBackward;
    Keep        max_pool2d                       (F, [usize; 2], [usize; 2], [usize; 2], [usize; 2], bool) -> F
                by rule "a graph keeps the indices, and not the operand";
    #[cfg(not(burn_0_22))]
    Keep        max_pool2d_with_indices          (F, [usize; 2], [usize; 2], [usize; 2], [usize; 2], bool)
                                                 -> MaxPool2dWithIndices;
    #[cfg(burn_0_22)]
    Keep        max_pool2d_with_indices          (F, [usize; 2], [usize; 2], [usize; 2], [usize; 2], bool, IntDType)
                                                 -> MaxPool2dWithIndices;
    #[cfg(burn_0_22)]
    Internal    adaptive_avg_pool3d              (F, [usize; 3]) -> F;
    #[cfg(burn_0_22)]
    Internal    adaptive_avg_pool3d_backward     (F, F) -> F;
    Widest      max_pool2d_with_indices_backward (F, [usize; 2], [usize; 2], [usize; 2], [usize; 2], bool, F, I)
                                                 -> MaxPool2dBackward;
    Full        interpolate                      (F, [usize; 2], InterpolateOptions) -> F;
    Full        interpolate_backward             (F, F, [usize; 2], InterpolateOptions) -> F;
    Low         attention                        (F, F, F, Option<Bool>, Option<F>, AttentionModuleOptions) -> F
                by hand "composed of Amp's own ops while a graph is recorded, or without a kernel, so that its softmax runs in F32";
    Internal    layer_norm                       (F, F, Option<F>, f64) -> F
                by hand "one kernel reads x as it is stored";
    Full        ctc_loss                         (F, I, I, I, usize) -> F;
    Pass        has_ctc_loss_backward            () -> bool;
    Full        ctc_loss_backward                (F, I, I, I, F, usize) -> F;
    #[cfg(not(burn_0_22))]
    Full        rfft                             (F, usize, Option<usize>) -> (F,F);
    #[cfg(not(burn_0_22))]
    Full        irfft                            (F, F, usize, Option<usize>) -> F;
} } } }

#[doc(hidden)]
#[macro_export]
macro_rules! activation_ops { ($($then:tt)*) => { $crate::read_rows! { [$($then)*] ActivationOps {
    Keep        leaky_relu                       (F, Scalar) -> F
                by rule "a scalar that the dtype of x would round acts in F32";
    Keep        relu                             (F) -> F
                by rule "that of images and of a residual block is stored as the images are; a graph keeps the result, or one bit per element";
    Keep        relu_backward                    (F, F) -> F;
    Internal    gelu                             (F) -> F
                by hand "one kernel reads x as it is stored";
    Low         prelu                            (F, F) -> F;
    Internal    gelu_backward                    (F, F) -> F;
    Keep        sigmoid                          (F) -> F
                by rule "a result in low precision remembers its operand";
    Keep        sigmoid_backward                 (F, F) -> F;
    Keep        hard_sigmoid                     (F, Scalar, Scalar) -> F;
    Full        log_sigmoid                      (F) -> F;
    Internal    softmax                          (F, usize) -> F
                by hand "one kernel reads x as it is stored, and a result in low precision remembers its operand";
    Full        log_softmax                      (F, usize) -> F
                by hand "one kernel reads x as it is stored";
    Full        softmin                          (F, usize) -> F;
    Full        log_sigmoid_backward             (F, F) -> F;
} } } }

#[doc(hidden)]
#[macro_export]
macro_rules! q_tensor_ops { ($($then:tt)*) => { $crate::read_rows! { [$($then)*] QTensorOps {
    Pass        q_from_data                      (TensorData, &Device) -> Q;
    Full        quantize                         (F, &QuantScheme, QuantizationParametersPrimitive) -> Q;
    Full        quantize_dynamic                 (F, &QuantScheme) -> Q;
    Pass        dequantize                       (Q, FloatDType) -> F;
    #[cfg(not(burn_0_22))]
    Pass        q_device                         (&Q) -> Device;
    Pass        q_to_device                      (Q, &Device) -> Q;
    Pass        q_reshape                        (Q, Shape) -> Q;
    Pass        q_into_data                      async (Q) -> Result<TensorData, ExecutionError>;
    Pass        q_detach                         (Q) -> Q;
    Pass        q_set_require_grad               (Q, bool) -> Q;
    Pass        q_is_require_grad                (&Q) -> bool;
    Pass        q_expand                         (Q, Shape) -> Q;
    Pass        q_transpose                      (Q) -> Q;
    Pass        q_swap_dims                      (Q, usize, usize) -> Q;
    Pass        q_permute                        (Q, &[usize]) -> Q;
    Pass        q_flip                           (Q, &[usize]) -> Q;
    Pass        q_select                         (Q, usize, I) -> Q;
    Pass        q_slice                          (Q, &[Slice]) -> Q;
    Pass        q_gather                         (usize, Q, I) -> Q;
    Pass        q_repeat_dim                     (Q, usize, usize) -> Q;
    Pass        q_add                            (Q, Q) -> Primitive;
    Pass        q_add_scalar                     (Q, Scalar) -> Primitive;
    Pass        q_clamp_min                      (Q, Scalar) -> Primitive;
    Pass        q_clamp_max                      (Q, Scalar) -> Primitive;
    Pass        q_clamp                          (Q, Scalar, Scalar) -> Primitive;
    Pass        q_sub                            (Q, Q) -> Primitive;
    Pass        q_sub_scalar                     (Q, Scalar) -> Primitive;
    Pass        q_mul                            (Q, Q) -> Primitive;
    Pass        q_mul_scalar                     (Q, Scalar) -> Primitive;
    Pass        q_div                            (Q, Q) -> Primitive;
    Pass        q_div_scalar                     (Q, Scalar) -> Primitive;
    Pass        q_matmul                         (Primitive, Primitive) -> Primitive
                by hand "its operands may be float or quantized";
    Pass        q_neg                            (Q) -> Primitive;
    Pass        q_recip                          (Q) -> Primitive;
    Pass        q_sum                            (Q) -> Primitive;
    Pass        q_sum_dim                        (Q, usize) -> Primitive;
    Pass        q_prod                           (Q) -> Primitive;
    Pass        q_prod_dim                       (Q, usize) -> Primitive;
    Pass        q_mean                           (Q) -> Primitive;
    Pass        q_mean_dim                       (Q, usize) -> Primitive;
    Pass        q_cumsum                         (Q, usize) -> Primitive;
    Pass        q_cumprod                        (Q, usize) -> Primitive;
    Pass        q_cummin                         (Q, usize) -> Primitive;
    Pass        q_cummax                         (Q, usize) -> Primitive;
    Pass        q_exp                            (Q) -> Primitive;
    Pass        q_log                            (Q) -> Primitive;
    Pass        q_log1p                          (Q) -> Primitive;
    Pass        q_powf                           (Q, Q) -> Primitive;
    Pass        q_powi                           (Q, I) -> Primitive;
    Pass        q_powi_scalar                    (Q, Scalar) -> Primitive;
    Pass        q_powf_scalar                    (Q, Scalar) -> Primitive;
    Pass        q_sqrt                           (Q) -> Primitive;
    Pass        q_abs                            (Q) -> Q;
    Pass        q_cos                            (Q) -> Primitive;
    Pass        q_sin                            (Q) -> Primitive;
    Pass        q_tan                            (Q) -> Primitive;
    Pass        q_cosh                           (Q) -> Primitive;
    Pass        q_sinh                           (Q) -> Primitive;
    Pass        q_tanh                           (Q) -> Primitive;
    Pass        q_erf                            (Q) -> Primitive;
    Pass        q_cat                            (Vec<Q>, usize) -> Q;
    Pass        q_argmax                         (Q, usize, IntDType) -> I;
    Pass        q_argtopk                        (Q, usize, usize, IntDType) -> I;
    Pass        q_topk                           (Q, usize, usize) -> Q;
    Pass        q_argmin                         (Q, usize, IntDType) -> I;
    Pass        q_max                            (Q) -> Q;
    Pass        q_max_dim                        (Q, usize) -> Q;
    Pass        q_max_dim_with_indices           (Q, usize, IntDType) -> (Q,I);
    Pass        q_min                            (Q) -> Q;
    Pass        q_min_dim                        (Q, usize) -> Q;
    Pass        q_min_dim_with_indices           (Q, usize, IntDType) -> (Q,I);
    Pass        q_max_abs                        (Q) -> Q;
    Pass        q_max_abs_dim                    (Q, usize) -> Q;
    Pass        q_any                            (Q, BoolDType) -> Bool;
    Pass        q_any_dim                        (Q, usize, BoolDType) -> Bool;
    Pass        q_all                            (Q, BoolDType) -> Bool;
    Pass        q_all_dim                        (Q, usize, BoolDType) -> Bool;
    Pass        q_sort                           (Q, usize, bool) -> Q;
    Pass        q_sort_with_indices              (Q, usize, bool, IntDType) -> (Q,I);
    Pass        q_argsort                        (Q, usize, bool, IntDType) -> I;
} } } }

#[doc(hidden)]
#[macro_export]
macro_rules! transaction_ops { ($($then:tt)*) => { $crate::read_rows! { [$($then)*] TransactionOps {
    Pass        tr_execute                       async (TransactionPrimitive)
                                                 -> Result<TransactionPrimitiveData, ExecutionError>
                by hand "the data of every float tensor has its logical dtype";
} } } }
