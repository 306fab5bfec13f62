//! The dry runs: which models, in which precisions.

use std::fmt;

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

/// A run: a model of the zoo in a precision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// As the programs of `examples/lab` name it.
    pub model: String,
    /// `full` or `tiny`.
    pub size: String,
    pub precision: Precision,
    pub fusion: bool,
}

/// The precisions of the program `dry`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Precision {
    F32,
    Bf16,
    F16,
    F16Deferred,
    #[serde(rename = "o2-split-8")]
    #[value(name = "o2-split-8")]
    Split8,
    #[serde(rename = "o2-stochastic")]
    #[value(name = "o2-stochastic")]
    Stochastic,
}

impl Precision {
    /// The precisions of every model, with F32 masters and moments.
    pub const ALL: [Self; 4] = [Self::F32, Self::Bf16, Self::F16, Self::F16Deferred];

    /// Those with fewer bytes in the optimizer, whose kernels do not depend on the model.
    pub const FEWER_BYTES: [Self; 2] = [Self::Split8, Self::Stochastic];

    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
            Self::F16Deferred => "f16-deferred",
            Self::Split8 => "o2-split-8",
            Self::Stochastic => "o2-stochastic",
        }
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fusion = if self.fusion { ", fusion" } else { "" };
        let Self { model, size, .. } = self;
        write!(f, "{model} {size}, {}{fusion}", self.precision.name())
    }
}

impl Run {
    /// The run as the name of a file.
    pub fn file_name(&self) -> String {
        let fusion = if self.fusion { "-fusion" } else { "" };
        let model = self.model.replace([':', '=', ','], "-");
        format!("{model}-{}-{}{fusion}", self.size, self.precision.name())
    }

    /// The arguments of the program `dry`.
    pub fn arguments(&self) -> Vec<&str> {
        let precision = self.precision.name();
        let mut arguments = vec![&self.model, "--size", &self.size, "--precision", precision];
        arguments.extend(self.fusion.then_some("--fusion"));
        arguments
    }

    /// The same in plain Burn.
    pub fn in_f32(&self) -> Self {
        Self {
            precision: Precision::F32,
            ..self.clone()
        }
    }
}

/// A model at full size.
pub struct Model {
    pub name: &'static str,
    /// Floating-point operations of a step's convolutions: forward and twice that backward, 2 for each product.
    /// `None` if the model has no convolutions: those of matrix products are counted.
    pub convolution_flop: Option<u64>,
}

const fn model(name: &'static str) -> Model {
    Model {
        name,
        convolution_flop: None,
    }
}

const fn convolutions(name: &'static str, products_per_image: u64, images: u64) -> Model {
    Model {
        name,
        convolution_flop: Some(products_per_image * images * 6),
    }
}

/// The models at full size. The numbers of products, of an image in the forward pass, are those of the published ResNets (He et al. 2016, table 1, whose
/// "FLOPs" are products), and for the others the sum over their layers: height × width × channels in and out × window. A step of the
/// WGAN passes forward through the generator twice and backward once, through the critic three times in each direction: a third
/// of 4 × 104.9 and 9 × 103.8 million.
pub const FULL: &[Model] = &[
    model("gpt"),
    model("bert"),
    model("bert:seq_len=512,batch_size=16"),
    convolutions("resnet50", 4_090_000_000, 128),
    convolutions("unet", 12_070_000_000, 32),
    model("mlp-large"),
    convolutions("resnet18", 1_820_000_000, 128),
    model("mlp-medium"),
    model("mlp"),
    model("lstm"),
    model("bilstm"),
    model("gru"),
    model("rnn"),
    convolutions("wgan", 451_000_000, 128),
    convolutions("mobilenet", 301_000_000, 128),
    convolutions("convnext", 4_456_000_000, 64),
    convolutions("yolox", 523_000_000, 32),
    convolutions("diffusion", 3_637_000_000, 64),
    model("tabular"),
];

/// The models of the test command, which are tiny there.
pub const QUICK: &[&str] = &["gpt", "unet"];

/// Which runs of the plan a command is about; all of full size if nothing is said.
#[derive(Args, Clone, Default)]
pub struct Choice {
    /// Only tiny models, as in `cargo xtask test --rest`
    #[arg(long)]
    pub quick: bool,
    /// Only these models, named as in the table
    #[arg(long, num_args = 1.., value_name = "MODEL")]
    pub model: Vec<String>,
    /// Only these precisions
    #[arg(long, value_enum, num_args = 1..)]
    pub precision: Vec<Precision>,
    /// Only with or only without Fusion
    #[arg(long, value_name = "BOOL")]
    pub fusion: Option<bool>,
}

impl Choice {
    /// The chosen runs.
    ///
    /// # Errors
    ///
    /// Returns an error if there is none, or a model is not in the plan.
    pub fn runs(&self) -> Result<Vec<Run>> {
        let all = runs(self.quick);
        for model in &self.model {
            ensure!(
                all.iter().any(|run| run.model == *model),
                "{model} is not in the plan; its models are {}",
                names(&all).join(", ")
            );
        }
        let runs: Vec<Run> = all
            .into_iter()
            .filter(|run| self.model.is_empty() || self.model.contains(&run.model))
            .filter(|run| self.precision.is_empty() || self.precision.contains(&run.precision))
            .filter(|run| self.fusion.is_none_or(|fusion| fusion == run.fusion))
            .collect();
        ensure!(!runs.is_empty(), "no run of the plan is chosen");
        Ok(runs)
    }
}

/// The models of some runs.
fn names(runs: &[Run]) -> Vec<&str> {
    let mut names: Vec<_> = runs.iter().map(|run| run.model.as_str()).collect();
    names.dedup();
    names
}

/// The runs of full size, or the quick ones.
pub fn runs(quick: bool) -> Vec<Run> {
    let models: Vec<&str> = match quick {
        true => QUICK.to_vec(),
        false => FULL.iter().map(|model| model.name).collect(),
    };
    let run = |model: &str, precision, fusion| Run {
        model: model.to_owned(),
        size: if quick { "tiny" } else { "full" }.to_owned(),
        precision,
        fusion,
    };
    let mut runs = Vec::new();
    for model in models {
        for fusion in [true, false] {
            runs.extend(Precision::ALL.map(|precision| run(model, precision, fusion)));
        }
        if quick && model == QUICK[0] {
            runs.extend(Precision::FEWER_BYTES.map(|precision| run(model, precision, false)));
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_that_is_not_in_the_plan_is_an_error_that_names_those_that_are() {
        let choice = |models: &[&str]| Choice {
            model: models.iter().map(ToString::to_string).collect(),
            ..Choice::default()
        };
        assert_eq!(choice(&["gpt", "unet"]).runs().unwrap().len(), 16);
        let error = choice(&["gpt", "gtp"]).runs().unwrap_err().to_string();
        assert!(
            error.starts_with("gtp is not in the plan; its models are gpt, bert,"),
            "{error}"
        );
    }
}
