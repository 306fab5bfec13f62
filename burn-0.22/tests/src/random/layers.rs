//! Layers as burn-nn composes their ops. A module of Burn 0.22 has tensors of whichever backend the device is of, and a
//! random program runs on backends that no device has, so its layers call the ops themselves.

use burn_backend::ops::{ConvOptions, ConvTransposeOptions};

use crate::random::{all::*, layers::LayerSpec};

/// The numbers that norms add to a variance.
const EPSILON: f64 = 1e-5;

/// A layer, with its parameters in the order of [`shapes`].
#[derive(Clone)]
pub struct Layer<B: Backend> {
    spec: LayerSpec,
    pub parameters: Vec<FloatTensor<B>>,
}

/// The shapes of the parameters of a layer.
fn shapes(spec: LayerSpec) -> Vec<Shape> {
    match spec {
        LayerSpec::Linear {
            input,
            output,
            bias,
        } => {
            let bias = bias.then(|| vec![output]);
            [vec![input, output]].into_iter().chain(bias).collect()
        }
        LayerSpec::Conv1d {
            input,
            output,
            kernel,
        } => vec![vec![output, input, kernel], vec![output]],
        LayerSpec::Conv2d {
            input,
            output,
            kernel,
        } => vec![vec![output, input, kernel, kernel], vec![output]],
        LayerSpec::ConvTranspose1d {
            input,
            output,
            kernel,
        } => vec![vec![input, output, kernel], vec![output]],
        LayerSpec::ConvTranspose2d {
            input,
            output,
            kernel,
        } => vec![vec![input, output, kernel, kernel], vec![output]],
        LayerSpec::BatchNorm { channels }
        | LayerSpec::GroupNorm { channels, .. }
        | LayerSpec::InstanceNorm { channels } => vec![vec![channels]; 2],
        LayerSpec::LayerNorm { width } => vec![vec![width]; 2],
        LayerSpec::RmsNorm { width } => vec![vec![width]],
        LayerSpec::Lstm { input, hidden } => gates(4, input, hidden),
        LayerSpec::Gru { input, hidden } => gates(3, input, hidden),
        LayerSpec::Attention { width, .. } => repeated(&[vec![width, width], vec![width]], 4),
        LayerSpec::Embedding { words, width } => vec![vec![words, width]],
    }
}

fn repeated(shapes: &[Shape], times: usize) -> Vec<Shape> {
    (0..times).flat_map(|_| shapes.to_vec()).collect()
}

/// A weight and a bias for the operand of each gate, and for the state.
fn gates(count: usize, input: usize, hidden: usize) -> Vec<Shape> {
    let of = |size| [vec![size, hidden], vec![hidden]];
    repeated(&[of(input), of(hidden)].concat(), count)
}

impl LayerSpec {
    /// Makes the layer; its parameters are drawn with `seed`: weights of about unit gain, factors near 1.
    pub fn init<B: Backend>(self, to: &Setting<B>, seed: u64) -> Layer<B> {
        let mut rng = Rng::new(seed);
        let parameters = shapes(self).into_iter().map(|shape| {
            let inputs = shape[..shape.len() - 1].iter().product::<usize>().max(1);
            let gain = (3.0 / inputs as f64).sqrt().min(1.0);
            let is_vector = shape.len() == 1;
            let noise = to.noise(shape, rng.bits());
            let values = match is_vector {
                true => B::float_add_scalar(B::float_mul_scalar(noise, 0.5.into()), 0.75.into()),
                false => B::float_mul_scalar(noise, gain.into()),
            };
            B::float_set_require_grad(values, true)
        });
        Layer {
            spec: self,
            parameters: parameters.collect(),
        }
    }
}

