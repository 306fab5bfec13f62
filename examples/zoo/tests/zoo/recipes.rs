//! Law: the products of each model are looked at in every recipe of eight bits and fewer, forward and backward, and so is its
//! whole step.

use std::path::PathBuf;

use burn::{backend::Flex, tensor::backend::Backend};
use burn_amp::{
    replay::{RecipeLosses, Step, recipe_losses, write_next_step},
    scaling::name_parameters,
};
use burn_amp_core::formats::Recipe;
use burn_amp_tests::{enter, in_bf16, policy};
use zoo::{Draw, Entry, Net, Size, Visitor, ZOO, ZooModel, visit};

use super::Mixed as B;

policy!(Bf16, in_bf16(|_| {}));

fn file() -> PathBuf {
    std::env::temp_dir().join(format!("{}_recipes.safetensors", std::process::id()))
}

struct Losses;

impl Visitor for Losses {
    /// The number of calls that multiply, and what they lose.
    type Output = (usize, RecipeLosses);

    fn visit<M: ZooModel>(self, entry: &Entry, model: M) -> Self::Output {
        let device = Default::default();
        let draw = Draw::train(entry.batch_size(Size::Tiny), 0);
        let batch = model.batch::<B>(draw, &device);
        B::seed(&device, 1);
        let net = M::TrainNet::<B>::init(&model, &device);
        name_parameters(&net);
        write_next_step::<B>(&device, file());
        net.loss(&batch).backward();
        let step = Step::read(&file()).unwrap_or_else(|error| panic!("{}: {error}", entry.name));
        std::fs::remove_file(file()).unwrap();
        let losses = recipe_losses::<Flex>(&step, &Default::default());
        let losses = losses.unwrap_or_else(|error| panic!("{}: {error}", entry.name));
        let ops = ["matmul", "linear", "conv", "attention"];
        let multiplies = |op: &str| ops.iter().any(|part| op.contains(part));
        let products = step.calls.iter().filter(|call| multiplies(&call.op));
        (products.count(), losses)
    }
}

#[test]
fn every_product_of_a_model_is_looked_at_in_every_recipe() {
    let _policy = enter::<Bf16>();
    let names: Vec<_> = Recipe::ALL.iter().map(|recipe| recipe.name).collect();
    println!("| model | products | {} |", names.join(" | "));
    for entry in ZOO {
        let (products, losses) = visit(entry.name, Size::Tiny, Losses).unwrap();
        let looked_at = losses.products.len();
        assert_eq!(looked_at + losses.others, products, "{}", entry.name);
        assert!(looked_at > 0, "{}", entry.name);
        let step = losses.step.as_ref().unwrap();
        for decibels in step.recipes.iter().chain([&step.low]) {
            let lost = decibels.is_some_and(f64::is_finite);
            assert!(lost, "{}: {step:?}", entry.name);
        }
        let borne = (0..Recipe::ALL.len()).map(|at| {
            let of_recipe = losses.products.iter().map(|product| product.recipes[at]);
            let borne = of_recipe.filter(|loss| loss.is_borne(&Recipe::ALL[at]));
            borne.count().to_string()
        });
        println!(
            "| {} | {looked_at} | {} |",
            entry.name,
            borne.collect::<Vec<_>>().join(" | ")
        );
        for product in &losses.products {
            for (loss, recipe) in product.recipes.iter().zip(Recipe::ALL) {
                let lowest = loss
                    .lowest()
                    .unwrap_or_else(|| panic!("{}: {}", entry.name, product.of));
                assert!(
                    lowest > -3.0,
                    "{}, {}: {}: {loss:?}",
                    entry.name,
                    recipe.name,
                    product.of
                );
            }
        }
    }
}
