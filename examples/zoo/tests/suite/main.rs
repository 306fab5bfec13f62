//! The zoo as a whole, in one binary: compiling Burn's generic code is what the tests' time goes into.
//!
//! * [`parameters`]: as many as in the published models
//! * [`shapes`]: of what the models return
//! * [`training`]: each model in each precision
//! * [`twins`]: the same loss as PyTorch's from the same weights

mod parameters;
mod shapes;
mod training;
mod twins;
