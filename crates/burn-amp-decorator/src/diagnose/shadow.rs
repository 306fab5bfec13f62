//! Compares each op with the same op in F32 or F64.

use std::{fmt, sync::Arc};

use burn_amp_core::{Precision, shadow::ShadowReport};

use crate::cast::shadow::{self, Comparison};

/// Compares the ops of all threads and policies with F32 until [`finish`](Shadowing::finish): each op with a float result
/// runs once more in F32, on the same operands.
///
/// * An op that the policy runs in F32 has no error, or one of rounding its result.
/// * A comparison reads operands and results to the host, so a step takes many times as long.
/// * Of the backward pass, `compare_gradients` says how far it is from F32.
///
/// ```
/// # use burn::{backend::Flex, tensor::Tensor};
/// # use burn_amp::config::{Compute, Config, ConfigError, ConfigSource};
/// # struct InBf16;
/// # impl ConfigSource for InBf16 {
/// #     fn config() -> Result<Config, ConfigError> {
/// #         Ok(Config { compute: Compute::Bf16, ..Default::default() })
/// #     }
/// # }
/// type B = burn_amp::Autodiff<burn_amp::Amp<Flex, InBf16>>;
///
/// let x = Tensor::<B, 2>::full([4, 4], 0.3, &Default::default());
/// let shadowing = burn_amp::diagnose::shadow();
/// x.clone().matmul(x).sum().backward();
/// let report = shadowing.finish();
/// assert_eq!(report.first_above(1e-3).unwrap().op, "float_matmul");
/// assert_eq!(report.first_above(1e-2), None);
/// println!("{report}");
/// ```
pub fn shadow() -> Shadowing {
    Shadowing::with(Precision::F32)
}

/// Compares ops as [`shadow`] does, with F64: of an op in F32 it says how far F32 itself is from the truth.
///
/// The device must compute in F64.
///
/// ```
/// # use burn::{backend::Flex, tensor::Tensor};
/// type B = burn_amp::Amp<Flex>;
///
/// let x = Tensor::<B, 2>::full([4, 4], 0.3, &Default::default());
/// let shadowing = burn_amp::diagnose::shadow_in_f64();
/// let _ = burn_amp::full_precision(|| x.exp());
/// let report = shadowing.finish();
/// let worst = report.ops[0].worst;
/// assert!(worst > 0.0 && worst < f64::from(f32::EPSILON), "{worst}");
/// ```
pub fn shadow_in_f64() -> Shadowing {
    Shadowing::with(Precision::F64)
}

/// A comparison under way; see [`shadow`]. Dropping it ends the comparison.
pub struct Shadowing(Comparison);

impl Shadowing {
    fn with(dtype: Precision) -> Self {
        let comparison = Comparison {
            with: dtype,
            report: Arc::default(),
        };
        shadow::add(comparison.clone());
        Self(comparison)
    }

    /// Ends the comparison and returns what it has found.
    pub fn finish(self) -> ShadowReport {
        std::mem::take(&mut *self.0.report.lock())
    }
}

impl Drop for Shadowing {
    fn drop(&mut self) {
        shadow::remove(&self.0);
    }
}

impl fmt::Debug for Shadowing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shadowing")
    }
}
