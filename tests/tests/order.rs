//! Burn's own `Autodiff` outside of Amp trains, and is told of once.
//!
//! One test in a process of its own, because the warning is given once per process.

use std::{
    fmt::{self, Debug},
    sync::Mutex,
};

use burn::{
    nn::{LinearConfig, Relu},
    optim::{GradientsParams, Optimizer, SgdConfig},
    tensor::Tensor,
};
use burn_amp_tests::{Amp, InF16};
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

static WARNINGS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Keeps the messages of warnings.
struct Warnings;

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
    }

    fn event(&self, event: &Event<'_>) {
        struct Message(String);

        impl Visit for Message {
            fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
                if field.name() == "message" {
                    fmt::write(&mut self.0, format_args!("{value:?}")).unwrap();
                }
            }
        }

        let mut message = Message(String::new());
        event.record(&mut message);
        WARNINGS.lock().unwrap().push(message.0);
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[test]
fn burns_autodiff_outside_of_amp_trains_and_is_warned_of_once() {
    type B = burn::backend::Autodiff<Amp<InF16>>;

    tracing::subscriber::set_global_default(Warnings).unwrap();
    let device = Default::default();
    let mut model = LinearConfig::new(4, 3).init::<B>(&device);
    let mut optimizer = SgdConfig::new().init();
    let x = Tensor::<B, 2>::from_floats([[1.0, -0.5, 0.25, 2.0], [0.5, 1.5, -1.0, 0.0]], &device);
    let mut losses: Vec<f32> = Vec::new();
    for _ in 0..20 {
        let loss = (Relu::new().forward(model.forward(x.clone()) + 1.0) - 0.5)
            .square()
            .mean();
        losses.push(loss.clone().into_scalar());
        let grads = GradientsParams::from_grads(loss.backward(), &model);
        assert_eq!(grads.len(), 2);
        model = optimizer.step(0.05, model, grads);
    }
    assert!(losses[19] < 0.5 * losses[0], "{losses:?}");

    let warnings = WARNINGS.lock().unwrap();
    let [warning] = warnings.as_slice() else {
        panic!("{warnings:?}")
    };
    assert!(
        warning.contains("use burn_amp::Autodiff<Amp<_>>"),
        "{warning}"
    );
}
