//! [`Op`]: the ops by name, generated from the table.

use std::{fmt, str::FromStr};

use crate::{Class, Precision, nearest::nearest};

/// The class that the first word of a row stands for.
macro_rules! class {
    (Pass) => {
        None
    };
    ($class:ident) => {
        Some(Class::$class)
    };
}

/// The class for BF16: the second one of the row, if there are two.
macro_rules! bf16_class {
    ($f16:ident) => {
        class!($f16)
    };
    ($f16:ident $bf16:ident) => {
        class!($bf16)
    };
}

/// The words behind `by hand`, or behind `by rule`, or `None` for other rows.
macro_rules! words {
    (hand hand $why:literal) => {
        Some($why)
    };
    (rule rule $why:literal) => {
        Some($why)
    };
    ($($other:tt)*) => {
        None
    };
}

/// Writes the enum from the rows of all traits, which it collects trait by trait.
///
/// A macro, because a function cannot make the variants of an enum.
macro_rules! ops {
    // Appends the rows of one trait to those already collected and goes on with the next trait.
    (
        $Ops:ident {
            $(
                $(#[$release:meta])?
                $f16:ident $(/ $bf16:ident)? $op:ident $($async:ident)? ($($operands:tt)*)
                -> $ret:tt $(<$($of:ident),+>)? $(by $how:ident $why:literal)?;
            )*
        }
        [$($done:tt)*] $($next:ident $($more:ident)*)?
    ) => {
        ops!(@next [
            $($done)*
            $(
                $(#[$release])?
                $op $Ops [$f16 $($bf16)?] [$($how $why)?] concat!(
                    $(stringify!($async), " ",)? "(", stringify!($($operands)*), ") -> ",
                    stringify!($ret $(<$($of),+>)?),
                );
            )*
        ] $($next $($more)*)?);
    };
    (@next [$($done:tt)*] $next:ident $($more:ident)*) => {
        crate::$next! { raw ops! [$($done)*] $($more)* }
    };
    (@next [$($(#[$release:meta])? $op:ident $Ops:ident [$f16:ident $($bf16:ident)?] [$($how:ident $why:literal)?] $shape:expr;)*]) => {
        /// A method of Burn's op traits, by its upstream name.
        #[allow(non_camel_case_types, reason = "one spelling in trait, table, config, logs and errors")]
        #[allow(missing_docs, reason = "the names are Burn's, and so is their documentation")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        pub enum Op { $($(#[$release])? $op,)* }

        impl Op {
            /// Every op, in the order of the table.
            pub const ALL: &'static [Self] = &[$($(#[$release])? Self::$op,)*];

            const F16: &'static [Option<Class>] = &[$($(#[$release])? class!($f16),)*];
            const BF16: &'static [Option<Class>] = &[$($(#[$release])? bf16_class!($f16 $($bf16)?),)*];
            const NAMES: &'static [&'static str] = &[$($(#[$release])? stringify!($op),)*];
            const TRAITS: &'static [&'static str] = &[$($(#[$release])? stringify!($Ops),)*];
            const SHAPES: &'static [&'static str] = &[$($(#[$release])? $shape,)*];
            const BACKWARD: &'static [bool] = &[$($(#[$release])? is_backward(stringify!($op)),)*];
            const BY_HAND: &'static [Option<&'static str>] = &[$($(#[$release])? words!(hand $($how $why)?),)*];
            const BY_RULE: &'static [Option<&'static str>] = &[$($(#[$release])? words!(rule $($how $why)?),)*];
        }
    };
}

crate::float_tensor_ops! {
    raw ops! [] int_tensor_ops bool_tensor_ops module_ops activation_ops q_tensor_ops transaction_ops
}

/// Whether a name is that of an op that Burn's `Autodiff` calls in its backward pass.
const fn is_backward(name: &str) -> bool {
    const SUFFIX: &[u8] = b"_backward";

    let name = name.as_bytes();
    // `has_ctc_loss_backward` says whether a backend has such an op.
    let asks = name.len() > 3 && name[0] == b'h' && name[1] == b'a' && name[2] == b's';
    if asks || name.len() < SUFFIX.len() {
        return false;
    }
    let mut at = 0;
    while at < SUFFIX.len() {
        if name[name.len() - SUFFIX.len() + at] != SUFFIX[at] {
            return false;
        }
        at += 1;
    }
    true
}

impl Op {
    /// The cast class of this op under preset `o1`, or `None` for an op that does no float arithmetic or whose caller
    /// chooses the dtype.
    ///
    /// `compute` is the compute dtype. All compute dtypes other than BF16 use the classes for F16.
    pub const fn class(self, compute: Precision) -> Option<Class> {
        match compute {
            Precision::BF16 => Self::BF16[self as usize],
            Precision::F64 | Precision::F32 | Precision::Flex32 | Precision::F16 => {
                Self::F16[self as usize]
            }
        }
    }

    /// The op that was probably meant by a wrong name; `None` if no op has a similar name, or several do.
    ///
    /// ```
    /// use burn_amp_core::Op;
    ///
    /// assert_eq!(Op::nearest("softmx"), Some(Op::softmax));
    /// assert_eq!(Op::nearest("matmul"), Some(Op::float_matmul));
    /// assert_eq!(Op::nearest("quux"), None);
    /// ```
    pub fn nearest(name: &str) -> Option<Self> {
        nearest(name, Self::ALL.iter().map(|op| op.name()))?
            .parse()
            .ok()
    }

    /// The name of the method, for example `float_matmul`.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// Whether Burn's `Autodiff` calls this op in its backward pass.
    #[inline]
    pub const fn is_backward(self) -> bool {
        Self::BACKWARD[self as usize]
    }

    /// The upstream trait that declares the method, for example `FloatTensorOps`.
    pub const fn trait_name(self) -> &'static str {
        Self::TRAITS[self as usize]
    }

    /// The shape of the signature as written in the table, for example `(F, F) -> F`.
    pub const fn shape(self) -> &'static str {
        Self::SHAPES[self as usize]
    }

    /// The reason why `Amp` has a handwritten function for this op, or `None` if the method is generated from the row.
    pub const fn by_hand(self) -> Option<&'static str> {
        Self::BY_HAND[self as usize]
    }

    /// What else happens to this op in `Amp`, by a rule of the generated method; `None` without such a rule.
    pub const fn by_rule(self) -> Option<&'static str> {
        Self::BY_RULE[self as usize]
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
        assert_eq!(Op::float_div.class(Precision::F16), Some(Class::Full));
        assert_eq!(Op::float_div.class(Precision::BF16), Some(Class::Widest));
        assert_eq!(Op::float_matmul.class(Precision::BF16), Some(Class::Low));
        assert_eq!(Op::float_cast.class(Precision::F16), None);
    }

    #[test]
    fn every_row_has_a_shape_and_some_have_a_reason() {
        let squeezed = |op: Op| op.shape().replace(' ', "");
        assert_eq!(squeezed(Op::float_matmul), "(F,F)->F");
        assert_eq!(Op::float_matmul.by_hand(), None);
        assert_eq!(
            squeezed(Op::q_into_data),
            "async(Q)->Result<TensorData,ExecutionError>"
        );
        assert_eq!(squeezed(Op::softmax), "(F,usize)->F");
        assert_eq!(
            Op::layer_norm.by_hand(),
            Some("one kernel reads x as it is stored")
        );
        assert_eq!(Op::softmax.by_rule(), None);
        assert_eq!(Op::relu.by_hand(), None);
        assert_eq!(
            Op::embedding.by_rule(),
            Some("its gradient is summed in F32")
        );
    }

    #[test]
    fn few_ops_are_written_by_hand() {
        let by_hand = Op::ALL.iter().filter(|op| op.by_hand().is_some());
        assert!(by_hand.count() <= 20);
    }

    #[test]
    fn ops_of_the_backward_pass_end_so() {
        for op in Op::ALL {
            let ends_so = op.name().ends_with("_backward") && *op != Op::has_ctc_loss_backward;
            assert_eq!(op.is_backward(), ends_so, "{op}");
        }
    }

    #[test]
    fn names_parse_back() {
        for op in Op::ALL {
            assert_eq!(op.name().parse(), Ok(*op));
        }
    }
}
