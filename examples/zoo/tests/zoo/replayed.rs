//! Law: a step of each model whose gradients overflow is written to a file, and has the same bits when it is run
//! again.

use std::path::PathBuf;

use burn::backend::Flex;
use burn_amp::{
    config::{Locate, LossScaleMode},
    replay::{Step, replay},
    scaling::name_parameters,
};
use burn_amp_tests::{enter, in_f16, policy};
use zoo::{Draw, Entry, Net, Size, Visitor, ZOO, ZooModel, visit};

use super::Mixed as B;

fn file() -> PathBuf {
    std::env::temp_dir().join(format!("{}_zoo.safetensors", std::process::id()))
}

policy!(
    Written,
    in_f16(|it| {
        // No gradient of a model is as small as the largest number of F16 divided by this.
        it.loss_scale.mode = LossScaleMode::Static;
        it.loss_scale.rule.init = 2f32.powi(60);
        it.overflow.locate = Locate::Always;
        it.replay.output = file().display().to_string();
    })
);

struct Replayed;

impl Visitor for Replayed {
    /// What is wrong.
    type Output = Option<String>;

    fn visit<M: ZooModel>(self, entry: &Entry, model: M) -> Option<String> {
        let device = Default::default();
        let draw = Draw::train(entry.batch_size(Size::Tiny), 0);
        let batch = model.batch::<B>(draw, &device);
        let net = M::TrainNet::<B>::init(&model, &device);
        name_parameters(&net);
        let _ = std::fs::remove_file(file());
        net.loss(&batch).backward();
        let step = Step::read(&file()).unwrap_or_else(|error| panic!("{}: {error}", entry.name));
        let replayed = replay::<Flex>(&step, &device);
        let form = match &replayed.recorded {
            Ok(form) => form,
            Err(reason) => return Some(format!("{}: {reason}", entry.name)),
        };
        let same = form.same(&step);
        println!("{}: {same:?}", entry.name);
        let is_finite = |form: &Result<burn_amp::replay::Form, String>| {
            form.as_ref().is_ok_and(|form| form.cause.is_none())
        };
        let is_right = same.is_all()
            && same.of_results > 0
            && same.of_gradients > 0
            && form.cause.as_ref().map(ToString::to_string)
                == step.cause.as_ref().map(ToString::to_string)
            && step.outside.iter().all(|outside| !outside.is_cut)
            && is_finite(&replayed.f32)
            && is_finite(&replayed.f64);
        (!is_right).then(|| format!("{}: {}", entry.name, replayed.to_text(&step, false)))
    }
}

#[test]
fn a_step_of_each_model_has_the_same_bits_when_it_is_run_again_and_is_finite_in_f32_and_f64() {
    let _policy = enter::<Written>();
    let wrong = ZOO
        .iter()
        .filter_map(|entry| visit(entry.name, Size::Tiny, Replayed).unwrap());
    let wrong: Vec<_> = wrong.collect();
    let _ = std::fs::remove_file(file());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
