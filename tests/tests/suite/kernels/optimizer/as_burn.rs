//! Burn's own optimizers, step by step.

use super::*;

/// Makes steps with Burn's optimizer, and compares each with a step of the list from the same state: four of all shapes,
/// and three hundred of the small ones.
fn steps_as_burn<C: Burns>(config: &C) {
    same_steps(config, &SHAPES, 4);
    same_steps(config, &SHAPES[..2], 300);
}

fn same_steps<C: Burns>(config: &C, shapes: &[[usize; 2]], last: usize) {
    let rule = config.rule().unwrap();
    let optimizer = config.simple();
    let random = |seed| -> Vec<Float> {
        shapes
            .iter()
            .map(|shape| random(*shape, seed, DType::F32))
            .collect()
    };
    let mut parameters = random(1);
    let mut states: Vec<_> = shapes.iter().map(|_| None).collect();
    for time in 1..=last {
        // In the last step nothing decays.
        let lr = if time == last { 0.0 } else { 0.01 };
        let gradients = random(3 * time);
        let list = || {
            let listed = shapes.iter().enumerate().map(|(at, shape)| {
                let moments = match &states[at] {
                    Some(state) => C::moments(state),
                    None => undefined(rule, *shape),
                };
                listed(parameters[at].clone(), gradients[at].clone(), moments, time)
            });
            step(rule, lr, listed.collect())
        };
        let kernel = optimizer::step::<Plain>(list());
        // Where there is a kernel, a long run is one of the kernel.
        let has_reference = last < 300 || cfg!(not(feature = "cubecl"));
        let reference = has_reference.then(|| optimizer::step::<References>(list()));
        for (at, shape) in shapes.iter().enumerate() {
            let [parameter, gradient] = [&parameters[at], &gradients[at]].map(tensor);
            let (parameter, state) = optimizer.step(lr, parameter, gradient, states[at].take());
            let (parameter, state) = (primitive(parameter), state.unwrap());
            let moments = C::moments(&state);
            let reference = reference.as_ref().map(|reference| &reference[at]);
            let what = format!("{rule:?}, step {time}, {shape:?}");
            for (stepped, is_exact) in reference
                .map(|reference| (reference, cfg!(not(feature = "fusion"))))
                .into_iter()
                .chain([(&kernel[at], false)])
            {
                let near = if is_exact {
                    assert_same
                } else {
                    assert_within_an_ulp
                };
                near(&stepped.parameter, &parameter, 2.0, &what);
                assert_eq!(stepped.moments.len(), moments.len());
                // A moment is a sum of a moment and a gradient, or of their squares.
                for (found, expected) in stepped.moments.iter().zip(&moments) {
                    near(unpacked(found), expected, 4.0, &what);
                }
            }
            parameters[at] = parameter;
            states[at] = Some(state);
        }
    }
}

/// Asserts that the numbers have the same bits.
pub(super) fn assert_same(found: &Float, expected: &Float, _: f32, what: &str) {
    assert_eq!(data(found), data(expected), "{what}");
}

fn decay() -> Option<WeightDecayConfig> {
    Some(WeightDecayConfig::new(0.05))
}

#[test]
fn adam_steps_as_burns_with_every_option() {
    for amsgrad in [false, true] {
        let adam = AdamConfig::new().with_amsgrad(amsgrad).with_epsilon(1e-8);
        steps_as_burn(&adam);
        steps_as_burn(&adam.with_weight_decay(decay()));
    }
}

#[test]
fn adam_w_steps_as_burns_with_every_option() {
    for options in 0..8 {
        let has = |option: u8| options >> option & 1 == 1;
        let adam_w = AdamWConfig::new()
            .with_amsgrad(has(0))
            .with_cautious_weight_decay(has(1))
            .with_weight_decay(if has(2) { 0.1 } else { 0.0 });
        steps_as_burn(&adam_w);
    }
}

#[test]
fn sgd_steps_as_burns_with_every_option() {
    let of = |nesterov, dampening| {
        let momentum = MomentumConfig::new().with_nesterov(nesterov);
        Some(momentum.with_dampening(dampening))
    };
    let momenta = [
        of(false, 0.0),
        of(false, 0.1),
        of(true, 0.0),
        of(true, 0.1),
        None,
    ];
    for momentum in momenta {
        let sgd = SgdConfig::new().with_momentum(momentum);
        steps_as_burn(&sgd);
        steps_as_burn(&sgd.with_weight_decay(decay()));
    }
}
