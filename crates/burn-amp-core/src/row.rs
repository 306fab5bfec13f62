//! Makes methods from the table's rows.
//!
//! A backend that is generated from the table calls the macro with a trait's rows inside its `impl` of that trait:
//!
//! ```text
//! impl<B: Backend> ModuleOps<Self> for Counting<B> {
//!     module_ops! { count! }
//! }
//! ```
//!
//! `count!` is then called once per row, with the signature spelled out and each type followed by the words of the row
//! in brackets:
//!
//! ```text
//!     Low         linear                           (F, F, Option<F>) -> F;
//!     Pass        int_into_data                    async (I) -> Result<TensorData, ExecutionError>;
//!     Internal    gelu                             (F) -> F
//!                 by hand "one kernel reads x as it is stored";
//!
//! count! { linear [] (
//!     x: FloatTensor<Self> as [F], x: FloatTensor<Self> as [F], x: Option<FloatTensor<Self>> as [Option<F>],
//! ) -> FloatTensor<Self> as [F] }
//! count! { int_into_data [async.await] (x: IntTensor<Self> as [I],)
//!     -> Result<TensorData, ExecutionError> as [Result<TensorData, ExecutionError>] }
//! count! { gelu [] (x: FloatTensor<Self> as [F],) -> FloatTensor<Self> as [F] by hand }
//! ```
//!
//! All operands are named `x`; macro hygiene keeps them distinct. So one arm of `count!` matches every row. Its helper
//! macros have one arm per kind of operand or result:
//!
//! ```text
//! macro_rules! count {
//!     ($op:ident [$($async:ident.$await:ident)?] ($($x:ident: $type:ty as $kind:tt,)*)
//!         -> $ret:ty as $result:tt $(by $how:ident)?) => {
//!         $($async)? fn $op($($x: $type),*) -> $ret {
//!             let read = [$(bytes!($kind $x)),*].iter().sum();
//!             counted!($result B::$op($($x),*)$(.$await)?, read)
//!         }
//!     };
//! }
//! ```
//!
//! The types of Burn that the rows mention must be in scope where the macro is called.

