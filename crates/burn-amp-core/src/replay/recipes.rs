//! What the products of a step lose in formats of eight bits and fewer.

use std::{collections::BTreeMap, fmt, fmt::Write as _};

use serde::{Deserialize, Serialize};

use super::{Step, StepLosses, difference::name};
use crate::{
    columns::columns,
    formats::{Quantized, Recipe, Simulate},
};

/// The products of a step in every recipe.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RecipeLosses {
    /// The products, in the order of the calls.
    pub products: Vec<ProductLosses>,
    /// The calls that are not looked at: attention, transposed convolutions, and products that are zero or not finite in
    /// F32.
    pub others: usize,
    /// The whole step in every recipe; `None` on a device without low precision.
    pub step: Option<StepLosses>,
}

/// A product in every recipe.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProductLosses {
    /// The call.
    pub of: String,
    /// The path of its weight, if it has one and the path is known.
    pub weight: Option<String>,
    /// What it loses in each of [`Recipe::ALL`].
    pub recipes: Vec<Loss>,
}

/// What a product loses in a recipe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Loss {
    /// The signal to noise of the result, and of the gradients of both operands, in dB, beside F32; `None` of those that the step
    /// does not have. An inf is `null` in JSON: nothing was lost.
    pub decibels: [Option<f64>; 3],
    /// The share of the operands and of the gradient that became 0.
    pub underflowed: f64,
    /// The share of them that was beyond the largest number.
    pub saturated: f64,
}

impl Loss {
    /// The lowest of the three.
    pub fn lowest(&self) -> Option<f64> {
        self.decibels.into_iter().flatten().min_by(f64::total_cmp)
    }

    /// Whether the result and both gradients are as near as the recipe asks.
    pub fn is_borne(&self, recipe: &Recipe) -> bool {
        let [result, gradient] = recipe.bears;
        let mut all = self.decibels.iter().zip([result, gradient, gradient]);
        all.all(|(found, bar)| found.is_none_or(|found| found >= bar))
    }
}

/// The signal to noise of values beside the exact ones, in dB: `10 log₁₀ Σx² / Σ(x - y)²`. `None` if all exact ones are 0.
pub fn decibels(found: &[f64], exact: &[f64]) -> Option<f64> {
    let signal: f64 = exact.iter().map(|x| x * x).sum();
    let noise: f64 = found
        .iter()
        .zip(exact)
        .map(|(x, y)| (x - y) * (x - y))
        .sum();
    (signal > 0.0).then(|| match noise.is_nan() {
        true => f64::NEG_INFINITY,
        false => 10.0 * (signal / noise).log10(),
    })
}

/// Counts what was quantized.
#[derive(Clone, Copy, Debug, Default)]
pub struct LostNumbers([usize; 3]);

impl LostNumbers {
    /// Adds a tensor.
    pub fn add(&mut self, quantized: &Quantized) {
        let counts = [
            quantized.values.len(),
            quantized.underflowed,
            quantized.saturated,
        ];
        self.0
            .iter_mut()
            .zip(counts)
            .for_each(|(sum, count)| *sum += count);
    }

    /// The loss with these shares.
    pub fn loss(self, decibels: [Option<f64>; 3]) -> Loss {
        let [all, underflowed, saturated] = self.0.map(|count| count as f64);
        Loss {
            decibels,
            underflowed: underflowed / all.max(1.0),
            saturated: saturated / all.max(1.0),
        }
    }
}

impl ProductLosses {
    /// A product of a step, with what it loses in each of [`Recipe::ALL`].
    pub fn new(step: &Step, call: usize, weight: Option<String>, recipes: Vec<Loss>) -> Self {
        Self {
            of: name(step, call),
            weight,
            recipes,
        }
    }

    fn lowest(&self) -> f64 {
        let all = self.recipes.iter().filter_map(Loss::lowest);
        all.fold(f64::INFINITY, f64::min)
    }
}

/// A signal to noise, with a `!` if it is not borne.
fn marked(decibels: Option<f64>, is_borne: bool) -> String {
    decibels.map_or(String::new(), |decibels| {
        let mark = if is_borne { " " } else { "!" };
        format!("{decibels:.1}{mark}")
    })
}

/// The number of products that are shown, unless all are asked for.
const SHOWN: usize = 12;

impl RecipeLosses {
    /// Says which recipes the products bear, and what the hardest ones lose; what each product loses if `all` are asked for.
    pub fn to_text(&self, all: bool) -> String {
        let mut text = format!("{self}\n");
        let mut shown: Vec<_> = self.products.iter().collect();
        if !all && shown.len() > SHOWN {
            shown.sort_by(|x, y| x.lowest().total_cmp(&y.lowest()));
            shown.truncate(SHOWN);
        }
        if shown.is_empty() {
            return text;
        }
        let names = Recipe::ALL.iter().map(|recipe| recipe.name.to_owned());
        let mut rows = vec![
            ["product".to_owned()]
                .into_iter()
                .chain(names)
                .collect::<Vec<_>>(),
        ];
        rows.extend(shown.into_iter().map(|product| {
            let cells = product
                .recipes
                .iter()
                .zip(Recipe::ALL)
                .map(|(loss, recipe)| marked(loss.lowest(), loss.is_borne(recipe)));
            let weight = product.weight.as_deref();
            let of = weight.map_or(String::new(), |weight| format!(", {weight}"));
            let name = format!("{}{of}", product.of);
            [name].into_iter().chain(cells).collect()
        }));
        text.push('\n');
        text += &columns(&rows, |column| column > 0).join("\n");
        text.push('\n');
        text
    }

