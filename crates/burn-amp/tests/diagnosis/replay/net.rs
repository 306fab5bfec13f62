//! A net with most kinds of layers.

use super::*;

/// Layers of many kinds: embedded tokens, an image, a batch norm, an attention with a mask, dropout.
#[derive(Module, Debug)]
pub(super) struct Net<B: Backend> {
    embedding: Embedding<B>,
    norm: LayerNorm<B>,
    attention: MultiHeadAttention<B>,
    dropout: Dropout,
    conv: Conv2d<B>,
    batch_norm: BatchNorm<B>,
    gate: Linear<B>,
    head: Linear<B>,
}

impl<B: Backend> Net<B> {
    pub(super) fn new(device: &B::Device) -> Self {
        Self {
            embedding: EmbeddingConfig::new(11, 16).init(device),
            norm: LayerNormConfig::new(16).init(device),
            attention: MultiHeadAttentionConfig::new(16, 2).init(device),
            dropout: DropoutConfig::new(0.1).init(),
            conv: Conv2dConfig::new([1, 4], [3, 3])
                .with_padding(PaddingConfig2d::Same)
                .init(device),
            batch_norm: BatchNormConfig::new(4).init(device),
            gate: LinearConfig::new(16, 16).init(device),
            head: LinearConfig::new(16, 5).init(device),
        }
    }

    pub(super) fn loss(
        &self,
        tokens: Tensor<B, 2, Int>,
        targets: Tensor<B, 1, Int>,
    ) -> Tensor<B, 1> {
        let device = tokens.device();
        let [batch, length] = tokens.dims();
        let x = self.embedding.forward(tokens);
        let mask = Tensor::<B, 2, Bool>::tril_mask([length, length], 0, &device);
        let mask = mask.unsqueeze::<3>().expand([batch, length, length]);
        let input = MhaInput::self_attn(self.norm.forward(x.clone())).mask_attn(mask);
        let x = x + self.dropout.forward(self.attention.forward(input).context);
        let noise = Tensor::random([1, 1, 16], Distribution::Default, &device);
        let gated = sigmoid(self.gate.forward(x.clone())) * x.clone() + noise;
        let image = gated.reshape([batch, 1, length, 16]);
        let image = relu(self.batch_norm.forward(self.conv.forward(image)));
        let x = x + image.mean_dim(1).squeeze_dim::<3>(1);
        let [low, high] = x.chunk(2, 1).try_into().expect("two halves");
        let x = Tensor::cat(vec![high, low.slice([0..batch, 0..1])], 1);
        let logits = self.head.forward(x.max_dim(1).squeeze_dim::<2>(1));
        CrossEntropyLossConfig::new()
            .init(&device)
            .forward(logits, targets)
    }
}

/// A step of the net at a loss scale at which its gradients overflow.
pub(super) fn step_of_net<P: ConfigSource>() -> (Step, Replayed) {
    let device = Default::default();
    B::<P>::seed(&device, 3);
    let net = Net::<B<P>>::new(&device);
    name_parameters(&net);
    let tokens = Tensor::<B<P>, 2, Int>::from_data([[1, 2, 3, 4], [5, 6, 10, 0]], &device);
    let targets = Tensor::<B<P>, 1, Int>::from_data([1, 4], &device);
    // What came before the step is not a part of it.
    net.loss(tokens.clone(), targets.clone()).backward();
    replayed::<P>(|| {
        net.loss(tokens, targets).backward();
    })
}

written!(LargeScale, in_f16(2f32.powi(30)));

#[test]
fn a_step_of_a_net_at_too_large_a_scale_has_the_same_bits_and_is_finite_in_f32_and_f64() {
    let (step, replayed) = step_of_net::<LargeScale>();
    assert_same(&step, &replayed);
    assert_eq!(step.scale, Some(2f32.powi(30)));
    assert!(step.outside.iter().all(|outside| !outside.is_cut));
    let names = step
        .outside
        .iter()
        .filter_map(|outside| outside.parameter.as_deref());
    let names: Vec<_> = names.collect();
    assert!(names.contains(&"attention.query.weight"), "{names:?}");
    for form in [&replayed.f32, &replayed.f64] {
        let form = form.as_ref().unwrap();
        assert_eq!(form.cause, None);
        assert!(
            form.first_not_finite()
                .is_none_or(|at| step.calls[at].op == "float_mask_fill")
        );
    }
}