impl<B: AutodiffBackend> Layer<B> {
    /// Runs the layer.
    pub fn forward(&self, x: FloatTensor<B>) -> FloatTensor<B> {
        let own = |place: usize| self.parameters[place].clone();
        let bias = || self.parameters.get(1).cloned();
        match self.spec {
            LayerSpec::Linear { .. } => linear::<B>(x, own(0), bias()),
            LayerSpec::Conv1d { .. } => {
                B::conv1d(x, own(0), bias(), ConvOptions::new([1], [0], [1], 1))
            }
            LayerSpec::Conv2d { .. } => B::conv2d(
                x,
                own(0),
                bias(),
                ConvOptions::new([1; 2], [0; 2], [1; 2], 1),
            ),
            LayerSpec::ConvTranspose1d { .. } => B::conv_transpose1d(
                x,
                own(0),
                bias(),
                ConvTransposeOptions::new([1], [0], [0], [1], 1),
            ),
            LayerSpec::ConvTranspose2d { .. } => B::conv_transpose2d(
                x,
                own(0),
                bias(),
                ConvTransposeOptions::new([1; 2], [0; 2], [0; 2], [1; 2], 1),
            ),
            LayerSpec::BatchNorm { .. } => B::batch_norm_train(x, own(0), own(1), EPSILON).output,
            LayerSpec::GroupNorm { groups, .. } => group_norm::<B>(x, groups, own(0), own(1)),
            LayerSpec::InstanceNorm { channels } => group_norm::<B>(x, channels, own(0), own(1)),
            LayerSpec::LayerNorm { .. } => B::layer_norm(x, own(0), bias(), EPSILON),
            LayerSpec::RmsNorm { .. } => {
                let last = x.rank() - 1;
                let square = B::float_mul(x.clone(), x.clone());
                let mean = B::float_mean_dim(square, last);
                let rms = B::float_sqrt(B::float_add_scalar(mean, EPSILON.into()));
                let shape = beside::<B>(&x, last);
                B::float_mul(B::float_div(x, rms), B::float_reshape(own(0), shape))
            }
            LayerSpec::Lstm { hidden, .. } => self.lstm(x, hidden),
            LayerSpec::Gru { hidden, .. } => self.gru(x, hidden),
            LayerSpec::Attention { width, heads } => self.attention(x, width, heads),
            LayerSpec::Embedding { words, .. } => {
                let [rows, columns] = x.shape().dims();
                let places = (0..(rows * columns) as i64).map(|place| place * 7 % words as i64);
                let places = TensorData::new(places.collect::<Vec<_>>(), [rows, columns]);
                let settings = get_device_settings::<B>(&x.device());
                let places = places.convert_dtype(settings.int_dtype.into());
                B::embedding(own(0), B::int_from_data(places, &x.device()))
            }
        }
    }

    /// A gate before its activation function: the sum of what it makes of the operand and of the state.
    fn gate(&self, number: usize, x: FloatTensor<B>, state: FloatTensor<B>) -> FloatTensor<B> {
        B::float_add(self.part(2 * number, x), self.part(2 * number + 1, state))
    }

    /// The linear layer of this number.
    fn part(&self, number: usize, x: FloatTensor<B>) -> FloatTensor<B> {
        let own = |place: usize| self.parameters[place].clone();
        linear::<B>(x, own(2 * number), Some(own(2 * number + 1)))
    }

    fn lstm(&self, x: FloatTensor<B>, hidden: usize) -> FloatTensor<B> {
        let mut cell = state::<B>(&x, hidden);
        let mut state = cell.clone();
        let mut states = vec![];
        for step in steps::<B>(&x) {
            let gate = |number| self.gate(number, step.clone(), state.clone());
            let (forget, input) = (B::sigmoid(gate(0)), B::sigmoid(gate(1)));
            let (output, candidate) = (B::sigmoid(gate(2)), B::float_tanh(gate(3)));
            cell = B::float_add(B::float_mul(forget, cell), B::float_mul(input, candidate));
            state = B::float_mul(output, B::float_tanh(cell.clone()));
            states.push(as_step::<B>(state.clone()));
        }
        B::float_cat(states, 1)
    }

