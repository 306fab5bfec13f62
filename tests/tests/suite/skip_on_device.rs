//! Law: with `loss_scale.sync = false`, a loop ends as with `sync = true`, bit for bit.
//!
//! A *flag* says whether a gradient overflowed. With `sync = true` the host waits for the flags of every pass;
//! otherwise they stay on the device, where the step of all parameters writes nothing after an overflow. Other optimizers
//! wait.

use burn_amp::scaling::LossScaleRecord;
use burn_amp_tests::{
    net::{Net, contents, poisoned},
    prelude::*,
};

type B = AmpAutodiff;

const STEPS: usize = 40;
/// The steps that overflow: two in a row, which use up the hysteresis, and some single ones.
const OVERFLOWS: [usize; 5] = [0, 7, 8, 20, 33];

fn config(sync: bool) -> Config {
    in_f16(|it| {
        it.loss_scale.sync = sync;
        it.loss_scale.rule.init = 256.0;
        it.loss_scale.rule.search = false;
        it.loss_scale.rule.growth_interval = 4;
        it.loss_scale.rule.hysteresis = 2;
        it.loss_scale.rule.max = 1024.0;
    })
}

policy!(Waits, config(true));
policy!(Goes, config(false));

/// The end of a run: the parameters, the optimizer's state and the loss scale.
type Left = (serde_json::Value, serde_json::Value, LossScaleRecord);

fn grads<B: AutodiffBackend>(net: &Net<B>, step: usize) -> GradientsParams {
    let loss = match OVERFLOWS.contains(&step) {
        true => poisoned(net, step % 5, f32::INFINITY).0,
        false => net.loss(&here()),
    };
    GradientsParams::from_grads(loss.backward(), net)
}

fn run<P, O>(mut optimizer: O) -> Left
where
    P: ConfigSource,
    O: Optimizer<Net<B>, B>,
{
    let _policy = enter::<P>();
    loss_scale::<B>(&here()).load(start(config(true).loss_scale));
    let mut net = Net::<B>::seeded();
    for step in 0..STEPS {
        let grads = grads(&net, step);
        net = optimizer.step(0.05, net, grads);
        if step == STEPS / 2 {
            // The optimizer is saved and loaded right after a skipped step.
            let record = optimizer.to_record();
            optimizer = optimizer.load_record(record);
        }
    }
    (
        contents::<B>(net.into_record()),
        contents::<B>(optimizer.to_record()),
        loss_scale::<B>(&here()).record(),
    )
}

/// The record of a scale in its initial state.
fn start(config: LossScaleConfig) -> LossScaleRecord {
    serde_json::from_value(serde_json::json!({
        "loss_scale_version": 1, "scale": config.rule.init, "growth_tracker": 0, "hysteresis": config.rule.hysteresis,
        "steps": 0, "skipped_steps": 0,
    }))
    .unwrap()
}

fn ends_as_on_the_host(config: impl OptimizerConfig<Amp>) {
    let optimizer = AmpOptimizer::new(config);
    let host = run::<Waits, _>(optimizer.init::<B, Net<B>>());
    let device = run::<Goes, _>(optimizer.init::<B, Net<B>>());
    assert_eq!(host.2, device.2);
    assert_eq!(host.2.skipped_steps(), OVERFLOWS.len() as u64);
    assert!(host.0 == device.0, "parameters");
    assert!(host.1 == device.1, "optimizer states");
}

#[test]
fn every_optimizer_ends_as_on_the_host() {
    let momentum = MomentumConfig::new().with_momentum(0.9);
    ends_as_on_the_host(SgdConfig::new());
    ends_as_on_the_host(SgdConfig::new().with_momentum(Some(momentum)));
    ends_as_on_the_host(AdamConfig::new());
    ends_as_on_the_host(AdamWConfig::new());
    ends_as_on_the_host(AdanConfig::new());
    ends_as_on_the_host(AdaGradConfig::new());
    ends_as_on_the_host(RmsPropConfig::new());
}

