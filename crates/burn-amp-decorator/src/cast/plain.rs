//! Arguments of ops that are no tensors, as JSON and as Rust.

use burn_backend::{
    FloatDType, IntDType, Scalar, Shape, Slice,
    ops::{
        AttentionModuleOptions, ConvOptions, ConvTransposeOptions, DeformConvOptions,
        GridSampleOptions, GridSamplePaddingMode, InterpolateMode, InterpolateOptions,
        UnfoldOptions,
    },
    tensor::IndexingUpdateOp,
};
use serde_json::{Map, Value, from_value, json, to_value};

/// An argument of an op that is no tensor, or a field of one. A slice is a `Vec` here.
pub(crate) trait Plain: Sized {
    fn write(&self) -> Value;

    /// `None` if the JSON is of something else.
    fn read(json: Value) -> Option<Self>;

    /// The value in a program, with Burn's types in scope.
    fn code(&self) -> String;
}

/// Implements [`Plain`] by serde, by the fields of a struct in order, or by the name of a variant.
///
/// A macro, because these types have no trait in common: serde knows neither Burn's option structs nor its dtypes as
/// arguments.
macro_rules! plain {
    ($(struct $type:ident $(<const $N:ident>)? { $($field:ident),+ })+) => {
        $(impl $(<const $N: usize>)? Plain for $type $(<$N>)? {
            fn write(&self) -> Value {
                let Self { $($field),+ } = self;
                json!([$($field.write()),+])
            }

            fn read(json: Value) -> Option<Self> {
                let mut values = from_value::<Vec<_>>(json).ok()?.into_iter();
                $(let $field = Plain::read(values.next()?)?;)+
                Some(Self { $($field),+ })
            }

            fn code(&self) -> String {
                let fields = [$(format!(concat!(stringify!($field), ": {}"), self.$field.code())),+];
                format!("{} {{ {} }}", stringify!($type), fields.join(", "))
            }
        })+
    };
    ($(enum $type:ident { $($name:ident),+ })+) => {
        $(impl Plain for $type {
            fn write(&self) -> Value {
                match self { $(Self::$name => json!(stringify!($name)),)+ }
            }

            fn read(json: Value) -> Option<Self> {
                match json.as_str()? { $(stringify!($name) => Some(Self::$name),)+ _ => None }
            }

            fn code(&self) -> String {
                match self { $(Self::$name => concat!(stringify!($type), "::", stringify!($name)).into(),)+ }
            }
        })+
    };
    ($($before:literal $type:ty),+) => {
        $(impl Plain for $type {
            fn write(&self) -> Value {
                to_value(self).unwrap_or_default()
            }

            fn read(json: Value) -> Option<Self> {
                from_value(json).ok()
            }

            fn code(&self) -> String {
                format!(concat!($before, "{:?}"), self)
            }
        })+
    };
}

// What Rust's debugging output lacks before it is an expression.
plain!(
    "" usize,
    "" bool,
    "" Option<usize>,
    "vec!" Vec<usize>,
    "vec!" Vec<Slice>,
    "IndexingUpdateOp::" IndexingUpdateOp,
    "InterpolateMode::" InterpolateMode,
    "GridSamplePaddingMode::" GridSamplePaddingMode,
    "" AttentionModuleOptions
);

impl Plain for Shape {
    fn write(&self) -> Value {
        to_value(self).unwrap_or_default()
    }

    fn read(json: Value) -> Option<Self> {
        from_value(json).ok()
    }

    fn code(&self) -> String {
        format!("Shape::from({:?})", self.as_slice().to_vec()).replace("from([", "from(vec![")
    }
}

plain! {
    struct ConvOptions<const N> { stride, padding, dilation, groups }
    struct ConvTransposeOptions<const N> { stride, padding, padding_out, dilation, groups }
    struct DeformConvOptions<const N> { stride, padding, dilation, weight_groups, offset_groups }
    struct UnfoldOptions { stride, padding, dilation }
    struct GridSampleOptions { mode, padding_mode, align_corners }
}

#[cfg(not(burn_0_22))]
plain! {
    struct InterpolateOptions { mode, align_corners }
}

#[cfg(burn_0_22)]
plain!("" Option<[usize; 2]>, "" Option<[f32; 2]>);

#[cfg(burn_0_22)]
plain! {
    struct InterpolateOptions { mode, align_corners, output_size, scale_factor }
}

plain! {
    enum FloatDType { F64, F32, Flex32, F16, BF16 }
    enum IntDType { I64, I32, I16, I8, U64, U32, U16, U8 }
}

/// serde knows no arrays of a length that is a parameter.
impl<const N: usize> Plain for [usize; N] {
    fn write(&self) -> Value {
        self.to_vec().write()
    }

    fn read(json: Value) -> Option<Self> {
        Vec::read(json)?.try_into().ok()
    }

    fn code(&self) -> String {
        format!("{self:?}")
    }
}

/// The padding of a convolution, before and after.
#[cfg(burn_0_22)]
impl<const N: usize> Plain for [(usize, usize); N] {
    fn write(&self) -> Value {
        json!(self.to_vec())
    }

    fn read(json: Value) -> Option<Self> {
        from_value::<Vec<_>>(json).ok()?.try_into().ok()
    }

    fn code(&self) -> String {
        format!("{self:?}")
    }
}

/// JSON has no inf and no NaN, so a float is written as Rust's text of it, which reads back to the same bits.
impl Plain for f64 {
    fn write(&self) -> Value {
        json!(format!("{self:?}"))
    }

    fn read(json: Value) -> Option<Self> {
        json.as_str()?.parse().ok()
    }

    fn code(&self) -> String {
        match self.is_finite() {
            true => format!("{self:?}"),
            false if self.is_nan() => "f64::NAN".into(),
            false if *self < 0.0 => "f64::NEG_INFINITY".into(),
            false => "f64::INFINITY".into(),
        }
    }
}

impl Plain for Scalar {
    fn write(&self) -> Value {
        match self {
            Self::Float(x) => json!({ "float": x.write() }),
            Self::Int(x) => json!({ "int": x }),
            Self::UInt(x) => json!({ "uint": x }),
            Self::Bool(x) => json!({ "bool": x }),
        }
    }

    fn read(json: Value) -> Option<Self> {
        let (kind, value) = from_value::<Map<_, _>>(json).ok()?.into_iter().next()?;
        match &*kind {
            "float" => f64::read(value).map(Self::Float),
            "int" => value.as_i64().map(Self::Int),
            "uint" => value.as_u64().map(Self::UInt),
            "bool" => value.as_bool().map(Self::Bool),
            _ => None,
        }
    }

    fn code(&self) -> String {
        match self {
            Self::Float(x) => format!("Scalar::Float({})", x.code()),
            other => format!("Scalar::{other:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads_back<T: Plain>(value: T) -> T {
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
        assert_eq!(reads_back(vec![1usize, 0]), [1, 0]);
        let slices = [Slice::new(0, None, -1), Slice::new(1, Some(3), 2)];
        assert_eq!(reads_back(slices.to_vec()), slices);
        let conv = ConvOptions::new([1, 2], [0, 1], [1, 1], 4);
        assert_eq!(reads_back(conv.clone()), conv);
        assert_eq!(reads_back(Some(3usize)), Some(3));
        assert_eq!(reads_back(None::<usize>), None);
        assert_eq!(reads_back(FloatDType::BF16), FloatDType::BF16);
        assert_eq!(<usize as Plain>::read(json!("3")), None);
    }
}
