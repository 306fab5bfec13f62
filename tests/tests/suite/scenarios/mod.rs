//! Training loops with several models, losses, batches, devices or threads.
//!
//! Law: dropout, seeding, devices and several losses behave as without Amp.

mod devices;

use burn::nn::loss::BinaryCrossEntropyLossConfig;
use burn_amp_tests::{
    models::gradients,
    near::{Named, assert_near},
    prelude::*,
};

type B = AmpAutodiff;

/// F16 with a loss scale under which these models' gradients do not overflow, so that no step is skipped.
fn small_scale() -> Config {
    in_f16(|it| it.loss_scale.rule.init = 256.0)
}

policy!(SmallScale, small_scale());

/// A net of two layers.
#[derive(Module, Debug)]
struct Net<B: Backend> {
    first: Linear<B>,
    second: Linear<B>,
}

impl<B: Backend> Net<B> {
    fn new(sizes: [usize; 3], device: &B::Device) -> Self {
        let [input, hidden, output] = sizes;
        Self {
            first: LinearConfig::new(input, hidden).init(device),
            second: LinearConfig::new(hidden, output).init(device),
        }
    }

    fn forward(&self, x: Tensor<B, 2>) -> Tensor<B, 2> {
        self.second.forward(self.first.forward(x).tanh())
    }
}

/// A net that has the same parameters on every backend.
fn net<B: AutodiffBackend>(sizes: [usize; 3]) -> Net<B> {
    let record = seeded::<PlainAutodiff, _>(|device| Net::<PlainAutodiff>::new(sizes, device));
    load::<B, _>(Net::new(sizes, &here()), record)
}

fn matrix<B: Backend>(rows: usize, columns: usize) -> Tensor<B, 2> {
    noise(rows * columns, &here()).reshape([rows, columns])
}

fn mse<B: Backend>(output: Tensor<B, 2>, target: f32) -> Tensor<B, 1> {
    (output - target).square().mean()
}

/// Calls [`assert_near`] with a tolerance for at most six low ops, each run twice on a path and rounded by half an epsilon.
fn assert_scenario_is_near(found: Named, expected: Named) {
    assert_near(&found, &expected, 6.0 * epsilon());
}

/// Runs the backward passes of the discriminator's and the generator's loss, then a step of each optimizer.
fn gan<B: AutodiffBackend>(both_forward_first: bool) -> Named {
    let (generator, discriminator) = (net::<B>([3, 8, 4]), net::<B>([4, 8, 1]));
    let bce = BinaryCrossEntropyLossConfig::new()
        .with_logits(true)
        .init(&here());
    let is = |logits: Tensor<B, 2>, label: i32| {
        let labels = Tensor::<B, 2, Int>::full(logits.dims(), label, &here());
        bce.forward(logits, labels)
    };
    let fake = generator.forward(matrix(6, 3));
    let discriminator_loss = || {
        is(discriminator.forward(matrix(6, 4)), 1)
            + is(discriminator.forward(fake.clone().detach()), 0)
    };
    let generator_loss = || is(discriminator.forward(fake.clone()), 1);

    let (of_discriminator, of_generator) = match both_forward_first {
        true => {
            let losses = (discriminator_loss(), generator_loss());
            (losses.0.backward(), losses.1.backward())
        }
        false => (discriminator_loss().backward(), generator_loss().backward()),
    };
    let mut all = gradients::<B, _>(&discriminator, &of_discriminator);
    all.extend(gradients::<B, _>(&generator, &of_generator));
    // The generator's loss has gradients in the discriminator too. The discriminator's loss has none in the generator,
    // because its input is detached.
    all.extend(gradients::<B, _>(&discriminator, &of_generator));
    assert!(gradients::<B, _>(&generator, &of_discriminator).is_empty());

    let mut optimizers = (AdamConfig::new().init(), AdamConfig::new().init());
    let grads = GradientsParams::from_grads(of_discriminator, &discriminator);
    let stepped = optimizers.0.step(1e-3, discriminator.clone(), grads);
    assert!(save::<B, _>(stepped) != save::<B, _>(discriminator));
    let grads = GradientsParams::from_grads(of_generator, &generator);
    let stepped = optimizers.1.step(1e-3, generator.clone(), grads);
    assert!(save::<B, _>(stepped) != save::<B, _>(generator));
    all
}

