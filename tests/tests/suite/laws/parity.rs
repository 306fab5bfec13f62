//! Law: each op under Amp equals, bit for bit, the op on the plain backend with casts by hand.
//!
//! What else may happen to an op is what its row in the table says.

use burn_amp_tests::{cases::Output, prelude::*};

use super::drive::*;

/// A second implementation of the classes: the dtype in which the op runs, and the dtype of its results.
fn by_hand(class: Class, compute: Precision, stored: &[Precision]) -> (Precision, Precision) {
    let all_low = stored.iter().all(|dtype| *dtype == compute);
    let join = if all_low { compute } else { Precision::F32 };
    match class {
        Class::Low => (compute, compute),
        Class::Full => (Precision::F32, Precision::F32),
        Class::Internal => (Precision::F32, join),
        Class::Widest | Class::Keep => (join, join),
    }
}

/// Whether the op's row has these words.
fn says(op: Op, words: &str) -> bool {
    let why = op.by_hand().or(op.by_rule());
    why.is_some_and(|why| why.contains(words))
}

/// Whether the op's results are F32 under every class: gradients of weights, because they are accumulated.
pub fn leaves_wide(op: Op) -> bool {
    op.shape().ends_with("-> Wide")
}

/// The choices of operands that are stored low: none, all, only the first, all but the first.
pub fn storages(op: Op) -> Vec<fn(usize) -> bool> {
    let several = case::<Plain>(op).operands.len() > 1;
    let uniform: [fn(usize) -> bool; 2] = [|_| false, |_| true];
    let mixed: [fn(usize) -> bool; 2] = [|i| i == 0, |i| i != 0];
    uniform
        .into_iter()
        .chain(mixed.into_iter().filter(|_| several))
        .collect()
}

/// Whether the op reads its first operand as it is stored and computes in F32. Under class `Internal` its result has
/// the dtype of that operand.
fn reads_as_stored(op: Op) -> bool {
    says(op, "one kernel reads x as it is stored") && op.by_hand().is_some()
}

/// Whether the op adds its last operand, a bias, in F32 without a cast of it: in low precision.
fn adds_bias_in_f32(op: Op, class: Class, stored: &[Precision]) -> bool {
    says(op, "its bias is added in F32")
        && class == Class::Low
        && stored.last() == Some(&Precision::F32)
}

/// Whether two results differ at most by the rounding of a bias, which is no larger than the largest of them.
fn differ_by_bias(a: &Read, b: &Read) -> bool {
    let stored = a.stored.expect("a float result");
    let epsilon = stored.finfo().expect("a float dtype").epsilon;
    let largest = a.values.iter().fold(0.0, |max, x| x.abs().max(max));
    let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 2.0 * epsilon * largest;
    a.values.len() == b.values.len() && a.values.iter().zip(&b.values).all(near)
}

/// Whether Amp composes the op of its own ops, so that it equals no op of the plain backend: burn-cubecl has no kernel of an
/// attention with a bias, and would compute the softmax in low precision.
fn is_composed(op: Op) -> bool {
    cfg!(feature = "cubecl") && says(op, "composed of Amp's own ops")
}

/// Whether the op may round its sums differently on a GPU: burn-cubecl sums the gradient of the images of a deformable
/// convolution with atomics, in no fixed order, and the output of a transposed one in low precision.
fn rounds_sums(op: Op) -> bool {
    let differs =
        op == Op::deform_conv2d_backward || says(op, "adds the windows of its output in F32");
    cfg!(feature = "cubecl") && differs
}

/// Whether two results differ at most by rounding, which they may if the op's F32 arithmetic has another order.
fn are_neighbours(a: &Read, b: &Read) -> bool {
    let stored = a.stored.expect("a float result");
    let epsilon = stored.finfo().expect("a float dtype").epsilon;
    let largest = a.values.iter().fold(0.0, |max, x| x.abs().max(max));
    // The rows of the cases have up to 8 elements; 8 additions round by up to 8 F32 epsilons.
    let inside = 8.0 * f64::from(f32::EPSILON) * largest;
    let near = |(a, b): (&f64, &f64)| (a - b).abs() <= epsilon * a.abs() + inside;
    a.values.len() == b.values.len() && a.values.iter().zip(&b.values).all(near)
}