/// Two micro-batches per step, summed before the step.
fn accumulated<B: AutodiffBackend, O: Optimizer<Net<B>, B>>(mut optimizer: O) -> serde_json::Value {
    let mut net = Net::<B>::seeded();
    for step in 0..STEPS / 2 {
        let mut sum = GradientsAccumulator::new();
        for part in 0..2 {
            sum.accumulate(&net, grads(&net, 2 * step + part));
        }
        let grads = sum.grads();
        net = optimizer.step(0.05, net, grads);
    }
    contents::<B>(net.into_record())
}

#[test]
fn an_effective_batch_is_skipped_if_a_part_of_it_overflowed() {
    policy!(HostParts, config(true));
    policy!(DeviceParts, config(false));
    let adam = AdamConfig::new();
    let host = within::<HostParts, _>(|| {
        accumulated::<B, _>(LossScaleOptimizer::new(adam.init::<B, Net<B>>()))
    });
    let device = within::<DeviceParts, _>(|| {
        accumulated::<B, _>(AmpOptimizer::new(adam).init::<B, Net<B>>())
    });
    assert!(host == device);
}

#[test]
fn counters_arrive_late_and_say_so() {
    let _policy = enter_config!(config(false));
    let scale = loss_scale::<B>(&here());
    let net = Net::<B>::seeded();

    let grads = poisoned(&net, 1, f32::NAN).0.backward();
    assert_eq!((scale.steps(), scale.pending_steps()), (0, 1));
    assert_eq!(grads.outcome(), Outcome::Overflowed);
    assert_eq!(grads.scale(), 256.0);
    assert_eq!((scale.steps(), scale.pending_steps()), (1, 0));
    let skip = scale.last_skip().unwrap();
    assert_eq!((skip.step, skip.scale, skip.gradients), (0, 256.0, 5));
    assert_eq!(skip.overflowed.len(), 1, "{skip}");

    for _ in 0..3 {
        net.loss(&here()).backward();
    }
    assert_eq!(scale.pending_steps(), 3);
    scale.settle();
    assert_eq!(
        (scale.steps(), scale.growth_tracker(), scale.pending_steps()),
        (4, 3, 0)
    );
    // A record includes the last pass, even if its outcome is still on the device.
    net.loss(&here()).backward();
    assert_eq!(scale.record().scale(), 512.0);
}

#[test]
fn flags_that_nobody_looks_at_do_not_pile_up() {
    let _policy = enter_config!(config(false));
    let x = Tensor::<B, 1>::from_floats([1.0, 2.0], &here()).require_grad();
    for _ in 0..200 {
        x.clone().sum().backward();
    }
    assert!(loss_scale::<B>(&here()).pending_steps() < 100);
}

#[test]
fn without_an_optimizer_an_overflow_gives_zeros() {
    let _policy = enter_config!(config(false));
    let x = Tensor::<B, 1>::from_floats([1.0, 2.0], &here()).require_grad();
    let gradient = |by: f32| {
        let grads = (x.clone() * by).sum().backward();
        x.grad(&grads).unwrap().values()
    };
    assert_eq!(gradient(3.0), [3.0, 3.0]);
    assert_eq!(gradient(f32::INFINITY), [0.0, 0.0]);
    assert_eq!(gradient(f32::NAN), [0.0, 0.0]);
    assert_eq!(gradient(0.5), [0.5, 0.5]);
}

#[test]
fn a_gradient_put_in_place_is_handed_out_as_it_is() {
    let _policy = enter_config!(config(false));
    let x = Tensor::<B, 2>::from_floats([[1.0, 2.0]], &here()).require_grad();
    let mut grads = x.clone().sum().backward();
    let gradient = x.grad(&grads).unwrap();
    x.grad_replace(&mut grads, gradient * 5.0);
    let found = x.grad_remove(&mut grads).unwrap().into_data();
    assert_eq!(found.to_vec::<f32>().unwrap(), [5.0, 5.0]);
}

