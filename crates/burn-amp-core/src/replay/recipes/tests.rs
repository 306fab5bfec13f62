use super::*;
use crate::{Config, Precision};

#[test]
fn decibels_are_those_of_the_definition() {
    assert_eq!(decibels(&[1.0, 0.0], &[0.0, 0.0]), None);
    assert_eq!(decibels(&[1.1], &[1.0]).map(f64::round), Some(20.0));
    assert_eq!(decibels(&[1.0], &[1.0]), Some(f64::INFINITY));
    assert_eq!(decibels(&[f64::NAN], &[1.0]), Some(f64::NEG_INFINITY));
}

#[test]
fn the_text_has_what_the_products_lose_and_marks_what_is_not_borne() {
    let recipes = |lowest: f64| {
        let loss = |at| Loss {
            decibels: [Some(40.0), Some(lowest + f64::from(at)), None],
            underflowed: 0.25,
            saturated: 0.0,
        };
        (0..9).map(loss).collect::<Vec<_>>()
    };
    let product = |of: &str, weight: Option<&str>, lowest| ProductLosses {
        of: of.into(),
        weight: weight.map(str::to_owned),
        recipes: recipes(lowest),
    };
    let mut losses = RecipeLosses {
        products: vec![
            product("call 3, `linear`", Some("head.weight"), 19.5),
            product("call 8, `conv2d`", None, 12.0),
        ],
        others: 1,
        step: Some(StepLosses {
            dtype: Precision::BF16,
            low: Some(41.25),
            recipes: (0..9).map(|at| Some(20.0 + f64::from(at))).collect(),
        }),
    };
    let text = losses.to_text(false);
    assert!(text.starts_with("2 products in eight bits"), "{text}");
    for line in [
        "`step`: that of the gradients of the whole step, in bf16 41.2 dB; `!` below 24.",
        "fp8          0 of 2    12.0    19.5    25.0 %     0.0 %  20.0!",
        "mxfp8        2 of 2    16.0    23.5    25.0 %     0.0 %  24.0",
    ] {
        assert!(text.lines().any(|found| found == line), "{text}");
    }
    let row = text
        .lines()
        .find(|line| line.starts_with("call 8"))
        .unwrap();
    assert!(text.contains("call 3, `linear`, head.weight"), "{text}");
    let cells: Vec<_> = row.split_whitespace().skip(3).collect();
    let expected = [
        "12.0!", "13.0!", "14.0!", "15.0!", "16.0", "17.0", "18.0!", "19.0!", "20.0",
    ];
    assert_eq!(cells, expected, "{text}");
    losses.step.as_mut().unwrap().low = Some(10.0);
    let text = losses.to_text(false);
    for line in [
        "`step`: that of the gradients of the whole step, in bf16 10.0 dB, too few to judge recipes by.",
        "fp8          0 of 2    12.0    19.5    25.0 %     0.0 %  20.0",
    ] {
        assert!(text.lines().any(|found| found == line), "{text}");
    }
    losses
        .products
        .push(product("call 9, `linear`", Some("head.weight"), 4.0));
    losses.step.as_mut().unwrap().low = None;
    let warning = "\n# Its gradients as a whole have 20.0 dB. Below 24 a training may end with a higher loss.\nsimulate";
    let proposed = losses.to_config(Simulate::Fp8);
    assert!(proposed.contains(warning), "{proposed}");
    let proposed = losses.to_config(Simulate::Nvfp4);
    let expected = "# 1 of 3 products bear nvfp4 in this step.\nsimulate = \"nvfp4\"\n\n# These layers lose more than the \
                    recipe allows, so they stay in f32.\n[parameters]\n\"head.weight\" = \"full\" # 10.0 dB\n\n# 1 more \
                    lose too much: products of activations, which are not simulated, or of weights whose names nobody has \
                    told, as `burn_amp::scaling::name_parameters(&model)` does.\n";
    assert_eq!(proposed, expected);
    let config = Config::from_toml(&proposed, "amp.toml".as_ref()).unwrap();
    assert_eq!(config.simulate, Simulate::Nvfp4);
    assert_eq!(config.parameters.len(), 1);
    assert_eq!(losses.to_config(Simulate::Off), "simulate = \"off\"\n");
    losses.products.clear();
    assert_eq!(
        losses.to_text(false),
        "0 products in eight bits, on the operands that they have in f32. Not looked at: 1, which are attention, transposed \
         convolutions, zero, or not finite in f32.\n"
    );
}

#[test]
fn a_recipe_is_borne_if_the_result_and_both_gradients_are_near() {
    let recipe = Recipe::ALL
        .iter()
        .find(|recipe| recipe.name == "mxfp8")
        .unwrap();
    let loss = |decibels| LostNumbers::default().loss(decibels);
    assert!(loss([Some(18.0), Some(13.0), None]).is_borne(recipe));
    assert!(!loss([Some(17.9), Some(13.0), None]).is_borne(recipe));
    assert!(!loss([Some(18.0), None, Some(12.9)]).is_borne(recipe));
    assert_eq!(loss([Some(18.0), None, Some(12.9)]).lowest(), Some(12.9));
}
