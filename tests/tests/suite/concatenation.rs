//! Law: products read a concatenation in low precision; any other reader gets the F32 values of its parts.

use burn_amp::extend::Kind;
use burn_amp_tests::prelude::*;

type B = AmpAutodiff;

/// Numbers that low precision rounds.
fn thirds<B: Backend>(rows: usize) -> Tensor<B, 2> {
    let values: Vec<_> = (0..rows * 4).map(|i| (i as f32 - 3.0) / 3.0).collect();
    Tensor::from_data(TensorData::new(values, [rows, 4]), &here())
}

/// What is read of a concatenation, and the gradients of its parts: those of an op in F32, and of a product.
fn read<B: AutodiffBackend>(in_f32: bool) -> [Vec<f32>; 3] {
    let halves: Vec<_> = (0..12).map(|i| i as f32 / 2.0).collect();
    let halves = TensorData::new(halves, [3, 4]);
    let low = Tensor::<B, 2>::from_data(halves, &here()).require_grad();
    let wide = thirds::<B>(2).require_grad();
    let whole = Tensor::cat(vec![activation(low.clone()), wide.clone() * 1.0], 0);
    let result = if in_f32 {
        whole * thirds(5)
    } else {
        whole.matmul(Tensor::ones([4, 2], &here()) * 0.5)
    };
    let grads = result.clone().sum().backward();
    let values = |data: TensorData| data.convert::<f32>().to_vec().unwrap();
    let of = |part: Tensor<B, 2>| values(part.grad(&grads).unwrap().into_data());
    [values(result.into_data()), of(low), of(wide)]
}

fn reads_as_each_reader_needs() {
    let epsilon = epsilon();
    let whole = Tensor::cat(vec![activation(thirds::<B>(3)), thirds(2)], 0);
    assert!(storage_dtype(&whole) != DType::F32);
    assert_eq!(whole.dtype(), DType::F32);
    // The part in F32 has lost nothing.
    let tail = whole.slice([3..5, 0..4]).into_data();
    assert_eq!(tail, thirds::<PlainAutodiff>(2).into_data());
    // Where most is F32, an op in F32 is the likelier reader.
    let whole = Tensor::cat(vec![activation(thirds::<B>(2)), thirds(3)], 0);
    assert_eq!(storage_dtype(&whole), DType::F32);

    // Halves are exact. The gradient of the low part is rounded once, to its dtype.
    let [values, low, wide] = read::<B>(true);
    let expected = read::<PlainAutodiff>(true);
    assert_eq!([&values, &wide], [&expected[0], &expected[2]]);
    let near = |(a, b): (&f32, &f32)| (a - b).abs() <= epsilon * b.abs();
    assert!(low.iter().zip(&expected[1]).all(near), "{low:?}");

    // A product of the rounded part, of four terms of at most 2.75; the gradients are exact.
    let [values, low, wide] = read::<B>(false);
    let expected = read::<PlainAutodiff>(false);
    assert_eq!([&low, &wide], [&expected[1], &expected[2]]);
    let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 4.0 * 2.75 * epsilon;
    assert!(values.iter().zip(&expected[0]).all(near), "{values:?}");
}

#[test]
fn products_read_it_in_low_precision_and_other_ops_in_f32() {
    under_each!(reads_as_each_reader_needs, UnscaledF16, InBf16);
}

/// Rows in low precision are appended to a tensor that began in F32, as by a loop that collects predictions.
fn rows_are_appended() {
    fn collect<B: Backend>(rows: usize) -> Tensor<B, 2> {
        let mut all = thirds::<B>(1);
        for _ in 0..rows {
            let half = Tensor::<B, 2>::full([1, 4], 0.5, &all.device());
            all = Tensor::cat(vec![all, activation(half)], 0);
        }
        all
    }
    type B = burn_amp_tests::Amp;
    let kind = |all: Tensor<B, 2>| all.into_primitive().tensor().kind();
    assert_eq!(kind(collect(1)), Kind::Concatenated);
    // It does not remember the concatenations before: a read of thousands would go thousands of calls deep.
    assert_eq!(kind(collect(2)), Kind::Plain);
    let all = collect::<B>(3000);
    let (found, expected) = (all.into_data(), collect::<Plain>(3000).into_data());
    assert_eq!(found, expected);
}

#[test]
fn rows_that_are_appended_do_not_pile_up() {
    for_each_low_policy!(rows_are_appended);
}
