//! Data-parallel training: either all ranks skip a step, or none does.
//!
//! A *rank* is one of the workers that train replicas of a model, each on its own batch; their gradients are averaged
//! before the step. If gradients overflow on one rank, no rank may step: `all_reduce` waits for every rank, and the
//! replicas must stay equal. So a rank that has [`join`]ed asks the others inside `backward()`, before the scale moves:
//! either all ranks get gradients, or none does.
//!
//! ```text
//! backward() on each rank:  scale → Burn's backward pass → local found_inf → Ranks::any → the scale moves, once
//! ```

use std::{cell::RefCell, collections::HashMap, marker::PhantomData, sync::Arc};

use burn_backend::Backend;

use crate::{
    backend::Amped,
    loss_scale::{Decision, Scaling},
    policy::Context,
};

/// The channel through which the ranks of a data-parallel run agree whether to skip a step.
///
/// `Collective` (feature `collective`) uses Burn's all-reduce. Implement the trait for any other transport.
pub trait Ranks {
    /// Returns whether `found_inf` is true on any rank. Each rank calls it once per scaled backward pass.
    ///
    /// # Errors
    ///
    /// Returns an error if the other ranks cannot be reached; `backward()` panics with the error, because it can
    /// neither step nor skip.
    fn any(&self, found_inf: bool) -> Result<bool, RanksError>;
}

/// The error of [`Ranks::any`]: the ranks could not agree. The text is the reason.
#[derive(Debug, thiserror::Error)]
#[error("the ranks could not agree on whether gradients overflowed: {0}")]
pub struct RanksError(pub String);

/// This thread's membership in a data-parallel run.
struct Member {
    ranks: Arc<dyn Ranks>,
    /// The number of scaled backward passes of this rank. Ranks that share a device share its scale, and one of them
    /// moves it.
    passes: u64,
    /// The address of the loss scale that counts these passes as its rounds.
    scaling: usize,
}

thread_local! {
    /// The memberships of this thread, by the address of the device's context, which is never freed.
    static MEMBERS: RefCell<HashMap<usize, Member>> = RefCell::new(HashMap::new());
}

/// A thread's membership in a data-parallel run; dropping it leaves the run.
#[must_use = "the thread leaves the ranks when this is dropped"]
pub struct Membership {
    context: usize,
    /// Keeps the membership on the thread that joined.
    _thread: PhantomData<*const ()>,
}

/// Makes this thread one of `ranks` for the backward passes of backend `A` on `device`.
///
/// From then on every scaled backward pass on this thread waits for one on each of the other ranks.
///
/// # Panics
///
/// Panics if no policy is in force yet and the configuration is wrong; see
/// [`effective_config`](crate::effective_config).
pub fn join<A: Amped>(device: &A::Device, ranks: impl Ranks + 'static) -> Membership {
    let context = Context::<A::Plain>::of::<A::Source>(device);
    let scaling = context.scaling();
    let member = Member {
        ranks: Arc::new(ranks),
        passes: scaling.host.state().rounds,
        scaling: address(scaling),
    };
    let context = address(context);
    MEMBERS.with_borrow_mut(|members| members.insert(context, member));
    Membership {
        context,
        _thread: PhantomData,
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        MEMBERS.with_borrow_mut(|members| members.remove(&self.context));
    }
}

/// Whether this thread is a rank.
pub(crate) fn has_joined<B: Backend>(context: &'static Context<B>) -> bool {
    MEMBERS.with_borrow(|members| members.contains_key(&address(context)))
}

/// Asks the other ranks, if this thread has joined any. `scaling` is the loss scale of the pass.
///
/// # Panics
///
/// Panics if the ranks cannot be reached.
pub(crate) fn decide<B: Backend>(
    context: &'static Context<B>,
    scaling: &'static Scaling<B>,
    found_inf: bool,
) -> Decision {
    let member = MEMBERS.with_borrow_mut(|members| {
        let member = members.get_mut(&address(context))?;
        if member.scaling != address(scaling) {
            // Since it joined, the thread has been given a loss scale of its own, or has given it up.
            member.scaling = address(scaling);
            member.passes = scaling.host.state().rounds;
        }
        member.passes += 1;
        Some((member.ranks.clone(), member.passes - 1))
    });
    match member {
        None => Decision::alone(found_inf),
        Some((ranks, round)) => Decision {
            found_inf: ranks
                .any(found_inf)
                .unwrap_or_else(|error| panic!("{error}")),
            round: Some(round),
        },
    }
}

fn address<T>(of: &'static T) -> usize {
    std::ptr::from_ref(of).addr()
}
