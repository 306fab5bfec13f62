//! Names of the ops, made from the table.

use std::{fmt, str::FromStr};

use crate::{Class, Dtype};

macro_rules! class {
    (Pass) => {
        None
    };
    ($class:ident) => {
        Some(Class::$class)
    };
}

/// The class for BF16: the second one of the row, or else the only one.
macro_rules! bf16_class {
    ($f16:ident) => {
        class!($f16)
    };
    ($f16:ident $bf16:ident) => {
        class!($bf16)
    };
}

/// Collects the tables of all traits, one macro call after the other, and writes the enum from them.
///
/// A macro, because an enum's variants cannot be made by a function.
macro_rules! ops {
    // One more trait: its rows and its ops by hand, in front of what is still to come.
    (
        $Ops:ident {
            $($f16:ident $(/ $bf16:ident)? $op:ident ($($kinds:tt)*) -> $ret:tt;)*
        } by_hand {
            $($hf16:ident $(/ $hbf16:ident)? $hop:ident $why:literal;)*
        }
        [$($done:tt)*] $($next:ident $($more:ident)*)?
    ) => {
        ops!(@next [
            $($done)*
            $($op $Ops [$f16 $($bf16)?] (concat!("(", stringify!($($kinds)*), ") -> ", stringify!($ret)));)*
            $($hop $Ops [$hf16 $($hbf16)?] ($why);)*
        ] $($next $($more)*)?);
    };
    (@next [$($done:tt)*] $next:ident $($more:ident)*) => {
        crate::$next! { ops! [$($done)*] $($more)* }
    };
    (@next [$($op:ident $Ops:ident [$f16:ident $($bf16:ident)?] ($shape:expr);)*]) => {
        /// A method of Burn's op traits, by its upstream name.
        #[allow(non_camel_case_types, reason = "one spelling in trait, table, config, logs and errors")]
        #[allow(missing_docs, reason = "the names are Burn's, and so is their documentation")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        pub enum Op { $($op,)* }

        impl Op {
            /// Every op, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$op,)*];

            const F16: &'static [Option<Class>] = &[$(class!($f16),)*];
            const BF16: &'static [Option<Class>] = &[$(bf16_class!($f16 $($bf16)?),)*];
            const NAMES: &'static [&'static str] = &[$(stringify!($op),)*];
            const TRAITS: &'static [&'static str] = &[$(stringify!($Ops),)*];
            const SHAPES: &'static [&'static str] = &[$($shape,)*];
        }
    };
}

crate::float_tensor_ops! { ops! [] int_tensor_ops bool_tensor_ops module_ops activation_ops q_tensor_ops transaction_ops }

impl Op {
    /// The cast class of this op under preset `o1`, or `None` if no class applies to it: it does no float arithmetic,
    /// or names its dtype itself.
    ///
    /// `compute` is the compute dtype; every dtype but BF16 uses the F16 column.
    pub const fn class(self, compute: Dtype) -> Option<Class> {
        match compute {
            Dtype::BF16 => Self::BF16[self as usize],
            Dtype::F64 | Dtype::F32 | Dtype::Flex32 | Dtype::F16 => Self::F16[self as usize],
        }
    }

    /// The name of the method, for example `float_matmul`.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// Whether Burn's `Autodiff` calls this op in its backward pass.
    pub fn is_backward(self) -> bool {
        self.name().ends_with("_backward") && !matches!(self, Self::has_ctc_loss_backward)
    }

    /// The upstream trait that declares the method, for example `FloatTensorOps`.
    pub const fn trait_name(self) -> &'static str {
        Self::TRAITS[self as usize]
    }

    /// The shape of the signature, or why the forwarder is written out by hand.
    pub const fn shape(self) -> &'static str {
        Self::SHAPES[self as usize]
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Op {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Self::ALL
            .iter()
            .copied()
            .find(|op| op.name() == name)
            .ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_every_method_of_burn_0_21_once() {
        let mut names: Vec<_> = Op::ALL.iter().map(|op| op.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 418);
        assert_eq!(Op::ALL.len(), 418);
    }

    #[test]
    fn a_row_with_two_classes_gives_each_dtype_its_own() {
        assert_eq!(Op::float_div.class(Dtype::F16), Some(Class::Full));
        assert_eq!(Op::float_div.class(Dtype::BF16), Some(Class::Widest));
        assert_eq!(Op::float_matmul.class(Dtype::BF16), Some(Class::Low));
        assert_eq!(Op::float_cast.class(Dtype::F16), None);
    }

    #[test]
    fn names_parse_back() {
        for op in Op::ALL {
            assert_eq!(op.name().parse(), Ok(*op));
        }
    }
}
