//! A call whose dtypes have been decided: casts the operands and wraps the result.

mod results;

use burn_amp_core::{Casts, Class, Op, Precision, formats::Recipe, scalar};
use burn_amp_kernels::{AmpBackend, made};
use burn_backend::{Scalar, tensor::FloatTensor};

use super::Call;
use crate::{
    cast::observe,
    graph::Graph,
    policy::Context,
    tensor::{AmpTensor, Reader, Role},
};

/// A call whose dtypes have been decided.
pub(crate) struct Decided<B: AmpBackend> {
    pub(super) call: Call<B>,
    pub(crate) casts: Casts,
    /// Whether the policy lowers anything.
    pub(crate) lowers: bool,
    /// Whether a graph computes the result again in the backward pass instead of keeping it.
    pub(crate) recomputes: bool,
}

impl<B: AmpBackend> Decided<B> {
    /// Casts an operand for the inner backend.
    #[inline]
    pub(crate) fn cast<G: Graph<B>>(&self, tensor: AmpTensor<B, G>) -> FloatTensor<G::Inner> {
        self.read(tensor, self.casts.operands)
    }

    /// Casts an operand of a product that may take another node [in place](burn_amp_kernels::weight_product::InGraph) of that of
    /// the cast, and returns the dtype of the tensor at that node if it does.
    pub(crate) fn cast_for_product<G: Graph<B>>(
        &self,
        tensor: AmpTensor<B, G>,
    ) -> (FloatTensor<G::Inner>, Option<Precision>) {
        let watch = &self.call.watch;
        let Some(to) = self.casts.operands.filter(|_| !watch.is_searching()) else {
            return (self.cast(tensor), None);
        };
        if watch.is_on() {
            watch.cast_of(&tensor, to);
        }
        self.observe(&tensor, to);
        let (values, cast_from) = tensor.read_for_product(to, self.call.level);
        watch.made::<B, G>(|| made::float::<G::Inner>(&values));
        (values, cast_from)
    }

    /// Casts an operand to the compute dtype, for an op that the policy lets run in F32.
    pub(crate) fn cast_low<G: Graph<B>>(&self, tensor: AmpTensor<B, G>) -> FloatTensor<G::Inner> {
        let compute = self.context().policy.compute();
        self.read(tensor, Some(compute))
    }

    /// Prepares an operand for an op of [`AmpBackend`] that reads it as it is stored.
    pub(crate) fn as_stored<G: Graph<B>>(&self, tensor: AmpTensor<B, G>) -> FloatTensor<G::Inner> {
        self.read(tensor, None)
    }

    /// Reads an operand in dtype `to`, or in the dtype that it had when the call was decided.
    #[inline]
    fn read<G: Graph<B>>(
        &self,
        tensor: AmpTensor<B, G>,
        to: Option<Precision>,
    ) -> FloatTensor<G::Inner> {
        let dtype = to.unwrap_or_else(|| self.call.callee.stored(&tensor));
        let reader = Reader::Op {
            level: self.call.level,
            recomputes: self.recomputes,
        };
        if self.call.watch.is_on() {
            self.read_watched(tensor, to, dtype, reader)
        } else {
            self.observe(&tensor, dtype);
            tensor.read(dtype, reader)
        }
    }

    /// Counts the cast of a tensor's own values.
    fn observe<G: Graph<B>>(&self, tensor: &AmpTensor<B, G>, to: Precision) {
        let from = tensor.stored();
        if from != to && tensor.casts_to(to) {
            observe::cast(self.call.callee.op(), from, to);
        }
    }

    /// Reads an operand whose gradient may be looked at as the backward pass leaves it: after that of the cast, except
    /// for a leaf and for tensors that stand for others.
    #[cold]
    fn read_watched<G: Graph<B>>(
        &self,
        tensor: AmpTensor<B, G>,
        to: Option<Precision>,
        dtype: Precision,
        reader: Reader,
    ) -> FloatTensor<G::Inner> {
        let watch = &self.call.watch;
        let is_probed_before = match (tensor.recipe(), &tensor.role) {
            (None, Role::Leaf(_)) => false,
            (None, Role::Activation | Role::Parameter(_) | Role::Gradient(_)) => true,
            (Some(recipe), _) => recipe.is_stored(),
        };
        let tensor = tensor.settled();
        if let Some(to) = to {
            watch.cast_of(&tensor, to);
        }
        self.observe(&tensor, dtype);
        let tensor = match watch.probe::<B>().filter(|_| is_probed_before) {
            Some(probe) => tensor.probed(probe),
            None => tensor,
        };
        let values = tensor.read(dtype, reader);
        watch.made::<B, G>(|| made::float::<G::Inner>(&values));
        if is_probed_before {
            values
        } else {
            watch.passed::<B, G>(values)
        }
    }

