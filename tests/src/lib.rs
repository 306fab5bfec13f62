//! Code that the integration tests share: the backend under test, policies, cases and models.
//!
//! Without features the suites run on Flex, which computes in BF16 and F16. The feature `vulkan` selects Vulkan, where
//! a software driver has F16 only; `cuda` selects CUDA, which has both; `fusion` adds Fusion to either.

// The book's examples name Flex, so they run once, with the suite on Flex.
#[cfg(all(doctest, not(feature = "cubecl")))]
mod book;
pub mod cases;
mod in_force;
pub mod models;
pub mod near;
pub mod net;
mod one_by_one;
pub mod prelude;
pub mod random;
mod short;
pub mod trace;
pub mod warnings;

pub use in_force::{Guard, InForce, enter, enter_config, within};
pub use one_by_one::OneByOne;

pub use burn_amp::config::{
    Compute, Config, ConfigError, ConfigSource, DynamicLossScale, LossScaleConfig, LossScaleMode,
};

#[cfg(not(feature = "cubecl"))]
mod backend {
    pub type Plain = burn::backend::Flex;
}

#[cfg(all(feature = "cuda", feature = "fusion"))]
mod backend {
    pub type Plain = burn::backend::Cuda;
}

#[cfg(all(feature = "cuda", not(feature = "fusion")))]
mod backend {
    use burn_cubecl::{CubeBackend, cubecl::cuda::CudaRuntime};

    pub type Plain = CubeBackend<CudaRuntime, f32, i32, u8>;
}

#[cfg(all(feature = "vulkan", feature = "fusion"))]
mod backend {
    pub type Plain = burn::backend::Vulkan;
}

#[cfg(all(feature = "vulkan", not(feature = "fusion")))]
mod backend {
    use burn::backend::wgpu::{CubeBackend, WgpuRuntime};

    pub type Plain = CubeBackend<WgpuRuntime, f32, i32, u8>;
}

/// The plain backend under test.
pub use backend::Plain;

/// The plain backend without its kernels: it computes their references.
pub type References = instrumented::Instrumented<Plain, ()>;
/// The plain backend with Burn's own autodiff.
pub type PlainAutodiff = burn::backend::Autodiff<Plain>;
/// The backend whose results in F32 those in low precision are compared with: the plain one; but CUDA's matrix units round
/// F32 operands to the 11 bits of TF32, as many as F16 has.
#[cfg(not(feature = "cuda"))]
pub type ReferenceAutodiff = PlainAutodiff;
#[cfg(feature = "cuda")]
pub type ReferenceAutodiff = burn::backend::Autodiff<burn::backend::Flex>;
/// The backend for inference under the policy in force: one type for all policies, see [`enter`].
pub type Amp = burn_amp::Amp<Plain, InForce>;
/// The backend for training under the policy in force, see [`enter`].
pub type AmpAutodiff = burn_amp::Autodiff<Amp>;

/// A type of its own for each policy, in test binaries with few of them.
pub mod apart {
    /// The backend for inference under the policy `P`.
    pub type Amp<P> = burn_amp::Amp<super::Plain, P>;
    /// The backend for training under the policy `P`.
    pub type AmpAutodiff<P> = burn_amp::Autodiff<Amp<P>>;
}

/// Declares a type that implements `ConfigSource`: `policy!(InBf16, Config { .. })`.
#[macro_export]
macro_rules! policy {
    ($(#[$doc:meta])* $name:ident, $config:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $name;

        impl $crate::ConfigSource for $name {
            fn config() -> Result<$crate::Config, $crate::ConfigError> {
                Ok($config)
            }
        }
    };
}

/// A configuration with changes: `changed(Config::default(), |it| it.preset = Preset::O0)`.
pub fn changed(mut config: Config, change: impl FnOnce(&mut Config)) -> Config {
    change(&mut config);
    config
}

/// The default configuration with compute dtype `compute`.
pub fn computing_in(compute: Compute) -> Config {
    changed(Config::default(), |it| it.compute = compute)
}

/// The default configuration in F16, with changes.
pub fn in_f16(change: impl FnOnce(&mut Config)) -> Config {
    changed(computing_in(Compute::F16), change)
}

/// The default configuration in BF16, with changes.
pub fn in_bf16(change: impl FnOnce(&mut Config)) -> Config {
    changed(computing_in(Compute::Bf16), change)
}

/// The default configuration with compute dtype `compute` and loss scaling mode `mode`.
pub fn scaling(compute: Compute, mode: LossScaleMode) -> Config {
    changed(computing_in(compute), |it| it.loss_scale.mode = mode)
}

policy!(
    /// Preset `o1` in BF16, without loss scaling.
    InBf16,
    computing_in(Compute::Bf16)
);
policy!(
    /// Preset `o1` in F16, with dynamic loss scaling from 65536 on: with the search for the first scale, the results of
    /// the first passes would depend on how many tests ran before.
    InF16,
    in_f16(|it| it.loss_scale.rule.search = false)
);
policy!(
    /// Preset `o1` in F16, without loss scaling.
    UnscaledF16,
    scaling(Compute::F16, LossScaleMode::Off)
);

/// Puts a configuration in force, in a context that no other use of this macro shares: each has a closure of its own.
///
/// `let _policy = enter_config!(in_f16(|it| ..));`
#[macro_export]
macro_rules! enter_config {
    ($config:expr) => {
        $crate::enter_config(|| $config)
    };
}

/// Calls a function under each policy: `under_each!(trains, InBf16, UnscaledF16)`. What a failed test prints ends with its
/// policy. Those in BF16 are left out where the backend under test does not compute in it.
#[macro_export]
macro_rules! under_each {
    ($function:expr, $($policy:ty),+) => {
        $($crate::under::<$policy>(stringify!($policy), $function);)+
    };
}

/// Calls a function under one policy, as `under_each!` does.
pub fn under<P: ConfigSource>(name: &str, function: impl FnOnce()) {
    let compute = P::config().expect("the tests' policies are valid").compute;
    if cfg!(feature = "vulkan") && compute == Compute::Bf16 {
        return;
    }
    println!("under {name}");
    within::<P, _>(function);
}

/// Calls a function for each low precision that the backend under test computes in.
#[macro_export]
macro_rules! for_each_low_policy {
    ($function:expr) => {
        $crate::under_each!($function, $crate::InBf16, $crate::InF16)
    };
}
