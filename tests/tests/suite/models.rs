//! Law: models with nothing about precision in their code give results and gradients near those in F32; the gradients
//! of their parameters are F32.

use burn::backend::autodiff::checkpoint::strategy::BalancedCheckpointing;
use burn_amp_tests::{
    models::{self, Example, run},
    near::assert_near,
    prelude::*,
};

/// The parameters with which every backend starts an example. They are drawn where the reference is computed: in one of 60
/// draws a gradient in front of a group norm is so much smaller than its addends that rounding those to BF16 costs more
/// than the tolerance, and each backend draws other numbers.
fn record<E: Example>() -> Vec<u8> {
    seeded::<ReferenceAutodiff, _>(|device| E::init(device))
}

fn assert_gradients_are_stored_in_f32<B, M>(model: &M, grads: &B::Gradients)
where
    B: AutodiffBackend<InnerBackend: Amped>,
    M: Module<B>,
{
    struct Check<'a, B: AutodiffBackend>(&'a B::Gradients);

    impl<B: AutodiffBackend<InnerBackend: Amped>> ModuleVisitor<B> for Check<'_, B> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
            if let Some(gradient) = param.val().grad(self.0) {
                assert_eq!(storage_dtype(&gradient), DType::F32);
            }
        }
    }

    model.visit(&mut Check::<B>(grads));
}

fn is_near_f32<E: Example>() {
    let record = record::<E>();
    let expected = run::<E, ReferenceAutodiff>(&record, |_, _| ());
    let found = run::<E, AmpAutodiff>(&record, |model, grads| {
        assert_gradients_are_stored_in_f32::<AmpAutodiff, _>(model, grads);
    });
    // A low op rounds by half an epsilon. The deepest example has some 30 of them on the way from a parameter to the
    // loss and back, whose random errors add up to √30 / 2 epsilons. Some gradients are sums over a batch with addends
    // that are two or three times as large as the sum.
    let tolerance = 8.0 * epsilon();
    assert_near(&found.results, &expected.results, tolerance);
    assert_near(&found.gradients, &expected.gradients, tolerance);
}

/// The two graphs differ in their nodes: one casts the operands of products in nodes of their own. A backend that fuses makes other
/// kernels of their ops, and a gradient in F16 may be its neighbour then.
fn is_recomputed_to_the_same_bits<E: Example>() {
    let _policy = enter::<InF16>();
    let record = record::<E>();
    let stored = run::<E, AmpAutodiff>(&record, |_, _| ());
    let recomputed = run::<E, burn_amp::Autodiff<Amp, BalancedCheckpointing>>(&record, |_, _| ());
    if cfg!(feature = "fusion") {
        assert_near(&recomputed.results, &stored.results, epsilon());
        assert_near(&recomputed.gradients, &stored.gradients, epsilon());
    } else {
        assert_eq!(recomputed, stored);
    }
}

/// Declares a test per example. A macro, because a function cannot declare tests.
macro_rules! tests {
    ($($name:ident: $example:ident;)+) => {
        $(#[test]
        fn $name() {
            fn is_near() {
                is_near_f32::<models::$example>();
            }
            for_each_low_policy!(is_near);
            is_recomputed_to_the_same_bits::<models::$example>();
        })+
    };
}

tests! {
    multi_head_attention_is_near_f32_and_recomputable: MultiHeadAttention;
    a_transformer_encoder_is_near_f32_and_recomputable: TransformerEncoder;
    an_lstm_is_near_f32_and_recomputable: Lstm;
    a_gru_is_near_f32_and_recomputable: Gru;
    an_embedding_is_near_f32_and_recomputable: Embedding;
    group_norm_is_near_f32_and_recomputable: GroupNorm;
    rms_norm_is_near_f32_and_recomputable: RmsNorm;
    layer_norm_is_near_f32_and_recomputable: LayerNorm;
    batch_norm_is_near_f32_and_recomputable: BatchNorm;
    convolutions_are_near_f32_and_recomputable: Convolutions;
    resizing_is_near_f32_and_recomputable: Resize;
    max_pooling_is_near_f32_and_recomputable: MaxPooling;
    average_pooling_is_near_f32_and_recomputable: AveragePooling;
    adaptive_pooling_is_near_f32_and_recomputable: AdaptivePooling;
    ctc_loss_is_near_f32_and_recomputable: Ctc;
    smoothed_cross_entropy_is_near_f32_and_recomputable: SmoothedCrossEntropy;
    binary_cross_entropy_with_logits_is_near_f32_and_recomputable: BceWithLogits;
    softmax_after_mask_fill_is_near_f32_and_recomputable: MaskFilledSoftmax;
    division_by_epsilon_is_near_f32_and_recomputable: DivisionWithEpsilon;
    the_attention_op_is_near_f32_and_recomputable: AttentionOp;
}
