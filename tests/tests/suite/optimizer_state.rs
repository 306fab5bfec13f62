//! An optimizer whose state is multiplied with itself steps as in F32, before and after a checkpoint.

use burn::optim::{LearningRate, SimpleOptimizer};
use burn_amp_tests::prelude::*;

type B = AmpAutodiff;

/// A preconditioner in the manner of Shampoo: the step is the product of a matrix of second moments with itself, and with
/// the gradient.
#[derive(Clone)]
struct Preconditioned;

#[derive(Record, Clone)]
struct Moments<B: Backend, const D: usize> {
    moments: Tensor<B, D>,
}

impl<B: Backend> SimpleOptimizer<B> for Preconditioned {
    type State<const D: usize> = Moments<B, D>;

    fn step<const D: usize>(
        &self,
        lr: LearningRate,
        tensor: Tensor<B, D>,
        grad: Tensor<B, D>,
        state: Option<Self::State<D>>,
    ) -> (Tensor<B, D>, Option<Self::State<D>>) {
        // The state of the step before, as it is, is multiplied with itself.
        let factor = match &state {
            Some(Moments { moments }) => moments.clone().matmul(moments.clone()),
            None => grad.zeros_like(),
        };
        let moments = grad.clone().matmul(grad.clone().transpose());
        let tensor = tensor - (factor + grad) * lr;
        (tensor, Some(Moments { moments }))
    }

    fn to_device<const D: usize>(state: Self::State<D>, device: &Device<B>) -> Self::State<D> {
        Moments {
            moments: state.moments.to_device(device),
        }
    }
}

type Adaptor<B> = OptimizerAdaptor<Preconditioned, Linear<B>, B>;

/// A matrix whose entries half precision would round.
fn matrix<B: Backend>(seed: usize) -> Tensor<B, 2> {
    let entries: Vec<f32> = (0..16)
        .map(|i| ((37 * i + 11 * seed) % 101) as f32 / 37.0 - 1.3)
        .collect();
    Tensor::from_data(TensorData::new(entries, [4, 4]), &here())
}

/// The weights after three steps; the optimizer goes through `between` after each.
fn steps<B: AutodiffBackend, O: Optimizer<Linear<B>, B>>(
    mut optimizer: O,
    between: impl Fn(O) -> O,
) -> TensorData {
    let config = LinearConfig::new(4, 4).with_bias(false);
    let mut model: Linear<B> = config.init(&here());
    model.weight = Param::from_tensor(matrix(0));
    for step in 1..=3 {
        let loss = (model.weight.val() * matrix(step)).sum();
        model = stepped(&mut optimizer, 0.1, loss, model);
        optimizer = between(optimizer);
    }
    model.weight.val().into_data()
}

fn resumes_exactly() {
    let plain = Adaptor::<PlainAutodiff>::from(Preconditioned);
    let expected = steps::<PlainAutodiff, _>(plain, |optimizer| optimizer);

    let optimizer = || LossScaleOptimizer::new(Adaptor::<B>::from(Preconditioned));
    let uninterrupted = steps::<B, _>(optimizer(), |optimizer| optimizer);
    assert_eq!(uninterrupted, expected);
    let resumed = steps::<B, _>(optimizer(), |before| {
        reloaded::<B, Linear<B>, _>(&before, optimizer())
    });
    assert_eq!(resumed, expected);
}

#[test]
fn a_state_that_is_multiplied_with_itself_steps_in_f32_after_a_checkpoint_too() {
    for_each_low_policy!(resumes_exactly);
}
