//! A model as both command lines name it: `bert`, or `bert:seq_len=512,batch_size=16`.

use std::str::FromStr;

use zoo::{Entry, Size, UnknownModel, Visitor, ZooModel};

/// A model of the zoo and the numbers of its configuration that are replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The text on the command line.
    pub text: String,
    pub model: &'static Entry,
    pub batch_size: Option<usize>,
    /// Fields that the model's configuration has, with their new values.
    pub settings: Vec<(String, usize)>,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceError {
    #[error(transparent)]
    UnknownModel(#[from] UnknownModel),
    #[error("`{found}`: expected `field=number`")]
    NotAPair { found: String },
    #[error("{model} has no number `{field}`; it has: {has}")]
    UnknownField {
        model: &'static str,
        field: String,
        has: String,
    },
    #[error("`{field}` starts at 1")]
    Zero { field: String },
}

impl Choice {
    /// Chooses the model with the zoo's numbers.
    pub fn plain(model: &'static Entry) -> Self {
        Self {
            text: model.name.to_owned(),
            model,
            batch_size: None,
            settings: Vec::new(),
        }
    }

    /// Calls the visitor with the model, its numbers replaced.
    pub fn visit<V: Visitor>(&self, size: Size, visitor: V) -> V::Output {
        let settings = &self.settings;
        zoo::visit(self.model.name, size, Set { settings, visitor })
            .expect("the choice holds a row of the zoo")
    }

    /// Returns the number of items in a batch: the chosen one, or the zoo's.
    pub fn batch_size(&self, size: Size) -> usize {
        self.batch_size
            .unwrap_or_else(|| self.model.batch_size(size))
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
                .and_then(|(field, value)| Some((field.to_owned(), value.parse().ok()?)))
                .ok_or_else(|| ChoiceError::NotAPair {
                    found: pair.to_owned(),
                })?;
            if value == 0 {
                return Err(ChoiceError::Zero { field });
            } else if field == "batch_size" {
                choice.batch_size = Some(value);
            } else if zoo::visit(name, Size::Full, HasNumber(&field))? {
                choice.settings.push((field, value));
            } else {
                let model = choice.model.name;
                let has = numbers(model)?.join(", ");
                return Err(ChoiceError::UnknownField { model, field, has });
            }
        }
        Ok(choice)
    }
}

/// The numbers that a model's configuration has, and its batch size.
fn numbers(model: &str) -> Result<Vec<&'static str>, ChoiceError> {
    let mut found = vec!["batch_size"];
    for field in NUMBERS {
        if zoo::visit(model, Size::Full, HasNumber(field))? {
            found.push(field);
        }
    }
    Ok(found)
}

/// The numbers of all configurations in the zoo.
const NUMBERS: [&str; 14] = [
    "classes",
    "doublings",
    "features",
    "heads",
    "image",
    "inner_width",
    "latent",
    "layers",
    "levels",
    "positions",
    "seq_len",
    "types",
    "vocab_size",
    "width",
];

/// Replaces numbers of a model's configuration before it is visited.
struct Set<'a, V> {
    settings: &'a [(String, usize)],
    visitor: V,
}

impl<V: Visitor> Visitor for Set<'_, V> {
    type Output = V::Output;

    fn visit<M: ZooModel>(self, entry: &'static Entry, mut model: M) -> V::Output {
        for (field, value) in self.settings {
            *model
                .number(field)
                .expect("the fields were looked up when the choice was read") = *value;
        }
        self.visitor.visit(entry, model)
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

/// The shape of one item of a batch's first tensor.
pub struct ItemShape;

impl Visitor for ItemShape {
    type Output = Vec<usize>;

    fn visit<M: ZooModel>(self, _: &'static Entry, model: M) -> Vec<usize> {
        model.item_shape()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_model_and_the_numbers_that_replace_its_own() {
        let choice: Choice = "bert:batch_size=16,seq_len=512".parse().unwrap();
        assert_eq!(choice.model.name, "bert");
        assert_eq!(choice.batch_size(Size::Full), 16);
        assert_eq!(choice.settings, [("seq_len".to_owned(), 512)]);
        assert_eq!(choice.visit(Size::Tiny, ItemShape), [512]);

        let plain: Choice = "mlp".parse().unwrap();
        assert_eq!(plain, Choice::plain(&zoo::ZOO[0]));
        assert_eq!(plain.batch_size(Size::Tiny), 8);
    }

    #[test]
    fn says_what_is_wrong() {
        for (text, message) in [
            ("vgg", "model: unknown `vgg`; allowed: mlp, mlp-medium"),
            ("bert:seq_len", "`seq_len`: expected `field=number`"),
            ("bert:seq_len=x", "`seq_len=x`: expected `field=number`"),
            ("bert:depth=3", "bert has no number `depth`; it has: "),
            ("bert:batch_size=0", "`batch_size` starts at 1"),
        ] {
            let error = text.parse::<Choice>().unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
        }
    }
}
