//! Ways to read a tensor that are not ops.

use std::thread;

use burn::tensor::Transaction;
use burn_amp::{extend::Kind, thresholds};
use burn_amp_tests::prelude::*;

use super::{InF16, Kinds, Values, differences, exists, loss, make};

macro_rules! readers {
    ($($(#[$doc:meta])* $reader:ident,)*) => {
        /// A way to read a tensor.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        enum Reader {
            $($(#[$doc])* $reader,)*
        }

        impl Reader {
            const ALL: &[Self] = &[$(Self::$reader),*];
        }
    };
}

readers! {
    IntoData,
    Transaction,
    Record,
    Thread,
    ToDevice,
    Detach,
    StopGradient,
    Inner,
    FromInner,
    /// A sum in F32 and a product in low precision of the same tensor, in either order.
    SumThenProduct,
    ProductThenSum,
    /// A backward pass that begins at the tensor.
    Root,
    /// The gradient of a tensor that is no leaf: there is none.
    Grad,
    GradReplace,
    GradRemove,
}

/// What a program reads of the tensor `x`, made of `leaf`.
fn read<B: AutodiffBackend>(
    reader: Reader,
    x: FloatTensor<B>,
    leaf: &FloatTensor<B>,
) -> Vec<Values> {
    let float = Values::float::<B>;
    let inner = Values::float::<B::InnerBackend>;
    let gradient = |loss: FloatTensor<B>| match B::grad(leaf, &B::backward(loss)) {
        Some(gradient) => vec![Values::gradient::<B::InnerBackend>(gradient)],
        None => Vec::new(),
    };
    let wrapped = |x: FloatTensor<B>| Tensor::<B, 2>::from_primitive(TensorPrimitive::Float(x));
    let both = |sum: FloatTensor<B>, product: FloatTensor<B>| {
        let mut values = vec![float(sum.clone()), float(product.clone())];
        values.extend(gradient(B::float_add(sum, loss::<B>(product))));
        values
    };
    match reader {
        Reader::IntoData => vec![float(x)],
        Reader::Transaction => {
            let data = Transaction::default().register(wrapped(x)).execute();
            data.into_iter().map(Values::of).collect()
        }
        Reader::Record => {
            let item = wrapped(x).into_item::<FullPrecisionSettings>();
            let read = Tensor::<B, 2>::from_item::<FullPrecisionSettings>(item, &here());
            vec![Values::of(read.into_data())]
        }
        Reader::Thread => vec![
            thread::spawn(move || Values::float::<B>(B::float_exp(x)))
                .join()
                .expect("an op on another thread"),
        ],
        Reader::ToDevice => {
            let moved = B::float_to_device(x, &here());
            let mut values = vec![float(moved.clone())];
            values.extend(gradient(loss::<B>(moved)));
            values
        }
        Reader::Detach => {
            let cut = B::float_detach(x.clone());
            gradient(loss::<B>(B::float_mul(cut, x)))
        }
        Reader::StopGradient => {
            let cut = B::float_set_require_grad(B::float_detach(x.clone()), false);
            gradient(loss::<B>(B::float_mul(x, cut)))
        }
        Reader::Inner => vec![inner(B::InnerBackend::float_exp(B::inner(x)))],
        Reader::FromInner => {
            let outside = B::from_inner(B::inner(x.clone()));
            gradient(loss::<B>(B::float_mul(x, outside)))
        }
        Reader::SumThenProduct => {
            let sum = B::float_sum(x.clone());
            both(sum, B::float_matmul(x, B::float_detach(leaf.clone())))
        }
        Reader::ProductThenSum => {
            let product = B::float_matmul(x.clone(), B::float_detach(leaf.clone()));
            both(B::float_sum(x), product)
        }
        Reader::Root => gradient(x),
        Reader::Grad => {
            let grads = B::backward(loss::<B>(x.clone()));
            B::grad(&x, &grads).map(inner).into_iter().collect()
        }
        Reader::GradReplace => {
            let mut grads = B::backward(loss::<B>(x.clone()));
            let other = B::inner(B::float_exp(B::float_detach(x.clone())));
            B::grad_replace(&x, &mut grads, other);
            let of = [&x, leaf].map(|tensor| B::grad(tensor, &grads));
            of.into_iter().flatten().map(inner).collect()
        }
        Reader::GradRemove => {
            let mut grads = B::backward(loss::<B>(x.clone()));
            let of = [&x, leaf, leaf].map(|tensor| B::grad_remove(tensor, &mut grads));
            of.into_iter().flatten().map(inner).collect()
        }
    }
}

/// Reads a tensor of a kind that is made of a square matrix.
fn cell<B: AutodiffBackend + Kinds>(
    kind: Kind,
    reader: Reader,
    size: usize,
) -> Option<(Vec<Values>, Option<Kind>)> {
    // Multiples of 1/64 with few digits: exact in every dtype.
    let values: Vec<f32> = (0..size * size)
        .map(|i| ((37 * i + 11) % 127) as f32 / 64.0 - 1.0)
        .collect();
    let data = TensorData::new(values, [size, size]);
    let leaf = B::float_set_require_grad(B::float_from_data(data, &here()), true);
    let x = make::made::<B>(kind, leaf.clone())?;
    let found = B::kind(&x);
    Some((read::<B>(reader, x, &leaf), found))
}

fn every_reader_reads_every_kind(size: usize) {
    let mut failures = Vec::new();
    for kind in Kind::ALL.iter().filter(|kind| exists(**kind)) {
        for reader in Reader::ALL {
            // A kind that is made in no graph has no backward pass.
            let plain = catch_unwind(|| cell::<PlainAutodiff>(*kind, *reader, size));
            let Ok(Some((expected, _))) = plain else {
                continue;
            };
            let (found, of) = cell::<AmpAutodiff>(*kind, *reader, size).expect("as on plain Burn");
            let what = format!("{kind:?} by {reader:?}, {size} x {size}");
            assert_eq!(of, Some(*kind), "{what}");
            let share = 8.0 * f64::from(epsilon());
            failures.extend(
                differences(&found, &expected, share).map(|differ| format!("{what}: {differ}")),
            );
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn at_small_and_large_sizes() {
    {
        let _lowered = thresholds::lower();
        every_reader_reads_every_kind(6);
    }
    every_reader_reads_every_kind(48);
}

#[test]
fn every_reader_reads_the_values_of_every_kind() {
    under_each!(at_small_and_large_sizes, InBf16, InF16);
}

fn debug_names_the_kind() {
    for kind in Kind::ALL.iter().filter(|kind| exists(**kind)) {
        let x = AmpAutodiff::float_set_require_grad(
            AmpAutodiff::float_from_data(TensorData::new(vec![1f32; 48 * 48], [48, 48]), &here()),
            true,
        );
        if let Some(x) = make::made::<AmpAutodiff>(*kind, x) {
            let debug = format!("{x:?}");
            says(&debug, &format!("kind: {kind:?}"));
            says(&debug, "48, 48");
        }
    }
}

#[test]
fn debug_says_what_a_tensor_stands_for_and_prints_no_other_tensor() {
    under_each!(debug_names_the_kind, InBf16, InF16);
}
