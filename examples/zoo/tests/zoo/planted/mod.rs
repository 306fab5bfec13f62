//! Law: overflows planted at random ops of the zoo, forward and backward, are found: the op, its line and its
//! parameters. So is a kernel that computes wrong results: by a comparison, and by running the step again on a sound
//! backend.
//!
//! * [`stage`]: above `Amp`, chooses the call that overflows and notes what it was
//! * [`fault`]: below `Amp`, makes results wrong
//! * [`line`](mod@line): the line of the zoo that is being executed
//!
//! The truth does not come from the search: the op is the method that was called, the line that of Rust's own backtrace,
//! and a parameter is an operand with its values.

mod fault;
mod line;
mod stage;

use std::{path::PathBuf, sync::Arc};

use burn::{
    backend::Flex,
    module::{Module, ModuleMapper, ModuleVisitor, Param},
    prelude::*,
    tensor::Distribution,
};
use burn_amp::{
    Amp, Autodiff,
    config::{Locate, LossScaleMode},
    diagnose::{NotFinite, last_overflow, shadow, treat_as_library},
    replay::{Step, replay},
    scaling::name_parameters,
};
use burn_amp_core::Op;
use burn_amp_tests::{in_f16, policy};
use instrumented::Instrumented;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use zoo::{Draw, Entry, Net, Size, Visitor, ZOO, ZooModel, visit};

use self::{
    fault::{Fails, Fault},
    stage::{Stage, Truth, Way, play},
};
use crate::Plain;

policy!(
    Searched,
    in_f16(|it| {
        // A scale that does not move, at which the gradients of the tiny models are far from both ends of F16.
        it.loss_scale.mode = LossScaleMode::Static;
        it.loss_scale.rule.init = 16.0;
        it.overflow.locate = Locate::Always;
        it.replay.output = file().display().to_string();
    })
);

type Inner = Instrumented<Plain, Fault>;
type InF16 = Autodiff<Amp<Inner, Searched>>;
type B = Instrumented<InF16, Stage>;

/// Whether an op has one result, a float tensor. Only such ops fail.
fn is_planted(op: Op) -> bool {
    op.shape().ends_with("-> F")
}

/// Has reports name the lines of the zoo.
fn skip_lines_of_the_test() {
    treat_as_library("tests/zoo/planted/");
    treat_as_library("tests/instrumented/");
}

/// The file to which each step is written.
fn file() -> PathBuf {
    std::env::temp_dir().join(format!("{}_planted.safetensors", std::process::id()))
}

/// Whether the step in the file, run again on the plain backend without the fault, first has other bits at the call that
/// failed.
fn is_shown_by_replay(truth: &Truth) -> bool {
    let step = Step::read(&file()).expect("the step overflowed");
    let replayed = replay::<Flex>(&step, &Default::default());
    let same = replayed.recorded.expect("the step runs again").same(&step);
    let Some(first) = same.first_different else {
        return false;
    };
    let call = &step.calls[first];
    let line = call.site.as_ref().map(|site| site.line);
    call.op == truth.op.name() && line == Some(truth.line)
}

/// The number of overflows that are planted in each model, of each kind.
const OF_EACH: usize = 2;

/// Adds noise to each parameter, so that no two have the same values.
struct Noise;

impl ModuleMapper<B> for Noise {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
        if !param.val().is_require_grad() {
            return param;
        }
        param.map(|tensor| {
            let noise = Distribution::Normal(0.0, 0.02);
            let noise = Tensor::random(tensor.shape(), noise, &tensor.device());
            (Tensor::from_inner(tensor.inner()) + noise).require_grad()
        })
    }
}

/// The paths of the parameters that require a gradient, with their values.
#[derive(Default)]
struct Values {
    path: Vec<String>,
    found: Vec<(String, TensorData)>,
}

impl ModuleVisitor<B> for Values {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        if param.val().is_require_grad() {
            let values = param.val().into_data();
            self.found.push((self.path.join("."), values));
        }
    }

    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.to_string());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }
}

/// Plants overflows in a model; returns the descriptions of those that were not found, and the number of all.
struct Planted;

impl Visitor for Planted {
    type Output = (Vec<String>, [usize; 2]);

