//! Law: no step makes later ones slower.

use std::time::Instant;

use burn_amp_tests::prelude::*;

policy!(
    /// F16 with a loss scale that stays on the device.
    OnDevice,
    in_f16(|it| it.loss_scale.sync = false)
);

/// The time of the fastest step, in microseconds, in the second and in the last tenth of `steps` steps.
fn early_and_late<O>(mut optimizer: O, steps: usize) -> (f64, f64)
where
    O: Optimizer<Linear<AmpAutodiff>, AmpAutodiff>,
{
    let _policy = enter::<OnDevice>();
    let mut model = LinearConfig::new(8, 8).init::<AmpAutodiff>(&here());
    let x = Tensor::<_, 2>::random([4, 8], Distribution::Default, &here());
    let mut took: Vec<f64> = Vec::new();
    for _ in 0..steps {
        let start = Instant::now();
        let loss = model.forward(x.clone()).square().mean();
        model = stepped(&mut optimizer, 1e-3, loss, model);
        took.push(start.elapsed().as_secs_f64() * 1e6);
    }
    let tenth = steps / 10;
    let fastest = |part: &[f64]| part.iter().copied().fold(f64::INFINITY, f64::min);
    (
        fastest(&took[tenth..2 * tenth]),
        fastest(&took[steps - tenth..]),
    )
}

/// A regression test: when the optimizer's state kept all passes, step 1,500 took 19 times as long as step 150.
#[test]
fn step_5000_costs_what_step_500_costs() {
    let momentum = || SgdConfig::new().with_momentum(Some(MomentumConfig::new()));
    let runs = [
        ("Adam", early_and_late(AdamConfig::new().init(), 5000)),
        (
            "AmpOptimizer, RmsProp",
            early_and_late(AmpOptimizer::new(RmsPropConfig::new()).init(), 5000),
        ),
        (
            "AmpOptimizer, Adam",
            early_and_late(AmpOptimizer::new(AdamConfig::new()).init(), 5000),
        ),
        ("momentum", early_and_late(momentum().init(), 5000)),
        (
            "AmpOptimizer, momentum",
            early_and_late(AmpOptimizer::new(momentum()).init(), 5000),
        ),
    ];
    for (name, (early, late)) in runs {
        println!("{name}: {early:.0} µs early, {late:.0} µs late");
        // However busy the machine is, some of 500 steps are not interrupted.
        assert!(
            late < 3.0 * early,
            "{name}: {early:.0} µs early, {late:.0} µs late"
        );
    }
}