#[test]
fn a_gan_gets_all_gradients_of_both_losses_in_either_order() {
    fn near() {
        for both_forward_first in [false, true] {
            let found = gan::<B>(both_forward_first);
            assert_eq!(found.len(), 12);
            assert_scenario_is_near(found, gan::<ReferenceAutodiff>(both_forward_first));
        }
    }
    under_each!(near, InBf16, SmallScale);
}

#[test]
fn two_losses_of_one_model_each_get_their_gradients() {
    fn losses<B: AutodiffBackend>() -> Named {
        let model = net::<B>([4, 8, 2]);
        let output = model.forward(matrix(6, 4));
        let shared = model.first.forward(matrix(6, 4));
        let (first, second) = (mse(output, 1.0), shared.square().mean());
        let mut all = gradients::<B, _>(&model, &first.backward());
        all.extend(gradients::<B, _>(&model, &second.backward()));
        all
    }
    fn near() {
        let found = losses::<B>();
        assert_eq!(found.len(), 4 + 2);
        assert_scenario_is_near(found, losses::<ReferenceAutodiff>());
    }
    under_each!(near, InBf16, SmallScale);
}

#[test]
fn tied_weights_collect_the_gradients_of_all_their_uses() {
    fn tied<B: AutodiffBackend>() -> Named {
        let weight = matrix::<B>(6, 6).require_grad();
        // One weight is used as an embedding, twice as a layer, and transposed as the output projection.
        let tokens = Tensor::<B, 1, Int>::from_ints([0, 2, 5, 2], &weight.device());
        let mut x = weight.clone().select(0, tokens);
        for _ in 0..2 {
            x = x.matmul(weight.clone()).tanh();
        }
        let grads = mse(x.matmul(weight.clone().transpose()), 0.5).backward();
        vec![(
            "weight".to_string(),
            weight.grad(&grads).unwrap().into_data(),
        )]
    }
    fn near() {
        assert_scenario_is_near(tied::<B>(), tied::<ReferenceAutodiff>());
    }
    under_each!(near, InBf16, SmallScale);
}

#[test]
fn accumulated_micro_batches_are_the_sum_of_their_gradients() {
    fn sums() {
        let model = net::<B>([4, 8, 2]);
        let backward = |batch: usize| {
            let x = matrix::<B>(6, 12).slice([0..6, 4 * batch..4 * batch + 4]);
            mse(model.forward(x), 1.0).backward()
        };

        let mut accumulator = GradientsAccumulator::new();
        let mut sums: Option<Vec<Vec<f32>>> = None;
        for batch in 0..3 {
            let grads = backward(batch);
            let values = gradients::<B, _>(&model, &grads);
            let values = values.iter().map(|(_, data)| data.to_vec().unwrap());
            sums = Some(match sums {
                None => values.collect(),
                Some(sums) => {
                    let add = |(a, b): (Vec<f32>, Vec<f32>)| {
                        a.iter().zip(b).map(|(a, b)| a + b).collect()
                    };
                    sums.into_iter().zip(values).map(add).collect()
                }
            });
            accumulator.accumulate(&model, GradientsParams::from_grads(grads, &model));
        }

        let sums = sums.unwrap();
        let grads = accumulator.grads();
        assert_eq!(grads.len(), 4);
        let weight = grads.get::<Amp, 2>(model.first.weight.id).unwrap();
        assert_eq!(storage_dtype(&weight), DType::F32);
        assert_eq!(weight.values(), sums[0]);
        let bias = model.second.bias.as_ref().unwrap().id;
        let bias = grads.get::<Amp, 1>(bias).unwrap();
        assert_eq!(bias.values(), sums[3]);
    }
    under_each!(sums, InBf16, SmallScale);
}

