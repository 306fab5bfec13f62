//! The names of parameters in reports of skipped steps, for programs that do not tell them.

use burn_amp::scaling::Skip;
use burn_amp_tests::prelude::*;

const CONFIG: fn() -> Config = || scaling(Compute::F16, LossScaleMode::Dynamic);

type B = AmpAutodiff;
type Model = [Linear<B>; 2];

fn model() -> Model {
    [(); 2].map(|()| LinearConfig::new(2, 2).with_bias(false).init(&here()))
}

/// The gradients of a pass in which those of the second layer overflow.
fn overflow(model: &Model) -> GradientsParams {
    let [first, second] = model;
    let x = Tensor::<B, 2>::ones([1, 2], &here());
    let loss = first.forward(x.clone()).sum() + (second.weight.val() * f32::INFINITY).sum();
    GradientsParams::from_grads(loss.backward(), model)
}

fn last_skip() -> Skip {
    burn_amp::loss_scale::<B>(&here())
        .last_skip()
        .expect("a step was skipped")
}

fn names(skip: &Skip) -> Vec<Option<&str>> {
    let overflowed = skip.overflowed.iter();
    overflowed.map(|overflow| overflow.name.get()).collect()
}

#[test]
fn the_first_step_of_an_amp_optimizer_names_what_overflowed_before_it() {
    let _policy = enter_config!(CONFIG());
    let mut optimizer = AmpOptimizer::new(AdamConfig::new()).init::<B, Model>();
    let model = model();
    let grads = overflow(&model);
    let before = last_skip();
    assert_eq!((before.step, names(&before)), (0, vec![None]));

    let model = optimizer.step(1e-3, model, grads);
    assert_eq!(names(&last_skip()), [Some("1.weight")]);
    // The report that was taken earlier learns it too.
    assert_eq!(names(&before), [Some("1.weight")]);

    // From then on the name is known when the pass overflows, and after a step that was made.
    overflow(&model);
    assert_eq!(names(&last_skip()), [Some("1.weight")]);
    let [first, second] = &model;
    let loss = (first.weight.val() + second.weight.val()).sum();
    let model = stepped(&mut optimizer, 1e-3, loss, model);
    overflow(&model);
    let skip = last_skip();
    assert_eq!((skip.step, names(&skip)), (3, vec![Some("1.weight")]));
    assert!(
        skip.to_string().ends_with("(#1 1.weight f32 [2, 2])"),
        "{skip}"
    );
}

#[test]
fn names_may_be_told_after_the_overflow() {
    let _policy = enter_config!(CONFIG());
    let model = model();
    overflow(&model);
    let skip = last_skip();
    assert_eq!(names(&skip), [None]);
    name_parameters(&model);
    assert_eq!(names(&skip), [Some("1.weight")]);
}

#[test]
fn parameters_that_are_stored_low_have_names_before_the_first_step() {
    let _policy = enter_config!(Config {
        preset: Preset::O2,
        ..CONFIG()
    });
    let model = cast_params(model());
    overflow(&model);
    assert_eq!(names(&last_skip()), [Some("1.weight")]);
}
