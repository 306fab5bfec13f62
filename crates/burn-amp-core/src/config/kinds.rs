//! The kinds of values that keys take: how each is read, checked, written and described.

use std::{fmt::Display, marker::PhantomData, ops::RangeInclusive, str::FromStr};

use super::{ConfigError, Place, tree::Value};
use crate::named::Named;

/// A kind of value: what a key takes, and the type of its field.
pub(super) trait Kind {
    /// The type of the field that holds the value.
    type Field;

    /// The values that are allowed, in words.
    fn allowed(&self) -> String;

    /// The names that are allowed, with their meanings; empty if values are not names.
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Reads a value and checks it.
    fn read(&self, value: &Value, place: &Place) -> Result<Self::Field, ConfigError>;

    /// Writes a value so that [`Kind::read`] gives an equal one, if it is valid.
    fn write(&self, field: &Self::Field) -> Value;

    /// Puts a value over the one that a weaker source has set.
    fn merge(
        &self,
        field: &mut Self::Field,
        value: &Value,
        place: &Place,
    ) -> Result<(), ConfigError> {
        *field = self.read(value, place)?;
        Ok(())
    }
}

/// A value of an enum, written as its name.
pub(super) struct Name<T> {
    /// The word for such a value in errors.
    what: &'static str,
    of: PhantomData<T>,
}

/// A value of the enum `T`; errors call it `what`.
pub(super) const fn name<T>(what: &'static str) -> Name<T> {
    Name {
        what,
        of: PhantomData,
    }
}

impl<T: Named> Kind for Name<T> {
    type Field = T;

    fn allowed(&self) -> String {
        let names = T::NAMES.iter().map(|(name, _)| *name);
        names.collect::<Vec<_>>().join(", ")
    }

    fn names(&self) -> &'static [(&'static str, &'static str)] {
        T::NAMES
    }

    fn read(&self, value: &Value, place: &Place) -> Result<T, ConfigError> {
        let (Value::String(text) | Value::Text(text)) = value else {
            return Err(ConfigError::unexpected(place.clone(), "a string", value));
        };
        text.parse().map_err(|_| {
            let names = T::NAMES.iter().map(|(name, _)| *name);
            ConfigError::unknown(place.clone(), self.what, text, names)
        })
    }

    fn write(&self, field: &T) -> Value {
        Value::String(field.to_string())
    }
}

/// A power of two whose exponent is in a range, so that multiplying by it is exact.
pub(super) struct Power(pub(super) RangeInclusive<i32>);

impl Kind for Power {
    type Field = f32;

    fn allowed(&self) -> String {
        let power = |exponent| match exponent {
            -1..=1 => power(exponent).to_string(),
            _ => format!("2^{exponent}"),
        };
        let (from, to) = (power(*self.0.start()), power(*self.0.end()));
        format!("a power of two from {from} to {to}")
    }

    fn read(&self, value: &Value, place: &Place) -> Result<f32, ConfigError> {
        let x: Option<f64> = match value {
            Value::Float(x) | Value::Written(x, _) => Some(*x),
            Value::Integer(x) => Some(*x as f64),
            Value::String(text) | Value::Text(text) if text.starts_with("2^") => of_power(text),
            Value::Text(_) => of_variable(value),
            Value::Table(_) | Value::String(_) | Value::Boolean(_) | Value::Other(_) => None,
        };
        let x = x.map(|x| x as f32);
        // zero and subnormal numbers have exponent -127, infinity and NaN 128, negative numbers more
        let mantissa = |x: f32| x.to_bits() & MANTISSA;
        let exponent = |x: f32| (x.to_bits() >> MANTISSA_BITS) as i32 - EXPONENT_BIAS;
        match x {
            Some(x) if mantissa(x) == 0 && self.0.contains(&exponent(x)) => Ok(x),
            _ => Err(ConfigError::Unexpected {
                place: Box::new(place.clone()),
                expected: self.allowed(),
                found: value.to_string(),
                nearest: x
                    .filter(|x| x.is_normal() && *x > 0.0 && mantissa(*x) != 0)
                    .map(|x| exponent(x) + i32::from(mantissa(x) > MANTISSA / 2))
                    .map(|exponent| power(exponent.clamp(*self.0.start(), *self.0.end()))),
            }),
        }
    }

