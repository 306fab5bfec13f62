//! Training loops.

use super::*;

type Net<B> = (Linear<B>, Linear<B>);

/// A net that has the same parameters at every call, for the loop under test and for its control.
fn net() -> Net<B> {
    let init = |device: &_| -> Net<B> {
        (
            LinearConfig::new(8, 8).init(device),
            LinearConfig::new(8, 8).init(device),
        )
    };
    load::<B, _>(init(&here()), seeded::<B, _>(init))
}

fn mse(net: &Net<B>, batch: usize) -> Tensor<B, 1> {
    let values = noise::<B>(5 * 64, &here());
    let at = |i: usize| {
        let values = values.clone().slice(i * 64..(i + 1) * 64);
        values.reshape([8, 8])
    };
    let y = net.1.forward(net.0.forward(at(batch)));
    (y - at(batch + 1)).square().mean()
}

/// The largest difference between the parameters of two nets.
fn distance(a: &Net<B>, b: &Net<B>) -> f32 {
    let flat = |net: &Net<B>| {
        let linear = |linear: &Linear<B>| {
            let bias = linear.bias.as_ref().unwrap().val();
            Tensor::cat(vec![linear.weight.val().flatten(0, 1), bias], 0)
        };
        Tensor::<B, 1>::cat(vec![linear(&net.0), linear(&net.1)], 0)
    };
    (flat(a) - flat(b)).abs().max().into_scalar()
}

/// `test_grad_scaling_autocast`: 4 batches with an inf in batch 2, compared with a loop that leaves batch 2 out. And
/// PyTorch's `enabled=False`: without scaling, all calls work and only `step` has an effect.
#[test]
fn a_scaled_loop_is_the_loop_without_its_overflowed_batches() {
    for (mut scaler, overflowing, expected) in [
        (of_the_scaling_case(), Some(2), [256.0, 512.0, 256.0, 512.0]),
        (
            GradScaler::new(LossScaling::NoScale).unwrap(),
            None,
            [1.0; 4],
        ),
    ] {
        let (mut found, mut control) = (net(), net());
        let (mut sgd, mut control_sgd) = (SgdConfig::new().init(), SgdConfig::new().init());
        let scales = [0, 1, 2, 3].map(|batch| {
            let overflows = overflowing == Some(batch);
            let loss = mse(&found, batch) * if overflows { f32::INFINITY } else { 1.0 };
            let mut grads = scaler.scale(loss).backward();
            let grads = scaler.unscale(grads.of::<B, _>(&found), &found).unwrap();
            found = grads.step(&mut sgd, 1.0, found.clone());
            assert_eq!(scaler.update(), Ok(Outcome::of(overflows)));
            if !overflows {
                let loss = mse(&control, batch);
                control = stepped(&mut control_sgd, 1.0, loss, control.clone());
            }
            scaler.current_scale()
        });
        assert_eq!(scales, expected);
        // Scales are powers of two, so that not even rounding differs.
        assert_eq!(distance(&found, &control), 0.0);
        assert!(distance(&found, &net()) > 0.1);
    }
}

