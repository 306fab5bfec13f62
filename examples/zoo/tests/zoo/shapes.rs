use burn::{backend::Flex, tensor::Tensor};
use zoo::{
    Draw, Net, ZooModel,
    models::{
        bert::{Bert, BertConfig},
        gpt::{Gpt, GptConfig},
        mlp::{Mlp, MlpConfig},
        recurrent::{Recurrent, RecurrentConfig},
        resnet::{ResNet, ResNetConfig},
        tabular::{Tabular, TabularConfig},
        unet::{UNet, UNetConfig},
        wgan::{Wgan, WganConfig},
    },
};

/// The model's output for a batch of three.
fn output<M: ZooModel, const D: usize>(
    model: M,
    forward: impl Fn(&M::Net<Flex>, M::Batch<Flex>) -> Tensor<Flex, D>,
) -> [usize; D] {
    let device = Default::default();
    let net = M::Net::init(&model, &device);
    forward(&net, model.batch(Draw::train(3, 0), &device)).dims()
}

#[test]
fn classifiers_return_one_logit_per_class() {
    let mlp = |net: &Mlp<_>, batch: zoo::Labelled<_, 2>| net.forward(batch.x);
    assert_eq!(output(MlpConfig::tiny(), mlp), [3, 10]);
    assert_eq!(output(MlpConfig::tiny_medium(), mlp), [3, 10]);
    assert_eq!(output(MlpConfig::tiny_large(), mlp), [3, 32]);

    let resnet = |net: &ResNet<_>, batch: zoo::Labelled<_, 4>| net.forward(batch.x);
    assert_eq!(output(ResNetConfig::tiny(), resnet), [3, 10]);
    assert_eq!(output(ResNetConfig::tiny_50(), resnet), [3, 10]);

    let recurrent = |net: &Recurrent<_>, batch: zoo::Labelled<_, 3>| net.forward(batch.x);
    for model in [
        RecurrentConfig::tiny(),
        RecurrentConfig::tiny_bidirectional(),
        RecurrentConfig::tiny_gru(),
        RecurrentConfig::tiny_rnn(),
    ] {
        assert_eq!(output(model, recurrent), [3, 10]);
    }
}

#[test]
fn the_tabular_net_returns_one_logit_per_row() {
    let tabular = |net: &Tabular<_>, batch: zoo::models::tabular::Rows<_>| {
        net.forward(batch.categorical, batch.numeric)
    };
    assert_eq!(output(TabularConfig::tiny(), tabular), [3]);
}

#[test]
fn the_transformers_return_one_logit_per_position_and_token() {
    let bert = |net: &Bert<_>, batch: zoo::models::bert::Passages<_>| {
        net.forward(batch.sequences.tokens, batch.types)
    };
    assert_eq!(output(BertConfig::tiny(), bert), [3, 16, 64]);

    let gpt = |net: &Gpt<_>, batch: zoo::Sequences<_>| net.forward(batch.tokens);
    assert_eq!(output(GptConfig::tiny(), gpt), [3, 16, 64]);
}

#[test]
fn the_unet_returns_one_logit_per_pixel_and_the_gan_whole_images() {
    let unet = |net: &UNet<_>, batch: zoo::Masked<_>| net.forward(batch.x);
    assert_eq!(output(UNetConfig::tiny(), unet), [3, 1, 32, 32]);

    let wgan = |net: &Wgan<_>, batch: zoo::models::wgan::Images<_>| net.generate(batch.noise);
    assert_eq!(output(WganConfig::tiny(), wgan), [3, 3, 16, 16]);
}