#[test]
#[should_panic(
    expected = "loss scale: gradients overflowed in 2 steps in a row, 2 of them at the smallest scale 1"
)]
fn an_overflow_that_no_scale_prevents_stops_the_loop() {
    let _policy = enter_config!(in_f16(|it| {
        it.loss_scale.mode = LossScaleMode::Dynamic;
        it.loss_scale.sync = false;
        it.loss_scale.rule.init = 1.0;
        it.loss_scale.rule.min = 1.0;
        it.loss_scale.rule.patience = 2;
    }));
    let mut net = Net::<B>::seeded();
    let mut optimizer = AmpOptimizer::new(AdamConfig::new()).init::<B, Net<B>>();
    for _ in 0..4 {
        let loss = poisoned(&net, 0, f32::INFINITY).0;
        net = stepped(&mut optimizer, 0.1, loss, net);
        assert_eq!(
            contents::<B>(net.clone().into_record()),
            contents::<B>(self::Net::<B>::seeded().into_record())
        );
    }
}

/// When two threads train on one device, each pass updates the scale once, on the device as on the host.
#[test]
fn passes_of_several_threads_move_one_scale() {
    let _policy = enter_config!(config(false));
    let overlapping = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let x = Tensor::<B, 1>::from_floats([1.0, 2.0], &here()).require_grad();
                for _ in 0..4 {
                    overlapping.wait();
                    x.clone().sum().backward();
                }
            });
        }
    });
    let record = loss_scale::<B>(&here()).record();
    assert_eq!((record.steps(), record.scale()), (8, 1024.0));
    // The scale on the device is the 1024 that the host counted: 2^118 times 1024 overflows, times 512 it would not.
    let x = Tensor::<B, 1>::from_floats([1.0], &here()).require_grad();
    let grads = (x.clone() * 2f32.powi(118)).sum().backward();
    assert_eq!(grads.outcome(), Outcome::Overflowed);
}

/// A thousand steps, or a hundred on a driver that may be software, of the optimizer that steps all parameters together. A
/// tenth of them overflows. After each step the parameters are those of the loop that waits, bit for bit, and those
/// from before after an overflow.
#[test]
fn many_steps_together_are_those_of_the_host() {
    const MANY: usize = if cfg!(feature = "cubecl") { 100 } else { 1000 };
    let adam = AmpOptimizer::new(AdamConfig::new());
    let at = Default::default();
    let load = || loss_scale::<B>(&at).load(start(config(true).loss_scale));
    let mut host = within::<Waits, _>(|| {
        load();
        (Net::<B>::seeded(), adam.init::<B, Net<B>>(), 0u64)
    });
    let mut device = within::<Goes, _>(|| {
        load();
        (Net::<B>::seeded(), adam.init::<B, Net<B>>())
    });
    fn step<B: AutodiffBackend>(
        net: Net<B>,
        optimizer: &mut impl Optimizer<Net<B>, B>,
        step: usize,
    ) -> Net<B> {
        let loss = match step % 10 {
            3 => poisoned(&net, step % 5, f32::INFINITY).0,
            other => poisoned(&net, step % 5, other as f32 / 10.0).0,
        };
        let grads = GradientsParams::from_grads(loss.backward(), &net);
        optimizer.step(0.01, net, grads)
    }
    let mut before = contents::<B>(host.0.clone().into_record());
    for at in 0..MANY {
        host.0 = within::<Waits, _>(|| step(host.0, &mut host.1, at));
        device.0 = within::<Goes, _>(|| step(device.0, &mut device.1, at));
        let [waited, went] = [
            contents::<B>(host.0.clone().into_record()),
            contents::<B>(device.0.clone().into_record()),
        ];
        assert!(waited == went, "step {at}");
        assert_eq!(before == waited, at % 10 == 3, "step {at}");
        host.2 += u64::from(before == waited);
        before = waited;
    }
    assert_eq!(host.2, MANY as u64 / 10);
    assert_eq!(
        within::<Waits, _>(|| loss_scale::<B>(&at).record()),
        within::<Goes, _>(|| loss_scale::<B>(&at).record())
    );
    assert!(
        within::<Waits, _>(|| contents::<B>(host.1.to_record()))
            == within::<Goes, _>(|| contents::<B>(device.1.to_record())),
        "optimizer states"
    );
}