    /// Prepares a tensor that the op reads in place of an operand that was made of it.
    pub(crate) fn behind<G: Graph<B>>(
        &self,
        tensor: FloatTensor<G::Inner>,
    ) -> FloatTensor<G::Inner> {
        if self.context().saves_eight_bits {
            G::offer(&tensor, None);
        }
        self.call.watch.passed::<B, G>(tensor)
    }

    /// Whether the op would run in low precision with a scalar operand that this rounds. Under a policy that lowers
    /// nothing it is the op of the plain backend.
    #[inline]
    pub(crate) fn rounds_scalar(&self) -> bool {
        self.call.rounds_scalar && self.casts.operands.is_none_or(Precision::is_low) && self.lowers
    }

    /// Returns a scalar operand for the inner backend.
    ///
    /// A comparison with a scalar between two values of the low dtype gets the one of the two that gives the same answer
    /// as the scalar itself.
    #[inline]
    pub(crate) fn scalar(&self, value: Scalar) -> Scalar {
        match self.call.callee.op() {
            Some(op) if self.call.rounds_scalar => self.scalar_for(op, value),
            Some(_) | None => value,
        }
    }

    /// Returns a scalar operand for `op` of the inner backend, over operands of this call.
    pub(crate) fn scalar_for(&self, op: Op, value: Scalar) -> Scalar {
        let Some(stored) = self.call.operands.widest.filter(|_| self.rounds_scalar()) else {
            return value;
        };
        let dtype = self.casts.computes_in(stored);
        match op {
            Op::float_greater_elem | Op::float_lower_equal_elem => {
                scalar::floor(value.elem(), dtype).into()
            }
            Op::float_greater_equal_elem | Op::float_lower_elem => {
                scalar::ceil(value.elem(), dtype).into()
            }
            _ => value,
        }
    }

    /// Whether the op computes in F32 what it stores in F32, under a policy that lowers other ops.
    #[inline]
    pub(crate) fn stays_in_f32(&self) -> bool {
        self.stores_as_computed()
            && self.casts.operands.or(self.call.operands.widest) == Some(Precision::F32)
    }

    /// Whether the op has the dtype of its widest operand.
    pub(crate) fn promotes(&self) -> bool {
        matches!(self.call.class(), Some(Class::Widest | Class::Keep))
    }

    /// Whether the op takes its operands and stores its result as they are, under a policy that lowers other ops.
    #[inline]
    pub(crate) fn keeps(&self) -> bool {
        self.stores_as_computed() && self.casts.operands.is_none()
    }

    /// Whether the op stores what it computes as it is, under a policy that lowers other ops, and nobody looks for it.
    #[inline]
    fn stores_as_computed(&self) -> bool {
        self.lowers
            && !self.call.watch.is_searching()
            && !self.call.operands.exact
            && self.casts.results.is_none()
    }

    fn context(&self) -> &'static Context<B> {
        self.call
            .context
            .expect("an op with a float result has a float operand or a device")
    }

    /// The highest graph level among the operands.
    pub(crate) fn level(&self) -> usize {
        self.call.level
    }

    /// Whether somebody watches the call.
    pub(crate) fn is_watched(&self) -> bool {
        self.call.watch.is_on()
    }

    /// Returns the recipe in which a product with weights is simulated, if it runs in low precision.
    pub(crate) fn recipe(&self) -> Option<&'static Recipe> {
        let recipe = self.context().recipe?;
        let computes_in = self.casts.operands.or(self.call.operands.widest)?;
        (self.lowers && computes_in.is_low()).then_some(recipe)
    }

    /// Returns the storage dtype of the result if an op of [`AmpBackend`] should compute it in F32 from operands as
    /// stored.
    ///
    /// `None` under a policy that lowers nothing, where `Amp` must compute what the plain backend computes, bit for
    /// bit.
    pub(crate) fn in_f32(&self) -> Option<Precision> {
        (self.lowers && !self.call.operands.exact && self.casts.operands == Some(Precision::F32))
            .then_some(self.casts.results.unwrap_or(Precision::F32))
    }

    /// Whether an op of [`AmpBackend`] should compute in F32 and store its result in the dtype of the operand.
    pub(crate) fn is_internal(&self) -> bool {
        self.casts.results.is_some() && self.in_f32().is_some()
    }

    /// The dtype in which products will read the result of such an op, if it is F32 as the operand `x` is.
    pub(crate) fn low_copy<G: Graph<B>>(&self, x: &AmpTensor<B, G>) -> Option<Precision> {
        let compute = self.context().policy.compute();
        (x.stored() == Precision::F32 && compute.is_low()).then_some(compute)
    }
}
