//! Reading the record of an optimizer, which may be that of another one or of a plain optimizer.

use std::{any::type_name, fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};

use super::record::LossScaleOptimizerItem;

/// The name of the optimizer whose state has the form `I`: `Adam`, or the short name of `I` if that is not known.
///
/// Rust does not fix the names of types, so this is for messages only.
pub(super) fn name_of<I>() -> String {
    let name = short(type_name::<I>());
    let states = ["StateItem<", "AdaptorRecordItem<"];
    let optimizer = states.iter().find_map(|state| {
        let (_, arguments) = name.split_once(state)?;
        first_of(arguments)
    });
    optimizer.map(str::to_owned).unwrap_or(name)
}

/// The name of a type without the paths of modules.
fn short(name: &str) -> String {
    let mut short = String::new();
    for part in name.split_inclusive(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')) {
        short.push_str(part.rsplit("::").next().unwrap_or(part));
    }
    short
}

/// The first of several arguments.
fn first_of(arguments: &str) -> Option<&str> {
    let mut depth = 0;
    let end = arguments.find(|c| {
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ => {}
        }
        depth < 0 || (depth == 0 && c == ',')
    });
    arguments.get(..end?)
}

const FIELDS: [&str; 3] = ["loss_scales", "optimizer_name", "optimizer"];

impl<'de, I: Deserialize<'de>> Deserialize<'de> for LossScaleOptimizerItem<I> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_struct("LossScaleOptimizerItem", &FIELDS, Item(PhantomData))
    }
}

struct Item<I>(PhantomData<I>);

impl<'de, I: Deserialize<'de>> Visitor<'de> for Item<I> {
    type Value = LossScaleOptimizerItem<I>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the record of an AmpOptimizer or a LossScaleOptimizer")
    }

    /// A format that does not name the fields.
    fn visit_seq<A: SeqAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
        let loss_scales = fields
            .next_element()
            .map_err(|error| plain(&format!("begins with no loss scales ({error})")))?;
        let loss_scales = loss_scales.ok_or_else(|| A::Error::missing_field(FIELDS[0]))?;
        let optimizer_name = fields.next_element()?;
        let optimizer_name: String =
            optimizer_name.ok_or_else(|| A::Error::missing_field(FIELDS[1]))?;
        let optimizer = fields.next_element();
        let optimizer = optimizer.map_err(|error| other::<I, _>(&optimizer_name, error))?;
        Ok(LossScaleOptimizerItem {
            loss_scales,
            optimizer_name,
            optimizer: optimizer.ok_or_else(|| A::Error::missing_field(FIELDS[2]))?,
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
        let (mut loss_scales, mut name, mut optimizer) = (None, None, None);
        while let Some(field) = fields.next_key::<String>()? {
            match field.as_str() {
                "loss_scales" => loss_scales = Some(fields.next_value()?),
                "optimizer_name" => name = Some(fields.next_value::<String>()?),
                "optimizer" => {
                    let value = fields.next_value();
                    let saved = name.as_deref().unwrap_or_default();
                    optimizer = Some(value.map_err(|error| other::<I, _>(saved, error))?);
                }
                unknown => return Err(plain(&format!("has the field `{unknown}`"))),
            }
        }
        Ok(LossScaleOptimizerItem {
            loss_scales: loss_scales.ok_or_else(|| plain("has no field `loss_scales`"))?,
            optimizer_name: name.unwrap_or_default(),
            optimizer: optimizer.ok_or_else(|| plain("has no field `optimizer`"))?,
        })
    }
}

/// The error of a record that is none of a `LossScaleOptimizer`: it `has` something else.
fn plain<E: Error>(has: &str) -> E {
    E::custom(format!(
        "the record of an `AmpOptimizer` has the fields `loss_scales` and `optimizer`, and this one {has}: if it is that \
         of a plain optimizer, load it with the type `O::Record` of `optimizer.inner()`, and then \
         `optimizer.load_inner_record(record)`"
    ))
}

/// The error of a state that cannot be read, of the optimizer with the name `saved`, if that is known.
fn other<I, E: Error>(saved: &str, error: E) -> E {
    let expected = name_of::<I>();
    if saved.is_empty() || saved == expected {
        return error;
    }
    E::custom(format!(
        "this is the record of the optimizer `{saved}`, and `{expected}` is to load it: {error}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_optimizer_is_named_by_the_type_of_its_state() {
        assert_eq!(short("a::b::C<d::E, &str, f::G<h::I>>"), "C<E, &str, G<I>>");
        assert_eq!(first_of("Adam, B<C, D>>"), Some("Adam"));
        assert_eq!(
            first_of("Master<Skip<Adam>>, B>>"),
            Some("Master<Skip<Adam>>")
        );
        assert_eq!(first_of("Adam>"), Some("Adam"));
        assert_eq!(name_of::<Vec<u8>>(), "Vec<u8>");
    }
}
