//! Law: what is said about the gradients and updates of a run is what the host counts.

use burn::tensor::f16;
use burn_amp::{
    config::HealthConfig,
    diagnose::{Counts, Updates, health},
    replay::{Step, gradient_ranges, write_next_step},
};
use burn_amp_tests::prelude::*;

type B = AmpAutodiff;

/// A model of one row of weights.
#[derive(Module, Debug)]
struct Row<B: Backend> {
    weight: Param<Tensor<B, 2>>,
}

impl Row<B> {
    /// The row of some weights, stored as the preset says.
    fn of(weights: &[f32]) -> Self {
        let data = TensorData::new(weights.to_vec(), [1, weights.len()]);
        cast_params(Self {
            weight: Param::from_data(data, &here()),
        })
    }

    /// A loss whose gradient is `factors`.
    fn loss(&self, factors: &[f32]) -> Tensor<B, 1> {
        let factors = TensorData::new(factors.to_vec(), [1, factors.len()]);
        (self.weight.val() * Tensor::from_data(factors, &here())).sum()
    }
}

fn watched(preset: Preset) -> Config {
    in_f16(|it| {
        it.preset = preset;
        it.loss_scale.mode = LossScaleMode::Static;
        it.loss_scale.rule.init = 1.0;
        it.health = HealthConfig { every: 1 };
    })
}

policy!(Low, watched(Preset::O2));
policy!(Full, watched(Preset::O1));

const LR: f64 = 1.0 / 1024.0;

/// Weights between 2^-10 and 2^5, and gradients of which some are 0: powers of two, so that no product is rounded.
fn weights_and_gradients() -> (Vec<f32>, Vec<f32>) {
    let weight = |at: usize| {
        let rounded = f16::from_f32(1.0 + (at * 37 % 101) as f32 / 101.0);
        rounded.to_f32() * 2f32.powi(at as i32 % 16 - 10)
    };
    let gradient = |at: usize| match at % 5 {
        0 => 0.0,
        sign => 2f32.powi(at as i32 % 7 - 3) * (sign as f32 - 2.5).signum(),
    };
    let all = |of: &dyn Fn(usize) -> f32| (0..200).map(of).collect();
    (all(&weight), all(&gradient))
}

/// Makes a step, and returns the only parameter's update.
fn update<P: ConfigSource>(masters: Masters) -> Updates {
    let _policy = enter::<P>();
    let (weights, gradients) = weights_and_gradients();
    let mut optimizer = AmpOptimizer::new(SgdConfig::new())
        .with_masters(masters)
        .init();
    let row = Row::of(&weights);
    let loss = row.loss(&gradients);
    let _ = stepped(&mut optimizer, LR, loss, row);
    let looks = health::<B>(&here());
    looks.last().expect("every step is looked at").parameters[0].update
}

#[test]
fn lost_updates_are_those_of_the_host_and_none_under_masters() {
    let (weights, gradients) = weights_and_gradients();
    let mut expected = Updates::default();
    for (weight, gradient) in weights.iter().zip(&gradients) {
        let moved = f16::from_f32(weight - LR as f32 * gradient).to_f32();
        expected.due += u64::from(*gradient != 0.0);
        expected.lost += u64::from(*gradient != 0.0 && moved == *weight);
    }
    assert!(
        expected.lost > 20 && expected.lost < expected.due - 20,
        "{expected:?}"
    );
    assert_eq!(update::<Low>(Masters::None), expected);
    let none = Updates {
        lost: 0,
        ..expected
    };
    assert_eq!(update::<Low>(Masters::F32), none);
    assert_eq!(update::<Full>(Masters::F32), none);
}

#[test]
fn gradients_are_counted_by_where_they_are_in_the_range_of_the_compute_dtype() {
    let _policy = enter::<Low>();
    let gradients = [0.0, 1e-5, -3e-6, 1e-9, 0.5, 2e4, -4e4, 1.0];
    let row = Row::of(&[1.0; 8]);
    let loss = row.loss(&gradients);
    let mut optimizer = AmpOptimizer::new(AdamConfig::new()).init();
    let _ = stepped(&mut optimizer, LR, loss, row);
    let looks = health::<B>(&here());
    let look = looks.last().unwrap();
    let in_f16 = gradients.map(|x| f64::from(f16::from_f32(x)));
    assert_eq!(
        look.parameters[0].gradient,
        Counts::of(in_f16.into_iter(), Precision::F16)
    );
    assert_eq!(look.parameters[0].name, "weight");
    assert_eq!((look.scale, look.clip), (Some(1.0), None));
}