/// If gradients were still scaled by 65536, every gradient would be clipped.
#[test]
fn optimizers_clip_unscaled_gradients() {
    fn clips() {
        let start = net::<B>([4, 8, 2]);
        let step = |clipping: Option<GradientClippingConfig>| {
            let model = start.clone();
            let grads = mse(model.forward(matrix(6, 4)), 1.0).backward();
            let grads = GradientsParams::from_grads(grads, &model);
            let config = SgdConfig::new().with_gradient_clipping(clipping);
            save::<B, _>(config.init().step(0.1, model, grads))
        };
        let unclipped = step(None);
        for (loose, tight) in [
            (
                GradientClippingConfig::Value(100.0),
                GradientClippingConfig::Value(1e-3),
            ),
            (
                GradientClippingConfig::Norm(100.0),
                GradientClippingConfig::Norm(1e-3),
            ),
        ] {
            assert!(step(Some(loose)) == unclipped);
            assert!(step(Some(tight)) != unclipped);
        }
    }
    under_each!(clips, InBf16, SmallScale);
}

#[test]
fn a_frozen_layer_stays_and_the_others_learn() {
    fn stays() {
        let mut model = net::<B>([4, 8, 2]);
        model.first = model.first.no_grad();
        let start = (
            save::<B, _>(model.first.clone()),
            save::<B, _>(model.second.clone()),
        );
        let mut optimizer = AdamConfig::new().init();
        let mut losses: Vec<f32> = Vec::new();
        for _ in 0..20 {
            let loss = mse(model.forward(matrix(6, 4)), 1.0);
            losses.push(loss.clone().into_scalar());
            let grads = GradientsParams::from_grads(loss.backward(), &model);
            assert_eq!(grads.len(), 2);
            model = optimizer.step(0.05, model, grads);
        }
        assert!(losses[19] < 0.5 * losses[0], "{losses:?}");
        assert!(save::<B, _>(model.first) == start.0);
        assert!(save::<B, _>(model.second) != start.1);
    }
    under_each!(stays, InBf16, SmallScale);
}

#[test]
fn a_validated_model_evaluates_in_the_precision_of_the_policy() {
    fn low() {
        let model = net::<B>([4, 8, 2]);
        let trained = model.forward(matrix(6, 4));
        let validated = model.valid().forward(matrix(6, 4));
        assert!(matches!(
            storage_dtype(&validated),
            DType::F16 | DType::BF16
        ));
        assert_eq!(storage_dtype(&validated), storage_dtype(&trained));
        assert_eq!(validated.into_data(), trained.into_data());
    }
    under_each!(low, InBf16, SmallScale);
}

/// PyTorch's `test_grad_scaling_multiple` without a scaler: two losses, each of both models; all forward passes first.
#[test]
fn two_losses_of_two_models_each_get_their_gradients() {
    fn losses<B: AutodiffBackend>() -> Named {
        let models = [net::<B>([4, 8, 2]), net::<B>([4, 8, 2])];
        let each = |i: usize| mse(models[i].forward(matrix(6, 4)), i as f32);
        let first = each(0) * 0.3 + each(1) * 0.7;
        let second = each(0) * 0.6 - each(1) * 0.4;
        let (first, second) = (first.backward(), second.backward());
        let mut all = Named::new();
        for model in &models {
            all.extend(gradients::<B, _>(model, &first));
            all.extend(gradients::<B, _>(model, &second));
        }
        all
    }
    fn near() {
        let found = losses::<B>();
        assert_eq!(found.len(), 16);
        assert_scenario_is_near(found, losses::<ReferenceAutodiff>());
    }
    under_each!(near, InBf16, SmallScale);
}
