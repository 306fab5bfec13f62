//! The macros that write the method of a row.

/// Writes the method of one row.
///
/// A macro, because a function cannot be generic over signatures.
macro_rules! by_hand {
    // These make tensors, set the dtype, or are about the graph; their methods are written out.
    (float_from_data $($row:tt)*) => {};
    (float_random $($row:tt)*) => {};
    (float_zeros $($row:tt)*) => {};
    (float_ones $($row:tt)*) => {};
    (float_full $($row:tt)*) => {};
    (float_empty $($row:tt)*) => {};
    (float_into_data $($row:tt)*) => {};
    (float_to_device $($row:tt)*) => {};
    (float_cast $($row:tt)*) => {};
    (float_detach $($row:tt)*) => {};
    (float_set_require_grad $($row:tt)*) => {};
    (int_into_float $($row:tt)*) => {};
    (bool_into_float $($row:tt)*) => {};
    (dequantize $($row:tt)*) => {};
    // No program calls ops on quantized tensors.
    (q_matmul $($row:tt)*) => {};
    (
        $op:ident [$($async:ident.$await:ident)?] ($($x:ident: $type:ty as $kind:tt,)*)
        -> $ret:ty as $result:tt $(by $hand:ident)?
    ) => {
        $($async)? fn $op($($x: $type),*) -> $ret {
            #[allow(unused_mut, reason = "not every op has float operands")]
            let mut call = Call::new(Op::$op);
            $(look!(call, $kind, $x);)*
            #[allow(unused_variables, reason = "not every op has float operands or results")]
            let Decided { casts, stored, logical, remembers, accumulates_in } = call.decide();
            $(let $x = operand!($kind, $x, casts);)*
            #[allow(unused_variables, reason = "not every op has a float result")]
            let in_low = match accumulates_in {
                Some(low) => Some((Flex::$op($(in_low!($kind, $x, low)),*)$(.$await)?, low)),
                None => None,
            };
            let result = Flex::$op($($x),*)$(.$await)?;
            wrapped!($result, result, in_low, stored, logical, remembers)
        }
    };
}

/// Shows an operand to the call. A macro, because the kind of an operand is a word of the table.
macro_rules! look {
    ($call:ident, [F], $x:ident) => {
        $call.float(&$x)
    };
    ($call:ident, [&F], $x:ident) => {
        $call.float($x)
    };
    ($call:ident, [Option<F>], $x:ident) => {
        $x.iter().for_each(|x| $call.float(x))
    };
    ($call:ident, [Vec<F>], $x:ident) => {
        $x.iter().for_each(|x| $call.float(x))
    };
    ($call:ident, [Scalar], $x:ident) => {
        $call.scalars.push($x.elem())
    };
    ($call:ident, $kind:tt, $x:ident) => {};
}

/// Converts an operand to what Flex expects. A macro for the same reason as [`look!`].
macro_rules! operand {
    ([F], $x:ident, $casts:ident) => {
        $x.operand($casts.operands)
    };
    ([&F], $x:ident, $casts:ident) => {
        &$x.values
    };
    ([Option<F>], $x:ident, $casts:ident) => {
        $x.map(|x| x.operand($casts.operands))
    };
    ([Vec<F>], $x:ident, $casts:ident) => {
        $x.into_iter()
            .map(|x| x.operand($casts.operands))
            .collect::<Vec<_>>()
    };
    ([QuantizationParametersPrimitive], $x:ident, $casts:ident) => {
        QuantizationParametersPrimitive::<Flex> {
            scales: $x.scales.values,
            #[cfg(burn_0_22)]
            global: $x.global.map(|x| x.values),
        }
    };
    ($kind:tt, $x:ident, $casts:ident) => {
        $x
    };
}

