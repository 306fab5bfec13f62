//! Law: a step of each model, run on the plain backend of these tests and call by call on Flex, differs nowhere by more than
//! its dtypes allow, in any precision. If a kernel is wrong, the first call that computes with it is named, forward and
//! backward.
//!
//! * [`wrong`]: below `Amp`, makes a kernel wrong

mod wrong;

use std::path::PathBuf;

use burn::backend::Flex;
use burn_amp::{
    config::LossScaleMode,
    replay::{Comparison, Side, Step, TensorDifference, compare, write_next_step},
    scaling::name_parameters,
};
use burn_amp_core::Op;
#[cfg(feature = "vulkan")]
use burn_amp_tests::computing_in;
#[cfg(not(feature = "vulkan"))]
use burn_amp_tests::in_bf16;
use burn_amp_tests::{enter, in_f16, policy};
use instrumented::Instrumented;
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use zoo::{Draw, Entry, Net, Size, Visitor, ZOO, ZooModel, visit};

use self::wrong::{Key, Kind, Seen, Wrong};
use super::{Mixed as B, Plain};

/// The plain backend with a kernel that may be wrong.
type Subject = Instrumented<Plain, Wrong>;

/// A file for each thread, as the tests may run side by side.
fn file() -> PathBuf {
    let of = (std::process::id(), std::thread::current().id());
    std::env::temp_dir().join(format!("{of:?}_compared.safetensors"))
}

policy!(
    F16,
    in_f16(|it| {
        it.loss_scale.mode = LossScaleMode::Static;
        it.loss_scale.rule.init = 16.0;
    })
);
#[cfg(not(feature = "vulkan"))]
policy!(Bf16, in_bf16(|_| {}));
#[cfg(feature = "vulkan")]
policy!(F32, computing_in(burn_amp::config::Compute::F32));

/// Writes a step of a model.
struct Written;

impl Visitor for Written {
    type Output = Step;

    fn visit<M: ZooModel>(self, entry: &Entry, model: M) -> Step {
        let device = Default::default();
        let draw = Draw::train(entry.batch_size(Size::Tiny), 0);
        let batch = model.batch::<B>(draw, &device);
        let net = M::TrainNet::<B>::init(&model, &device);
        name_parameters(&net);
        write_next_step::<B>(&device, file());
        net.loss(&batch).backward();
        let step = Step::read(&file()).unwrap_or_else(|error| panic!("{}: {error}", entry.name));
        std::fs::remove_file(file()).unwrap();
        step
    }
}

/// How many times as far as its dtype allows a value may be. On Vulkan convolutions add up in F16.
const TOLERANCE: f64 = if cfg!(feature = "vulkan") { 16.0 } else { 1.0 };

/// Compares a step, in which a kernel may be wrong.
fn compared(
    name: &str,
    step: &Step,
    tolerance: f64,
    bug: Option<(Key, Kind)>,
) -> (Comparison, Seen) {
    wrong::set(bug);
    let subject = Side::<Subject> {
        device: &Default::default(),
        path: "crate::Subject",
        all_in: None,
    };
    let reference = Side::<Flex> {
        device: &Default::default(),
        path: "burn::backend::Flex",
        all_in: None,
    };
    let compared = compare(step, &subject, &reference, tolerance, wrong::begins);
    let compared = compared.unwrap_or_else(|error| panic!("{name}: {error}"));
    (compared, wrong::take())
}

/// The number of kernels that are wrong in a model, forward and backward each.
const OF_EACH: usize = if cfg!(feature = "vulkan") { 6 } else { 2 };

/// The calls of the largest model in which kernels are wrong: each wrong one is a comparison of all calls.
const MOST_CALLS: usize = 100;

/// Whether of a result only the signs are read, as in the gradient of a leaky ReLU of images: no rounding of it changes another one.
fn tells_signs(Key { op, operands }: &Key) -> bool {
    let is_of_images = operands.iter().any(|(shape, _)| shape.num_dims() == 4);
    *op == Op::float_recip && is_of_images
}

