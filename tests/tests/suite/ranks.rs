//! Law: replicas on several ranks (the threads that each train one) stay bit-identical and skip the same steps.

use std::{
    sync::{Arc, Barrier, mpsc},
    thread,
    time::Duration,
};

use burn::collective::{
    self, CollectiveConfig, PeerId, ReduceOperation, finish_collective, reset_collective,
};
use burn_amp::ranks::{self, Collective, Ranks, RanksError};
use burn_amp_tests::prelude::*;

/// F16 with a loss scale that grows after 4 finite steps.
fn growing() -> Config {
    in_f16(|it| {
        it.loss_scale.rule.init = 256.0;
        it.loss_scale.rule.search = false;
        it.loss_scale.rule.growth_interval = 4;
        it.loss_scale.rule.max = 1024.0;
    })
}

policy!(TwoRanks, growing());
policy!(FourRanks, growing());
policy!(WithoutJoining, growing());

type B = AmpAutodiff;
type Inner = <B as AutodiffBackend>::InnerBackend;

const STEPS: usize = 200;

/// The rank that overflows at a step, if any: pseudo-randomly, at one step in 12.
fn poisoned(step: usize, ranks: usize) -> Option<usize> {
    let hash = (step as u32 + 1).wrapping_mul(2654435769) >> 16;
    hash.is_multiple_of(12)
        .then_some(hash as usize / 12 % ranks)
}

/// The run of one rank: the skipped steps, the scale after each step, and the parameters at the end.
type Seen = (Vec<usize>, Vec<f32>, TensorData);

fn train(rank: usize, count: usize, record: Vec<u8>) -> Seen {
    let peer = PeerId::from(rank);
    let config = CollectiveConfig::default().with_num_devices(count);
    collective::register::<Inner>(peer, Default::default(), config).unwrap();
    let _joined = ranks::join::<B>(&here(), Collective::<Inner>::new(peer, &here()));

    let init = LinearConfig::new(8, 4).init(&here());
    let mut model: Linear<B> = load::<B, _>(init, record);
    let mut optimizer = LossScaleOptimizer::new(AdamConfig::new().init());
    let (mut skipped, mut scales) = (Vec::new(), Vec::new());
    for step in 0..STEPS {
        let from = step * 3 + rank * 17;
        let x = noise::<B>(STEPS * 3 + 17 * 4 + 64, &here())
            .slice(from..from + 64)
            .reshape([8, 8]);
        let loss = (model.forward(x.clone()) - x.slice([0..8, 0..4]))
            .square()
            .mean();
        let inf = poisoned(step, count) == Some(rank);
        let grads = (loss * if inf { f32::INFINITY } else { 1.0 }).backward();
        if grads.outcome() == Outcome::Overflowed {
            skipped.push(step);
        }
        let grads = GradientsParams::from_grads(grads, &model);
        let grads = grads
            .all_reduce::<Inner>(peer, ReduceOperation::Mean)
            .unwrap();
        model = optimizer.step(0.01, model, grads);
        scales.push(loss_scale::<B>(&here()).scale());
    }
    finish_collective::<Inner>(peer).unwrap();
    let bias = model.bias.unwrap().val();
    let parameters = Tensor::cat(vec![model.weight.val().flatten(0, 1), bias], 0);
    (skipped, scales, parameters.into_data())
}

/// The expected scale after each step, if an overflow of any rank counts for all.
fn expected_scales(count: usize) -> Vec<f32> {
    let (mut scale, mut streak) = (256f32, 0);
    let after = |step| {
        match poisoned(step, count) {
            Some(_) => (scale, streak) = (scale / 2.0, 0),
            None if streak == 3 => (scale, streak) = ((scale * 2.0).min(1024.0), 0),
            None => streak += 1,
        }
        scale
    };
    (0..STEPS).map(after).collect()
}