    fn write(&self, field: &f32) -> Value {
        Value::Float(f64::from(*field))
    }
}

/// The bits of an F32 below its leading one.
const MANTISSA: u32 = (1 << MANTISSA_BITS) - 1;
const MANTISSA_BITS: u32 = f32::MANTISSA_DIGITS - 1;
const EXPONENT_BIAS: i32 = f32::MAX_EXP - 1;

/// `2^exponent`, exactly, for exponents of normal numbers.
fn power(exponent: i32) -> f32 {
    f32::from_bits(((exponent + EXPONENT_BIAS) as u32) << MANTISSA_BITS)
}

/// The number that is written `2^40`.
fn of_power(text: &str) -> Option<f64> {
    let exponent: i32 = text.strip_prefix("2^")?.parse().ok()?;
    Some(2f64.powi(exponent))
}

/// A whole number in a range.
pub(super) struct Whole(pub(super) RangeInclusive<u32>);

impl Kind for Whole {
    type Field = u32;

    fn allowed(&self) -> String {
        format!("a whole number from {} to {}", self.0.start(), self.0.end())
    }

    fn read(&self, value: &Value, place: &Place) -> Result<u32, ConfigError> {
        let n: Option<i128> = if let Value::Integer(n) = value {
            Some(*n)
        } else {
            of_variable(value)
        };
        n.and_then(|n| u32::try_from(n).ok())
            .filter(|n| self.0.contains(n))
            .ok_or_else(|| {
                // `1000.0` is no whole number here, so the point stays.
                let found = match value {
                    Value::Float(_) => value.to_toml(),
                    other => other.to_string(),
                };
                ConfigError::unexpected(place.clone(), self.allowed(), found)
            })
    }

    fn write(&self, field: &u32) -> Value {
        Value::Integer((*field).into())
    }
}

/// True or false.
pub(super) struct Flag;

impl Kind for Flag {
    type Field = bool;

    fn allowed(&self) -> String {
        "true or false".into()
    }

    fn read(&self, value: &Value, place: &Place) -> Result<bool, ConfigError> {
        let flag = if let Value::Boolean(x) = value {
            Some(*x)
        } else {
            of_variable(value)
        };
        flag.ok_or_else(|| ConfigError::unexpected(place.clone(), self.allowed(), value))
    }

    fn write(&self, field: &bool) -> Value {
        Value::Boolean(*field)
    }
}

/// The path of a file.
pub(super) struct FilePath {
    /// Whether an empty string stands for no file.
    pub(super) is_optional: bool,
}

impl Kind for FilePath {
    type Field = String;

    fn allowed(&self) -> String {
        match self.is_optional {
            true => "the path of a file, or an empty string".into(),
            false => "the path of a file".into(),
        }
    }

    fn read(&self, value: &Value, place: &Place) -> Result<String, ConfigError> {
        let unexpected = |found: &dyn Display| {
            Err(ConfigError::unexpected(
                place.clone(),
                self.allowed(),
                found,
            ))
        };
        match value {
            Value::String(path) | Value::Text(path) => match path.trim() {
                "" if !self.is_optional => unexpected(&"an empty string"),
                trimmed if self.is_optional => Ok(trimmed.to_owned()),
                _ => Ok(path.clone()),
            },
            Value::Table(_)
            | Value::Integer(_)
            | Value::Float(_)
            | Value::Written(..)
            | Value::Boolean(_)
            | Value::Other(_) => unexpected(value),
        }
    }

    fn write(&self, field: &String) -> Value {
        Value::String(field.clone())
    }
}

/// The number or flag in the text of a variable.
fn of_variable<T: FromStr>(value: &Value) -> Option<T> {
    if let Value::Text(text) = value {
        text.parse().ok()
    } else {
        None
    }
}
