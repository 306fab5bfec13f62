//! Law: what ran in which precision is the same on every run, for each model of the zoo.

use std::{env, fs, path::Path};

use burn::prelude::*;
use burn_amp::{
    config::{Class, Op},
    diagnose::{PrecisionSnapshot, Report, record},
};
use burn_amp_tests::{Compute, ConfigSource, InBf16, computing_in, enter, in_bf16, policy};
use zoo::{Draw, Entry, LEARNING_RATE, Net, Size, Visitor, ZOO, ZooModel, adamw, visit};

use super::Mixed as B;

policy!(InF16, computing_in(Compute::F16));
policy!(ProductsInF32, {
    let products = [
        Op::linear,
        Op::conv2d,
        Op::conv_transpose2d,
        Op::float_matmul,
    ];
    in_bf16(|it| it.ops = products.map(|op| (op, Class::Full)).into())
});

/// Records a number of training steps after the first one.
struct Recorded {
    steps: u64,
}

impl Visitor for Recorded {
    type Output = Report;

    fn visit<M: ZooModel>(self, entry: &Entry, model: M) -> Report {
        let device = Default::default();
        B::seed(&device, 0);
        let mut net = M::TrainNet::<B>::init(&model, &device);
        let mut optimizer = adamw().init::<B, M::TrainNet<B>>();
        let mut recording = None;
        for step in 0..=self.steps {
            if step == 1 {
                recording = Some(record::<B>(&device));
            }
            let draw = Draw::train(entry.batch_size(Size::Tiny), step);
            let batch = model.batch::<B>(draw, &device);
            (net, _) = M::step(net, &batch, &mut optimizer, LEARNING_RATE);
        }
        recording.expect("there is a second step").finish()
    }
}

fn recorded<P: ConfigSource>(name: &str, steps: u64) -> Report {
    let _policy = enter::<P>();
    visit(name, Size::Tiny, Recorded { steps }).unwrap()
}

/// `REPORTS=folder` keeps the reports, to be looked at.
fn keep(name: &str, report: &Report) {
    if let Some(folder) = env::var_os("REPORTS") {
        let file = Path::new(&folder).join(name);
        fs::write(file.with_extension("json"), report.to_json()).unwrap();
        fs::write(file.with_extension("txt"), report.to_text()).unwrap();
        fs::write(file.with_extension("html"), report.to_html()).unwrap();
    }
}

#[test]
fn the_snapshot_of_each_model_is_the_same_on_every_run_and_changes_with_a_class() {
    for Entry { name, .. } in ZOO {
        let report = recorded::<InBf16>(name, 2);
        keep(name, &report);
        assert_eq!(report.advice(), [], "{name}");
        let expected = report.snapshot();
        for steps in 1..=3 {
            let again = recorded::<InBf16>(name, steps).snapshot();
            assert_eq!(again, expected, "{name}, {steps} steps");
        }
        let changed = recorded::<ProductsInF32>(name, 1);
        assert_ne!(changed.snapshot(), expected, "{name}");
        assert_eq!(changed.totals().low_flops, 0, "{name}");
    }
}

/// A change of these files is a change of what runs in which precision: it is to be meant. `REPORTS=folder` writes the
/// new ones.
#[test]
fn the_snapshots_in_the_repository_hold() {
    let changed = [
        ("gpt", include_str!("../snapshots/gpt.txt")),
        ("resnet18", include_str!("../snapshots/resnet18.txt")),
    ]
    .map(|(name, committed)| {
        let snapshot = PrecisionSnapshot::of(&recorded::<InBf16>(name, 1));
        if let Some(folder) = env::var_os("REPORTS") {
            let file = Path::new(&folder).join(format!("{name}.snapshot.txt"));
            fs::write(file, snapshot.to_string()).unwrap();
        }
        let changed = snapshot.compare(committed).err();
        changed.map(|changed| format!("{name}: {changed}"))
    });
    let changed: Vec<_> = changed.into_iter().flatten().collect();
    assert!(changed.is_empty(), "{}", changed.join("\n"));
}

#[test]
fn no_model_gets_advice_in_f16() {
    for Entry { name, .. } in ZOO {
        assert_eq!(recorded::<InF16>(name, 1).advice(), [], "{name}");
    }
}

#[test]
fn every_model_computes_its_products_in_bf16_at_lines_of_the_zoo_or_of_this_test() {
    for Entry { name, .. } in ZOO {
        let report = recorded::<InBf16>(name, 1);
        let totals = report.totals();
        assert!(totals.flops > 0, "{name}");
        let share = totals.low_flops as f64 / totals.flops as f64;
        assert!(share > 0.95, "{name}: {share}");
        for calls in &report.calls {
            let site = calls
                .site
                .as_ref()
                .unwrap_or_else(|| panic!("{name}: {calls:#?}"));
            let file = &site.file;
            assert!(
                file.contains("src/") || file.contains("tests/zoo/"),
                "{name}: {site:?}"
            );
            assert!(
                site.line > 0 && !file.contains("burn-amp/"),
                "{name}: {site:?}"
            );
        }
    }
}
