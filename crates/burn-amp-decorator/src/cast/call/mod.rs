//! One call of an op: look at the operands, let the policy decide the dtypes, cast, wrap the result.
//!
//! ```text
//! let mut call = Call::<B>::new::<G>(Op::float_matmul);
//! call.float(&lhs);
//! call.float(&rhs);
//! let call = call.decide();
//! call.result(G::Inner::float_matmul(call.cast(lhs), call.cast(rhs)))
//! ```
//!
//! * [`decided`]: the second half, from the casts on

mod decided;

use std::{borrow::Borrow, sync::Arc};

use burn_amp_core::{Casts, Class, Op, Operands, Precision, scalar};
use burn_amp_kernels::{AmpBackend, saved};
use burn_backend::{
    Scalar,
    tensor::{BoolTensor, Device, IntTensor},
};

use super::{callee::Callee, parameters, recompute::Chain, scope, watch::Watch};
use crate::{
    graph::{Graph, Origin},
    loss_scale::Passes,
    policy::{ConfigSource, Context},
    tensor::AmpTensor,
    warn,
};

pub(crate) use decided::Decided;

/// A call whose operands are being looked at.
pub(crate) struct Call<B: AmpBackend> {
    callee: Callee,
    /// What the policy needs to know about the operands. Until the call is decided, only gradients set `exact`, and a
    /// scope of full precision does not.
    operands: Operands,
    /// The highest graph level among the operands: their distance from the leaves, the parameters. 0 where nothing is
    /// lowered.
    level: usize,
    /// The unsettled backward passes of operands that are gradients, see [`Passes`].
    passes: Passes<B>,
    /// What the operands say about recomputing the result; unused where nothing is recorded or lowered.
    chain: Chain,
    /// Whether the storage dtype of the float operands would round a scalar operand.
    rounds_scalar: bool,
    /// The class that `[parameters]` gives to the call, by a parameter among the operands.
    class_by_parameter: Option<Class>,
    /// The parameter of which the result is a view.
    view_of: Option<Arc<Origin>>,
    /// The policy of the operands; `None` as long as no float operand or device is known.
    context: Option<&'static Context<B>>,
    /// Sees the call, if somebody watches.
    watch: Watch,
}

impl<B: AmpBackend> Call<B> {
    /// Begins a call of an op of the table.
    #[inline]
    pub(crate) fn new<G: Graph<B>>(op: Op) -> Self {
        if !G::RECORDS && op.is_backward() {
            warn::of_inner_order(op);
        }
        Self::of(Callee::Op(op))
    }

    /// Begins a call of an op that is not in the table.
    pub(crate) fn custom(class: Class) -> Self {
        Self::of(Callee::Custom(class))
    }

    #[inline]
    fn of(callee: Callee) -> Self {
        Self {
            callee,
            operands: Operands::default(),
            level: 0,
            passes: Passes::none(),
            chain: Chain::default(),
            rounds_scalar: false,
            class_by_parameter: None,
            view_of: None,
            context: None,
            watch: Watch::begin(callee),
        }
    }

    /// Adds a float operand.
    #[inline]
    pub(crate) fn float<G: Graph<B>>(&mut self, tensor: &AmpTensor<B, G>) {
        let stored = self.callee.stored(tensor);
        self.operands = self.operands.and(stored, tensor.logical);
        self.join(tensor);
    }

    /// Adds an operand that is filled with one number, after the operands whose values the op moves. The number is exact
    /// in the compute dtype, so it is cast to that dtype and does not widen them.
    pub(crate) fn filled<G: Graph<B>>(&mut self, tensor: &AmpTensor<B, G>) {
        if self.operands.widest == Some(tensor.context.policy.compute()) {
            self.zeros_and_ones(tensor);
        } else {
            self.float(tensor);
        }
    }

    /// Adds an F32 operand of one element, after a larger operand in low precision.
    pub(crate) fn one_element<G: Graph<B>>(&mut self, tensor: &AmpTensor<B, G>) {
        self.operands = match self.operands.widest {
            Some(widest) if widest.is_low() => self.operands.and_one_element(tensor.logical),
            _ => self.operands.and(Precision::F32, tensor.logical),
        };
        self.join(tensor);
    }

    /// Adds a float operand of zeros and ones, after the operands that it multiplies.
    pub(crate) fn zeros_and_ones<G: Graph<B>>(&mut self, tensor: &AmpTensor<B, G>) {
        let stored = tensor.stored();
        self.operands = self.operands.and_zeros_and_ones(stored, tensor.logical);
        self.join(tensor);
    }

