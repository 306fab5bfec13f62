//! Reading the record of an optimizer, which may be that of another one or of a plain optimizer.

use std::{any::type_name, fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};

use super::record::LossScaleOptimizerItem;

/// The name of the optimizer whose state has the form `I`: `Adam`, or the name of `I` if that is not known.
///
/// It has no type parameters, such as the backend: what was saved on one is loaded on another.
pub(super) fn name_of<I>() -> String {
    optimizer_in(type_name::<I>()).to_owned()
}

/// The optimizer in the name of a form.
fn optimizer_in(form: &str) -> &str {
    let mut name = form;
    for state in ["StateItem<", "AdaptorRecordItem<", "MasterWeights<"] {
        // Each that is found leads further in.
        if let Some((_, arguments)) = name.rsplit_once(state) {
            name = arguments;
        }
    }
    let end = name.find(['<', '>', ',']).unwrap_or(name.len());
    let path = &name[..end];
    path.rsplit("::").next().unwrap_or(path)
}

/// Whether the states of two optimizers have one form.
fn is_same_form(a: &str, b: &str) -> bool {
    let is_adam = |name| ["Adam", "AdamW"].contains(&name);
    a == b || (is_adam(a) && is_adam(b))
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
        // Another form would be read as numbers without a meaning.
        let expected = name_of::<I>();
        if !is_same_form(&optimizer_name, &expected) {
            return Err(other(&optimizer_name, &expected, None));
        }
        let optimizer = fields.next_element()?;
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
                    let (saved, expected) = (name.as_deref(), name_of::<I>());
                    optimizer = Some(value.map_err(|error| match saved {
                        Some(saved) if saved != expected => other(saved, &expected, Some(error)),
                        Some(_) | None => error,
                    })?);
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

/// The error of the state of another optimizer, which cannot be read for this `reason`.
fn other<E: Error>(saved: &str, expected: &str, reason: Option<E>) -> E {
    let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
    E::custom(format!(
        "this is the record of the optimizer `{saved}`, and `{expected}` is to load it{reason}"
    ))
}

/// The error of a state that is not of the form `I`, for this `reason`.
pub(super) fn not_of<I, E: Error>(reason: E) -> E {
    E::custom(format!(
        "this is no state of the optimizer `{}`: {reason}",
        name_of::<I>()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_optimizer_is_named_by_the_type_of_its_state() {
        let named = |form, name| assert_eq!(optimizer_in(form), name, "{form}");
        named(
            "std::HashMap<String, a::StateItem<b::Adam, c::Amp<d::Flex>, e::Full>>",
            "Adam",
        );
        named(
            "H<String, a::AdaptorRecordItem<b::Sgd<c::Amp<Flex>>, Amp<Flex>, F>>",
            "Sgd",
        );
        named(
            "H<String, a::AdaptorRecordItem<a::MasterWeights<b::Adam>, B, F>>",
            "Adam",
        );
        named("alloc::vec::Vec<u8>", "Vec");
        named("()", "()");
        assert_eq!(name_of::<Vec<u8>>(), "Vec");
        assert!(is_same_form("Adam", "AdamW") && !is_same_form("Adam", "Sgd"));
    }
}
