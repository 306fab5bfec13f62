//! The methods of [`Amp`](crate::backend::Amp), made from the rows of the table.
//!
//! `module_ops! { forward! }` inside an `impl` of `ModuleOps` writes one method per row: look at the operands, decide,
//! cast, call the inner backend, wrap the result. A [`rule`](crate::ops::rules) may do more at some of these steps. The
//! method of a row marked `by hand` calls the function of the same name in the module of the `impl`.

/// Writes the method of one row.
///
/// A macro, because a function cannot be generic over signatures.
macro_rules! forward {
    // Questions about a tensor, which nobody counts as calls.
    (float_device [] ($x:ident: $type:ty as [&F],) -> $ret:ty as $result:tt) => {
        #[inline]
        fn float_device($x: $type) -> $ret {
            $x.device()
        }
    };
    (float_is_require_grad [] ($x:ident: $type:ty as [&F],) -> $ret:ty as $result:tt) => {
        #[inline]
        fn float_is_require_grad($x: $type) -> $ret {
            $x.is_require_grad()
        }
    };
    (
        $op:ident [] ($($x:ident: $type:ty as $kind:tt,)*) -> $ret:ty as [F] $(by rule)?
    ) => {
        #[inline]
        fn $op($($x: $type),*) -> $ret {
            #[allow(unused_mut, reason = "not every op has operands that the policy looks at")]
            let mut call = $crate::cast::call::Call::<B>::new::<G>(burn_amp_core::Op::$op);
            let shadow = $crate::cast::forward::shadow!($op($($x: $kind),*));
            $crate::cast::forward::recorded!([F] $op($($x: $kind),*), {
                $crate::ops::rules::rule!(look call $op($($kind $x),*));
                let call = call.decide();
                let result = match $crate::ops::rules::rule!(first call $op($($x),*)) {
                    Some(result) => result,
                    None => {
                        $(let $x = $crate::cast::forward::operand!($kind, call, $x);)*
                        $crate::ops::rules::rule!(compute call $op($($x),*))
                    }
                };
                $crate::cast::forward::compared!(shadow, result)
            })
        }
    };
    (
        $op:ident [] ($($x:ident: $type:ty as $kind:tt,)*) -> $ret:ty as [F] by hand
    ) => {
        #[inline]
        fn $op($($x: $type),*) -> $ret {
            // Without the steps below, the operands are not moved once more.
            if !$crate::watching::is_on() {
                return self::$op::<B, P, G>($($x),*);
            }
            let shadow = $crate::cast::forward::shadow!($op($($x: $kind),*));
            $crate::cast::forward::recorded!([F] $op($($x: $kind),*), {
                let result = self::$op::<B, P, G>($($x),*);
                $crate::cast::forward::compared!(shadow, result)
            })
        }
    };
    (
        $op:ident [$($async:ident.$await:ident)?] ($($x:ident: $type:ty as $kind:tt,)*)
        -> $ret:ty as $result:tt
    ) => {
        #[inline]
        $($async)? fn $op($($x: $type),*) -> $ret {
            #[allow(unused_mut, reason = "not every op has operands that the policy looks at")]
            let mut call = $crate::cast::call::Call::<B>::new::<G>(burn_amp_core::Op::$op);
            $crate::cast::forward::recorded!($result $op($($x: $kind),*), {
                $($crate::cast::forward::look!($result $kind, call, $x);)*
                let call = call.decide();
                let result = $crate::cast::forward::computed!(
                    $result, call, $op($($crate::cast::forward::operand!($kind, call, $x)),*)$(.$await)?
                );
                $crate::cast::forward::result!($result, call, result)
            })
        }
    };
    (
        $op:ident [$($async:ident.$await:ident)?] ($($x:ident: $type:ty as $kind:tt,)*)
        -> $ret:ty as $result:tt by hand
    ) => {
        #[inline]
        $($async)? fn $op($($x: $type),*) -> $ret {
            self::$op::<B, P, G>($($x),*)$(.$await)?
        }
    };
}

