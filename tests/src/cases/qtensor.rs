//! The cases of `QTensorOps`.

use burn_backend::quantization::{
    QuantScheme, QuantStore, QuantValue, QuantizationParametersPrimitive,
};

use crate::prelude::*;

use super::{Case, Operand, Output};

pub(super) fn case<B: Backend>(op: Op) -> Option<Case<B>> {
    let x = || Operand::signed(0, [4, 8]);

    Some(match op {
        Op::quantize => Case::new([x(), Operand::of([1], &[1.0 / 64.0])], |[x, scales], _| {
            let parameters = QuantizationParametersPrimitive {
                scales,
                #[cfg(burn_0_22)]
                global: None,
            };
            vec![Output::Quantized(B::quantize(x, &scheme(), parameters))]
        }),
        Op::quantize_dynamic => Case::new([x()], |[x], _| {
            vec![Output::Quantized(B::quantize_dynamic(x, &scheme()))]
        }),
        // Ops that the other files cover, and ops without a class.
        _ => return None,
    })
}

/// A scheme that every backend under test has: eight bits per value, one scale per tensor.
fn scheme() -> QuantScheme {
    QuantScheme::default()
        .with_value(QuantValue::Q8S)
        .with_store(QuantStore::Native)
}
