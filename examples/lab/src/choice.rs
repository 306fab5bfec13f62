//! A model with the numbers of its configuration that the command line replaces.

use std::str::FromStr;

use zoo::{Entry, Size, UnknownModel, Visitor, ZooModel};

/// `name` or `name:field=number,..`; the field `batch_size` may be among them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// As it was written.
    pub text: String,
    pub model: &'static Entry,
    pub batch_size: Option<usize>,
    /// Names that the model's configuration has, and what they become.
    pub overrides: Vec<(String, usize)>,
}

/// Why a choice is none.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceError {
    #[error(transparent)]
    UnknownModel(#[from] UnknownModel),
    #[error("`{found}`: expected `field=number`")]
    NotAPair { found: String },
    #[error("{model} has no number `{field}`")]
    UnknownField { model: &'static str, field: String },
    #[error("`{field}` starts at 1")]
    Zero { field: String },
}

impl Choice {
    /// The model as it is.
    pub fn plain(model: &'static Entry) -> Self {
        Self {
            text: model.name.to_owned(),
            model,
            batch_size: None,
            overrides: Vec::new(),
        }
    }

    /// Replaces the numbers in a configuration of this model.
    pub fn apply<M: ZooModel>(&self, model: &mut M) {
        for (field, value) in &self.overrides {
            *model
                .number(field)
                .expect("the fields were looked up when the choice was read") = *value;
        }
    }

    /// The shape of one item of a batch's first tensor.
    pub fn item_shape(&self, size: Size) -> Vec<usize> {
        zoo::visit(self.model.name, size, ItemShape(self))
            .expect("the choice holds a row of the zoo")
    }
}

impl FromStr for Choice {
    type Err = ChoiceError;

    fn from_str(text: &str) -> Result<Self, ChoiceError> {
        let (name, fields) = text.split_once(':').unwrap_or((text, ""));
        let mut choice = Self {
            text: text.to_owned(),
            ..Self::plain(zoo::entry(name)?)
        };
        for pair in fields.split(',').filter(|pair| !pair.is_empty()) {
            let (field, value) = pair
                .split_once('=')
                .and_then(|(field, value)| Some((field, value.parse().ok()?)))
                .ok_or_else(|| ChoiceError::NotAPair {
                    found: pair.to_owned(),
                })?;
            let field = field.to_owned();
            match (field.as_str(), value) {
                (_, 0) => return Err(ChoiceError::Zero { field }),
                ("batch_size", _) => choice.batch_size = Some(value),
                _ if zoo::visit(name, Size::Full, HasNumber(&field))? => {
                    choice.overrides.push((field, value));
                }
                _ => {
                    let model = choice.model.name;
                    return Err(ChoiceError::UnknownField { model, field });
                }
            }
        }
        Ok(choice)
    }
}

/// The shape of one item of a model's batches.
struct ItemShape<'a>(&'a Choice);

impl Visitor for ItemShape<'_> {
    type Output = Vec<usize>;

    fn visit<M: ZooModel>(self, _: &'static Entry, mut model: M) -> Vec<usize> {
        self.0.apply(&mut model);
        model.item_shape()
    }
}

/// Whether a model's configuration has a number of this name.
struct HasNumber<'a>(&'a str);

impl Visitor for HasNumber<'_> {
    type Output = bool;

    fn visit<M: ZooModel>(self, _: &'static Entry, mut model: M) -> bool {
        model.number(self.0).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_model_and_the_numbers_that_replace_its_own() {
        let choice: Choice = "bert:batch_size=16,seq_len=512".parse().unwrap();
        assert_eq!(
            choice,
            Choice {
                text: "bert:batch_size=16,seq_len=512".to_owned(),
                model: zoo::entry("bert").unwrap(),
                batch_size: Some(16),
                overrides: vec![("seq_len".to_owned(), 512)],
            }
        );
        assert_eq!(choice.item_shape(Size::Tiny), [512]);
        assert_eq!("mlp".parse(), Ok(Choice::plain(&zoo::ZOO[0])));
    }

    #[test]
    fn tells_what_is_wrong() {
        for (text, message) in [
            ("vgg", "model: unknown `vgg`; allowed: mlp, mlp-medium"),
            ("bert:seq_len", "`seq_len`: expected `field=number`"),
            ("bert:seq_len=x", "`seq_len=x`: expected `field=number`"),
            ("bert:depth=3", "bert has no number `depth`"),
            ("bert:batch_size=0", "`batch_size` starts at 1"),
        ] {
            let error = text.parse::<Choice>().unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
        }
    }
}
