//! Trains a small GPT in simulated FP8: as it is, with scales, and in unit scale.
//!
//! ```text
//! cargo run --release -p lab --bin unit_scaled -- book/src/images/unit-scaled.svg
//! ```
//!
//! The gradient of a mean over many tokens is small, and in FP8 without scales it becomes zero. So each training is done with a loss that
//! is divided by the number of batches of a step, from 1 to 1024. Adam gives the same step for any factor on the gradients, so
//! nothing but the format sees it. Losses are those of a validation, over the same design's in BF16.

mod design;
mod net;

use std::path::{Path, PathBuf};

use anyhow::Result;
use burn::{
    backend::Flex,
    module::AutodiffModule,
    optim::{AdamConfig, GradientsParams, Optimizer},
    prelude::*,
    tensor::backend::AutodiffBackend,
};
use burn_amp::{
    Amp, Autodiff,
    config::{Compute, Config, ConfigError, ConfigSource},
};
use burn_amp_core::formats::Simulate;
use clap::Parser;
use lab::{statistics::mean, table::Table};
use plotters::prelude::*;
use zoo::{
    Draw, Net, ZooModel,
    models::gpt::{Gpt, GptConfig},
};

use crate::{
    design::{Design, Step},
    net::UnitGpt,
};

/// Trains a small GPT in FP8 as it is, with scales and in unit scale, and draws the losses.
#[derive(Parser)]
struct Args {
    /// The SVG file.
    out: PathBuf,
    /// The steps of each training.
    #[arg(long, default_value_t = 300)]
    steps: u64,
    /// The number of seeds.
    #[arg(long, default_value_t = 3)]
    seeds: u64,
}

/// The number of passages in a batch.
const ITEMS: usize = 16;

/// BF16, in which products simulate the recipe with this number of [`RECIPES`].
#[derive(Clone, Copy, Debug, Default)]
struct Simulating<const RECIPE: usize>;

const RECIPES: [Simulate; 3] = [Simulate::Off, Simulate::Fp8, Simulate::Fp8Tensor];

impl<const RECIPE: usize> ConfigSource for Simulating<RECIPE> {
    fn config() -> Result<Config, ConfigError> {
        Ok(Config {
            compute: Compute::Bf16,
            simulate: RECIPES[RECIPE],
            ..Config::default()
        })
    }
}

type In<const RECIPE: usize> = Autodiff<Amp<Flex, Simulating<RECIPE>>>;
type Bf16 = In<0>;
type Naive = In<1>;
type Scaled = In<2>;

/// Returns the validation loss of a training whose steps have so many `parts`.
fn trained<B, N>(parts: u32, seed: u64, steps: u64) -> f64
where
    B: AutodiffBackend,
    N: Design<B> + AutodiffModule<B>,
    N::InnerModule: Net<B::InnerBackend, Model = GptConfig>,
{
    let (model, device) = (GptConfig::tiny(), Default::default());
    B::seed(&device, seed);
    let mut net = N::init(&model, &device);
    // With Adam's usual ε of 1e-8 the step would depend on the size of the gradients.
    let mut optimizer = AdamConfig::new().with_epsilon(1e-20).init();
    let step = Step {
        parts,
        tokens: ITEMS * model.seq_len,
        classes: model.vocab_size,
    };
    for at in 0..steps {
        let batch = model.batch::<B>(Draw::train(ITEMS, seed << 32 | at), &device);
        let loss = net.loss(&batch) * N::factor(&step);
        let grads = GradientsParams::from_grads(loss.backward(), &net);
        net = optimizer.step(N::LEARNING_RATE, net, grads);
    }
    let batch = model.batch::<B::InnerBackend>(Draw::valid(512, 0), &device);
    net.valid().loss(&batch).into_scalar().elem()
}

/// Losses over those of BF16, in percent: the mean and its standard error.
struct Excess {
    mean: f64,
    error: f64,
}

