//! Concatenation and its inverse, compared with Burn's ops bit by bit: they only move values.

use burn_amp_kernels::cat;

use super::prelude::*;

/// So many tensors that can be put side by side in dimension `dim`. Some are empty there, and some lie in memory in
/// another order.
fn parts(count: usize, dim: usize, dtype: DType) -> Vec<Float> {
    (0..count)
        .map(|at| {
            let mut shape = [3, 4, 5];
            shape[dim] = [8, 1, 5, 0, 16][at % 5];
            let seed = at as u32;
            if shape[dim] == 0 {
                // CUDA refuses to write no elements.
                Plain::float_empty(shape.into(), &here(), dtype.into())
            } else if at % 3 == 1 {
                let last = noisy(&[shape[0], shape[2], shape[1]], seed, dtype);
                Plain::float_permute(last, &[0, 2, 1])
            } else {
                noisy(&shape, seed, dtype)
            }
        })
        .collect()
}

#[test]
fn parts_are_put_side_by_side_and_cut_again() {
    for dtype in dtypes() {
        for dim in 0..3 {
            for count in [1, 2, 3, 16, 17, 35] {
                let what = format!("{count} parts in dimension {dim} in {dtype:?}");
                let parts = parts(count, dim, dtype);
                let sizes: Vec<usize> = parts.iter().map(|part| part.shape()[dim]).collect();
                let whole = cat::cat::<Plain>(parts.clone(), dim);
                // On CUDA, Burn's op fails with an empty part, and an empty tensor cannot be read.
                let filled = |part: &Float| part.shape().num_elements() > 0;
                let expected = parts.iter().filter(|part| filled(part)).cloned().collect();
                let expected = cat::cat::<References>(expected, dim);
                assert_eq!(
                    (whole.shape(), whole.dtype()),
                    (expected.shape(), dtype),
                    "{what}"
                );
                assert_eq!(read(&whole), read(&expected), "{what}");
                let cut = cat::split::<Plain>(whole, &sizes, dim);
                assert_eq!(cut.len(), count, "{what}");
                for (cut, part) in cut.iter().zip(&parts) {
                    assert_eq!((cut.shape(), cut.dtype()), (part.shape(), dtype), "{what}");
                    if filled(part) {
                        assert_eq!(read(cut), read(part), "{what}");
                    }
                }
            }
        }
    }
}

/// A concatenation keeps the order of memory of its largest part; the second part has another one.
#[test]
fn orders_of_memory_may_differ() {
    for dtype in dtypes() {
        let last = noisy(&[2, 3, 8, 4], 1, dtype);
        let channels_last = Plain::float_permute(last, &[0, 3, 1, 2]);
        let channels_first = noisy(&[2, 4, 3, 8], 2, dtype);
        for dim in 0..4 {
            for parts in [
                vec![channels_last.clone(), channels_first.clone()],
                vec![channels_first.clone(), channels_last.clone()],
                vec![channels_last.clone(), channels_last.clone()],
            ] {
                let expected = cat::cat::<References>(parts.clone(), dim);
                assert_eq!(read(&cat::cat::<Plain>(parts, dim)), read(&expected));
            }
        }
    }
}

/// The gradients of parts of which every second one is tracked.
fn gradients<B>(
    count: usize,
    cat: fn(Vec<B::FloatTensorPrimitive>, usize) -> B::FloatTensorPrimitive,
) -> Vec<Option<Vec<f32>>>
where
    B: AutodiffBackend,
{
    let tensor = |at: usize, columns: usize| {
        let values = (0..3 * columns).map(|i| ((i * 7 + at) % 11) as f32);
        let data = TensorData::new(values.collect::<Vec<_>>(), [3, columns]);
        B::float_from_data(data, &here())
    };
    let parts: Vec<_> = (0..count)
        .map(|at| B::float_set_require_grad(tensor(at, 1 + at % 3), at % 2 == 0))
        .collect();
    let whole = cat(parts.clone(), 1);
    let factors = tensor(count, whole.shape()[1]);
    let grads = B::backward(B::float_sum(B::float_mul(whole, factors)));
    let read = |part| {
        let gradient = B::grad(part, &grads)?;
        let data = read_sync(B::InnerBackend::float_into_data(gradient)).unwrap();
        Some(data.iter::<f32>().collect())
    };
    parts.iter().map(read).collect()
}

#[test]
fn each_part_gets_its_gradient() {
    for count in [1, 2, 5, 16, 17] {
        let expected = gradients::<PlainAutodiff>(count, PlainAutodiff::float_cat);
        assert!(expected.iter().step_by(2).all(Option::is_some));
        let found = gradients::<PlainAutodiff>(count, cat::cat::<PlainAutodiff>);
        assert_eq!(found, expected, "{count} parts");
    }
}
