//! A scope in which every op runs in F32.

use std::cell::Cell;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Runs `f` with every op on this thread in F32, whatever the policy says. PyTorch: `autocast(enabled=False)`.
///
/// An op in the scope casts operands that are stored in low precision to F32 and stores its result in F32; an op after
/// the scope may lower that again. The backward pass of these ops runs in F32 too. F64 stays F64. Scopes nest.
///
/// ```
/// # use burn::{backend::Flex, tensor::{Tensor, DType}};
/// # struct InBf16;
/// # impl burn_amp::config::ConfigSource for InBf16 {
/// #     fn config() -> Result<burn_amp::config::Config, burn_amp::config::ConfigError> {
/// #         Ok(burn_amp::config::Config { compute: burn_amp::config::Compute::Bf16, ..Default::default() })
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
#[doc(alias("autocast", "disable_autocast"))]
pub fn full_precision<T>(f: impl FnOnce() -> T) -> T {
    DEPTH.set(DEPTH.get() + 1);
    scopeguard::defer!(DEPTH.set(DEPTH.get() - 1));
    f()
}

/// Whether this thread is inside [`full_precision`].
#[inline]
pub(crate) fn is_full_precision() -> bool {
    DEPTH.get() > 0
}
