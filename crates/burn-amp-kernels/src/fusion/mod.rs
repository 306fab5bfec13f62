//! The ops under Fusion: each is an operation of the stream that computes on the backend below.
//!
//! Elementwise ops keep the reference: Fusion fuses Burn's ops with their neighbours.

mod affine;
mod operation;

use burn_backend::{
    DType, FloatDType, Shape, TensorMetadata,
    ops::{AttentionModuleOptions, FloatTensorOps as _},
    tensor::FloatTensor,
};
use burn_fusion::{Fusion, FusionBackend};

use self::{
    affine::{ChainParts, RestParts, next, two_sums},
    operation::{Operands, custom, register, register_mixed, to_int},
};
use crate::{
    AmpBackend,
    affine::{Affine, Group, Moments, Rest, Sums},
    kernel::{Kernel, TensorsOf, exactly, like},
    reading::Reading,
    sign_mask::{self, SignMask},
};

impl<B: FusionBackend + AmpBackend> AmpBackend for Fusion<B> {
    fn run<K: Kernel>(kernel: K, operands: TensorsOf<Self>) -> TensorsOf<Self> {
        if K::IS_FUSED {
            return kernel.reference::<Self>(operands);
        }
        let results = kernel.results(&operands.metas());
        let compute = move |operands| B::run(kernel.clone(), operands);
        operation::any::<B>(K::NAME, operands, results, compute)
    }

    fn fuses_elementwise() -> bool {
        true
    }

    fn is_same(one: &FloatTensor<Self>, other: &FloatTensor<Self>) -> bool {
        one.id == other.id && Self::float_device(one) == Self::float_device(other)
    }

    fn read_later(tensor: FloatTensor<Self>) -> Reading {
        let client = tensor.client.clone();
        B::read_later(client.resolve_tensor_float::<B>(tensor))
    }

    fn not_positive(x: FloatTensor<Self>) -> SignMask<Self> {
        if x.dtype() == DType::F64 {
            return sign_mask::reference::<Self>(x);
        }
        let words = Shape::new([sign_mask::words(x.shape().num_elements())]);
        let name = "burn_amp::not_positive";
        let mask = to_int::<B>(name, x, (words, DType::U32), |x| match B::not_positive(x) {
            SignMask::Bits(mask) => mask,
            SignMask::Bools(_) => unreachable!("the kernels pack masks of every dtype but F64"),
        });
        SignMask::Bits(mask)
    }

    fn zeroed(x: FloatTensor<Self>, mask: SignMask<Self>) -> FloatTensor<Self> {
        let mask = match mask {
            SignMask::Bits(mask) => mask,
            SignMask::Bools(_) => return sign_mask::reference_zeroed::<Self>(x, mask),
        };
        let results = vec![like(&x)];
        let operands = Operands {
            floats: vec![x],
            ints: vec![mask],
        };
        let results = register::<B>("burn_amp::zeroed", operands, results, |floats, ints| {
            let ([x], [mask]) = (exactly(floats), exactly(ints));
            vec![B::zeroed(x, SignMask::Bits(mask))]
        });
        let [output] = exactly(results);
        output
    }

    fn not_positive_as(tensor: FloatTensor<Self>, x: &FloatTensor<Self>) -> SignMask<Self> {
        if tensor.dtype() == DType::F64 {
            return sign_mask::reference::<Self>(tensor);
        }
        let words = Shape::new([sign_mask::words(tensor.shape().num_elements())]);
        let operands = floats(vec![tensor, x.clone()]);
        let name = "burn_amp::not_positive_as";
        let compute = |floats, _| {
            let [tensor, x] = exactly(floats);
            match B::not_positive_as(tensor, &x) {
                SignMask::Bits(mask) => (vec![], vec![mask]),
                SignMask::Bools(_) => unreachable!("the kernels pack masks of every dtype but F64"),
            }
        };
        let results = vec![(words, DType::U32)];
        let (_, masks) = register_mixed::<B>(name, operands, vec![], results, compute);
        let [mask] = exactly(masks);
        SignMask::Bits(mask)
    }

    fn zeroed_as(
        tensor: FloatTensor<Self>,
        mask: SignMask<Self>,
        x: &FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let mask = match mask {
            SignMask::Bits(mask) => mask,
            SignMask::Bools(_) => return sign_mask::reference_zeroed::<Self>(tensor, mask),
        };
        let results = vec![like(&tensor)];
        let operands = Operands {
            floats: vec![tensor, x.clone()],
            ints: vec![mask],
        };
        let results = register::<B>("burn_amp::zeroed_as", operands, results, |floats, ints| {
            let ([tensor, x], [mask]) = (exactly(floats), exactly(ints));
            vec![B::zeroed_as(tensor, SignMask::Bits(mask), &x)]
        });
        let [output] = exactly(results);
        output
    }

