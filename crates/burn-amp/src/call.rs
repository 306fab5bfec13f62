//! One call of one op: policy, cast, inner.

use std::sync::Once;

use burn_amp_core::{Casts, Class, Dtype, Op, Operands, scalar};
use burn_amp_kernels::Kernels;
use burn_backend::{
    Scalar, TensorPrimitive,
    tensor::{Device, FloatTensor},
};

use crate::{
    backend::Amp,
    dtype,
    graph::Graph,
    loss_scale::Passes,
    observe,
    policy::{Context, PolicySource},
    scope,
    tensor::{AmpTensor, Nature},
    warn,
};

/// What is known of a call while its operands are looked at.
pub(crate) struct Call<B: Kernels> {
    /// `None` for a custom op.
    op: Option<Op>,
    class: Option<Class>,
    operands: Operands,
    /// The join of the operands' logical dtypes: what the plain backend would return.
    logical: Option<Dtype>,
    /// The highest level of the operands in the graph.
    level: usize,
    /// See [`AmpTensor`].
    passes: Passes<B>,
    context: Option<&'static Context<B>>,
    /// The storage dtype of an operand that is a parameter outside the graph, as an optimizer steps it.
    parameter: Option<Dtype>,
}

/// A call whose casts are decided.
pub(crate) struct Decided<B: Kernels> {
    op: Option<Op>,
    casts: Casts,
    logical: Option<Dtype>,
    exact: bool,
    /// The highest level of the operands in the graph.
    level: usize,
    passes: Passes<B>,
    context: Option<&'static Context<B>>,
}

impl<B: Kernels> Call<B> {
    #[inline]
    pub(crate) fn new<G: Graph<B>>(op: Op) -> Self {
        if !G::RECORDS && op.is_backward() {
            warn_of_inner_order(op);
        }
        Self {
            op: Some(op),
            class: None,
            operands: Operands::default(),
            logical: None,
            level: 0,
            passes: Passes::none(),
            context: None,
            parameter: None,
        }
    }

    /// A call of an op that is not in the table.
    pub(crate) fn custom(class: Class) -> Self {
        Self {
            op: None,
            class: Some(class),
            operands: Operands::default(),
            logical: None,
            level: 0,
            passes: Passes::none(),
            context: None,
            parameter: None,
        }
    }

    /// Looks at a float operand.
    #[inline]
    pub(crate) fn float<G: Graph<B>>(&mut self, tensor: &AmpTensor<B, G>) {
        self.operands = self.operands.and(dtype::of(&tensor.inner));
        self.level = self.level.max(G::level(&tensor.inner));
        self.logical = Some(match self.logical {
            Some(logical) => logical.join(tensor.logical),
            None => tensor.logical,
        });
        if let Some(passes) = tensor.nature.gradient() {
            self.operands.exact = true;
            self.passes.join(passes);
        }
        if !G::RECORDS && matches!(tensor.nature, Nature::Parameter(_)) {
            self.parameter = Some(dtype::of(&tensor.inner));
        }
        self.context.get_or_insert(tensor.context);
    }

    /// Looks at a scalar operand; float operands come before it.
    #[inline]
    pub(crate) fn scalar(&mut self, value: Scalar) {
        if let Some(dtype) = self.operands.widest
            && dtype.is_low()
        {
            let value: f64 = value.elem();
            self.operands.guarded |= match self.op {
                Some(Op::float_div_scalar) => scalar::is_lost_divisor(value, dtype),
                _ => scalar::is_lost(value, dtype),
            };
        }
    }

    /// Looks at the device on which a result without float operands is made.
    #[inline]
    pub(crate) fn device<P: PolicySource>(&mut self, device: &Device<B>) {
        self.context = Some(Context::of::<P>(device));
    }

    /// Decides the casts.
    #[inline]
    pub(crate) fn decide(self) -> Decided<B> {
        let Self {
            op,
            class,
            mut operands,
            logical,
            level,
            passes,
            context,
            parameter,
        } = self;
        let exact = operands.exact;
        // A gradient meets its parameter: the step of an optimizer.
        if let (true, Some(parameter)) = (exact, parameter) {
            warn::of_plain_step(parameter, !passes.is_empty());
        }
        operands.exact |= scope::is_full_precision();
        let class = match (context, op) {
            (Some(context), Some(op)) => context.policy.class(op),
            (_, None) | (None, Some(_)) => class,
        };
        let casts = match (context, class) {
            (Some(context), Some(class)) => context.policy.casts_of(class, operands),
            (None, _) | (_, None) => Casts::default(),
        };
        // A loss of a model stored in half is F32 to its reader too, as under PyTorch's autocast.
        let logical = match class {
            Some(Class::Full) => logical.map(|logical| logical.join(Dtype::F32)),
            Some(Class::Low | Class::Internal | Class::Widest | Class::Keep) | None => logical,
        };
        Decided {
            op,
            casts,
            logical,
            exact,
            level,
            passes,
            context,
        }
    }
}

