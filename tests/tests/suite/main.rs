//! One binary, because every test binary compiles most of Burn and all kernels anew. `warnings.rs` is another one: its
//! warnings are given once per process.
//!
//! * [`laws`]: what holds for every op of the table
//! * [`trace`]: what reaches the plain backend
//! * [`training`], [`overflow`]: training steps, bit for bit
//! * [`backward_pass`]: what a backward pass may be run on, and what it leaves behind; `long_runs`: thousands of them
//! * [`models`], [`master_weights`], [`presets`], [`scenarios`], [`optimizers`], [`reads`], [`custom_op`]: what users do
//! * [`skip_on_device`]: steps skipped without the host; [`effective_batch`]: which steps are skipped
//! * [`amp_optimizer`]: one optimizer under every policy, and its parts in every order
//! * [`grad_scaler`], [`loss_scale_optimizer`], [`ranks`], [`resume`]: loss scaling by hand, across devices and in checkpoints
//! * [`policy`]: what is in force
//! * [`kernels`]: the ops of burn-amp-kernels
//!
//! Tests take turns (`RUST_TEST_THREADS` in `.cargo/config.toml`): random numbers come from one generator per process,
//! and an observer sees every thread.

mod amp_optimizer;
mod backward_pass;
mod custom_op;
mod effective_batch;
mod grad_scaler;
mod kernels;
mod laws;
// On a software driver, thousands of steps take minutes and measure the driver.
#[cfg(not(feature = "cubecl"))]
mod long_runs;
mod loss_scale_optimizer;
mod master_weights;
mod models;
mod optimizers;
mod overflow;
mod policy;
mod presets;
mod ranks;
mod reads;
mod resume;
mod scenarios;
mod skip_on_device;
mod trace;
mod training;