    fn has_attention_kernel(options: &AttentionModuleOptions, has_bias: bool) -> bool {
        B::has_attention_kernel(options, has_bias)
    }

    fn mixed_affine(
        x: FloatTensor<Self>,
        affine: Affine<Self>,
        plus: Option<FloatTensor<Self>>,
        dtype: FloatDType,
    ) -> FloatTensor<Self> {
        let result = vec![(x.shape(), dtype.into())];
        let mut tensors = vec![x];
        let parts = ChainParts::of(affine, &mut tensors);
        tensors.extend(plus);
        let compute = move |tensors: Vec<FloatTensor<B>>, _| {
            let mut tensors = tensors.into_iter();
            let (x, affine) = (next(&mut tensors), parts.chain::<B>(&mut tensors));
            vec![B::mixed_affine(x, affine, tensors.next(), dtype)]
        };
        let name = "burn_amp::affine";
        let [output] = exactly(register::<B>(name, floats(tensors), result, compute));
        output
    }

    fn mixed_affine_backward(
        x: FloatTensor<Self>,
        affine: Affine<Self>,
        grad: FloatTensor<Self>,
        rest: Rest<Self>,
        dtype: FloatDType,
    ) -> FloatTensor<Self> {
        let result = vec![(x.shape(), dtype.into())];
        let mut tensors = vec![x, grad];
        let parts = ChainParts::of(affine, &mut tensors);
        let rest_parts = RestParts::of(rest, &mut tensors);
        let compute = move |tensors: Vec<FloatTensor<B>>, _| {
            let mut tensors = tensors.into_iter();
            let (x, grad) = (next(&mut tensors), next(&mut tensors));
            let affine = parts.chain::<B>(&mut tensors);
            let rest = rest_parts.rest::<B>(&mut tensors);
            vec![B::mixed_affine_backward(x, affine, grad, rest, dtype)]
        };
        let name = "burn_amp::affine_backward";
        let [dx] = exactly(register::<B>(name, floats(tensors), result, compute));
        dx
    }

    fn in_order_of(tensor: FloatTensor<Self>, x: &FloatTensor<Self>) -> FloatTensor<Self> {
        let results = [like(&tensor)];
        let name = "burn_amp::in_order_of";
        let [tensor] = custom::<B, _, _>(name, [tensor, x.clone()], results, |[tensor, x]| {
            [B::in_order_of(tensor, &x)]
        });
        tensor
    }

    fn mixed_affine_sums(
        x: FloatTensor<Self>,
        affine: Affine<Self>,
        grad: FloatTensor<Self>,
        group: Group,
    ) -> Sums<FloatTensor<Self>> {
        let kept = affine.kept(group).expect("the group has a factor");
        let mut tensors = vec![x, grad];
        let parts = ChainParts::of(affine, &mut tensors);
        let compute = move |tensors: Vec<FloatTensor<B>>, _| {
            let mut tensors = tensors.into_iter();
            let (x, grad) = (next(&mut tensors), next(&mut tensors));
            let affine = parts.chain::<B>(&mut tensors);
            let sums = B::mixed_affine_sums(x, affine, grad, group);
            vec![sums.of_gradient, sums.of_product]
        };
        let name = "burn_amp::affine_sums";
        let results = register::<B>(name, floats(tensors), two_sums(kept), compute);
        let [of_gradient, of_product] = exactly(results);
        Sums {
            of_gradient,
            of_product,
        }
    }

    fn mixed_moments(
        x: FloatTensor<Self>,
        grid: Shape,
        before: Option<FloatTensor<Self>>,
        kept: Shape,
        mean: bool,
    ) -> Moments<FloatTensor<Self>> {
        let results = two_sums(kept.clone());
        let tensors = std::iter::once(x).chain(before).collect();
        let compute = move |tensors: Vec<FloatTensor<B>>, _| {
            let mut tensors = tensors.into_iter();
            let (x, before) = (next(&mut tensors), tensors.next());
            let moments = B::mixed_moments(x, grid.clone(), before, kept.clone(), mean);
            vec![moments.sum, moments.squares]
        };
        let name = "burn_amp::moments";
        let [sum, squares] = exactly(register::<B>(name, floats(tensors), results, compute));
        Moments { sum, squares }
    }
}

fn floats<B: FusionBackend>(tensors: Vec<FloatTensor<Fusion<B>>>) -> Operands<B> {
    Operands {
        floats: tensors,
        ints: Vec::new(),
    }
}