/// Converts an operand of Flex to one in low precision. A macro for the same reason as [`look!`].
macro_rules! in_low {
    ([F], $x:ident, $low:ident) => {
        stored_in($x.clone(), $low)
    };
    ([&F], $x:ident, $low:ident) => {
        &stored_in($x.clone(), $low)
    };
    ([Option<F>], $x:ident, $low:ident) => {
        $x.clone().map(|x| stored_in(x, $low))
    };
    ([Vec<F>], $x:ident, $low:ident) => {
        $x.iter().map(|x| stored_in(x.clone(), $low)).collect()
    };
    ([QuantizationParametersPrimitive], $x:ident, $low:ident) => {
        QuantizationParametersPrimitive::<Flex> {
            scales: $x.scales.clone(),
            #[cfg(burn_0_22)]
            global: $x.global.clone(),
        }
    };
    ($kind:tt, $x:ident, $low:ident) => {
        Clone::clone(&$x)
    };
}

/// Converts a result of Flex, given the one in low precision if there is one. A macro for the same reason as [`look!`].
macro_rules! wrapped {
    ([F], $result:ident, $in_low:ident, $stored:ident, $logical:ident, $remembers:ident) => {
        result(with_errors($result, $in_low), $stored, $logical, $remembers)
    };
    ([Wide], $result:ident, $in_low:ident, $stored:ident, $logical:ident, $remembers:ident) => {
        result(
            with_errors($result, $in_low),
            $stored.join(Precision::F32),
            $logical,
            false,
        )
    };
    ([(F,I)], $result:ident, $in_low:ident, $stored:ident, $logical:ident, $remembers:ident) => {{
        let (values, indices) = $result;
        (result(values, $stored, $logical, false), indices)
    }};
    ([(F,F)], $result:ident, $in_low:ident, $stored:ident, $logical:ident, $remembers:ident) => {{
        let (first, second) = $result;
        (
            result(first, $stored, $logical, false),
            result(second, $stored, $logical, false),
        )
    }};
    ([Primitive], $result:ident, $in_low:ident, $stored:ident, $logical:ident, $remembers:ident) => {
        match $result {
            TensorPrimitive::Float(tensor) => {
                TensorPrimitive::Float(Rounded::made(tensor, Known::Nothing))
            }
            TensorPrimitive::QFloat(tensor) => TensorPrimitive::QFloat(tensor),
        }
    };
    ([DeformConv2dBackward], $result:ident, $in_low:ident, $stored:ident, $logical:ident, $remembers:ident) => {{
        let grads = $result;
        DeformConv2dBackward::new(
            result(grads.x_grad, $stored, $logical, false),
            result(grads.offset_grad, $stored, $logical, false),
            result(grads.weight_grad, $stored, $logical, false),
            grads.mask_grad.map(|x| result(x, $stored, $logical, false)),
            grads.bias_grad.map(|x| result(x, $stored, $logical, false)),
        )
    }};
    ([MaxPool1dBackward], $result:ident, $in_low:ident, $stored:ident, $logical:ident, $remembers:ident) => {
        MaxPool1dBackward::new(result($result.x_grad, $stored, $logical, false))
    };
    ([MaxPool1dWithIndices], $result:ident, $in_low:ident, $stored:ident, $logical:ident, $remembers:ident) => {{
        let pooled = $result;
        MaxPool1dWithIndices::new(
            result(pooled.output, $stored, $logical, false),
            pooled.indices,
        )
    }};
    ([MaxPool2dBackward], $result:ident, $in_low:ident, $stored:ident, $logical:ident, $remembers:ident) => {
        MaxPool2dBackward::new(result($result.x_grad, $stored, $logical, false))
    };
    ([MaxPool2dWithIndices], $result:ident, $in_low:ident, $stored:ident, $logical:ident, $remembers:ident) => {{
        let pooled = $result;
        MaxPool2dWithIndices::new(
            result(pooled.output, $stored, $logical, false),
            pooled.indices,
        )
    }};
    ($kind:tt, $result:ident, $in_low:ident, $stored:ident, $logical:ident, $remembers:ident) => {
        $result
    };
}

pub(super) use by_hand;
pub(super) use in_low;
pub(super) use look;
pub(super) use operand;
pub(super) use wrapped;