    #[inline]
    fn join<G: Graph<B>>(&mut self, tensor: &AmpTensor<B, G>) {
        if let Some(passes) = tensor.role.gradient() {
            self.operands.exact = true;
            self.passes.join(passes);
        }
        if tensor.context.policy.compute().is_low() {
            self.join_lowered(tensor);
        }
        self.context.get_or_insert(tensor.context);
        self.watch.operand(tensor);
    }

    /// Looks at what matters only under a policy that lowers ops.
    #[inline]
    fn join_lowered<G: Graph<B>>(&mut self, tensor: &AmpTensor<B, G>) {
        self.level = self.level.max(tensor.level());
        if G::RECORDS {
            self.chain.add(tensor);
        }
        if self.callee.op().is_some_and(parameters::is_view) {
            self.view_of = tensor.parameter().cloned();
        }
        if !tensor.context.config.parameters.is_empty() {
            self.class_by_parameter = parameters::joined(
                self.class_by_parameter,
                parameters::class_of_readers(tensor),
            );
        }
    }

    /// Adds a scalar operand; float operands come first.
    #[inline]
    pub(crate) fn scalar(&mut self, value: Scalar) {
        self.watch.scalar(value);
        if let Some(dtype) = self.operands.widest
            && dtype.is_low()
        {
            let value: f64 = value.elem();
            let is_rounded = scalar::is_rounded(value, dtype);
            self.rounds_scalar |= is_rounded;
            self.operands.guarded |= match self.callee {
                Callee::Op(Op::float_div_scalar) => scalar::is_lost_divisor(value, dtype),
                Callee::Op(Op::float_equal_elem | Op::float_not_equal_elem) => is_rounded,
                Callee::Op(_) | Callee::Custom(_) => is_rounded && scalar::is_lost(value, dtype),
            };
        }
    }

    /// Adds an int operand.
    #[inline]
    pub(crate) fn int(&mut self, tensor: &IntTensor<B>) {
        self.watch.memory(|| B::int_memory(tensor));
    }

    /// Adds a bool operand.
    #[inline]
    pub(crate) fn bool(&mut self, tensor: &BoolTensor<B>) {
        self.watch.memory(|| B::bool_memory(tensor));
    }

    /// Uses the policy of a device, unless an operand has already provided one.
    #[inline]
    pub(crate) fn device<P: ConfigSource, D: Borrow<Device<B>>>(
        &mut self,
        device: impl FnOnce() -> D,
    ) {
        self.context
            .get_or_insert_with(|| Context::of::<P>(device().borrow()));
    }

    /// Lets the policy decide the dtypes.
    pub(crate) fn decide(self) -> Decided<B> {
        let lowers = self
            .context
            .is_some_and(|context| context.policy.compute().is_low());
        saved::begin_op(self.context.is_some_and(|context| context.saves_eight_bits));
        let mut operands = self.operands;
        let full_precision = scope::is_full_precision();
        operands.exact |= full_precision;
        let casts = match (self.context, self.callee) {
            _ if !lowers => operands.promoted(),
            (Some(context), Callee::Op(op)) => match self.class_by_parameter(op, context) {
                Some(class) => context.policy.casts_of(class, operands),
                None => context.policy.casts(op, operands),
            },
            (Some(context), Callee::Custom(class)) => context.policy.casts_of(class, operands),
            (None, _) => Casts::default(),
        };
        self.watch
            .decided(operands, casts, || self.class(), full_precision);
        let recomputes = match casts.operands.or(operands.widest) {
            Some(dtype) => self.chain.goes_on(self.callee.op(), dtype),
            None => false,
        };
        Decided {
            call: self,
            casts,
            lowers,
            recomputes,
        }
    }

    /// The class of the op, if the policy lowers anything.
    fn class(&self) -> Option<Class> {
        let policy = &self.context?.policy;
        match self.callee {
            _ if !policy.compute().is_low() => None,
            Callee::Op(op) => self
                .class_by_parameter(op, self.context?)
                .or_else(|| policy.class(op)),
            Callee::Custom(class) => Some(class),
        }
    }

    /// The class that `[parameters]` gives to a call of `op`, if it gives one.
    #[inline]
    fn class_by_parameter(&self, op: Op, context: &Context<B>) -> Option<Class> {
        let given = self.class_by_parameter?;
        parameters::class_of_call(given, context.policy.class(op)?)
    }
}