/// `test_grad_scaling_clipping`: clipping unscaled gradients at 0.2 equals clipping scaled ones at 0.2 × scale.
#[test]
fn clipping_after_unscaling_is_clipping_at_the_scaled_norm() {
    let model = net();
    let mut scaler = of_the_scaling_case();
    let scale = scaler.current_scale();
    let step = |model: Net<B>, grads: GradientsParams| {
        SgdConfig::new().init::<B, Net<B>>().step(1.0, model, grads)
    };

    let mut grads = scaler.scale(mse(&model, 0)).backward();
    let mut grads = scaler.unscale(grads.of::<B, _>(&model), &model).unwrap();
    let unscaled = grads.gradients_mut().unwrap();
    let norm = clip::<B, _>(unscaled, &model, Clipping::GlobalNorm(0.2)).unwrap();
    assert!(norm.into_scalar() > 0.2);
    let clipped_norm = burn_amp::optim::global_norm::<B, _>(unscaled, &model).unwrap();
    assert!((clipped_norm.into_scalar() - 0.2).abs() < 1e-5);
    let found = step(model.clone(), std::mem::take(unscaled));

    let loss = mse(&model, 0) * scale;
    let mut grads = GradientsParams::from_grads(loss.backward(), &model);
    clip::<B, _>(&mut grads, &model, Clipping::GlobalNorm(0.2 * scale)).unwrap();
    // A learning rate of 1 / scale for scaled gradients.
    let mut sgd = SgdConfig::new().init::<B, Net<B>>();
    let control = sgd.step(f64::from(scale.recip()), model.clone(), grads);
    // Clipping adds 1e-6 to the norm. Relative to 0.2 that changes a gradient by 5e-6, relative to 0.2 × scale by less.
    assert!(distance(&found, &control) < 1e-5);
    assert!(distance(&found, &model) > 1e-3);

    let mut grads = GradientsParams::from_grads(mse(&model, 0).backward(), &model);
    let weight = model.0.weight.id;
    let before = grads.get::<Plain, 2>(weight).unwrap().values();
    assert!(clip::<B, _>(&mut grads, &model, Clipping::Value(1e-3)).is_none());
    let after = grads.get::<Plain, 2>(weight).unwrap().values();
    assert!(before.iter().any(|x| x.abs() > 1e-3) && before.iter().any(|x| x.abs() < 1e-3));
    for (before, after) in before.iter().zip(after) {
        assert_eq!(after, before.clamp(-1e-3, 1e-3));
    }
}

/// `test_grad_scaling_accumulation`, also with a micro-batch that overflows.
///
/// An *effective batch* is made of the micro-batches whose gradients are summed for one step.
#[test]
fn an_effective_batch_is_skipped_if_one_of_its_micro_batches_overflowed() {
    for poisoned in [None, Some(3)] {
        let (mut found, mut control) = (net(), net());
        let mut scaler = of_the_scaling_case();
        let mut adam = AdamConfig::new().init();
        let mut control_adam = AdamConfig::new().init();
        let mut scales = Vec::new();
        for effective in 0..2 {
            let mut sum: Option<Scaled<GradientsParams>> = None;
            for micro in 0..2 {
                let batch = 2 * effective + micro;
                let inf = poisoned == Some(batch);
                let loss = mse(&found, batch) * if inf { f32::INFINITY } else { 0.5 };
                let grads = scaler.scale(loss).backward().of::<B, _>(&found);
                match &mut sum {
                    Some(sum) => sum.accumulate::<B, _>(grads, &found).unwrap(),
                    None => sum = Some(grads),
                }
            }
            let grads = scaler.unscale(sum.unwrap(), &found).unwrap();
            found = grads.step(&mut adam, 0.1, found);
            scaler.update().unwrap();
            scales.push(scaler.current_scale());

            if poisoned.is_none_or(|batch| batch / 2 != effective) {
                let loss = |batch| mse(&control, batch) * 0.5;
                let loss = loss(2 * effective) + loss(2 * effective + 1);
                control = stepped(&mut control_adam, 0.1, loss, control);
            }
        }
        match poisoned {
            None => assert_eq!(scales, [256.0, 512.0]),
            Some(_) => assert_eq!(scales, [256.0, 128.0]),
        }
        // Losses are compared and not parameters: Adam divides by the magnitude of a gradient, so a gradient that is
        // only rounding errors may move a parameter in any direction.
        let of = |net: &Net<B>| mse(net, 0).into_scalar();
        assert!((of(&found) - of(&control)).abs() < 1e-5 * of(&control));
        assert!((of(&found) - of(&net())).abs() > 1e-2 * of(&control));
    }
}

