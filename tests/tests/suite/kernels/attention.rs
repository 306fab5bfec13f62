//! Attention as one op, compared with Burn's composition of it in F32, and its gradients with those of Burn's `Autodiff`.

use burn::tensor::ops::{AttentionModuleOptions, attention::attention_fallback};
use burn_amp_kernels::attention::Attention;
use burn_amp_tests::prelude::*;

/// The backend of the reference. On burn-cubecl 0.21.0, the composition has other gradients where a query has no keys.
type Reference = burn::backend::Autodiff<burn::backend::Flex>;

const BATCH: usize = 2;
const HEADS: usize = 3;
const WIDTH: usize = 8;

/// An attention, with its numbers of queries and keys in `positions`.
struct Case {
    name: &'static str,
    positions: [usize; 2],
    /// Whether a random mask leaves out half of the pairs, and the last query altogether.
    is_masked: bool,
    /// The shape of a bias.
    bias: Option<[usize; 4]>,
    options: AttentionModuleOptions,
}

fn case(name: &'static str, change: fn(&mut Case)) -> Case {
    let mut case = Case {
        name,
        positions: [6, 6],
        is_masked: false,
        bias: None,
        options: AttentionModuleOptions::default(),
    };
    change(&mut case);
    case
}

fn cases() -> Vec<Case> {
    vec![
        case("plain", |_| {}),
        case("to other positions", |it| it.positions = [5, 9]),
        case("masked", |it| it.is_masked = true),
        case("causal", |it| it.options.is_causal = true),
        case("causal with fewer keys than queries", |it| {
            it.positions = [7, 4];
            it.options.is_causal = true;
        }),
        case("with a scale", |it| it.options.scale = Some(0.7)),
        case("with a soft cap", |it| it.options.softcap = Some(1.5)),
        case("with a bias", |it| it.bias = Some([BATCH, HEADS, 6, 6])),
        case("with everything, and a bias per head", |it| {
            it.is_masked = true;
            it.bias = Some([1, HEADS, 6, 6]);
            it.options = AttentionModuleOptions {
                scale: Some(0.4),
                softcap: Some(2.0),
                is_causal: true,
            };
        }),
    ]
}

fn primitive<B: Backend>(tensor: Tensor<B, 4>) -> FloatTensor<B> {
    tensor.into_primitive().tensor()
}

/// The output and the gradients of query, key, value and bias, in F64.
type Results = Vec<Vec<f64>>;

fn results<B: AutodiffBackend>(
    case: &Case,
    dtype: DType,
    compute: impl Fn(Attention<B>) -> FloatTensor<B>,
) -> Results {
    let [queries, keys] = case.positions;
    let shapes = [queries, keys, keys].map(|n| [BATCH, HEADS, n, WIDTH]);
    let mut seed = 1;
    let mut noise = |shape: [usize; 4]| {
        seed += 1;
        let values = super::rows::noise(shape.iter().product(), seed);
        // Rounded to the dtype, so that all dtypes compute from the same numbers.
        let data = TensorData::new(values, shape).convert_dtype(DType::F16);
        Tensor::<B, 4>::from_data(data.convert::<f32>(), &here())
    };
    let leaves: Vec<_> = shapes
        .into_iter()
        .chain(case.bias)
        .map(|shape| noise(shape).require_grad())
        .collect();
    let gradient = noise(shapes[0]);
    let mask = case.is_masked.then(|| {
        let pair = |i: usize| i * 7 % 5 < 2 || i / keys % queries == queries - 1;
        let mask: Vec<_> = (0..BATCH * HEADS * queries * keys).map(pair).collect();
        let shape = [BATCH, HEADS, queries, keys];
        Tensor::<B, 4, Bool>::from_data(TensorData::new(mask, shape), &here()).into_primitive()
    });
    let operand = |i: usize| primitive(leaves[i].clone().cast(dtype));
    let output = compute(Attention {
        query: operand(0),
        key: operand(1),
        value: operand(2),
        mask,
        bias: case.bias.map(|_| primitive(leaves[3].clone())),
        options: case.options,
    });
    let output = Tensor::<B, 4>::from_primitive(TensorPrimitive::Float(output)).cast(DType::F32);
    let grads = (output.clone() * gradient).sum().backward();
    let read = |data: TensorData| data.iter::<f64>().collect();
    let gradients = leaves
        .iter()
        .map(|leaf| read(leaf.grad(&grads).unwrap().into_data()));
    std::iter::once(read(output.into_data()))
        .chain(gradients)
        .collect()
}

/// The error of all numbers together, over their size. Burn's composition gives NaN to the bias of a query without keys;
/// there, the gradient is 0.
fn error(actual: &[f64], expected: &[f64]) -> f64 {
    let norm = |values: Vec<f64>| values.iter().map(|x| x * x).sum::<f64>().sqrt();
    let expected: Vec<_> = expected
        .iter()
        .map(|x| if x.is_nan() { 0.0 } else { *x })
        .collect();
    let error = actual.iter().zip(&expected).map(|(a, b)| a - b).collect();
    norm(error) / norm(expected).max(f64::MIN_POSITIVE)
}

#[test]
fn outputs_and_gradients_are_those_of_burns_composition_in_f32() {
    for case in cases() {
        let expected = results::<Reference>(&case, DType::F32, |operands| {
            attention_fallback::<Reference>(
                operands.query,
                operands.key,
                operands.value,
                operands.mask,
                operands.bias,
                operands.options,
            )
        });
        for dtype in super::rows::dtypes() {
            if dtype == DType::F64 {
                continue;
            }
            let actual = results::<PlainAutodiff>(
                &case,
                dtype,
                burn_amp_kernels::attention::forward::<PlainAutodiff>,
            );
            assert_eq!(actual.len(), expected.len());
            for (i, (actual, expected)) in actual.iter().zip(&expected).enumerate() {
                // CUDA's matrix units round F32 operands to the 11 bits of TF32.
                let epsilon = match dtype {
                    DType::F32 if cfg!(feature = "cuda") => 2f64.powi(-10),
                    dtype => dtype.finfo().unwrap().epsilon,
                };
                // Scores of up to 16 are rounded, and their exponentials magnify that.
                let tolerance = 20.0 * epsilon;
                let error = error(actual, expected);
                assert!(
                    error <= tolerance,
                    "{} in {dtype:?}, result {i}: error {error}",
                    case.name
                );
            }
        }
    }
}

#[test]
fn a_query_without_keys_gets_nothing_and_gives_no_gradient() {
    let case = cases().remove(2);
    let [queries, _] = case.positions;
    for dtype in super::rows::dtypes() {
        let results = results::<PlainAutodiff>(
            &case,
            dtype,
            burn_amp_kernels::attention::forward::<PlainAutodiff>,
        );
        for tensor in &results[..2] {
            let rows = tensor.chunks(WIDTH).enumerate();
            let masked = rows.filter(|(i, _)| i % queries == queries - 1);
            assert!(masked.flat_map(|(_, row)| row).all(|x| *x == 0.0));
        }
        assert!(results.iter().flatten().all(|x| x.is_finite()));
    }
}
