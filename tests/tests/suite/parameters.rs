//! Law: a rule in `[parameters]` has the bits of `full_precision`.

use burn_amp::config::ParamPattern;
use burn_amp_tests::prelude::*;

/// F16, which every backend under test has, at a scale that does not matter.
fn with_rules(rules: &[(&str, Class)]) -> Config {
    let rule = |(pattern, class): &(&str, Class)| (ParamPattern::new(*pattern).unwrap(), *class);
    in_f16(|it| {
        it.parameters = rules.iter().map(rule).collect();
        it.loss_scale.rule.init = 1.0;
        it.loss_scale.rule.search = false;
    })
}

policy!(HeadInF32, with_rules(&[("1.*", Class::Full)]));
policy!(NoRules, with_rules(&[]));
policy!(AllLow, with_rules(&[("*", Class::Low)]));

type B = AmpAutodiff;

/// A body, `0`, and a head, `1`.
type Model<B> = [Linear<B>; 2];

/// The same values under every policy.
fn model<P: ConfigSource>() -> Model<B> {
    let _policy = enter::<P>();
    let model = [1.0, 0.5].map(|factor| {
        let mut linear = LinearConfig::new(8, 8).with_bias(false).init(&here());
        let values = noise::<B>(64, &here()).reshape([8, 8]) * factor;
        linear.weight = linear.weight.map(|_| values.detach().require_grad());
        linear
    });
    name_parameters(&model);
    model
}

fn input<B: Backend>() -> Tensor<B, 2> {
    noise(32, &here()).reshape([4, 8])
}

fn dtypes<A: Amped>(model: &Model<A>) -> [DType; 2] {
    let [body, head] = model;
    let hidden = body.forward(input());
    let result = head.forward(hidden.clone());
    [hidden, result].map(|tensor| storage_dtype(&tensor))
}

#[test]
fn only_the_ops_that_read_a_matching_parameter_run_in_f32() {
    let _policy = enter::<HeadInF32>();
    let model = model::<HeadInF32>();
    assert_eq!(dtypes(&model), [DType::F16, DType::F32]);
    assert_eq!(dtypes(&model.valid()), [DType::F16, DType::F32]);
}

#[test]
fn a_view_of_a_parameter_counts_as_the_parameter() {
    let _policy = enter::<HeadInF32>();
    let [body, head] = model::<HeadInF32>();
    let product = |linear: &Linear<B>| input().matmul(linear.weight.val().transpose());
    assert_eq!(storage_dtype(&product(&body)), DType::F16);
    assert_eq!(storage_dtype(&product(&head)), DType::F32);
    let reshaped = head.weight.val().reshape([4, 16]).reshape([8, 8]);
    assert_eq!(storage_dtype(&input().matmul(reshaped)), DType::F32);
    // What an op computes from a parameter is not the parameter.
    let computed = head.weight.val() * 2.0;
    assert_eq!(storage_dtype(&input().matmul(computed)), DType::F16);
}

type Head<B> = fn(&Linear<B>, Tensor<B, 2>) -> Tensor<B, 2>;

#[test]
fn a_rule_has_the_bits_of_full_precision_forward_and_backward() {
    fn values<P: ConfigSource>(head_of: Head<B>) -> Vec<TensorData> {
        let _policy = enter::<P>();
        let model = model::<P>();
        let [body, head] = &model;
        let result = head_of(head, body.forward(input()));
        let gradients = result.clone().square().mean().backward();
        let mut values = vec![result.to_data()];
        values.extend(model.iter().map(|linear| {
            let gradient = linear.weight.val().grad(&gradients);
            gradient.expect("nothing overflows").to_data()
        }));
        values
    }
    let by_rule = values::<HeadInF32>(|head, x| head.forward(x));
    let by_scope = values::<NoRules>(|head, x| full_precision(|| head.forward(x)));
    assert_eq!(by_rule, by_scope);
}

#[test]
fn an_amp_optimizer_keeps_the_rules_from_step_to_step() {
    let _policy = enter::<HeadInF32>();
    let mut model = model::<HeadInF32>();
    let mut optimizer = AmpOptimizer::new(AdamConfig::new()).init::<B, Model<_>>();
    for _ in 0..3 {
        let [body, head] = &model;
        let loss = head.forward(body.forward(input())).square().mean();
        model = stepped(&mut optimizer, 1e-3, loss, model);
        assert_eq!(dtypes(&model), [DType::F16, DType::F32]);
    }
}

#[test]
fn low_lowers_no_sums_and_products_of_parameters() {
    let _policy = enter::<AllLow>();
    let [body, _] = model::<AllLow>();
    let weight = body.weight.val();
    assert_eq!(storage_dtype(&(weight.clone() * 0.9)), DType::F32);
    assert_eq!(
        storage_dtype(&(weight.clone() + weight.clone())),
        DType::F32
    );
    assert_eq!(storage_dtype(&weight.exp()), DType::F16);
}

#[test]
fn a_parameter_without_a_name_has_no_rule_until_it_has_one() {
    let _policy = enter::<Nameless>();
    policy!(Nameless, with_rules(&[("1.*", Class::Full)]));
    let model: Model<B> = [(); 2].map(|()| LinearConfig::new(8, 8).with_bias(false).init(&here()));
    assert_eq!(dtypes(&model), [DType::F16, DType::F16]);
    name_parameters(&model);
    assert_eq!(dtypes(&model), [DType::F16, DType::F32]);
}
