//! Makes the table the forwarders of [`Amp`](crate::Amp).

/// The type that one word of a row stands for.
macro_rules! kind {
    (F) => { FloatTensor<Self> };
    (Wide) => { FloatTensor<Self> };
    (I) => { IntTensor<Self> };
    (Bool) => { BoolTensor<Self> };
    (Q) => { QuantizedTensor<Self> };
    (Device) => { Device<Self> };
    (Primitive) => { TensorPrimitive<Self> };
    (($($kind:ident),+)) => { ($(kind!($kind)),+) };
    ($type:ty) => { $type };
}

/// A result of the inner backend as a result of `Amp`.
macro_rules! wrap {
    (F, $call:ident, $result:expr) => {
        $call.float($result)
    };
    (Wide, $call:ident, $result:expr) => {
        $call.wide($result)
    };
    (Primitive, $call:ident, $result:expr) => {
        $call.primitive($result)
    };
    ((F, F), $call:ident, $result:expr) => {{
        let (first, second) = $result;
        ($call.float(first), $call.float(second))
    }};
    ((F, I), $call:ident, $result:expr) => {{
        let (values, indices) = $result;
        ($call.float(values), indices)
    }};
    ($kind:tt, $call:ident, $result:expr) => {{
        let _ = $call;
        $result
    }};
}

/// Writes `impl $Ops for Amp`: one method for each row, then the methods by hand.
///
/// A macro, because one function cannot be generic over signatures. It walks along a row's operands and collects the
/// signature, what the policy sees, and the call. Every operand is named `x`; hygiene keeps them apart.
macro_rules! forward {
    (
        $Ops:ident {
            $($f16:ident $(/ $bf16:ident)? $op:ident ($($kinds:tt)*) -> $ret:tt;)*
        } by_hand {
            $($listed:tt)*
        }
        $($by_hand:tt)*
    ) => {
        impl<B: Kernels, P: PolicySource, G: Graph<B>> $Ops<Self> for Amp<B, P, G> {
            $(forward!(@operands $op [$($kinds)*] -> $ret, call sig[] see[] pass[]);)*
            $($by_hand)*
        }
    };

    // Operands that the policy looks at.
    (@operands $op:ident [F $(, $($more:tt)*)?] -> $ret:tt, $call:ident sig[$($s:tt)*] see[$($see:tt)*] pass[$($p:tt)*]) => {
        forward!(@operands $op [$($($more)*)?] -> $ret, $call sig[$($s)* x: FloatTensor<Self>,]
            see[$($see)* $call.float(&x);] pass[$($p)* $call.cast(x),]);
    };
    (@operands $op:ident [&F $(, $($more:tt)*)?] -> $ret:tt, $call:ident sig[$($s:tt)*] see[$($see:tt)*] pass[$($p:tt)*]) => {
        forward!(@operands $op [$($($more)*)?] -> $ret, $call sig[$($s)* x: &FloatTensor<Self>,]
            see[$($see)*] pass[$($p)* &x.inner,]);
    };
    (@operands $op:ident [Option<F> $(, $($more:tt)*)?] -> $ret:tt, $call:ident sig[$($s:tt)*] see[$($see:tt)*] pass[$($p:tt)*]) => {
        forward!(@operands $op [$($($more)*)?] -> $ret, $call sig[$($s)* x: Option<FloatTensor<Self>>,]
            see[$($see)* x.iter().for_each(|x| $call.float(x));] pass[$($p)* x.map(|x| $call.cast(x)),]);
    };
    (@operands $op:ident [Vec<F> $(, $($more:tt)*)?] -> $ret:tt, $call:ident sig[$($s:tt)*] see[$($see:tt)*] pass[$($p:tt)*]) => {
        forward!(@operands $op [$($($more)*)?] -> $ret, $call sig[$($s)* x: Vec<FloatTensor<Self>>,]
            see[$($see)* x.iter().for_each(|x| $call.float(x));] pass[$($p)* x.into_iter().map(|x| $call.cast(x)).collect(),]);
    };
    (@operands $op:ident [Scalar $(, $($more:tt)*)?] -> $ret:tt, $call:ident sig[$($s:tt)*] see[$($see:tt)*] pass[$($p:tt)*]) => {
        forward!(@operands $op [$($($more)*)?] -> $ret, $call sig[$($s)* x: Scalar,]
            see[$($see)* $call.scalar(x);] pass[$($p)* x,]);
    };

    // A float result without a float operand takes the policy of the device.
    (@operands $op:ident [&Device $(, $($more:tt)*)?] -> F, $call:ident sig[$($s:tt)*] see[$($see:tt)*] pass[$($p:tt)*]) => {
        forward!(@operands $op [$($($more)*)?] -> F, $call sig[$($s)* x: &Device<Self>,]
            see[$($see)* $call.device::<P>(x);] pass[$($p)* x,]);
    };
    (@operands $op:ident [Q $(, $($more:tt)*)?] -> Primitive, $call:ident sig[$($s:tt)*] see[$($see:tt)*] pass[$($p:tt)*]) => {
        forward!(@operands $op [$($($more)*)?] -> Primitive, $call sig[$($s)* x: QuantizedTensor<Self>,]
            see[$($see)* $call.device::<P>(&G::Inner::q_device(&x));] pass[$($p)* x,]);
    };

    // All others are handed on.
    (@operands $op:ident [$outer:ident<$kind:ident> $(, $($more:tt)*)?] -> $ret:tt, $call:ident sig[$($s:tt)*] see[$($see:tt)*] pass[$($p:tt)*]) => {
        forward!(@operands $op [$($($more)*)?] -> $ret, $call sig[$($s)* x: $outer<kind!($kind)>,]
            see[$($see)*] pass[$($p)* x,]);
    };
    (@operands $op:ident [&$kind:ident $(, $($more:tt)*)?] -> $ret:tt, $call:ident sig[$($s:tt)*] see[$($see:tt)*] pass[$($p:tt)*]) => {
        forward!(@operands $op [$($($more)*)?] -> $ret, $call sig[$($s)* x: &kind!($kind),]
            see[$($see)*] pass[$($p)* x,]);
    };
    (@operands $op:ident [$kind:ident $(, $($more:tt)*)?] -> $ret:tt, $call:ident sig[$($s:tt)*] see[$($see:tt)*] pass[$($p:tt)*]) => {
        forward!(@operands $op [$($($more)*)?] -> $ret, $call sig[$($s)* x: kind!($kind),]
            see[$($see)*] pass[$($p)* x,]);
    };
    (@operands $op:ident [$type:ty $(, $($more:tt)*)?] -> $ret:tt, $call:ident sig[$($s:tt)*] see[$($see:tt)*] pass[$($p:tt)*]) => {
        forward!(@operands $op [$($($more)*)?] -> $ret, $call sig[$($s)* x: $type,]
            see[$($see)*] pass[$($p)* x,]);
    };

    // The end of the row: policy, cast, inner.
    (@operands $op:ident [] -> $ret:tt, $call:ident sig[$($s:tt)*] see[$($see:tt)*] pass[$($p:tt)*]) => {
        #[inline]
        fn $op($($s)*) -> kind!($ret) {
            #[allow(unused_mut, reason = "not every op has operands that the policy looks at")]
            let mut $call = Call::<B>::new::<G>(Op::$op);
            $($see)*
            let $call = $call.decide();
            wrap!($ret, $call, G::Inner::$op($($p)*))
        }
    };
}
