//! Random programs, what they should compute, and how a wrong one is shrunk and printed.

pub mod bound;
pub mod by_hand;
pub mod elementwise;
pub mod generate;
pub mod layers;
pub mod literal;
pub mod model;
mod motif;
pub mod movement;
pub mod oracle;
pub mod print;
pub mod printed;
pub mod program;
mod propose;
pub mod reduction;
pub mod rng;
pub mod run;
pub mod setting;
pub mod shape;
pub mod shrink;
pub mod subject;
pub mod table;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A backend has one generator of random numbers per process; who seeds it and draws from it holds this.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
