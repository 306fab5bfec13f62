//! Law: a step whose gradients come from several backward passes, one of which overflowed, is skipped whole, and exactly.

use burn::{
    optim::{AdamConfig, GradientsAccumulator, GradientsParams},
    tensor::Device,
};
use burn_amp::{
    config::{Compute, Config, DynamicLossScale, LossScaleConfig},
    optim::{AmpModuleOptimizer, AmpOptimizer, HoldOnSkip},
};

use crate::net::Net;

const LR: f64 = 0.01;

/// A pass whose gradients are infinite at every loss scale.
fn overflowed(net: &Net, device: &Device) -> GradientsParams {
    GradientsParams::from_grads((net.loss(device) * f32::INFINITY).backward(), net)
}

/// Checks the law in F16, with the loss scale on the host or on the device.
///
/// # Panics
///
/// Panics if it does not hold.
pub fn check(sync: bool) {
    let device = Device::flex().autodiff();
    let dynamic = DynamicLossScale {
        search: false,
        ..DynamicLossScale::default()
    };
    let config = Config {
        compute: Compute::F16,
        loss_scale: LossScaleConfig {
            sync,
            ..dynamic.into()
        },
        ..Config::default()
    };
    burn_amp::configure(&device, config).expect("no tensor was made before");
    let scale = burn_amp::loss_scale(&device).expect("burn-amp is in the tests");
    let new = || {
        let optimizer = AmpOptimizer::new(AdamConfig::new()).init();
        optimizer.expect("burn-amp is in the tests")
    };
    let train = |optimizer: &mut AmpModuleOptimizer, net: Net| {
        let gradients = net.gradients(&device);
        optimizer.step(LR, net, gradients)
    };
    let net = Net::new(&device);
    let mut expected = new();
    let once = train(&mut expected, net.clone());
    let twice = train(&mut expected, once.clone());

    let mut optimizer = new();
    let mut scheduler = HoldOnSkip::new(Decreasing(0.0), scale);
    let mut net = net;
    for expected in [&once, &twice] {
        // The overflow is first, last and alone.
        for parts in [[true, false], [false, true], [true, true]] {
            let before = net.bits();
            let mut sum = GradientsAccumulator::new();
            for overflows in parts {
                let part = match overflows {
                    true => overflowed(&net, &device),
                    false => net.gradients(&device),
                };
                sum.accumulate(&net, part);
            }
            net = optimizer.step(LR, net, sum.grads());
            assert!(net.bits() == before, "{parts:?} changed a parameter");
        }
        net = train(&mut optimizer, net);
        assert!(
            net.bits() == expected.bits(),
            "the skipped steps left something"
        );
    }
    scale.settle();
    assert_eq!(scale.skipped_steps(), 8);

    use burn::lr_scheduler::LrScheduler;
    // It was made before the skips, so it advances first, and holds once.
    assert_eq!([scheduler.step(), scheduler.step()], [-1.0, -2.0]);
    overflowed(&net, &device);
    overflowed(&net, &device);
    assert_eq!([scheduler.step(), scheduler.step()], [-2.0, -3.0]);
    overflowed(&net, &device);
    let record = scheduler.to_record();
    let mut resumed = HoldOnSkip::new(Decreasing(0.0), scale);
    resumed.load_record(record);
    assert_eq!([scheduler.step(), scheduler.step()], [-3.0, -4.0]);
    assert_eq!([resumed.step(), resumed.step()], [-3.0, -4.0]);
}

/// A scheduler that counts down.
#[derive(Clone)]
struct Decreasing(f64);

impl burn::lr_scheduler::LrScheduler for Decreasing {
    fn step(&mut self) -> f64 {
        self.0 -= 1.0;
        self.0
    }

    fn to_record(&self) -> burn::lr_scheduler::LrSchedulerRecord {
        burn::lr_scheduler::LrSchedulerRecord::new().with_scalar("rate", self.0)
    }

    fn load_record(&mut self, record: burn::lr_scheduler::LrSchedulerRecord) {
        self.0 = record.scalar("rate").expect("it has one");
    }
}