/// A frozen layer with an update of low rank beside it.
#[derive(Module, Debug)]
struct LowRank<B: Backend> {
    base: Tensor<B, 2>,
    down: Param<Tensor<B, 2>>,
    up: Param<Tensor<B, 2>>,
}

/// The length of a sequence, and its width.
const SIZES: [usize; 2] = [512, 32];

impl<B: Backend> LowRank<B> {
    fn new() -> Self {
        let tensor = |rows: usize, columns: usize, size: f32| {
            let value = |at: usize| ((at * 37 % 101) as f32 / 50.5 - 1.0) * size;
            let values: Vec<f32> = (0..rows * columns).map(value).collect();
            TensorData::new(values, [rows, columns])
        };
        let [_, width] = SIZES;
        Self {
            base: Tensor::from_data(tensor(width, width, 0.2), &here()),
            down: Param::from_data(tensor(width, 4, 0.2), &here()),
            up: Param::from_data(tensor(4, width, 0.01), &here()),
        }
    }

    /// The mean of all tokens and features, as a language model's loss is one.
    fn loss(&self) -> Tensor<B, 1> {
        let [length, width] = SIZES;
        let value = |at: usize| (at * 53 % 97) as f32 / 48.5 - 1.0;
        let values: Vec<f32> = (0..length * width).map(value).collect();
        let x = Tensor::<B, 2>::from_data(TensorData::new(values, SIZES), &here());
        let low = x.clone().matmul(self.down.val()).matmul(self.up.val());
        let y = x.clone().matmul(self.base.clone()) + low;
        (y - x).square().mean() * 1e-4
    }
}

/// The smallest loss scale that keeps the gradients of [`LowRank`], as is found.
const LEAST_SCALE: f32 = 131_072.0;

fn fixed_at(scale: f32) -> Config {
    in_f16(|it| {
        it.loss_scale.mode = LossScaleMode::Static;
        it.loss_scale.rule.init = scale;
    })
}

policy!(AtScale1, fixed_at(1.0));
policy!(AtLeastScale, fixed_at(LEAST_SCALE));

/// The scenario of a fine-tuning in F16 without loss scaling, in which gradients vanish without a word.
#[test]
fn what_f16_flushes_of_a_step_is_counted_exactly_and_a_scale_that_keeps_it_is_found() {
    let file = std::env::temp_dir().join(format!("{}_low_rank.safetensors", std::process::id()));
    let step = || {
        let model = LowRank::<B>::new();
        name_parameters(&model);
        write_next_step::<B>(&here(), &file);
        let grads = model.loss().backward();
        let grads = [&model.down, &model.up].map(|weight| weight.grad(&grads).unwrap().values());
        let step = Step::read(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        (step, grads)
    };
    let model = LowRank::<PlainAutodiff>::new();
    let grads = model.loss().backward();
    let exact = [&model.down, &model.up].map(|weight| weight.grad(&grads).unwrap().values());

    let (unscaled, found) = within::<AtScale1, _>(step);
    let ranges = gradient_ranges::<Flex>(&unscaled, &Default::default()).unwrap();
    let mut all = 0;
    for ((name, found), exact) in ["down", "up"].into_iter().zip(found).zip(exact) {
        let pairs = found.iter().zip(&exact);
        let flushed = pairs.filter(|(x, y)| **x == 0.0 && **y != 0.0).count() as u64;
        let row = ranges.gradients.iter().find(|row| row.of == name).unwrap();
        assert_eq!(row.flushed, flushed, "{name}: {ranges}");
        all += flushed;
    }
    assert!(all > 10, "{ranges}");

    let (least, largest) = ranges.scales();
    assert_eq!(least, f64::from(LEAST_SCALE), "{ranges}");
    assert!(least < largest, "{ranges}");
    let (scaled, _) = within::<AtLeastScale, _>(step);
    let ranges = gradient_ranges::<Flex>(&scaled, &Default::default()).unwrap();
    let lost =
        |row: &burn_amp::replay::GradientRange| row.flushed as f64 / row.counts.elements as f64;
    assert!(
        ranges.gradients.iter().all(|row| lost(row) <= 4e-3),
        "{}",
        ranges.to_text(true)
    );
}