    fn gru(&self, x: FloatTensor<B>, hidden: usize) -> FloatTensor<B> {
        let mut state = state::<B>(&x, hidden);
        let mut states = vec![];
        for step in steps::<B>(&x) {
            let gate = |number| B::sigmoid(self.gate(number, step.clone(), state.clone()));
            let (update, reset) = (gate(0), gate(1));
            let kept = B::float_mul(reset, self.part(5, state.clone()));
            let candidate = B::float_tanh(B::float_add(self.part(4, step.clone()), kept));
            let difference = B::float_sub(state, candidate.clone());
            state = B::float_add(candidate, B::float_mul(update, difference));
            states.push(as_step::<B>(state.clone()));
        }
        B::float_cat(states, 1)
    }

    fn attention(&self, x: FloatTensor<B>, width: usize, heads: usize) -> FloatTensor<B> {
        let [batch, length, _] = x.shape().dims();
        let split = |number: usize| {
            let part = self.part(number, x.clone());
            let part = B::float_reshape(part, [batch, length, heads, width / heads].into());
            B::float_swap_dims(part, 1, 2)
        };
        let (query, key, value) = (split(0), split(1), split(2));
        let scores = B::float_matmul(query, B::float_transpose(key));
        let root = ((width / heads) as f64).sqrt();
        let weights = B::softmax(B::float_div_scalar(scores, root.into()), 3);
        let context = B::float_swap_dims(B::float_matmul(weights, value), 1, 2);
        self.part(3, B::float_reshape(context, [batch, length, width].into()))
    }
}

fn linear<B: Backend>(
    x: FloatTensor<B>,
    weight: FloatTensor<B>,
    bias: Option<FloatTensor<B>>,
) -> FloatTensor<B> {
    let last = x.rank() - 1;
    let shape: Shape = [vec![1; last - 1], weight.shape().to_vec()].concat();
    let product = B::float_matmul(x, B::float_reshape(weight, shape.into()));
    match bias {
        Some(bias) => {
            let shape = beside::<B>(&product, last);
            B::float_add(product, B::float_reshape(bias, shape))
        }
        None => product,
    }
}

/// The shape of a vector along a dimension of `x`.
fn beside<B: Backend>(x: &FloatTensor<B>, dim: usize) -> burn_backend::Shape {
    let mut shape = vec![1; x.rank()];
    shape[dim] = x.shape()[dim];
    shape.into()
}

fn group_norm<B: Backend>(
    x: FloatTensor<B>,
    groups: usize,
    gamma: FloatTensor<B>,
    beta: FloatTensor<B>,
) -> FloatTensor<B> {
    let shape = x.shape();
    let per_group = shape.num_elements() / (shape[0] * groups);
    let vector = beside::<B>(&x, 1);
    let rows = B::float_reshape(x, [shape[0], groups, per_group].into());
    let centred = B::float_sub(rows.clone(), B::float_mean_dim(rows, 2));
    let variance = B::float_mean_dim(B::float_mul(centred.clone(), centred.clone()), 2);
    let deviation = B::float_sqrt(B::float_add_scalar(variance, EPSILON.into()));
    let normalized = B::float_reshape(B::float_div(centred, deviation), shape);
    let scaled = B::float_mul(normalized, B::float_reshape(gamma, vector.clone()));
    B::float_add(scaled, B::float_reshape(beta, vector))
}

/// The first state: zeros.
fn state<B: Backend>(x: &FloatTensor<B>, hidden: usize) -> FloatTensor<B> {
    let shape = [x.shape()[0], hidden];
    B::float_zeros(shape.into(), &x.device(), x.dtype().into())
}

/// The operand of each step of a recurrent layer.
fn steps<B: Backend>(x: &FloatTensor<B>) -> Vec<FloatTensor<B>> {
    let [batch, length, width] = x.shape().dims();
    let step = |place: usize| {
        let range = |end: usize| Slice::new(0, Some(end as isize), 1);
        let at = Slice::new(place as isize, Some(place as isize + 1), 1);
        let step = B::float_slice(x.clone(), &[range(batch), at, range(width)]);
        B::float_reshape(step, [batch, width].into())
    };
    (0..length).map(step).collect()
}

/// A state as one step of the result.
fn as_step<B: Backend>(state: FloatTensor<B>) -> FloatTensor<B> {
    let [batch, hidden] = state.shape().dims();
    B::float_reshape(state, [batch, 1, hidden].into())
}