fn are_equal(op: Op, a: &Read, b: &Read) -> bool {
    if reads_as_stored(op) {
        return are_neighbours(a, b);
    }
    let Some(stored) = a.stored.filter(|_| rounds_sums(op)) else {
        return a.bits() == b.bits();
    };
    let epsilon = stored.finfo().expect("a float dtype").epsilon;
    let largest = a.values.iter().fold(0.0, |max, x| x.abs().max(max));
    // About as many terms as there are corners or channels and kernel positions over one pixel.
    let terms = 16.0;
    let near = |(a, b): (&f64, &f64)| (a - b).abs() <= terms * epsilon * largest;
    a.values.len() == b.values.len() && a.values.iter().zip(&b.values).all(near)
}

/// Whether the op stores the concatenation of operands in F32 and in low precision in low precision, though it is read in
/// F32.
fn rounds_mixed(op: Op, class: Class, compute: Precision, stored: &[Precision]) -> bool {
    says(op, "parts in low precision and in F32 are stored low")
        && matches!(class, Class::Widest | Class::Keep)
        && stored.contains(&compute)
        && stored.contains(&Precision::F32)
}

/// Whether the op's result, stored in `stored`, is read as the op computed in F32: it saturates, or a product overflows.
fn is_read_in_f32(op: Op, stored: Precision) -> bool {
    says(op, "a result in low precision remembers its operand") && stored.is_low()
        || says(op, "in F16 a product remembers") && stored == Precision::F16
}

/// Equal up to some roundings of F32, for results of at most 1.
fn are_equal_in_f32(a: &Read, b: &Read) -> bool {
    let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 8.0 * f64::from(f32::EPSILON);
    a.values.len() == b.values.len() && a.values.iter().zip(&b.values).all(near)
}

fn equals_by_hand() {
    let compute = precision();
    law(|op, class| {
        if is_composed(op) {
            return;
        }
        for low in storages(op) {
            let stored: Vec<Precision> = (0..case::<Plain>(op).operands.len())
                .map(|i| if low(i) { compute } else { Precision::F32 })
                .collect();
            let rounds_mixed = rounds_mixed(op, class, compute, &stored);
            let (inside, result) = match by_hand(class, compute, &stored) {
                _ if rounds_mixed => (compute, compute),
                by_hand => by_hand,
            };
            let result = match class {
                _ if leaves_wide(op) => Precision::F32,
                Class::Internal if reads_as_stored(op) => stored[0],
                _ => result,
            };

            let (outputs, casts) = run_amp(op, low, None);
            let has_f32_bias = adds_bias_in_f32(op, class, &stored);
            let expected_casts: Vec<Cast> = stored
                .iter()
                .take(stored.len() - usize::from(has_f32_bias))
                .skip(usize::from(reads_as_stored(op)))
                .filter(|from| **from != inside)
                .map(|from| (op, *from, inside))
                .collect();
            let casts: Vec<Cast> = casts.into_iter().filter(|cast| cast.0 == op).collect();
            assert_eq!(
                casts, expected_casts,
                "casts, operands stored in {stored:?}"
            );

            let reads_f32 = rounds_mixed || is_read_in_f32(op, result);
            let computed_in = if reads_f32 { Precision::F32 } else { inside };
            let expected: Vec<Output<Plain>> = run_plain(op, burn_dtype(computed_in), None)
                .into_iter()
                .map(|output| match output {
                    Output::Float(x) if !reads_f32 => {
                        Output::Float(cast::<Plain>(x, burn_dtype(result)))
                    }
                    other => other,
                })
                .collect();
            let (outputs, expected) = (read(outputs), read(expected));
            assert_eq!(outputs.len(), expected.len());
            for (output, expected) in outputs.iter().zip(&expected) {
                let expected_dtype = if reads_f32 {
                    Some(burn_dtype(result))
                } else {
                    expected.stored
                };
                assert_eq!(
                    output.stored, expected_dtype,
                    "operands stored in {stored:?}"
                );
                assert_eq!(output.logical, output.stored.map(|_| DType::F32));
                let equal = if reads_f32 {
                    are_equal_in_f32(output, expected)
                } else if has_f32_bias {
                    differ_by_bias(output, expected)
                } else {
                    are_equal(op, output, expected)
                };
                assert!(
                    equal,
                    "operands stored in {stored:?}\n   amp {:?}\nplain {:?}",
                    output.values, expected.values
                );
            }
        }
    });
}

#[test]
fn each_op_equals_the_plain_op_with_casts_by_hand() {
    for_each_low_policy!(equals_by_hand);
}
