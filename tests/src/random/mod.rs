//! Random programs, what they should compute, and how a wrong one is shrunk and printed.
//!
//! A [`program`] is data: leaves, layers and steps, whose ops are rows of three tables. [`generate`] makes it from a
//! seed, [`run`] runs it on any backend, [`oracle`] says what it should compute, [`shrink`] makes a wrong one small,
//! and [`mod@print`] writes it as Rust.
//!
//! * [`table`], [`elementwise`], [`movement`], [`reduction`]: the ops, each with its shape rule ([`shape`]) and its
//!   code
//! * [`layers`], `draw`: layers of burn-nn; [`model`]: the parameters of a program as a module. For Burn 0.22, whose modules have
//!   no backend type, `burn-0.22/tests/src/random` has both, and [`subject`], in its own way
//! * `propose`, `motif`: what the generator chooses from; [`limits`]: how large programs may be
//! * [`subject`]: the backends; [`by_hand`]: the one that rounds where the policy casts
//! * [`outcome`], [`bound`]: what a program computed, and by how much it may be off
//! * [`rng`], [`setting`], [`literal`], [`printed`], `uses`: what the others share
//!
//! The oracles:
//!
//! 1. Preset `o0` computes the bits of plain Burn; on CubeCL, which does not repeat bits, 2. in F32.
//! 2. In low precision each result is as near to the exact one, which is computed in F64, as those of casts by hand
//!    are: in F64, with each operand and result rounded where the policy casts it, to the nearest and a few times to a
//!    neighbour by chance. Nothing is deferred there.
//! 3. A second run, beside other threads or with an unrelated backward pass in between, computes the same bits, but on
//!    CubeCL.
//! 4. [`alike`]: each call of a pass, compared with Flex by itself as `burn-amp replay` does, differs by no more than its dtype
//!    allows.

#[cfg(not(burn_0_22))]
pub mod alike;
pub mod bound;
pub mod by_hand;
#[cfg(not(burn_0_22))]
mod draw;
pub mod elementwise;
pub mod generate;
pub mod layers;
pub mod limits;
pub mod literal;
#[cfg_attr(burn_0_22, path = "../../../burn-0.22/tests/src/random/model.rs")]
pub mod model;
mod motif;
pub mod movement;
pub mod oracle;
pub mod outcome;
pub mod print;
pub mod printed;
pub mod program;
mod propose;
pub mod reduction;
pub mod rng;
pub mod run;
#[cfg(not(burn_0_22))]
pub mod saved;
pub mod setting;
pub mod shape;
pub mod shrink;
#[cfg_attr(burn_0_22, path = "../../../burn-0.22/tests/src/random/subject.rs")]
pub mod subject;
pub mod table;
mod uses;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// What most of these files name.
mod all {
    pub(super) use super::{
        elementwise::Elementwise,
        generate::Growing,
        layers::{Layer, LayerSpec},
        limits::Limits,
        literal::Literal,
        model::{LEARNING_RATE, Model, Stepper},
        movement::Movement,
        oracle::{Failure, Verdict, caught},
        outcome::{Circumstances, Outcome},
        program::{Leaf, LeafKind, Op, Optimizer, Program, Read, Step, leaf_seed, values},
        reduction::Reduction,
        rng::Rng,
        run::{data, run},
        setting::{Mask, Setting},
        shape::Shape,
        subject::{OnByHand, OnPlain, Subject, Tested, Under},
        table::{Text, table},
        uses::{is_last, last_uses},
    };
    pub(super) use burn_amp_kernels::names::{self, shape_of};

    pub(super) use crate::prelude::*;
}

/// A backend has one generator of random numbers per process; who seeds it and draws from it holds this.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