impl Excess {
    fn of(losses: &[f64], bf16: &[f64]) -> Self {
        let pairs = losses.iter().zip(bf16);
        let excess: Vec<f64> = pairs
            .map(|(loss, bf16)| 100.0 * (loss / bf16 - 1.0))
            .collect();
        let middle = mean(&excess).unwrap_or(f64::NAN);
        let squares: f64 = excess.iter().map(|x| (x - middle).powi(2)).sum();
        let count = excess.len() as f64;
        Self {
            mean: middle,
            error: (squares / (count - 1.0).max(1.0) / count).sqrt(),
        }
    }

    fn cell(&self) -> String {
        format!("{:+.2} ± {:.2} %", self.mean, self.error)
    }
}

fn main() -> Result<()> {
    let Args { out, steps, seeds } = Args::parse();
    let of_seeds = |train: &dyn Fn(u64) -> f64| (0..seeds).map(train).collect::<Vec<f64>>();
    let standard = of_seeds(&|seed| trained::<Bf16, Gpt<_>>(1, seed, steps));
    let unit = of_seeds(&|seed| trained::<Bf16, UnitGpt<_>>(1, seed, steps));
    println!(
        "Validation losses in BF16: {:.4}, in unit scale {:.4}.\n",
        mean(&standard).unwrap_or(f64::NAN),
        mean(&unit).unwrap_or(f64::NAN)
    );
    // The gradients in unit scale do not depend on the number of batches.
    let in_unit_scale = of_seeds(&|seed| trained::<Naive, UnitGpt<_>>(1, seed, steps));
    let mut table =
        Table::new(">batches of a step | >FP8 as it is | >with scales | >in unit scale");
    let mut curves: [Vec<(f64, f64)>; 3] = Default::default();
    for parts in (0..=10).step_by(2).map(|power| 1 << power) {
        let excesses = [
            Excess::of(
                &of_seeds(&|seed| trained::<Naive, Gpt<_>>(parts, seed, steps)),
                &standard,
            ),
            Excess::of(
                &of_seeds(&|seed| trained::<Scaled, Gpt<_>>(parts, seed, steps)),
                &standard,
            ),
            Excess::of(&in_unit_scale, &unit),
        ];
        let mut row = vec![parts.to_string()];
        row.extend(excesses.iter().map(Excess::cell));
        table.push(row);
        for (curve, excess) in curves.iter_mut().zip(&excesses) {
            curve.push((f64::from(parts), excess.mean));
        }
    }
    println!("{}", table.markdown());
    draw(&out, &curves)
}

/// Draws the losses over the number of batches of a step.
fn draw(out: &Path, curves: &[Vec<(f64, f64)>; 3]) -> Result<()> {
    let names = [
        ("FP8 as it is", RGBColor(190, 60, 20)),
        ("FP8 with scales", RGBColor(0, 90, 180)),
        ("FP8 in unit scale", RGBColor(40, 140, 60)),
    ];
    let most = curves
        .iter()
        .flatten()
        .map(|(_, excess)| *excess)
        .fold(1.0, f64::max);
    let picture = SVGBackend::new(out, (820, 420)).into_drawing_area();
    picture.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&picture)
        .margin(14)
        .x_label_area_size(44)
        .y_label_area_size(60)
        .build_cartesian_2d((1.0..1024.0f64).log_scale(), -0.05 * most..1.1 * most)?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .axis_desc_style(("sans-serif", 15))
        .x_desc("batches of a step, by whose number the loss is divided")
        .y_desc("loss over BF16's, %")
        .x_label_formatter(&|parts| format!("{parts:.0}"))
        .y_label_formatter(&|excess| format!("{excess:.0}"))
        .draw()?;
    for ((name, color), curve) in names.into_iter().zip(curves) {
        let line = LineSeries::new(curve.clone(), color.stroke_width(2));
        let key = move |(x, y)| PathElement::new([(x, y), (x + 25, y)], color.stroke_width(2));
        chart.draw_series(line)?.label(name).legend(key);
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    picture.present()?;
    Ok(())
}
