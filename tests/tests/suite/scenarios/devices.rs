//! Several devices and several threads.

use super::*;

#[test]
fn a_moved_model_has_the_same_gradients_and_is_watched_for_overflows() {
    fn moved() {
        let model = net::<B>([4, 8, 2]);
        let loss = |model: &Net<B>| mse(model.forward(matrix(6, 4)), 1.0);
        // CubeCL chooses among its kernels for a product while it computes the first one of a shape.
        let _ = loss(&model).backward();
        let expected = gradients::<B, _>(&model, &loss(&model).backward());
        assert_eq!(expected.len(), 4);

        // `to_device` is part of the graph, so the original parameters get the gradients in one backward pass.
        let there = model.clone().to_device(&here());
        let grads = loss(&there).backward();
        assert_eq!(gradients::<B, _>(&model, &grads), expected);

        // `fork` makes new leaves.
        let fork = model.fork(&here());
        let grads = loss(&fork).backward();
        assert_eq!(gradients::<B, _>(&fork, &grads), expected);
        let scaled = grads.scale() != 1.0;
        let grads = (loss(&fork) * f32::INFINITY).backward();
        assert_eq!(grads.outcome() == Outcome::Overflowed, scaled);
        let taken = GradientsParams::from_grads(grads, &fork);
        assert_eq!(taken.is_empty(), scaled);
    }
    policy!(Overflowing, small_scale());
    under_each!(moved, InBf16, Overflowing);
}

// The threads share a scale, so it must not move: a larger one keeps smaller gradients.
policy!(
    Still,
    in_f16(|it| {
        it.loss_scale.mode = LossScaleMode::Static;
        it.loss_scale.rule.init = 256.0;
    })
);

#[test]
fn several_threads_train_at_once() {
    fn train() -> Vec<f32> {
        let mut model = net::<B>([4, 8, 2]);
        let mut optimizer = AdamConfig::new().init();
        let mut losses = Vec::new();
        for _ in 0..40 {
            let hidden = relu(model.first.forward(matrix(6, 4)));
            let loss = mse(sigmoid(model.second.forward(hidden)), 0.9);
            losses.push(loss.clone().into_scalar());
            let grads = GradientsParams::from_grads(loss.backward(), &model);
            assert_eq!(grads.len(), 4);
            model = optimizer.step(0.05, model, grads);
        }
        assert!(losses[39] < 0.5 * losses[0], "{losses:?}");
        losses
    }
    fn threads() {
        let alone = train();
        let together: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(train)).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        for losses in together {
            assert_eq!(losses, alone);
        }
    }
    under_each!(threads, InBf16, Still);
}

/// For Burn, one adapter under two names is two devices.
#[test]
#[cfg(feature = "vulkan")]
#[cfg_attr(
    feature = "fusion",
    ignore = "burn-fusion 0.21.0 moves tensors by a transfer that wgpu lacks; plain Burn computes garbage"
)]
fn an_overflow_on_another_device_than_the_losss_is_found() {
    let _policy = enter_config!(small_scale());
    use burn::backend::wgpu::WgpuDevice;

    let [here, there] = [WgpuDevice::DefaultDevice, WgpuDevice::Cpu];
    let first = noise::<B>(12, &there).reshape([3, 4]).require_grad();
    let second = noise::<B>(8, &here).reshape([4, 2]).require_grad();
    let backward = |factor: f32| {
        let x = noise::<B>(6, &there).reshape([2, 3]);
        let hidden = x.matmul(first.clone()).to_device(&here);
        let loss = hidden.matmul(second.clone()).square().mean();
        (loss + (first.clone() * factor).sum().to_device(&here)).backward()
    };
    let grads = backward(1.0);
    assert_eq!(grads.outcome(), Outcome::Finite);
    let grad = first.grad(&grads).unwrap();
    assert_eq!(grad.device(), there);
    assert!(
        grad.into_data()
            .iter::<f32>()
            .all(|x| x.is_finite() && x != 0.0)
    );
    assert!(second.grad(&grads).is_some());

    let mut grads = backward(f32::INFINITY);
    assert_eq!(grads.outcome(), Outcome::Overflowed);
    assert!(first.grad_remove(&mut grads).is_none());
    assert!(second.grad_remove(&mut grads).is_none());
    let skip = burn_amp::loss_scale::<B>(&here).last_skip().unwrap();
    assert_eq!((skip.overflowed.len(), skip.gradients), (1, 2));
    assert_eq!(skip.overflowed[0].shape.as_slice(), [3, 4]);
}