/// The result of the op in F32 or F64, if ops are compared.
///
/// A macro for the same reason as [`look!`].
macro_rules! shadow {
    ($op:ident($($x:ident: $kind:tt),*)) => {
        if $crate::watching::is_on() {
            #[allow(unused_variables, reason = "not every op has float operands")]
            $crate::cast::shadow::Shadow::<B>::of(burn_amp_core::Op::$op, |dtype| {
                $crate::backend::Amp::<B, P, $crate::graph::NoGraph>::$op(
                    $($crate::cast::forward::shadowed!($kind, dtype, $x)),*
                )
            })
        } else {
            None
        }
    };
}

/// An operand of the op in `dtype`.
///
/// A macro for the same reason as [`look!`].
macro_rules! shadowed {
    ([F], $dtype:ident, $x:ident) => {
        $crate::cast::shadow::operand(&$x, $dtype)
    };
    ([Option<F>], $dtype:ident, $x:ident) => {
        $x.as_ref()
            .map(|x| $crate::cast::shadow::operand(x, $dtype))
    };
    ([Vec<F>], $dtype:ident, $x:ident) => {
        $x.iter()
            .map(|x| $crate::cast::shadow::operand(x, $dtype))
            .collect()
    };
    ([&Device], $dtype:ident, $x:ident) => {
        $x
    };
    ($kind:tt, $dtype:ident, $x:ident) => {
        $x.clone()
    };
}

/// Compares the result of an op with that in F32 or F64, if ops are compared.
///
/// A macro for the same reason as [`look!`].
macro_rules! compared {
    ($shadow:ident, $result:expr) => {{
        let result = $result;
        match $shadow {
            Some(shadow) => shadow.compared(result),
            None => result,
        }
    }};
}

/// Runs a call that is recorded if its result is float and the step is recorded.
///
/// A macro for the same reason as [`look!`].
macro_rules! recorded {
    // The results of other kinds enter the calls that read them as values.
    ([F] $($call:tt)*) => { $crate::cast::forward::recorded! { @ [F] $($call)* } };
    ([Wide] $($call:tt)*) => { $crate::cast::forward::recorded! { @ [F] $($call)* } };
    ([(F, F)] $($call:tt)*) => { $crate::cast::forward::recorded! { @ [(F, F)] $($call)* } };
    ([(F, I)] $($call:tt)*) => { $crate::cast::forward::recorded! { @ [(F, I)] $($call)* } };
    ([DeformConv2dBackward] $($call:tt)*) => {
        $crate::cast::forward::recorded! { @ [DeformConv2dBackward] $($call)* }
    };
    ([MaxPool1dBackward] $($call:tt)*) => { $crate::cast::forward::recorded! { @ [Gradient] $($call)* } };
    ([MaxPool2dBackward] $($call:tt)*) => { $crate::cast::forward::recorded! { @ [Gradient] $($call)* } };
    ([MaxPool1dWithIndices] $($call:tt)*) => { $crate::cast::forward::recorded! { @ [Indexed] $($call)* } };
    ([MaxPool2dWithIndices] $($call:tt)*) => { $crate::cast::forward::recorded! { @ [Indexed] $($call)* } };
    (@ $result:tt $op:ident($($x:ident: $kind:tt),*), $body:block) => {{
        let taken = if $crate::watching::is_on() {
            #[allow(unused_variables, reason = "not every op has arguments that are recorded")]
            $crate::cast::record::Taken::<B>::of::<G>(burn_amp_core::Op::$op, |taken| {
                $($crate::cast::forward::taken!($kind, taken, $x);)*
            })
        } else {
            None
        };
        #[allow(unused_mut, reason = "it gets a number if the step is recorded")]
        let mut result = $body;
        if let Some(taken) = taken {
            $crate::cast::forward::numbered!($result, taken, result);
        }
        result
    }};
    ($result:tt $op:ident($($x:ident: $kind:tt),*), $body:block) => { $body };
}