    fn visit<M: ZooModel>(self, entry: &Entry, model: M) -> Self::Output {
        let device = Default::default();
        B::seed(&device, 0);
        let draw = Draw::train(entry.batch_size(Size::Tiny), 0);
        let batch = model.batch::<B>(draw, &device);
        let net = M::TrainNet::<B>::init(&model, &device).map(&mut Noise);
        name_parameters(&net);
        let mut values = Values::default();
        net.visit(&mut values);
        let step = || {
            net.loss(&batch).backward();
        };

        let before = last_overflow::<InF16>(&device);
        let (calls, _) = play(None, Vec::new(), step);
        let none = last_overflow::<InF16>(&device);
        assert_eq!(none, before, "{}: nothing was planted", entry.name);

        let mut rng = StdRng::seed_from_u64(7);
        let (mut wrong, mut planted) = (Vec::new(), [0; 2]);
        for (way, planted) in [Way::Forward, Way::Backward].into_iter().zip(&mut planted) {
            // Some calls have no influence on the loss, some are of a backward pass that does not compute.
            for _ in 0..10 * OF_EACH {
                let before = last_overflow::<InF16>(&device);
                let chosen = Some((rng.random_range(0..calls), way));
                let (_, truth) = play(chosen, values.found.clone(), step);
                let cause = last_overflow::<InF16>(&device);
                let is_new = match (&before, &cause) {
                    (Some(before), Some(cause)) => !Arc::ptr_eq(before, cause),
                    (before, cause) => before.is_some() != cause.is_some(),
                };
                let (Some(truth), Some(cause), true) = (truth, cause, is_new) else {
                    continue;
                };
                *planted += 1;
                if !is_told(&truth, way, &cause) {
                    wrong.push(format!("{}: {way:?} {truth:?}: {cause}", entry.name));
                }
                if cfg!(not(feature = "vulkan"))
                    && way == Way::Forward
                    && !is_shown_by_replay(&truth)
                {
                    wrong.push(format!("{}: not shown by replay: {truth:?}", entry.name));
                }
                if *planted == OF_EACH {
                    break;
                }
            }
        }
        (wrong, planted)
    }
}

/// Whether a diagnosis tells the truth.
fn is_told(truth: &Truth, way: Way, cause: &burn_amp::diagnose::Cause) -> bool {
    let parameters: Vec<_> = cause.parameters().collect();
    let shapes: Vec<_> = cause.operands.iter().map(|x| x.shape.clone()).collect();
    let is_of_way = match cause.what {
        NotFinite::Result => way == Way::Forward,
        NotFinite::Gradient { .. } => way == Way::Backward,
        NotFinite::Operand | NotFinite::Sum => false,
    };
    let site = cause.site.as_ref().expect("the zoo has line tables");
    is_of_way
        && cause.op == truth.op.name()
        && truth.file.ends_with(&site.file)
        && site.line == truth.line
        && parameters == truth.parameters
        && shapes == truth.shapes
}

#[test]
fn overflows_at_random_ops_are_found_at_their_op_and_line_with_their_parameters() {
    skip_lines_of_the_test();
    let (mut wrong, mut planted) = (Vec::new(), [0; 2]);
    for entry in ZOO {
        let (of_model, counts) = visit(entry.name, Size::Tiny, Planted).unwrap();
        wrong.extend(of_model);
        planted = [planted[0] + counts[0], planted[1] + counts[1]];
    }
    let _ = std::fs::remove_file(file());
    println!("planted {planted:?}, not found: {}", wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(planted.iter().sum::<usize>() >= 50, "{planted:?}");
    assert!(planted.into_iter().all(|count| count >= 20), "{planted:?}");
}

/// Compares the forward pass of a model, in which an op may have a bad kernel in F16, with F32.
struct Compared {
    bad: Option<Op>,
}

impl Visitor for Compared {
    type Output = burn_amp::diagnose::ShadowReport;

    fn visit<M: ZooModel>(self, entry: &Entry, model: M) -> Self::Output {
        let device = Default::default();
        B::seed(&device, 0);
        let draw = Draw::train(entry.batch_size(Size::Tiny), 0);
        let batch = model.batch::<B>(draw, &device);
        let net = M::TrainNet::<B>::init(&model, &device).map(&mut Noise);
        let shadowing = shadow();
        if let Some(op) = self.bad {
            fault::set(Fails::InF16(op));
        }
        net.loss(&batch);
        fault::clear();
        shadowing.finish()
    }
}

#[test]
fn a_bad_kernel_is_the_first_op_above_the_tolerance_of_a_shadow_comparison() {
    skip_lines_of_the_test();
    // A kernel, and the op that the model called when the kernel was run first.
    for (model, kernel, op) in [
        ("mlp", Op::float_matmul, Op::linear),
        ("gpt", Op::float_matmul, Op::linear),
        ("lstm", Op::float_matmul, Op::linear),
        ("resnet18", Op::conv2d, Op::conv2d),
    ] {
        let compared = |bad| visit(model, Size::Tiny, Compared { bad }).unwrap();
        let sound = compared(None);
        assert_eq!(sound.first_above(0.01), None, "{model}: {sound}");
        // It does compare: a product in F16 is rounded.
        assert!(sound.first_above(1e-5).is_some(), "{model}: {sound}");

        let report = compared(Some(kernel));
        let (file, line) = fault::first_line().expect("the model calls the op");
        let first = report.first_above(0.01).expect("an error of a quarter");
        let site = first.site.as_ref().expect("the zoo has line tables");
        assert_eq!(first.op, op.name(), "{model}: {report}");
        assert!(file.ends_with(&site.file), "{model}: {report}");
        assert_eq!(site.line, line, "{model}: {report}");
        assert!((first.worst - 0.25).abs() < 0.01, "{model}: {report}");
    }
}
