//! Arguments of ops that are no tensors, as JSON.

use burn_backend::{
    FloatDType, IntDType, Scalar, Shape, Slice,
    ops::{
        AttentionModuleOptions, ConvOptions, ConvTransposeOptions, DeformConvOptions,
        GridSampleOptions, InterpolateOptions, UnfoldOptions,
    },
    tensor::IndexingUpdateOp,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, from_value, json, to_value};

/// An argument of an op that is no tensor: written as JSON, read as an owned value, which is lent to the op.
pub(crate) trait Plain<'a>: Sized {
    /// What is read.
    type Owned;

    fn write(&self) -> Value;

    /// `None` if the JSON is of something else.
    fn read(json: Value) -> Option<Self::Owned>;

    fn lend(owned: &'a Self::Owned) -> Self;
}

fn written(value: impl Serialize) -> Value {
    to_value(value).unwrap_or_default()
}

fn parsed<T: DeserializeOwned>(json: Value) -> Option<T> {
    from_value(json).ok()
}

/// Implements [`Plain`] by what serde reads and writes: the type itself, or the fields of a struct in order.
///
/// A macro, because Burn's option structs have no trait in common.
macro_rules! plain {
    ($(struct $type:ident $(<const $N:ident>)? { $($field:ident),+ })+) => {
        $(impl<'a $(, const $N: usize)?> Plain<'a> for $type $(<$N>)? {
            type Owned = Self;

            fn write(&self) -> Value {
                let Self { $($field),+ } = self;
                json!([$(fields::write($field)),+])
            }

            fn read(json: Value) -> Option<Self> {
                let mut values = parsed::<Vec<Value>>(json)?.into_iter();
                $(let $field = fields::read(values.next()?)?;)+
                Some(Self { $($field),+ })
            }

            fn lend(owned: &'a Self) -> Self {
                owned.clone()
            }
        })+
    };
    ($($type:ty,)+) => {
        $(impl<'a> Plain<'a> for $type {
            type Owned = Self;

            fn write(&self) -> Value {
                written(self)
            }

            fn read(json: Value) -> Option<Self> {
                parsed(json)
            }

            fn lend(owned: &'a Self) -> Self {
                owned.clone()
            }
        })+
    };
}

plain! {
    usize,
    bool,
    Option<usize>,
    Shape,
    IndexingUpdateOp,
    AttentionModuleOptions,
}

plain! {
    struct ConvOptions<const N> { stride, padding, dilation, groups }
    struct ConvTransposeOptions<const N> { stride, padding, padding_out, dilation, groups }
    struct DeformConvOptions<const N> { stride, padding, dilation, weight_groups, offset_groups }
    struct UnfoldOptions { stride, padding, dilation }
    struct InterpolateOptions { mode, align_corners }
    struct GridSampleOptions { mode, padding_mode, align_corners }
}

/// The fields of option structs. serde knows no arrays of a length that is a parameter, but their elements.
mod fields {
    use super::*;

    /// A field of an option struct.
    pub(super) trait Field: Sized {
        fn write(&self) -> Value;
        fn read(json: Value) -> Option<Self>;
    }

    impl<const N: usize> Field for [usize; N] {
        fn write(&self) -> Value {
            written(self.as_slice())
        }

        fn read(json: Value) -> Option<Self> {
            parsed::<Vec<usize>>(json)?.try_into().ok()
        }
    }

    /// Implements [`Field`] by serde. A macro, because a blanket implementation would overlap with that of arrays.
    macro_rules! field {
        ($($type:ty),+) => {
            $(impl Field for $type {
                fn write(&self) -> Value {
                    written(self)
                }

                fn read(json: Value) -> Option<Self> {
                    parsed(json)
                }
            })+
        };
    }

    field!(
        usize,
        bool,
        burn_backend::ops::InterpolateMode,
        burn_backend::ops::GridSamplePaddingMode
    );

    pub(super) fn write<T: Field>(field: &T) -> Value {
        field.write()
    }

    pub(super) fn read<T: Field>(json: Value) -> Option<T> {
        T::read(json)
    }
}

impl<'a, const N: usize> Plain<'a> for [usize; N] {
    type Owned = Self;

    fn write(&self) -> Value {
        fields::write(self)
    }

    fn read(json: Value) -> Option<Self> {
        fields::read(json)
    }

    fn lend(owned: &'a Self) -> Self {
        *owned
    }
}

