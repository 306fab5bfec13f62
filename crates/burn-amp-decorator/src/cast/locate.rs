//! Looks for the first call of a step that makes inf or NaN, forward or backward.

use std::sync::Arc;

use burn_amp_core::{
    Op, Precision,
    overflow::{Cause, Made, NotFinite, Operand, Range},
    report::Site,
};
use burn_amp_kernels::{self as kernels, AmpBackend};
use burn_backend::{TensorMetadata, tensor::FloatTensor};
use parking_lot::Mutex;

use super::parameters::is_view;
use crate::{
    graph::{Graph, Probe},
    param_name::ParamName,
    policy::Locator,
    precision, site,
    tensor::AmpTensor,
};

/// Reads the range of a tensor that it keeps.
type ReadRange = Box<dyn Fn() -> Range + Send + Sync>;

/// A call that is searched. Once its dtypes are decided, the probes of its gradients share it, and keep the operands until
/// the backward pass has reached it.
pub(super) struct Search {
    locator: &'static Locator,
    op: Option<Op>,
    site: Option<Site>,
    operands: Vec<Kept>,
    /// Whether a scalar operand is inf, as that of a mask is.
    infinite_scalar: bool,
    computed_in: Precision,
    /// Reads the gradient of the result, once the backward pass has reached the call.
    received: Mutex<Option<ReadRange>>,
}

/// An operand, kept to be looked at if the call is the one.
struct Kept {
    parameter: Option<ParamName>,
    dtype: Precision,
    shape: Vec<usize>,
    range: ReadRange,
    made: Option<Made>,
}

impl Search {
    /// A search on the device of an operand, if there is one.
    pub(super) fn on<B: AmpBackend, G: Graph<B>>(
        operand: &AmpTensor<B, G>,
        op: Option<Op>,
    ) -> Option<Self> {
        operand.context.locator.is_on().then(|| Self {
            locator: &operand.context.locator,
            op,
            site: site::here(),
            operands: Vec::new(),
            infinite_scalar: false,
            computed_in: Precision::F32,
            received: Mutex::new(None),
        })
    }

    /// Sees an operand as it is stored.
    pub(super) fn operand<B: AmpBackend, G: Graph<B>>(&mut self, operand: &AmpTensor<B, G>) {
        let values = operand.stored_values();
        self.operands.push(Kept {
            parameter: operand.role.origin().map(|origin| origin.name().clone()),
            dtype: precision::of(&values),
            shape: values.shape().as_slice().to_vec(),
            range: read_range::<B>(values),
            made: operand.own_node().and_then(|node| self.locator.maker(node)),
        });
    }

    /// Sees a scalar operand.
    pub(super) fn scalar(&mut self, value: f64) {
        self.infinite_scalar |= value.is_infinite();
    }

    /// The call is about to compute.
    pub(super) fn decided(self, computed_in: Precision) -> Arc<Self> {
        Arc::new(Self {
            computed_in,
            ..self
        })
    }

    /// Looks at a result, and has its gradient shown.
    pub(super) fn result<B: AmpBackend, G: Graph<B>>(
        self: &Arc<Self>,
        result: FloatTensor<G::Inner>,
    ) -> FloatTensor<G::Inner> {
        let values = G::values(&result);
        let locator = self.locator;
        if locator.looks_for(&NotFinite::Result) && !is_finite::<B>(&values) {
            let mut cause = self.cause(NotFinite::Result, read_range::<B>(values)());
            let was_finite = cause
                .operands
                .iter()
                .all(|operand| operand.range.is_finite());
            if !was_finite || self.infinite_scalar {
                cause.what = NotFinite::Operand;
            }
            locator.find(cause);
        }
        let call = self.clone();
        let probe: Probe<B> = Arc::new(move |gradient| {
            if call.locator.looks_for(&NotFinite::Sum) {
                call.find_in::<B>(gradient, || NotFinite::Sum);
                *call.received.lock() = Some(read_range::<B>(gradient.clone()));
            }
        });
        let result = G::probed(result, probe);
        if let Some(number) = G::node(&result) {
            locator.made(number, self.maker());
        }
        result
    }

    /// Who made the values of the result: a view has those of its operand.
    fn maker(&self) -> Made {
        let operand = match self.op {
            Some(op) if is_view(op) => self.operands.first(),
            Some(_) | None => None,
        };
        match operand.and_then(|operand| operand.made.clone()) {
            Some(made) => made,
            None => Made {
                op: self.name(),
                site: self.site.clone(),
            },
        }
    }

    fn name(&self) -> String {
        self.op.map_or("custom", |op| op.name()).into()
    }

    /// What is shown the gradient of an operand, as the backward pass of the op makes it.
    pub(super) fn operand_probe<B: AmpBackend>(self: &Arc<Self>) -> Probe<B> {
        let call = self.clone();
        Arc::new(move |gradient| {
            call.find_in::<B>(gradient, || {
                let received = call.received.lock();
                let received = received.as_ref().map(|read| read());
                NotFinite::Gradient {
                    received: received.unwrap_or_default(),
                }
            });
        })
    }

    /// Notes a gradient that is not finite.
    fn find_in<B: AmpBackend>(&self, gradient: &FloatTensor<B>, what: impl Fn() -> NotFinite) {
        let locator = self.locator;
        if locator.looks_for(&NotFinite::Sum) && !is_finite::<B>(gradient) {
            let values = read_range::<B>(gradient.clone())();
            locator.find(self.cause(what(), values));
        }
    }

    fn cause(&self, what: NotFinite, values: Range) -> Cause {
        let operand = |kept: &Kept| {
            let name = kept.parameter.as_ref().and_then(ParamName::get);
            Operand {
                parameter: name.map(str::to_owned),
                dtype: kept.dtype,
                shape: kept.shape.clone(),
                range: (kept.range)(),
                made: kept.made.clone(),
            }
        };
        Cause {
            what,
            op: self.name(),
            site: self.site.clone(),
            computed_in: self.computed_in,
            operands: self.operands.iter().map(operand).collect(),
            values,
        }
    }
}

/// Whether all values are finite. Incurs a device-to-host read.
pub(crate) fn is_finite<B: AmpBackend>(values: &FloatTensor<B>) -> bool {
    let flags = kernels::finite::not_finite::<B>(vec![values.clone()]);
    let flags = precision::read::<B>(flags);
    flags.iter::<f32>().all(|flag| flag == 0.0)
}

/// Returns a function that reads the range of a tensor, which incurs a device-to-host read of all values.
fn read_range<B: AmpBackend>(values: FloatTensor<B>) -> ReadRange {
    Box::new(move || Range::of(precision::read::<B>(values.clone()).iter::<f64>()))
}
