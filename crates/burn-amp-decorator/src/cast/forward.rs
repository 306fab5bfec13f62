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
        $op:ident [] ($($x:ident: $type:ty as $kind:tt,)*) -> $ret:ty as [F] $(by $how:ident)?
    ) => {
        #[inline]
        fn $op($($x: $type),*) -> $ret {
            if let Some(call) = $crate::cast::unchanged::unchanged!($op ($($kind $x),*)) {
                let result = G::Inner::$op($($crate::cast::unchanged::operand!($kind $x)),*);
                return $crate::ops::rules::rule!(after $op(call.result::<G>(result)));
            }
            $crate::cast::invocation::invoked!([F] $op ($($x: $kind),*) {
                $crate::cast::forward::steps!([$($how)?] $op ($($kind $x),*))
            })
        }
    };
    (
        $op:ident [$($async:ident.$await:ident)?] ($($x:ident: $type:ty as $kind:tt,)*)
        -> $ret:ty as $result:tt
    ) => {
        #[inline]
        $($async)? fn $op($($x: $type),*) -> $ret {
            $crate::cast::invocation::invoked!($result $op ($($x: $kind),*) {
                #[allow(unused_mut, reason = "not every op has operands that the policy looks at")]
                let mut call = $crate::cast::call::Call::<B>::new::<G>(burn_amp_core::Op::$op);
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

/// The steps of a call with a float result.
///
/// A macro for the same reason as [`forward!`].
macro_rules! steps {
    ([hand] $op:ident ($($kind:tt $x:ident),*)) => {
        self::$op::<B, P, G>($($x),*)
    };
    ($how:tt $op:ident ($($kind:tt $x:ident),*)) => {{
        #[allow(unused_mut, reason = "not every op has operands that the policy looks at")]
        let mut call = $crate::cast::call::Call::<B>::new::<G>(burn_amp_core::Op::$op);
        $crate::ops::rules::rule!(look call $op($($kind $x),*));
        let call = call.decide();
        match $crate::ops::rules::rule!(first call $op($($x),*)) {
            Some(result) => result,
            None => match $crate::ops::rules::rule!(own call $op($($x),*)) {
                Ok(result) => result,
                Err(($($x,)*)) => {
                    $(let $x = $crate::cast::forward::operand!($kind, call, $x);)*
                    let result = $crate::ops::rules::rule!(compute call $op($($x),*));
                    $crate::ops::rules::rule!(after $op(result))
                }
            },
        }
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
        $call.device::<P, _>(|| burn_amp_kernels::names::int_device_of::<G::Inner>(&$x));
        $call.int(&$x)
    }};
    ([F] [Bool], $call:ident, $x:ident) => {{
        $call.device::<P, _>(|| burn_amp_kernels::names::bool_device_of::<G::Inner>(&$x));
        $call.bool(&$x)
    }};
    ($result:tt [I], $call:ident, $x:ident) => {
        $call.int(&$x)
    };
    ($result:tt [Bool], $call:ident, $x:ident) => {
        $call.bool(&$x)
    };
    ([F] [Q], $call:ident, $x:ident) => {
        $call.device::<P, _>(|| burn_amp_kernels::names::q_device_of::<G::Inner>(&$x))
    };
    ([Primitive] [Q], $call:ident, $x:ident) => {
        $call.device::<P, _>(|| burn_amp_kernels::names::q_device_of::<G::Inner>(&$x))
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
            #[cfg(burn_0_22)]
            global: $x.global.map(|global| $call.cast(global)),
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
        if $call.recomputes {
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

pub(crate) use {computed, forward, look, operand, result, steps};