impl<'a> Plain<'a> for &'a [usize] {
    type Owned = Vec<usize>;

    fn write(&self) -> Value {
        written(self)
    }

    fn read(json: Value) -> Option<Vec<usize>> {
        parsed(json)
    }

    fn lend(owned: &'a Vec<usize>) -> Self {
        owned
    }
}

impl<'a> Plain<'a> for &'a [Slice] {
    type Owned = Vec<Slice>;

    fn write(&self) -> Value {
        written(self)
    }

    fn read(json: Value) -> Option<Vec<Slice>> {
        parsed(json)
    }

    fn lend(owned: &'a Vec<Slice>) -> Self {
        owned
    }
}

/// JSON has no inf and no NaN, so a float is written as Rust's text of it, which reads back to the same bits.
impl<'a> Plain<'a> for f64 {
    type Owned = Self;

    fn write(&self) -> Value {
        json!(format!("{self:?}"))
    }

    fn read(json: Value) -> Option<Self> {
        json.as_str()?.parse().ok()
    }

    fn lend(owned: &'a Self) -> Self {
        *owned
    }
}

impl<'a> Plain<'a> for Scalar {
    type Owned = Self;

    fn write(&self) -> Value {
        match self {
            Self::Float(x) => json!({ "float": x.write() }),
            Self::Int(x) => json!({ "int": x }),
            Self::UInt(x) => json!({ "uint": x }),
            Self::Bool(x) => json!({ "bool": x }),
        }
    }

    fn read(json: Value) -> Option<Self> {
        let (kind, value) = parsed::<serde_json::Map<_, _>>(json)?.into_iter().next()?;
        match &*kind {
            "float" => <f64 as Plain>::read(value).map(Self::Float),
            "int" => value.as_i64().map(Self::Int),
            "uint" => value.as_u64().map(Self::UInt),
            "bool" => value.as_bool().map(Self::Bool),
            _ => None,
        }
    }

    fn lend(owned: &'a Self) -> Self {
        *owned
    }
}

/// Implements [`Plain`] for an enum of dtypes, by the name of a variant. A macro, because they share no trait.
macro_rules! named {
    ($($type:ident: $($name:ident)+;)+) => {
        $(impl<'a> Plain<'a> for $type {
            type Owned = Self;

            fn write(&self) -> Value {
                match self { $(Self::$name => json!(stringify!($name)),)+ }
            }

            fn read(json: Value) -> Option<Self> {
                match json.as_str()? { $(stringify!($name) => Some(Self::$name),)+ _ => None }
            }

            fn lend(owned: &'a Self) -> Self {
                *owned
            }
        })+
    };
}

named! {
    FloatDType: F64 F32 Flex32 F16 BF16;
    IntDType: I64 I32 I16 I8 U64 U32 U16 U8;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads_back<'a, T>(value: T) -> T::Owned
    where
        T: Plain<'a>,
    {
        let text = value.write().to_string();
        T::read(serde_json::from_str(&text).unwrap()).expect("what was written is read")
    }

    #[test]
    fn numbers_read_back_bit_for_bit() {
        for x in [0.1, -0.0, f64::MIN_POSITIVE, f64::INFINITY, -1e300] {
            assert_eq!(reads_back(x).to_bits(), x.to_bits());
            assert!(
                matches!(reads_back(Scalar::Float(x)), Scalar::Float(y) if y.to_bits() == x.to_bits())
            );
        }
        assert!(reads_back(f64::NAN).is_nan());
        assert!(matches!(reads_back(Scalar::Int(-3)), Scalar::Int(-3)));
        assert!(matches!(
            reads_back(Scalar::UInt(u64::MAX)),
            Scalar::UInt(u64::MAX)
        ));
        assert!(matches!(reads_back(Scalar::Bool(true)), Scalar::Bool(true)));
    }

    #[test]
    fn shapes_and_options_read_back() {
        assert_eq!(reads_back(Shape::new([2, 3])), Shape::new([2, 3]));
        assert_eq!(reads_back(&[1usize, 0][..]), [1, 0]);
        let slices = [Slice::new(0, None, -1), Slice::new(1, Some(3), 2)];
        assert_eq!(reads_back(&slices[..]), slices);
        let conv = ConvOptions::new([1, 2], [0, 1], [1, 1], 4);
        assert_eq!(reads_back(conv.clone()), conv);
        assert_eq!(reads_back(Some(3usize)), Some(3));
        assert_eq!(reads_back(None::<usize>), None);
        assert_eq!(reads_back(FloatDType::BF16), FloatDType::BF16);
        assert_eq!(<usize as Plain>::read(json!("3")), None);
    }
}
