//! Values as they are written in Rust.

use burn_backend::FloatDType;

/// A value that can be written as an expression.
pub trait Literal {
    /// The expression.
    fn literal(&self) -> String;
}

impl Literal for usize {
    fn literal(&self) -> String {
        self.to_string()
    }
}

impl Literal for bool {
    fn literal(&self) -> String {
        self.to_string()
    }
}

impl Literal for u64 {
    fn literal(&self) -> String {
        format!("{self:#x}")
    }
}

impl Literal for f64 {
    fn literal(&self) -> String {
        match self {
            x if x.is_nan() => "f64::NAN".to_owned(),
            x if x.is_infinite() && *x > 0.0 => "f64::INFINITY".to_owned(),
            x if x.is_infinite() => "f64::NEG_INFINITY".to_owned(),
            x => format!("{x:?}"),
        }
    }
}

impl Literal for Vec<usize> {
    fn literal(&self) -> String {
        format!("vec!{self:?}")
    }
}

impl Literal for FloatDType {
    fn literal(&self) -> String {
        format!("FloatDType::{self:?}")
    }
}