/// Shows an argument to the record of a call.
///
/// A macro for the same reason as [`look!`].
macro_rules! taken {
    ([F], $taken:ident, $x:ident) => {
        $taken.float(&$x)
    };
    ([Option<F>], $taken:ident, $x:ident) => {
        $taken.optional($x.as_ref())
    };
    ([Vec<F>], $taken:ident, $x:ident) => {
        $taken.floats(&$x)
    };
    ([I], $taken:ident, $x:ident) => {
        $taken.int(&$x)
    };
    ([Bool], $taken:ident, $x:ident) => {
        $taken.bool(&$x)
    };
    ([Option<Bool>], $taken:ident, $x:ident) => {
        match &$x {
            Some(x) => $taken.bool(x),
            None => $taken.absent(),
        }
    };
    // Only ops that are not recorded have these, since no float tensor is among their operands; but for a move to a device.
    ([&Device], $taken:ident, $x:ident) => {};
    ([TensorData], $taken:ident, $x:ident) => {};
    ([Distribution], $taken:ident, $x:ident) => {};
    ([Q], $taken:ident, $x:ident) => {};
    ([&[usize]], $taken:ident, $x:ident) => {
        $taken.plain($x.to_vec())
    };
    ([&[Slice]], $taken:ident, $x:ident) => {
        $taken.plain($x.to_vec())
    };
    ($kind:tt, $taken:ident, $x:ident) => {
        $taken.plain($x.clone())
    };
}

/// Ends the record of a call, whose float results get numbers.
///
/// A macro for the same reason as [`look!`].
macro_rules! numbered {
    ([F], $taken:ident, $result:ident) => {
        $taken.finish(&mut [&mut $result])
    };
    ([(F, F)], $taken:ident, $result:ident) => {
        $taken.finish(&mut [&mut $result.0, &mut $result.1])
    };
    ([(F, I)], $taken:ident, $result:ident) => {
        $taken.finish(&mut [&mut $result.0])
    };
    ([Gradient], $taken:ident, $result:ident) => {
        $taken.finish(&mut [&mut $result.x_grad])
    };
    ([Indexed], $taken:ident, $result:ident) => {
        $taken.finish(&mut [&mut $result.output])
    };
    ([DeformConv2dBackward], $taken:ident, $result:ident) => {{
        let DeformConv2dBackward {
            x_grad,
            offset_grad,
            weight_grad,
            mask_grad,
            bias_grad,
        } = &mut $result;
        let mut results = vec![x_grad, offset_grad, weight_grad];
        results.extend(mask_grad);
        results.extend(bias_grad);
        $taken.finish(&mut results)
    }};
}

/// Shows an operand to the call.
///
/// For a float result without a float operand, the policy is that of a device: the one that is passed, or that of an
/// operand. A macro, because the kinds of operands are words of the table, not types with a common trait.
macro_rules! look {
    ($result:tt [F], $call:ident, $x:ident) => {
        $call.float(&$x)
    };
    ($result:tt [Option<F>], $call:ident, $x:ident) => {
        $x.iter().for_each(|x| $call.float(x))
    };
    ($result:tt [Vec<F>], $call:ident, $x:ident) => {
        $x.iter().for_each(|x| $call.float(x))
    };
    ($result:tt [QuantizationParametersPrimitive], $call:ident, $x:ident) => {
        $call.float(&$x.scales)
    };
    ($result:tt [Scalar], $call:ident, $x:ident) => {
        $call.scalar($x)
    };
    ([F] [&Device], $call:ident, $x:ident) => {
        $call.device::<P, _>(|| $x)
    };
    ([F] [I], $call:ident, $x:ident) => {{
        $call.device::<P, _>(|| <G::Inner as burn_backend::ops::IntTensorOps<_>>::int_device(&$x));
        $call.int(&$x)
    }};
    ([F] [Bool], $call:ident, $x:ident) => {{
        $call
            .device::<P, _>(|| <G::Inner as burn_backend::ops::BoolTensorOps<_>>::bool_device(&$x));
        $call.bool(&$x)
    }};
    ($result:tt [I], $call:ident, $x:ident) => {
        $call.int(&$x)
    };
    ($result:tt [Bool], $call:ident, $x:ident) => {
        $call.bool(&$x)
    };
    ([F] [Q], $call:ident, $x:ident) => {
        $call.device::<P, _>(|| <G::Inner as burn_backend::ops::QTensorOps<_>>::q_device(&$x))
    };
    ([Primitive] [Q], $call:ident, $x:ident) => {
        $call.device::<P, _>(|| <G::Inner as burn_backend::ops::QTensorOps<_>>::q_device(&$x))
    };
    ($result:tt $kind:tt, $call:ident, $x:ident) => {};
}

