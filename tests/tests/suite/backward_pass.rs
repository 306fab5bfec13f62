//! Law: a graph is used once, facts about values end where it is cut, and a pass without parameters moves no scale.

use burn::tensor::activation::log_softmax;
use burn_amp_tests::prelude::*;

type B = AmpAutodiff;

policy!(
    /// F16 with a loss scale that stays on the device.
    OnDevice,
    in_f16(|it| it.loss_scale.sync = false)
);

fn panics(f: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(f)).is_err()
}

/// Calls `backward()` twice for one graph.
fn twice<B: AutodiffBackend>() {
    let weight = Tensor::<B, 2>::ones([2, 2], &here()).require_grad();
    let loss = weight.clone().matmul(weight).sum();
    loss.clone().backward();
    loss.backward();
}

#[test]
fn a_consumed_graph_is_refused_as_on_the_plain_backend() {
    assert!(panics(twice::<PlainAutodiff>));
    fn refused() {
        assert!(panics(twice::<B>));
    }
    under_each!(refused, InBf16, InF16, OnDevice);
}

policy!(Off, changed(Config::default(), |it| it.preset = Preset::O0));
policy!(InF32, computing_in(Compute::F32));
policy!(
    Unscaled,
    in_f16(|it| it.loss_scale.mode = LossScaleMode::Off)
);

/// Burn's own message, which a run that lowers nothing gives too, speaks of a node that should have a step registered.
#[test]
fn a_consumed_graph_is_named_in_every_mode() {
    fn says<B: AutodiffBackend>(loss: Tensor<B, 1>, expected: &str) {
        let pass = AssertUnwindSafe(|| drop(loss.backward()));
        let panic = catch_unwind(pass).expect_err("the pass is refused");
        let message = match panic.downcast::<String>() {
            Ok(message) => *message,
            Err(panic) => (*panic.downcast_ref::<&str>().unwrap()).to_owned(),
        };
        assert!(message.contains(expected), "{message}");
    }
    fn named<B: AutodiffBackend>(expected: &str) {
        let weight = Tensor::<B, 1>::from_floats([1.0, 2.0], &here()).require_grad();
        let loss = weight.clone().exp().sum();
        let grads = loss.clone().backward();
        assert!(weight.grad(&grads).is_some());
        says(loss, expected);
        // A loss of constants has a backward pass that does nothing.
        let constant = Tensor::<B, 1>::from_floats([1.0, 2.0], &here()).exp().sum();
        constant.backward();
    }
    fn by_us() {
        named::<B>("the graph of this loss has been consumed");
    }
    fn by_burn() {
        named::<B>("Node should have a step registered");
    }
    named::<PlainAutodiff>("Node should have a step registered");
    under_each!(by_burn, Off, InF32);
    under_each!(by_us, Unscaled, OnDevice);
    for_each_low_policy!(by_us);
}

/// The loss may be a parameter itself, as on the plain backend.
#[test]
fn a_loss_may_be_a_parameter() {
    fn gradient<B: AutodiffBackend>() -> f32 {
        let weight = Tensor::<B, 1>::ones([1], &here()).require_grad();
        let grads = weight.clone().backward();
        weight
            .grad(&grads)
            .unwrap()
            .into_data()
            .iter()
            .next()
            .unwrap()
    }
    fn is_one() {
        assert_eq!(gradient::<B>(), 1.0);
    }
    assert_eq!(gradient::<PlainAutodiff>(), 1.0);
    under_each!(is_one, InBf16, InF16, OnDevice, InF32, Off);
}

policy!(
    /// F16, for the one test that counts steps.
    Counted,
    computing_in(Compute::F16)
);

#[test]
fn a_pass_that_reaches_no_parameter_moves_no_scale() {
    let _policy = enter::<Counted>();
    let weight = Tensor::<B, 1>::ones([2], &here()).require_grad();
    let scale = loss_scale::<B>(&here());
    let loss = weight.clone().exp().sum();
    drop(weight);
    let grads = loss.backward();
    assert_eq!(grads.outcome(), Outcome::Finite);
    assert_eq!((scale.steps(), scale.growth_tracker()), (0, 0));
}

#[cfg(not(feature = "cubecl"))] // shaders on wgpu have no F64
#[test]
fn an_f64_loss_is_scaled_on_the_device_in_f64() {
    let _policy = enter::<OnDevice>();
    let weight = Tensor::<B, 1>::from_data([2.0, 3.0], (&here(), DType::F64)).require_grad();
    let grads = weight.clone().square().sum().backward();
    let gradient = weight.grad(&grads).unwrap();
    assert_eq!(
        gradient.into_data().iter::<f64>().collect::<Vec<_>>(),
        [4.0, 6.0]
    );
}

fn logits<B: Backend>(device: &B::Device) -> Tensor<B, 2> {
    Tensor::from_floats([[1.0, 2.0, -1.0]], device)
}

/// Returns two gradients: of a leaf whose values are a log-softmax, and of a weight below a log-softmax cut from the
/// graph. A leaf is a tensor that requires a gradient and is not the result of a recorded op.
fn cut<B: AutodiffBackend>() -> (Option<Vec<f32>>, Option<Vec<f32>>) {
    let index = Tensor::<B, 2, Int>::from_ints([[1]], &here());
    let values = |grad: Tensor<B::InnerBackend, 2>| grad.into_data().iter::<f32>().collect();

    let leaf = log_softmax(logits::<B>(&here()), 1).require_grad();
    let grads = leaf.clone().gather(1, index.clone()).sum().backward();
    let of_leaf = leaf.grad(&grads).map(values);

    let weight = logits::<B>(&here()).require_grad();
    let stopped = log_softmax(weight.clone(), 1).set_require_grad(false);
    let loss = stopped.gather(1, index).sum() + weight.clone().sum() * 0.5;
    let grads = loss.backward();
    (of_leaf, weight.grad(&grads).map(values))
}

#[test]
fn what_is_known_of_a_tensor_ends_where_the_graph_is_cut() {
    fn same() {
        let plain = cut::<PlainAutodiff>();
        assert_eq!(plain.0, Some(vec![0.0, 1.0, 0.0]));
        assert_eq!(cut::<B>(), plain);
    }
    for_each_low_policy!(same);
}

/// A chain over a product of inputs that no graph tracks, whose backward pass has nothing to do.
fn backward_from_inputs<B: AutodiffBackend>() {
    let x = Tensor::<B, 2>::ones([32, 32], &here());
    let product = x.clone().matmul(x.clone());
    let centered = product.clone() - product.mean_dim(0);
    let grads = centered.backward();
    assert!(x.grad(&grads).is_none());
}

#[test]
fn a_pass_from_a_root_that_nothing_tracks_does_nothing_as_on_the_plain_backend() {
    backward_from_inputs::<PlainAutodiff>();
    fn under() {
        backward_from_inputs::<B>();
    }
    under_each!(under, InBf16, InF16, OnDevice, Off);
}