fn all_ranks<P: burn_amp::config::ConfigSource>(count: usize) {
    let _policy = enter::<P>();
    let record = seeded::<PlainAutodiff, _>(|device| -> Linear<PlainAutodiff> {
        LinearConfig::new(8, 4).init(device)
    });
    let (sender, receiver) = mpsc::channel();
    for rank in 0..count {
        let (sender, record) = (sender.clone(), record.clone());
        thread::spawn(move || {
            let _ = sender.send(train(rank, count, record));
        });
    }
    let seen: Vec<Seen> = (0..count)
        .map(|_| {
            receiver
                .recv_timeout(Duration::from_secs(300))
                .expect("all ranks finish within the timeout")
        })
        .collect();
    reset_collective::<Inner>();

    let overflows: Vec<usize> = (0..STEPS)
        .filter(|step| poisoned(*step, count).is_some())
        .collect();
    assert!((10..40).contains(&overflows.len()), "{overflows:?}");
    for (skipped, scales, parameters) in &seen {
        assert_eq!(*skipped, overflows);
        assert_eq!(*scales, expected_scales(count));
        assert_eq!(*parameters, seen[0].2);
        assert!(parameters.iter::<f32>().all(f32::is_finite));
    }
    let handle = loss_scale::<B>(&here());
    assert_eq!(handle.steps(), STEPS as u64);
    assert_eq!(handle.skipped_steps(), overflows.len() as u64);
}

#[test]
#[cfg_attr(
    feature = "fusion",
    ignore = "burn-collective 0.21.0 loses tensors of Fusion, in plain Burn too"
)]
fn two_ranks_skip_together_and_stay_equal() {
    all_ranks::<TwoRanks>(2);
}

#[test]
#[cfg_attr(
    feature = "fusion",
    ignore = "burn-collective 0.21.0 loses tensors of Fusion, in plain Burn too"
)]
fn four_ranks_skip_together_and_stay_equal() {
    all_ranks::<FourRanks>(4);
}

/// An implementation of `Ranks` in which the other ranks always give the same answer.
struct Says(Result<bool, String>);

impl Ranks for Says {
    fn any(&self, found_inf: bool) -> Result<bool, RanksError> {
        self.0
            .clone()
            .map(|other| found_inf || other)
            .map_err(RanksError)
    }
}

#[test]
fn another_ranks_overflow_is_the_reason_of_the_skip() {
    let _policy = enter::<WithoutJoining>();
    let weight = noise::<B>(4, &here()).require_grad();
    let backward = || (weight.clone() * 2.0).sum().backward();
    {
        let _joined = ranks::join::<B>(&here(), Says(Ok(true)));
        let mut grads = backward();
        assert_eq!(grads.outcome(), Outcome::Overflowed);
        assert!(weight.grad_remove(&mut grads).is_none());
        let skip = loss_scale::<B>(&here()).last_skip().unwrap();
        assert_eq!(
            skip.to_string(),
            "step 0, loss scale 256: gradients not finite on another rank"
        );
    }
    // After leaving, the rank decides alone again.
    let grads = backward();
    assert!(weight.grad(&grads).is_some());
    assert_eq!(loss_scale::<B>(&here()).scale(), 128.0);
}

/// Ranks on one device share a scale, and one of them changes it. All of them must stop when it cannot fall further.
#[test]
fn all_ranks_stop_when_the_scale_cannot_fall_any_more() {
    let _policy = enter_config!(in_f16(|it| {
        it.loss_scale.rule.init = 256.0;
        it.loss_scale.rule.search = false;
        it.loss_scale.rule.min = 1.0;
        it.loss_scale.rule.patience = 2;
    }));
    // Both ranks take part in every pass.
    let barrier = Arc::new(Barrier::new(2));
    let rank = || {
        let barrier = barrier.clone();
        thread::spawn(move || {
            let _joined = ranks::join::<B>(&here(), Overflows(barrier));
            let weight = noise::<B>(4, &here()).require_grad();
            // 256 = 2^8: the ninth overflow finds the scale at 1, and so does the tenth.
            for _ in 0..10 {
                let _ = weight.clone().sum().backward();
            }
        })
    };
    let ranks = [rank(), rank()];
    for rank in ranks {
        let panic = rank.join().unwrap_err();
        let message = panic.downcast_ref::<String>().unwrap();
        assert!(
            message.starts_with(
                "loss scale: gradients overflowed in 10 steps in a row, 2 of them at the smallest scale 1"
            ),
            "{message}"
        );
    }
}

/// An implementation of `Ranks` in which some rank overflows at every pass.
struct Overflows(Arc<Barrier>);

impl Ranks for Overflows {
    fn any(&self, _: bool) -> Result<bool, RanksError> {
        self.0.wait();
        Ok(true)
    }
}

#[test]
#[should_panic(
    expected = "the ranks could not agree on whether gradients overflowed: the wire is cut"
)]
fn ranks_that_cannot_be_reached_stop_training() {
    let _policy = enter::<WithoutJoining>();
    let weight = noise::<B>(4, &here()).require_grad();
    let _joined = ranks::join::<B>(&here(), Says(Err("the wire is cut".into())));
    let _ = weight.sum().backward();
}