    /// Writes an `amp.toml` that simulates a recipe, and leaves out the layers that do not bear it.
    pub fn to_config(&self, simulate: Simulate) -> String {
        let mut text = format!("simulate = \"{simulate}\"\n");
        let at = Recipe::ALL
            .iter()
            .position(|recipe| Some(recipe) == simulate.recipe());
        let Some(at) = at else {
            return text;
        };
        let (mut full, mut unnamed, mut borne) = (BTreeMap::new(), 0, 0);
        for product in &self.products {
            if product.recipes[at].is_borne(&Recipe::ALL[at]) {
                borne += 1;
                continue;
            }
            let lowest = product.recipes[at].lowest().unwrap_or(f64::NEG_INFINITY);
            match &product.weight {
                Some(weight) => {
                    let known = full.entry(weight).or_insert(lowest);
                    *known = known.min(lowest);
                }
                None => unnamed += 1,
            }
        }
        let count = self.products.len();
        let head = match count {
            0 => "# The step has no product that can be looked at.\n".to_owned(),
            _ => format!("# {borne} of {count} products bear {simulate} in this step.\n"),
        };
        text.insert_str(0, &head);
        if let Some(decibels) = self.step.as_ref().and_then(|step| step.lost(at)) {
            let warning = format!(
                "# Its gradients as a whole have {decibels:.1} dB. Below {:.0} a training may end with a higher loss.\n",
                StepLosses::BEARS
            );
            text.insert_str(head.len(), &warning);
        }
        if !full.is_empty() {
            text += "\n# These layers lose more than the recipe allows, so they stay in f32.\n[parameters]\n";
        }
        for (weight, lowest) in full {
            // A string of JSON is one of TOML.
            let weight = serde_json::Value::from(weight.as_str());
            let _ = writeln!(text, "{weight} = \"full\" # {lowest:.1} dB");
        }
        if unnamed > 0 {
            let _ = writeln!(
                text,
                "\n# {unnamed} more lose too much: products of activations, which are not simulated, or of weights whose names nobody has \
                 told, as `burn_amp::scaling::name_parameters(&model)` does."
            );
        }
        text
    }
}

impl fmt::Display for RecipeLosses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.products.len();
        write!(
            f,
            "{count} products in eight bits, on the operands that they have in f32."
        )?;
        if self.others > 0 {
            write!(
                f,
                " Not looked at: {}, which are attention, transposed convolutions, zero, or not finite in f32.",
                self.others
            )?;
        }
        if count == 0 {
            return Ok(());
        }
        f.write_str(
            "\nSignal to noise beside f32 in dB, the lowest of the result and both gradients; `!` where a recipe asks for more.\n",
        )?;
        if let Some(step) = &self.step {
            let dtype = step.dtype;
            let low = step
                .low
                .map_or(String::new(), |low| format!(", in {dtype} {low:.1} dB"));
            let bar = StepLosses::BEARS;
            let bar = match step.is_noisy() {
                true => ", too few to judge recipes by".to_owned(),
                false => format!("; `!` below {bar:.0}"),
            };
            writeln!(
                f,
                "`step`: that of the gradients of the whole step{low}{bar}."
            )?;
        }
        f.write_str("\n")?;
        let head = [
            "recipe", "bears", "lowest", "median", "become 0", "saturate", "step",
        ];
        let columns_shown = head.len() - usize::from(self.step.is_none());
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for (at, recipe) in Recipe::ALL.iter().enumerate() {
            let losses: Vec<_> = self
                .products
                .iter()
                .map(|product| product.recipes[at])
                .collect();
            let mut lowest: Vec<_> = losses.iter().filter_map(Loss::lowest).collect();
            lowest.sort_by(f64::total_cmp);
            let borne = losses.iter().filter(|loss| loss.is_borne(recipe)).count();
            let share = |share: fn(&Loss) -> f64| {
                let sum: f64 = losses.iter().map(share).sum();
                format!("{:.1} %", 100.0 * sum / losses.len() as f64)
            };
            let in_words = |x: Option<&f64>| x.map_or(String::new(), |x| format!("{x:.1}"));
            rows.push(vec![
                recipe.name.to_owned(),
                format!("{borne} of {}", losses.len()),
                in_words(lowest.first()),
                in_words(lowest.get(lowest.len() / 2)),
                share(|loss| loss.underflowed),
                share(|loss| loss.saturated),
                self.step.as_ref().map_or(String::new(), |step| {
                    marked(step.recipes[at], step.lost(at).is_none())
                }),
            ]);
        }
        rows.iter_mut().for_each(|row| row.truncate(columns_shown));
        f.write_str(&columns(&rows, |column| column > 0).join("\n"))
    }
}

#[cfg(test)]
mod tests;
