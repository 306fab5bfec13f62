//! The test suite. It is one binary, because every test binary compiles most of Burn and all kernels again. Tests that
//! need a process of their own, such as `warnings`, are separate binaries.
//!
//! * [`laws`]: properties of every op of the table; [`kinds`]: every kind of tensor, read in every way
//! * [`half_tensors`]: tensors that the user stores in half precision
//! * [`saturation`]: softmax, sigmoid and tanh where F32 is needed of them
//! * [`products`]: products in F16 that are read in F32
//! * [`filled`]: constants that are joined with tensors in low precision
//! * [`concatenation`]: tensors in F32 and in low precision that are joined
//! * [`scalars`]: scalar operands of tensors in low precision
//! * [`summed_gradients`]: gradients with many terms
//! * [`cuts`]: what `require_grad`, `detach` and `sign` make of a tensor; `outside_policy`: code that is not lowered
//! * [`recomputation`], [`shared_casts`], [`saved`]: what a graph keeps, and what it casts once
//! * [`shared_weights`]: weights that are used several times in a pass
//! * [`trace`]: the calls that reach the plain backend
//! * [`training`], [`overflow`]: training steps, bit for bit
//! * [`names`]: the parameters in reports of skipped steps
//! * [`first_scale`], [`floor`], [`own_loss_scale`]: how the loss scale begins, how far it falls, and whose it is;
//!   [`single_gradients`]: programs that read gradients one by one
//! * [`backward_pass`]: graphs that a backward pass accepts or refuses, and facts that end with a graph; `long_runs`:
//!   thousands of steps
//! * [`models`], [`master_weights`], [`presets`], [`scenarios`], [`optimizers`], [`reads`], [`custom_op`]: uses of the
//!   crate, as in programs
//! * [`norms`]: chains of sums and products on a tensor in low precision; [`reshaped`]: their statistics
//! * [`skip_on_device`]: steps skipped without the host; [`effective_batch`]: which steps an overflow skips
//! * [`optimizer_state`]: what an optimizer computes from its state alone
//! * [`list_optimizer`]: the optimizer that steps all parameters together, and its files
//! * [`amp_optimizer`]: one optimizer under every policy, and its parts in every order
//! * [`grad_scaler`], [`loss_scale_optimizer`], [`ranks`], [`resume`]: loss scaling by hand, in a `Learner`, on several
//!   devices and in checkpoints
//! * [`diagnosed`]: calls after a diagnosis has ended
//! * [`outliers`]: steps skipped by the norm of their gradients
//! * [`parameters`]: ops that run as a parameter says
//! * [`policy`]: the policy in force
//! * [`random`]: random programs
//! * `kernels`: the ops of burn-amp-kernels
//!
//! Tests run one at a time (`RUST_TEST_THREADS` in `.cargo/config.toml`), because random numbers come from one
//! generator per process and an observer sees every thread.

mod amp_optimizer;
mod backward_pass;
mod concatenation;
mod custom_op;
mod cuts;
// Those of the kernels of a backend; Fusion has others.
#[cfg(all(feature = "cubecl", not(feature = "fusion")))]
mod defects;
mod diagnosed;
mod effective_batch;
mod filled;
mod first_scale;
mod floor;
mod grad_scaler;
mod half_tensors;
mod health;
mod images;
// The test command runs them on the CPU and with CUDA's source. They are a quarter of the code.
#[cfg(not(all(feature = "vulkan", feature = "fusion")))]
mod kernels;
mod kinds;
mod laws;
mod list_optimizer;
// On a software driver, thousands of steps take minutes and measure the driver.
#[cfg(not(feature = "cubecl"))]
mod long_runs;
mod loss_scale_optimizer;
mod master_weights;
mod models;
mod names;
mod norms;
mod optimizer_state;
mod optimizers;
mod outliers;
// Bits are compared, and Fusion's kernels round differently.
#[cfg(not(feature = "fusion"))]
mod outside_policy;
mod overflow;
mod own_loss_scale;
mod parameters;
mod policy;
mod presets;
mod products;
mod random;
mod ranks;
mod reads;
mod recipes;
mod recomputation;
mod reshaped;
mod resume;
mod saturation;
mod saved;
mod scalars;
mod scenarios;
mod scores;
mod shared_casts;
mod shared_weights;
mod simulated;
mod single_gradients;
mod skip_on_device;
mod squares_in_gradients;
mod summed_gradients;
mod trace;
mod training;