/// `test_grad_scaling_multiple`: an inf in the first model's gradients at batch 2; the second optimizer still steps.
#[test]
fn an_overflow_skips_its_own_optimizer_and_backs_the_common_scale_off() {
    let mut nets = [net(), net()];
    let mut controls = [net(), net()];
    let mut sgds = [SgdConfig::new().init(), SgdConfig::new().init()];
    let mut control_sgds = [SgdConfig::new().init(), SgdConfig::new().init()];
    let mut scaler = of_the_scaling_case();
    let losses = |nets: &[Net<B>; 2], batch: usize| {
        let each = |i: usize| mse(&nets[i], batch + i);
        [each(0) * 0.3 + each(1) * 0.7, each(0) * 0.6 - each(1) * 0.4]
    };
    let mut scales = Vec::new();
    for batch in 0..4 {
        let [first, second] = losses(&nets, batch % 3);
        let (first, second) = (scaler.scale(first), scaler.scale(second));
        let (mut first, mut second) = (first.backward(), second.backward());
        for i in 0..2 {
            let mut grads = first.of::<B, _>(&nets[i]);
            grads
                .accumulate::<B, _>(second.of::<B, _>(&nets[i]), &nets[i])
                .unwrap();
            if batch == 2 && i == 0 {
                // Has the same effect as an overflow of the backward pass.
                let poisoned = scaler.scale(mse(&nets[0], 0) * f32::INFINITY);
                let poisoned = poisoned.backward().of::<B, _>(&nets[0]);
                grads.accumulate::<B, _>(poisoned, &nets[0]).unwrap();
            }
            let grads = scaler.unscale(grads, &nets[i]).unwrap();
            let skipped = grads.outcome() == Outcome::Overflowed;
            nets[i] = grads.step(&mut sgds[i], 0.01, nets[i].clone());
            if skipped {
                // A workaround for burn-autodiff 0.21.0. If two losses share the parameters of two models, and only
                // those of one model were in a backward pass before, it loses the step of a root in about half of the
                // runs; plain Burn panics as well. A fork has the same values and new nodes.
                nets[i] = nets[i].clone().fork(&here());
            }
        }
        scaler.update().unwrap();
        scales.push(scaler.current_scale());

        let [first, second] = losses(&controls, batch % 3);
        let (mut first, mut second) = (first.backward(), second.backward());
        for i in 0..2 {
            let control = controls[i].clone();
            let mut sum = burn::optim::GradientsAccumulator::new();
            sum.accumulate(&control, GradientsParams::from_module(&mut first, &control));
            sum.accumulate(
                &control,
                GradientsParams::from_module(&mut second, &control),
            );
            controls[i] = match batch == 2 && i == 0 {
                true => control.fork(&here()),
                false => control_sgds[i].step(0.01, control, sum.grads()),
            };
        }
    }
    assert_eq!(scales, [256.0, 512.0, 256.0, 512.0]);
    for (found, control) in nets.iter().zip(&controls) {
        assert_eq!(distance(found, control), 0.0);
    }
}

/// `test_grad_scaling_penalty`: the gradient of a gradient's norm. For second-order gradients, Burn's backend is
/// `Autodiff<Autodiff<_>>`.
#[test]
fn a_gradient_penalty_is_made_of_unscaled_gradients() {
    type Second = Autodiff<B>;

    fn step(scaler: &GradScaler, weight: Tensor<B, 2>) -> TensorData {
        let device = weight.device();
        let weight = weight.detach().require_grad();
        let outer = Tensor::<Second, 2>::from_inner(weight.clone()).require_grad();
        let x = noise::<Second>(12, &device).reshape([3, 4]);
        let loss = x.matmul(outer.clone()).tanh().square().mean();
        let grads = scaler.scale(loss.clone()).backward();
        let gradient: Tensor<B, 2> = grads.grad::<Second, 2>(&outer).unwrap().unscale();
        let penalized = loss.inner() + gradient.square().sum().sqrt();
        let grads = scaler.scale(penalized).backward();
        grads.grad::<B, 2>(&weight).unwrap().unscale().into_data()
    }

    let weight = noise::<B>(8, &here()).reshape([4, 2]);
    let scaled = step(&of_the_scaling_case(), weight.clone());
    assert_eq!(
        scaled,
        step(&GradScaler::new(LossScaling::NoScale).unwrap(), weight)
    );
    assert!(scaled.iter::<f32>().all(|x| x.is_finite() && x != 0.0));
}