/// Prepares an operand for the inner backend.
///
/// A macro for the same reason as [`look!`].
macro_rules! operand {
    ([F], $call:ident, $x:ident) => {
        $call.cast($x)
    };
    ([Option<F>], $call:ident, $x:ident) => {
        $x.map(|x| $call.cast(x))
    };
    ([Vec<F>], $call:ident, $x:ident) => {
        $x.into_iter().map(|x| $call.cast(x)).collect()
    };
    ([Scalar], $call:ident, $x:ident) => {
        $call.scalar($x)
    };
    ([QuantizationParametersPrimitive], $call:ident, $x:ident) => {
        QuantizationParametersPrimitive {
            scales: $call.cast($x.scales),
        }
    };
    ($kind:tt, $call:ident, $x:ident) => {
        $x
    };
}

/// Calls the inner backend, which records a float result as the call decided.
///
/// A macro for the same reason as [`look!`].
macro_rules! computed {
    ([F], $call:ident, $op:ident($($operand:expr),*)) => {
        if $call.recomputes() {
            G::Recomputed::$op($($operand),*)
        } else {
            G::Inner::$op($($operand),*)
        }
    };
    ($result:tt, $call:ident, $op:ident($($operand:expr),*)$(.$await:ident)?) => {
        G::Inner::$op($($operand),*)$(.$await)?
    };
}

/// Wraps a result of the inner backend as a result of `Amp`.
///
/// A macro for the same reason as [`look!`].
macro_rules! result {
    ([F], $call:ident, $result:ident) => {
        $call.result($result)
    };
    ([Wide], $call:ident, $result:ident) => {
        $call.wide($result)
    };
    ([Primitive], $call:ident, $result:ident) => {
        $call.primitive($result)
    };
    ([(F, F)], $call:ident, $result:ident) => {
        ($call.result($result.0), $call.result($result.1))
    };
    ([(F, I)], $call:ident, $result:ident) => {
        ($call.result($result.0), $call.int_result::<G>($result.1))
    };
    ([I], $call:ident, $result:ident) => {
        $call.int_result::<G>($result)
    };
    ([Bool], $call:ident, $result:ident) => {
        $call.bool_result::<G>($result)
    };
    ([DeformConv2dBackward], $call:ident, $result:ident) => {
        DeformConv2dBackward {
            x_grad: $call.result($result.x_grad),
            offset_grad: $call.result($result.offset_grad),
            weight_grad: $call.result($result.weight_grad),
            mask_grad: $result.mask_grad.map(|grad| $call.result(grad)),
            bias_grad: $result.bias_grad.map(|grad| $call.result(grad)),
        }
    };
    ([MaxPool1dBackward], $call:ident, $result:ident) => {
        MaxPool1dBackward {
            x_grad: $call.result($result.x_grad),
        }
    };
    ([MaxPool1dWithIndices], $call:ident, $result:ident) => {
        MaxPool1dWithIndices {
            output: $call.result($result.output),
            indices: $call.int_result::<G>($result.indices),
        }
    };
    ([MaxPool2dBackward], $call:ident, $result:ident) => {
        MaxPool2dBackward {
            x_grad: $call.result($result.x_grad),
        }
    };
    ([MaxPool2dWithIndices], $call:ident, $result:ident) => {
        MaxPool2dWithIndices {
            output: $call.result($result.output),
            indices: $call.int_result::<G>($result.indices),
        }
    };
    ($kind:tt, $call:ident, $result:ident) => {{
        let _ = $call;
        $result
    }};
}

pub(crate) use {
    compared, computed, forward, look, numbered, operand, recorded, result, shadow, shadowed, taken,
};