#[test]
fn the_first_call_that_computes_with_a_wrong_kernel_is_named() {
    let _policy = enter::<F16>();
    let mut rng = StdRng::seed_from_u64(11);
    let (mut missed, mut planted) = (Vec::new(), [0; 2]);
    for entry in ZOO {
        let step = visit(entry.name, Size::Tiny, Written).unwrap();
        if step.calls.len() > MOST_CALLS {
            continue;
        }
        let (mut sound, seen) = compared(entry.name, &step, 1.0, None);
        if cfg!(feature = "vulkan") {
            // The kernels of the first run may be others than those that tuning takes for the later ones.
            (sound, _) = compared(entry.name, &step, 1.0, None);
        }
        let behind = step.calls.len();
        for (way, planted) in [false, true].into_iter().zip(&mut planted) {
            let is_of_way = |(at, key, elements): &&(usize, Key, usize)| {
                (*at == behind) == way && *elements >= 64 && !tells_signs(key)
            };
            let keys: Vec<_> = seen.calls.iter().filter(is_of_way).collect();
            let mut count = 0;
            for _ in 0..20 * OF_EACH {
                let (_, key, _) = keys.choose(&mut rng).expect("a step has calls both ways");
                let kind = Kind::ALL[rng.random_range(0..Kind::ALL.len())];
                if kind == Kind::DroppedTerm && !wrong::is_sum(key.op) {
                    continue;
                }
                let (found, seen) = compared(entry.name, &step, 1.0, Some((key.clone(), kind)));
                let [whole, alone] = seen.hits;
                let forward = whole.iter().copied().find(|at| *at < behind);
                // A backward pass goes through the calls from the last to the first.
                let first =
                    forward.or_else(|| alone.iter().copied().filter(|at| *at < behind).max());
                let Some(first) = first.filter(|_| forward.is_none() == way) else {
                    continue;
                };
                count += 1;
                let is_new = |difference: &&TensorDifference| {
                    // What the backend is known for, as far off as it was.
                    let is_like = |other: &TensorDifference| {
                        (other.call, other.what) == (difference.call, difference.what)
                            && difference.subject.rms < 2.0 * other.subject.rms
                    };
                    !sound.differences.iter().any(is_like)
                };
                let named = found.differences.iter().find(is_new);
                let named = named.map(|difference| difference.call);
                // Of several calls that compute with the kernel, the first may be off by no more than its dtype allows.
                let is_wrong = |at| at == first || forward.is_some() && whole.contains(&at);
                if !named.is_some_and(is_wrong) {
                    let text = found.to_text(&step, false);
                    missed.push(format!(
                        "{}: {kind:?} {key:?} of call {first}: {text}",
                        entry.name
                    ));
                }
                if count == OF_EACH {
                    break;
                }
            }
            *planted += count;
        }
    }
    println!("planted {planted:?}, not named: {}", missed.len());
    assert!(missed.is_empty(), "{}", missed.join("\n"));
    assert!(
        planted.iter().all(|count| *count >= 6 * OF_EACH),
        "{planted:?}"
    );
}

/// Whether a difference is one that Burn's backend is known for.
fn is_known(difference: &TensorDifference, step: &Step) -> bool {
    let call = &step.calls[difference.call];
    let is_of_convolution = call.op.starts_with("conv");
    cfg!(feature = "vulkan")
        && match difference.dtype.is_low() {
            // Its gradient is that of the approximation by a tangent.
            _ if call.op == "gelu" => true,
            // It adds up in F16, where there is no matrix unit.
            true => is_of_convolution,
            // The gradient of its input is zero, if its stride is larger than its window.
            false => is_of_convolution && difference.found == 0.0,
        }
}

fn differ(precision: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for entry in ZOO {
        let step = visit(entry.name, Size::Tiny, Written).unwrap();
        let (mut comparison, _) = compared(entry.name, &step, TOLERANCE, None);
        comparison
            .differences
            .retain(|difference| !is_known(difference, &step));
        println!(
            "{} in {precision}: {} results, {} gradients, {} differ, {} not compared",
            entry.name,
            comparison.results,
            comparison.gradients,
            comparison.differences.len(),
            comparison.not_compared.len(),
        );
        let is_whole = comparison.results > 0 && comparison.gradients > 0;
        if !comparison.differences.is_empty() || !comparison.not_compared.is_empty() || !is_whole {
            wrong.push(format!(
                "{} in {precision}: {}",
                entry.name,
                comparison.to_text(&step, true)
            ));
        }
    }
    wrong
}

#[test]
fn no_call_of_a_model_differs_from_flex_by_more_than_its_dtypes_allow() {
    let mut wrong = Vec::new();
    {
        let _policy = enter::<F16>();
        wrong.extend(differ("f16"));
    }
    // The software driver has no BF16.
    #[cfg(feature = "vulkan")]
    {
        let _policy = enter::<F32>();
        wrong.extend(differ("f32"));
    }
    #[cfg(not(feature = "vulkan"))]
    {
        let _policy = enter::<Bf16>();
        wrong.extend(differ("bf16"));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
