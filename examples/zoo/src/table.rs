//! The table of all models, and the way to run code for one of them.

use crate::{
    Size, ZooModel,
    models::{
        bert::BertConfig, convnext::ConvNextConfig, diffusion::DiffusionConfig, gpt::GptConfig,
        mlp::MlpConfig, mobilenet::MobileNetConfig, recurrent::RecurrentConfig,
        resnet::ResNetConfig, tabular::TabularConfig, unet::UNetConfig, wgan::WganConfig,
        yolox::YoloxConfig,
    },
};

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub name: &'static str,
    /// Trainable scalars at full size.
    pub parameters: usize,
    batch_full: usize,
    batch_tiny: usize,
}

impl Entry {
    /// Returns the default number of items in a batch.
    pub fn batch_size(&self, size: Size) -> usize {
        match size {
            Size::Full => self.batch_full,
            Size::Tiny => self.batch_tiny,
        }
    }
}

/// Work on a model: a closure that is generic over the model's type.
pub trait Visitor {
    type Output;

    fn visit<M: ZooModel>(self, entry: &'static Entry, model: M) -> Self::Output;
}

/// There is no model of this name.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("model: unknown `{name}`; allowed: {allowed}")]
pub struct UnknownModel {
    name: String,
    allowed: String,
}

/// Declares [`ZOO`] and [`visit`]. A macro, because a value cannot hold the models' types.
macro_rules! zoo {
    ($($name:literal $Config:ident::$full:ident / $tiny:ident, batch $batch_full:literal / $batch_tiny:literal,
        $parameters:literal parameters;)+) => {
        /// All models, in the order of their twins in PyTorch.
        pub const ZOO: &[Entry] = &[$(Entry {
            name: $name,
            parameters: $parameters,
            batch_full: $batch_full,
            batch_tiny: $batch_tiny,
        }),+];

        /// Calls the visitor with the model called `name`.
        ///
        /// # Errors
        ///
        /// Returns an error if there is none; the visitor is not called.
        pub fn visit<V: Visitor>(name: &str, size: Size, visitor: V) -> Result<V::Output, UnknownModel> {
            let entry = entry(name)?;
            Ok(match (entry.name, size) {
                $(
                    ($name, Size::Full) => visitor.visit(entry, $Config::$full()),
                    ($name, Size::Tiny) => visitor.visit(entry, $Config::$tiny()),
                )+
                _ => unreachable!("entries and models come from one table"),
            })
        }
    };
}

zoo! {
    "mlp"        MlpConfig::full / tiny,               batch 256 / 8,  116_058 parameters;
    "mlp-medium" MlpConfig::full_medium / tiny_medium, batch 1024 / 8, 2_515_850 parameters;
    "mlp-large"  MlpConfig::full_large / tiny_large,   batch 4096 / 8, 159_422_464 parameters;
    "tabular"    TabularConfig::full / tiny,           batch 4096 / 8, 475_585 parameters;
    "resnet18"   ResNetConfig::full / tiny,            batch 128 / 4,  11_689_512 parameters;
    "resnet50"   ResNetConfig::full_50 / tiny_50,      batch 128 / 4,  25_557_032 parameters;
    "unet"       UNetConfig::full / tiny,              batch 32 / 2,   7_763_041 parameters;
    "bert"       BertConfig::full / tiny,              batch 64 / 4,   132_363_066 parameters;
    "gpt"        GptConfig::full / tiny,               batch 8 / 4,    163_037_184 parameters;
    "lstm"       RecurrentConfig::full / tiny,         batch 256 / 8,  1_319_946 parameters;
    "bilstm"     RecurrentConfig::full_bidirectional / tiny_bidirectional, batch 256 / 8, 2_639_882 parameters;
    "gru"        RecurrentConfig::full_gru / tiny_gru, batch 256 / 8,  991_242 parameters;
    "rnn"        RecurrentConfig::full_rnn / tiny_rnn, batch 256 / 8,  333_834 parameters;
    "wgan"       WganConfig::full / tiny,              batch 128 / 4,  6_570_820 parameters;
    "mobilenet"  MobileNetConfig::full / tiny,         batch 128 / 4,  3_504_872 parameters;
    "convnext"   ConvNextConfig::full / tiny,          batch 64 / 4,   28_589_128 parameters;
    "yolox"      YoloxConfig::full / tiny,             batch 32 / 4,   912_159 parameters;
    "diffusion"  DiffusionConfig::full / tiny,         batch 64 / 4,   27_008_259 parameters;
}

/// Returns the row of the model called `name`.
///
/// # Errors
///
/// Returns an error if there is none.
pub fn entry(name: &str) -> Result<&'static Entry, UnknownModel> {
    ZOO.iter()
        .find(|entry| entry.name == name)
        .ok_or_else(|| UnknownModel {
            name: name.to_owned(),
            allowed: ZOO
                .iter()
                .map(|entry| entry.name)
                .collect::<Vec<_>>()
                .join(", "),
        })
}
