//! Law: every op, `backward()`, `grad`, a cut, a move and a read get the values of a tensor, whatever it stands for.
//!
//! The cells of the table are generated. The rows are the kinds of tensors ([`Kind::ALL`]; a new one does not compile
//! without a case in [`make`]), the columns are all [`ops`] with a class, at each of their float operands, and the [`readers`]
//! that are not ops. The oracle is the plain backend in F32. The sizes from which on tensors wait are lowered,
//! so that the small operands of the cases do.

mod make;
// On a software driver the kernels of thousands of cells take too long to compile. What waits for whom is decided above the
// backend.
#[cfg(not(feature = "cubecl"))]
mod ops;
mod readers;

use burn_amp::extend::{AmpTensor, Graph, Kind};
use burn_amp_tests::prelude::*;

/// A backend whose tensors may be of several kinds.
pub trait Kinds: Backend {
    /// The kind of a tensor; `None` on the plain backend.
    fn kind(tensor: &FloatTensor<Self>) -> Option<Kind>;
}

impl Kinds for Plain {
    fn kind(_: &FloatTensor<Self>) -> Option<Kind> {
        None
    }
}

impl Kinds for PlainAutodiff {
    fn kind(_: &FloatTensor<Self>) -> Option<Kind> {
        None
    }
}

impl<B: burn_amp::AmpBackend, P: ConfigSource, G: Graph<B>> Kinds for burn_amp::Amp<B, P, G> {
    fn kind(tensor: &AmpTensor<B, G>) -> Option<Kind> {
        Some(tensor.kind())
    }
}

/// A result, read to the host.
#[derive(Debug, PartialEq)]
pub struct Values {
    shape: Shape,
    values: Vec<f64>,
    is_gradient: bool,
}

/// The largest finite number of F16.
const LARGEST_F16: f64 = 65504.0;

/// The loss scale under F16.
const SCALE: f32 = 256.0;

impl Values {
    pub fn of(data: TensorData) -> Self {
        Self {
            shape: data.shape.clone(),
            values: data.iter::<f64>().collect(),
            is_gradient: false,
        }
    }

    /// A gradient that was read with `grad`, which is zeros if a gradient of the pass overflowed.
    pub fn gradient<B: Backend>(tensor: FloatTensor<B>) -> Self {
        Self {
            is_gradient: true,
            ..Self::float::<B>(tensor)
        }
    }

    pub fn float<B: Backend>(tensor: FloatTensor<B>) -> Self {
        Self::of(read_sync(B::float_into_data(tensor)).expect("the backend computes"))
    }

    /// The largest difference from `expected`, as a share of its largest value; infinite if the shapes differ. What leaves
    /// the range of F16 may be inf, and such a gradient, scaled, is withheld.
    pub fn error(&self, expected: &Self) -> f64 {
        if self.shape != expected.shape {
            return f64::INFINITY;
        }
        let overflows = |x: &f64| x.is_nan() || x.abs() * f64::from(SCALE) > LARGEST_F16;
        let is_withheld = self.is_gradient && self.values.iter().all(|x| *x == 0.0);
        if is_withheld && expected.values.iter().any(overflows) {
            return 0.0;
        }
        let finite = expected.values.iter().filter(|x| x.is_finite());
        let largest = finite.fold(f64::MIN_POSITIVE, |max, x| max.max(x.abs()));
        let errors = self.values.iter().zip(&expected.values);
        let errors = errors.map(|(found, expected)| {
            let is_out_of_range = !found.is_finite() && expected.abs() > LARGEST_F16;
            let is_equal = found == expected || found.is_nan() && expected.is_nan();
            match (found - expected).abs() / largest {
                _ if is_equal || is_out_of_range => 0.0,
                error if error.is_nan() => f64::INFINITY,
                error => error,
            }
        });
        errors.fold(0.0, f64::max)
    }
}

/// Says which of the results differ by more than a share of their largest value.
pub fn differences(found: &[Values], expected: &[Values], share: f64) -> Option<String> {
    if found.len() != expected.len() {
        return Some(format!("{} results of {}", found.len(), expected.len()));
    }
    let pairs = found.iter().zip(expected).enumerate();
    let errors = pairs.map(|(at, (found, expected))| (at, found.error(expected)));
    let differ: Vec<_> = errors
        .filter(|(_, error)| *error > share)
        .map(|(at, error)| format!("result {at} of {} by {error:.4}", found.len()))
        .collect();
    (!differ.is_empty()).then(|| differ.join(", "))
}

/// A sum of products with numbers that differ, so that each element has another gradient.
pub fn loss<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    let shape = x.shape();
    let weights: Vec<f32> = (0..shape.num_elements())
        .map(|i| (i % 7) as f32 / 4.0 - 0.5)
        .collect();
    let weights = B::float_from_data(TensorData::new(weights, shape), &here());
    B::float_sum(B::float_mul(x, weights))
}

policy!(
    /// F16 with a loss scale that stays: some of the gradients are not finite, on the plain backend too.
    InF16,
    in_f16(|it| {
        it.loss_scale.mode = LossScaleMode::Static;
        it.loss_scale.rule.init = SCALE;
    })
);

/// Whether there are tensors of a kind under the policy in force.
fn exists(kind: Kind) -> bool {
    let is_f16 = precision() == Precision::F16;
    match kind {
        // Only products in F16 overflow, and only F16 has a loss scale.
        Kind::Product | Kind::Pending => is_f16,
        // Without loss scaling.
        Kind::Gradient => !is_f16,
        _ => true,
    }
}

/// An op on the CPU costs about as much as its tensors take to move. What is known beside the values of a plain tensor is a
/// few words, and no allocation.
#[test]
fn a_tensor_takes_eight_words_more_than_that_of_the_plain_backend() {
    let taken = size_of::<AmpTensor<Plain>>() - size_of::<FloatTensor<Plain>>();
    assert!(taken <= 64, "{taken} bytes");
}

/// What is known about a tensor costs each move of it one pointer.
#[test]
fn a_tensor_is_a_pointer_larger_than_that_of_the_inner_backend() {
    fn size<B: Backend>() -> usize {
        size_of::<FloatTensor<B>>()
    }
    assert_eq!(size::<Amp>(), size::<Plain>() + size_of::<usize>());
    let in_graph = size::<PlainAutodiff>() + size_of::<usize>();
    assert_eq!(size::<AmpAutodiff>(), in_graph);
    #[cfg(not(feature = "cubecl"))]
    assert!(size::<Amp>() <= 128);
}
