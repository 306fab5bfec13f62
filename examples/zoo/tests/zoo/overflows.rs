//! Law: where a model reads a parameter that is beyond F16, the op is found, at a line of the model, with the
//! parameter's name.

use burn::{
    module::{Module, ModuleMapper, ModuleVisitor, Param},
    prelude::*,
};
use burn_amp::{
    config::{Locate, LossScaleMode},
    diagnose::{NotFinite, last_overflow},
    scaling::name_parameters,
};
use burn_amp_tests::{enter, in_f16, policy};
use zoo::{Draw, Entry, Net, Size, Visitor, ZOO, ZooModel, visit};

use super::Mixed as B;

policy!(
    Searched,
    in_f16(|it| {
        // A scale that does not move, because every pass overflows.
        it.loss_scale.mode = LossScaleMode::Static;
        it.loss_scale.rule.init = 1.0;
        it.overflow.locate = Locate::Always;
    })
);

/// A number beyond F16, whose square is one of F32.
const PLANTED: f32 = 1e7;

/// The number of parameters of each model that are planted, one after the other.
const OF_EACH: usize = 5;

/// Fills parameter number `at` with [`PLANTED`].
struct Plant {
    at: usize,
    seen: usize,
}

impl ModuleMapper<B> for Plant {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
        let is_planted = self.seen == self.at;
        self.seen += 1;
        if !is_planted {
            return param;
        }
        param.map(|tensor| Tensor::full(tensor.shape(), PLANTED, &tensor.device()).require_grad())
    }
}

/// The paths of the parameters that require a gradient, and their numbers among all.
#[derive(Default)]
struct Paths {
    path: Vec<String>,
    found: Vec<(usize, String)>,
    seen: usize,
}

impl ModuleVisitor<B> for Paths {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        if param.val().is_require_grad() {
            self.found.push((self.seen, self.path.join(".")));
        }
        self.seen += 1;
    }

    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.to_string());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }
}

struct Planted;

impl Visitor for Planted {
    /// The number of overflows that were found in the forward pass.
    type Output = usize;

    fn visit<M: ZooModel>(self, entry: &Entry, model: M) -> usize {
        let device = Default::default();
        B::seed(&device, 0);
        let draw = Draw::train(entry.batch_size(Size::Tiny), 0);
        let batch = model.batch::<B>(draw, &device);
        let net = M::TrainNet::<B>::init(&model, &device);
        let mut paths = Paths::default();
        net.visit(&mut paths);
        let all = paths.found.len();
        let chosen = (0..OF_EACH).map(|at| &paths.found[at * (all - 1) / (OF_EACH - 1)]);
        chosen
            .map(|(at, path)| self.found(entry.name, net.clone(), &batch, *at, path))
            .sum()
    }
}

impl Planted {
    /// Plants an overflow in one parameter and checks what is found.
    fn found<N: Net<B>>(
        &self,
        model: &str,
        net: N,
        batch: &<N::Model as ZooModel>::Batch<B>,
        at: usize,
        path: &str,
    ) -> usize {
        let before = last_overflow::<B>(&Default::default());
        let net = net.map(&mut Plant { at, seen: 0 });
        name_parameters(&net);
        net.loss(batch).backward();
        let Some(cause) = last_overflow::<B>(&Default::default()) else {
            return 0;
        };
        if before.is_some_and(|before| std::sync::Arc::ptr_eq(&before, &cause)) {
            return 0;
        }
        // The op reads the parameter, or what another op has made of it in F32. Where nothing overflows in the forward pass,
        // a gradient may.
        let is_named = cause.parameters().any(|name| name == path);
        let is_large = |x: f64| x.abs() > 65504.0;
        let mut operands = cause.operands.iter();
        let reads_it =
            operands.any(|operand| is_large(operand.range.min) || is_large(operand.range.max));
        let is_of_forward = cause.what == NotFinite::Result;
        assert!(
            is_named || reads_it || !is_of_forward,
            "{model}, {path}: {cause}"
        );
        if is_of_forward {
            let operands = cause.operands.iter();
            let were_finite = operands.map(|operand| operand.range.is_finite());
            assert!(were_finite.min() == Some(true), "{model}, {path}: {cause}");
        }
        let site = cause.site.as_ref().expect("the zoo has line tables");
        assert!(site.file.contains("src/"), "{model}, {path}: {cause}");
        usize::from(is_of_forward)
    }
}

#[test]
fn a_parameter_beyond_f16_is_found_where_it_is_read() {
    let _policy = enter::<Searched>();
    let found: usize = ZOO
        .iter()
        .map(|entry| visit(entry.name, Size::Tiny, Planted).unwrap())
        .sum();
    // A norm after the parameter may make its values small again in F32, and then nothing overflows.
    println!(
        "{found} of {} overflow in the forward pass",
        OF_EACH * ZOO.len()
    );
    assert!(found >= 30, "{found}");
}
