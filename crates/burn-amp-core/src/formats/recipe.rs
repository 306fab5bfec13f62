//! Recipes: what each operand of a product is quantized by.

use super::{Blocks, Format, Quantizer, Rounding, Scaling};
use crate::named::named;

named! {
    /// The recipe in which the products with weights are simulated.
    Simulate = Off {
        /// None.
        Off = "off",
        /// E4M3, gradients E5M2, without scales: what a cast does.
        Fp8 = "fp8",
        /// E4M3, gradients E5M2, a scale per tensor.
        Fp8Tensor = "fp8-tensor",
        /// E4M3, a scale per row.
        Fp8Row = "fp8-row",
        /// E4M3, a scale per 128 numbers, 128 x 128 of a weight.
        Fp8Block = "fp8-block",
        /// E4M3, a power of two per 32 numbers, rounded up.
        Mxfp8 = "mxfp8",
        /// The same, rounded down.
        Mxfp8Floor = "mxfp8-floor",
        /// E2M1, an E4M3 scale per 16 numbers.
        Nvfp4 = "nvfp4",
        /// The same, with stochastic rounding of gradients.
        Nvfp4Sr = "nvfp4-sr",
        /// INT8, a scale per row.
        Int8Row = "int8-row",
    }
}

impl Simulate {
    /// The recipe of this name; `None` of `off`.
    pub fn recipe(self) -> Option<&'static Recipe> {
        let mut all = Recipe::ALL.iter();
        all.find(|recipe| recipe.name == self.name())
    }
}

/// How the operands of a product are quantized, in the forward pass and in the two products of the backward pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recipe {
    /// The name in reports.
    pub name: &'static str,
    /// Activations.
    pub activation: Quantizer,
    /// Weights.
    pub weight: Quantizer,
    /// Gradients of results.
    pub gradient: Quantizer,
    /// The signal to noise, in dB, from which on a result is called borne: what torchao's tests ask of its MX recipes, and of
    /// other recipes 20 dB, an error of a tenth.
    pub bears: [f64; 2],
}

/// The bars of results and of gradients.
const USUAL: [f64; 2] = [20.0, 20.0];
const MX: [f64; 2] = [18.0, 13.0];

const fn quantizer(format: Format, blocks: Blocks, scaling: Scaling) -> Quantizer {
    Quantizer {
        format,
        blocks,
        scaling,
        rounding: Rounding::Nearest,
    }
}

impl Recipe {
    /// The recipes that are in use.
    pub const ALL: &'static [Self] = &[
        Self::all("fp8", Format::E4M3, Blocks::Tensor, Scaling::None, USUAL)
            .with_gradient(Format::E5M2),
        Self::all(
            "fp8-tensor",
            Format::E4M3,
            Blocks::Tensor,
            Scaling::Real,
            USUAL,
        )
        .with_gradient(Format::E5M2),
        Self::all("fp8-row", Format::E4M3, Blocks::Row, Scaling::Real, USUAL),
        Self {
            weight: quantizer(Format::E4M3, Blocks::Square(128), Scaling::Real),
            ..Self::all(
                "fp8-block",
                Format::E4M3,
                Blocks::Along(128),
                Scaling::Real,
                USUAL,
            )
        },
        Self::all(
            "mxfp8",
            Format::E4M3,
            Blocks::Along(32),
            Scaling::PowerUp,
            MX,
        ),
        Self::all(
            "mxfp8-floor",
            Format::E4M3,
            Blocks::Along(32),
            Scaling::PowerDown,
            MX,
        ),
        Self::nvfp4("nvfp4", Rounding::Nearest),
        Self::nvfp4("nvfp4-sr", Rounding::Stochastic),
        Self::all("int8-row", Format::Int8, Blocks::Row, Scaling::Real, USUAL),
    ];

    /// The same for every operand.
    const fn all(
        name: &'static str,
        format: Format,
        blocks: Blocks,
        scaling: Scaling,
        bears: [f64; 2],
    ) -> Self {
        let all = quantizer(format, blocks, scaling);
        Self {
            name,
            activation: all,
            weight: all,
            gradient: all,
            bears,
        }
    }

    /// NVFP4, with the rounding of its gradients.
    const fn nvfp4(name: &'static str, rounding: Rounding) -> Self {
        let nearest = Self::all(name, Format::E2M1, Blocks::Along(16), Scaling::E4M3, USUAL);
        let gradient = Quantizer {
            rounding,
            ..nearest.gradient
        };
        Self {
            gradient,
            ..nearest
        }
    }

    /// Gradients in another format.
    const fn with_gradient(self, format: Format) -> Self {
        let gradient = Quantizer {
            format,
            ..self.gradient
        };
        Self { gradient, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recipe_can_be_simulated() {
        let names: Vec<_> = Simulate::ALL
            .iter()
            .map(|simulate| simulate.name())
            .collect();
        let recipes = Recipe::ALL.iter().map(|recipe| recipe.name);
        assert_eq!(
            names,
            ["off"].into_iter().chain(recipes).collect::<Vec<_>>()
        );
        assert_eq!(Simulate::Off.recipe(), None);
        assert_eq!(
            Simulate::Nvfp4.recipe(),
            Recipe::ALL.iter().find(|recipe| recipe.name == "nvfp4")
        );
    }
}
