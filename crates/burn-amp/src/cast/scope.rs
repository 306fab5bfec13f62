//! A scope in which the policy is off.

use std::cell::Cell;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Runs `f` with every op in F32 on this thread, whatever the policy says; scopes nest.
///
/// Tensors stored low are cast up where an op uses them. What is computed in the scope is stored in F32 until an op
/// outside lowers it again. The backward pass of these ops runs in F32 too.
///
/// ```
/// # use burn::{backend::Flex, tensor::{Tensor, DType}};
/// # struct InBf16;
/// # impl burn_amp::PolicySource for InBf16 {
/// #     fn config() -> Result<burn_amp::Config, burn_amp::ConfigError> {
/// #         Ok(burn_amp::Config { compute: burn_amp::Compute::Bf16, ..Default::default() })
/// #     }
/// # }
/// type B = burn_amp::Amp<Flex, InBf16>;
///
/// let x = Tensor::<B, 2>::ones([2, 2], &Default::default());
/// let low = x.clone().matmul(x.clone());
/// let full = burn_amp::full_precision(|| x.clone().matmul(x));
/// assert_eq!(burn_amp::storage_dtype(&low), DType::BF16);
/// assert_eq!(burn_amp::storage_dtype(&full), DType::F32);
/// ```
pub fn full_precision<T>(f: impl FnOnce() -> T) -> T {
    /// Leaves the scope, also when `f` panics.
    struct Leave;

    impl Drop for Leave {
        fn drop(&mut self) {
            DEPTH.set(DEPTH.get() - 1);
        }
    }

    DEPTH.set(DEPTH.get() + 1);
    let _leave = Leave;
    f()
}

#[inline]
pub(crate) fn is_full_precision() -> bool {
    DEPTH.get() > 0
}
