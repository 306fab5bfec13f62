//! On the CPU, over the bytes of the tensors.

use burn_backend::{DType, FloatDType, TensorData, bf16, f16};
use burn_flex::FlexTensor;

use super::{BLOCK, INF, LEAST_SCALE, MOST, NAN};
use crate::names::{dtype_of, shape_of};

/// Returns the codes and the scales.
pub(super) fn pack(x: FlexTensor) -> (FlexTensor, FlexTensor) {
    let data = x.into_data();
    let shape = shape_of(&data).clone();
    let (codes, scales) = match dtype_of(&data) {
        DType::F16 => blocks(data.as_slice::<f16>(), |x| x.to_f32()),
        DType::BF16 => blocks(data.as_slice::<bf16>(), |x| x.to_f32()),
        DType::F32 | DType::Flex32 => blocks(data.as_slice::<f32>(), |x| *x),
        other => unreachable!("{other:?} is not kept in eight bits"),
    };
    let count = scales.len();
    (
        FlexTensor::from_data(TensorData::new(codes, shape)),
        FlexTensor::from_data(TensorData::new(scales, [count])),
    )
}

fn blocks<T, E: std::fmt::Debug>(
    values: Result<&[T], E>,
    number: impl Fn(&T) -> f32,
) -> (Vec<i8>, Vec<f32>) {
    let values = values.expect("the data has the dtype that it states");
    let mut codes = Vec::with_capacity(values.len());
    let mut scales = Vec::with_capacity(values.len().div_ceil(BLOCK));
    for block in values.chunks(BLOCK) {
        let magnitudes = block.iter().map(|x| number(x).abs());
        let most = magnitudes.filter(|x| x.is_finite()).fold(0.0, f32::max);
        let scale = (most * (1.0 / MOST)).max(LEAST_SCALE);
        let inverse = 1.0 / scale;
        codes.extend(block.iter().map(&number).map(|x| match x {
            0.0 => 0,
            _ if x.is_nan() => NAN as i8,
            _ if x.is_infinite() => INF.copysign(x) as i8,
            _ => (x.abs() * inverse + 0.5).floor().max(1.0).copysign(x) as i8,
        }));
        scales.push(scale);
    }
    (codes, scales)
}

/// Returns the values in a dtype.
pub(super) fn unpack(codes: FlexTensor, scales: FlexTensor, dtype: FloatDType) -> FlexTensor {
    let [codes, scales] = [codes, scales].map(FlexTensor::into_data);
    let of_codes = codes.as_slice::<i8>().expect("codes are I8");
    let of_scales = scales.as_slice::<f32>().expect("scales are F32");
    let blocks = of_codes.chunks(BLOCK).zip(of_scales);
    let value = |code: f32, scale: f32| match code {
        INF => f32::INFINITY,
        NAN => f32::NAN,
        _ if code == -INF => f32::NEG_INFINITY,
        _ => code * scale,
    };
    let values = blocks.flat_map(|(block, scale)| {
        block
            .iter()
            .map(move |code| value(f32::from(*code), *scale))
    });
    let shape = shape_of(&codes).clone();
    FlexTensor::from_data(match dtype {
        FloatDType::F16 => TensorData::new(Vec::from_iter(values.map(f16::from_f32)), shape),
        FloatDType::BF16 => TensorData::new(Vec::from_iter(values.map(bf16::from_f32)), shape),
        _ => TensorData::new(Vec::from_iter(values), shape),
    })
}