impl<B: Kernels> Decided<B> {
    /// The operand for the inner backend.
    #[inline]
    pub(crate) fn cast<G: Graph<B>>(&self, tensor: AmpTensor<B, G>) -> FloatTensor<G::Inner> {
        let AmpTensor {
            inner,
            nature,
            context,
            ..
        } = tensor;
        let from = dtype::of(&inner);
        match self.casts.operands {
            Some(to) if to != from => {
                observe::cast(self.op, from, to);
                match nature {
                    Nature::Leaf(leaf) => {
                        G::cast_leaf(inner, &leaf, to, self.level, &context.leaves)
                    }
                    _ => dtype::cast::<G::Inner>(inner, to),
                }
            }
            _ => inner,
        }
    }

    /// The dtype of the result, if one op of [`Kernels`] is to compute it in F32 from what is stored.
    ///
    /// Not where the policy lowers nothing: there `Amp` is the plain backend, bit for bit.
    pub(crate) fn in_f32(&self) -> Option<Dtype> {
        let lowers = self.context?.policy.compute().is_low();
        (lowers && !self.exact && self.casts.operands == Some(Dtype::F32))
            .then_some(self.casts.results.unwrap_or(Dtype::F32))
    }

    /// [`in_f32`](Self::in_f32) under class `Internal`: the result is stored as the operand is.
    pub(crate) fn is_internal(&self) -> bool {
        self.casts.results.is_some() && self.in_f32().is_some()
    }

    /// Whether an F32 operand stays as it is, and so does the result.
    pub(crate) fn keeps_f32(&self, operand: Dtype) -> bool {
        operand == Dtype::F32 && self.casts == Casts::default()
    }

    /// A result of the inner backend that has its dtype already.
    pub(crate) fn stored<G: Graph<B>>(&self, result: FloatTensor<G::Inner>) -> AmpTensor<B, G> {
        let context = self
            .context
            .expect("an op with a float result has a float operand or a device");
        AmpTensor {
            logical: self.logical.unwrap_or_else(|| dtype::of(&result)),
            inner: result,
            context,
            nature: if self.exact {
                Nature::Gradient(self.passes.clone())
            } else {
                Nature::Plain
            },
        }
    }

    /// A result of the inner backend.
    #[inline]
    pub(crate) fn float<G: Graph<B>>(&self, result: FloatTensor<G::Inner>) -> AmpTensor<B, G> {
        let result = match self.casts.results {
            Some(to) => dtype::cast::<G::Inner>(result, to),
            None => result,
        };
        self.stored(result)
    }

    /// A result that is handed on in F32 whatever it was computed in, because it will be accumulated.
    #[inline]
    pub(crate) fn wide<G: Graph<B>>(&self, result: FloatTensor<G::Inner>) -> AmpTensor<B, G> {
        let wide = dtype::of(&result).join(Dtype::F32);
        self.float(dtype::cast::<G::Inner>(result, wide))
    }

    /// A result that may be quantized.
    pub(crate) fn primitive<P: PolicySource, G: Graph<B>>(
        &self,
        result: TensorPrimitive<G::Inner>,
    ) -> TensorPrimitive<Amp<B, P, G>> {
        match result {
            TensorPrimitive::Float(tensor) => TensorPrimitive::Float(self.float(tensor)),
            TensorPrimitive::QFloat(tensor) => TensorPrimitive::QFloat(tensor),
        }
    }

    /// The dtype in which the op computes its floats of dtype `dtype`.
    pub(crate) fn computes_in(&self, dtype: Dtype) -> Dtype {
        self.casts.operands.unwrap_or(dtype)
    }
}

/// A backward op reaches a decorator without a graph only if Burn's `Autodiff` stands outside it.
#[cold]
fn warn_of_inner_order(op: Op) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tracing::warn!(
            "burn-amp: `{op}` arrived from outside: burn::backend::Autodiff<Amp<_>> saves f32 operands and does not \
             scale the loss; use burn_amp::Autodiff<Amp<_>>"
        );
    });
}