/// Calls a macro once per row of a trait, with the arguments shown in [`row`](crate::row).
///
/// `[raw name! …]` instead passes all rows to `name!` in one call, as they are written in the table, followed by `…`.
///
/// A macro, because it writes signatures. It takes one operand at a time, since a comma in a row may also be part of a
/// type.
#[doc(hidden)]
#[macro_export]
macro_rules! read_rows {
    ([raw $then:ident! $($extra:tt)*] $Ops:ident { $($rows:tt)* }) => {
        $then! { $Ops { $($rows)* } $($extra)* }
    };
    ([$then:ident!] $Ops:ident {
        $(
            $(#[$release:meta])?
            $f16:ident $(/ $bf16:ident)? $op:ident $($async:ident)? ($($operands:tt)*)
            -> $ret:tt $(<$($of:ident),+>)? $(by $how:ident $why:literal)?;
        )*
    }) => {
        $(
            $(#[$release])?
            $crate::read_rows! {
                @operands $then [$($operands)*] $op [$($async.await)?] () [$ret $(<$($of),+>)?] $(by $how)?
            }
        )*
    };

    // Each step moves one operand from the row's brackets into the signature's parentheses.
    (@operands $then:ident [$outer:ident<$kind:ident> $(, $($more:tt)*)?] $op:ident $async:tt
        ($($done:tt)*) $($end:tt)*) => {
        $crate::read_rows! { @operands $then [$($($more)*)?] $op $async (
            $($done)* x: $outer<$crate::type_of!($kind)> as [$outer<$kind>],
        ) $($end)* }
    };
    (@operands $then:ident [&[$kind:ident] $(, $($more:tt)*)?] $op:ident $async:tt ($($done:tt)*) $($end:tt)*) => {
        $crate::read_rows! { @operands $then [$($($more)*)?] $op $async (
            $($done)* x: &[$kind] as [&[$kind]],
        ) $($end)* }
    };
    (@operands $then:ident [&$kind:ident $(, $($more:tt)*)?] $op:ident $async:tt ($($done:tt)*) $($end:tt)*) => {
        $crate::read_rows! { @operands $then [$($($more)*)?] $op $async (
            $($done)* x: &$crate::type_of!($kind) as [&$kind],
        ) $($end)* }
    };
    (@operands $then:ident [$kind:ident $(, $($more:tt)*)?] $op:ident $async:tt ($($done:tt)*) $($end:tt)*) => {
        $crate::read_rows! { @operands $then [$($($more)*)?] $op $async (
            $($done)* x: $crate::type_of!($kind) as [$kind],
        ) $($end)* }
    };
    (@operands $then:ident [$type:ty $(, $($more:tt)*)?] $op:ident $async:tt ($($done:tt)*) $($end:tt)*) => {
        $crate::read_rows! { @operands $then [$($($more)*)?] $op $async (
            $($done)* x: $type as [$type],
        ) $($end)* }
    };
    (@operands $then:ident [] $op:ident $async:tt $operands:tt
        [$($ret:tt)*] $(by $how:ident)?) => {
        $then! { $op $async $operands -> $crate::type_of!($($ret)*) as [$($ret)*] $(by $how)? }
    };
}

/// The Rust type that a word of a row stands for.
///
/// A macro, because most of the types refer to the `Self` of the backend's `impl`.
#[doc(hidden)]
#[macro_export]
macro_rules! type_of {
    (F) => { FloatTensor<Self> };
    (Wide) => { FloatTensor<Self> };
    (I) => { IntTensor<Self> };
    (Bool) => { BoolTensor<Self> };
    (Q) => { QuantizedTensor<Self> };
    (Primitive) => { TensorPrimitive<Self> };
    (Device) => { Device<Self> };
    (DeformConv2dBackward) => { DeformConv2dBackward<Self> };
    (MaxPool1dBackward) => { MaxPool1dBackward<Self> };
    (MaxPool1dWithIndices) => { MaxPool1dWithIndices<Self> };
    (MaxPool2dBackward) => { MaxPool2dBackward<Self> };
    (MaxPool2dWithIndices) => { MaxPool2dWithIndices<Self> };
    (QuantizationParametersPrimitive) => { QuantizationParametersPrimitive<Self> };
    (TransactionPrimitive) => { TransactionPrimitive<Self> };
    (($($kind:ident),+)) => { ($($crate::type_of!($kind)),+) };
    ($type:ty) => { $type };
}

#[cfg(test)]
mod tests {
    use crate::{bool_tensor_ops, module_ops};

    struct Signatures;

    /// Writes a method per row that returns the row's words: the operands, the result, and the marks of the row.
    macro_rules! words {
        ($op:ident [$($async:ident.$await:ident)?] ($($x:ident: $type:ty as $kind:tt,)*)
            -> $ret:ty as $result:tt $(by $how:ident)?) => {
            fn $op() -> Vec<String> {
                [$(stringify!($kind),)* "->", stringify!($result), $(stringify!($async),)? $(stringify!($how),)?]
                    .map(|word| word.replace(' ', ""))
                    .to_vec()
            }
        };
    }

    #[allow(dead_code, reason = "a method per row, of which the test reads some")]
    impl Signatures {
        module_ops! { words! }
        bool_tensor_ops! { words! }
    }

    #[test]
    fn each_row_is_passed_with_its_operands_apart() {
        assert_eq!(
            Signatures::linear(),
            ["[F]", "[F]", "[Option<F>]", "->", "[F]", "hand"]
        );
        assert_eq!(
            Signatures::unfold4d(),
            ["[F]", "[[usize;2]]", "[UnfoldOptions]", "->", "[F]"]
        );
        assert_eq!(Signatures::has_ctc_loss_backward(), ["->", "[bool]"]);
        assert_eq!(
            Signatures::bool_cat(),
            ["[Vec<Bool>]", "[usize]", "->", "[Bool]"]
        );
        assert_eq!(
            Signatures::bool_slice(),
            ["[Bool]", "[&[Slice]]", "->", "[Bool]"]
        );
    }

    #[test]
    fn a_row_says_whether_it_is_async_and_how_else_it_is_written() {
        assert_eq!(
            Signatures::bool_into_data(),
            [
                "[Bool]",
                "->",
                "[Result<TensorData,ExecutionError>]",
                "async"
            ]
        );
        assert_eq!(
            Signatures::layer_norm(),
            ["[F]", "[F]", "[Option<F>]", "[f64]", "->", "[F]", "hand"]
        );
        assert_eq!(Signatures::embedding(), ["[F]", "[I]", "->", "[F]", "rule"]);
    }
}
