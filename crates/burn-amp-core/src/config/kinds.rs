//! The kinds of values that keys take: how each is read, checked, written and described.

use std::{collections::BTreeMap, marker::PhantomData, ops::RangeInclusive};

use super::{
    ConfigError, Place,
    nearest::nearest,
    tree::{Entry, Value, no_duplicates},
};
use crate::{Dtype, Op, named::Named};

/// A kind of value: what a key takes, and the type of its field.
pub(super) trait Kind {
    /// The type of the field that holds the value.
    type Field;

    /// The value that is allowed, in words.
    fn allowed(&self) -> String;

    /// The names that are allowed with their meanings; none if values are not names.
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

/// One of the names of an enum; errors call it a `what`.
pub(super) struct Name<T> {
    what: &'static str,
    of: PhantomData<T>,
}

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
        let x = match value {
            Value::Integer(x) => Some(*x as f32),
            Value::Float(x) => Some(*x as f32),
            Value::Text(text) => text.parse::<f64>().ok().map(|x| x as f32),
            Value::Table(_) | Value::String(_) | Value::Boolean(_) | Value::Other(_) => None,
        };
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

/// A whole number in a range.
pub(super) struct Whole(pub(super) RangeInclusive<u32>);

impl Kind for Whole {
    type Field = u32;

    fn allowed(&self) -> String {
        format!("a whole number from {} to {}", self.0.start(), self.0.end())
    }

    fn read(&self, value: &Value, place: &Place) -> Result<u32, ConfigError> {
        let n: Option<i128> = match value {
            Value::Integer(n) => Some(*n),
            Value::Text(text) => text.parse().ok(),
            Value::Table(_)
            | Value::String(_)
            | Value::Float(_)
            | Value::Boolean(_)
            | Value::Other(_) => None,
        };
        n.and_then(|n| u32::try_from(n).ok())
            .filter(|n| self.0.contains(n))
            .ok_or_else(|| ConfigError::unexpected(place.clone(), self.allowed(), value))
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
        let flag = match value {
            Value::Boolean(x) => Some(*x),
            Value::Text(text) => text.parse().ok(),
            Value::Table(_)
            | Value::String(_)
            | Value::Integer(_)
            | Value::Float(_)
            | Value::Other(_) => None,
        };
        flag.ok_or_else(|| ConfigError::unexpected(place.clone(), self.allowed(), value))
    }

    fn write(&self, field: &bool) -> Value {
        Value::Boolean(*field)
    }
}

/// A table whose keys are not fixed; in a variable, a list like its example.
///
/// A stronger source replaces the values of the keys that it has and leaves the others.
pub(super) struct Open<K, V> {
    example: &'static str,
    values: V,
    keys: PhantomData<K>,
}

pub(super) const fn open<K, V>(example: &'static str, values: V) -> Open<K, V> {
    Open {
        example,
        values,
        keys: PhantomData,
    }
}

/// A key of an [`Open`] table.
pub(super) trait OpenKey: Ord + ToString {
    /// Reads a key and checks it; `place` is that of the table.
    fn read(key: &str, place: &Place) -> Result<Self, ConfigError>
    where
        Self: Sized;
}

impl<K: OpenKey, V: Kind> Kind for Open<K, V> {
    type Field = BTreeMap<K, V::Field>;

    fn allowed(&self) -> String {
        self.values.allowed()
    }

    fn names(&self) -> &'static [(&'static str, &'static str)] {
        self.values.names()
    }

    fn read(&self, value: &Value, place: &Place) -> Result<Self::Field, ConfigError> {
        let of_variable;
        let table = match value {
            Value::Table(table) => table,
            Value::Text(text) => {
                of_variable = self.entries(text, place)?;
                &of_variable
            }
            Value::String(_)
            | Value::Integer(_)
            | Value::Float(_)
            | Value::Boolean(_)
            | Value::Other(_) => {
                return Err(ConfigError::unexpected(place.clone(), "a table", value));
            }
        };
        no_duplicates(table, place)?;
        let read = |entry: &Entry| {
            let place = place.at(entry.line);
            let key = K::read(&entry.key, &place)?;
            let value = self.values.read(&entry.value, &place.child(&entry.key))?;
            Ok((key, value))
        };
        table.iter().map(read).collect()
    }

    fn write(&self, field: &Self::Field) -> Value {
        let entry = |(key, value): (&K, &V::Field)| Entry {
            key: key.to_string(),
            value: self.values.write(value),
            line: None,
        };
        Value::Table(field.iter().map(entry).collect())
    }

    fn merge(
        &self,
        field: &mut Self::Field,
        value: &Value,
        place: &Place,
    ) -> Result<(), ConfigError> {
        field.extend(self.read(value, place)?);
        Ok(())
    }
}

impl<K, V> Open<K, V> {
    /// The entries of a list like `float_exp=full,softmax=keep`.
    fn entries(&self, list: &str, place: &Place) -> Result<Vec<Entry>, ConfigError> {
        let items = list
            .split(',')
            .map(str::trim)
            .filter(|item| !item.is_empty());
        let entry = |item: &str| match item.split_once('=') {
            Some((key, value)) => Ok(Entry {
                key: key.trim().into(),
                value: Value::Text(value.trim().into()),
                line: None,
            }),
            None => Err(ConfigError::unexpected(
                place.clone(),
                format!("a list like `{}`", self.example),
                Value::Text(item.into()),
            )),
        };
        items.map(entry).collect()
    }
}

impl OpenKey for Op {
    fn read(name: &str, place: &Place) -> Result<Self, ConfigError> {
        // under some compute dtype
        let has_class = |op: &Self| {
            [Dtype::F16, Dtype::BF16]
                .into_iter()
                .any(|d| op.class(d).is_some())
        };
        match name.parse() {
            Ok(op) if has_class(&op) => Ok(op),
            Ok(op) => Err(ConfigError::NoClass {
                place: Box::new(place.clone()),
                op,
            }),
            Err(()) => {
                let candidates = Self::ALL.iter().filter(|op| has_class(op));
                let nearest = nearest(name, candidates.map(|op| op.name()));
                let examples = "the methods of Burn's op traits, for example `float_matmul`";
                Err(ConfigError::Unknown {
                    place: Box::new(place.clone()),
                    what: "op",
                    name: name.into(),
                    allowed: if nearest.is_none() { examples } else { "" }.into(),
                    nearest: nearest.map(str::to_owned),
                })
            }
        }
    }
}
