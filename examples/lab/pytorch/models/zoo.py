"""The table of all models, by the name that the command line and the JSON use."""

from . import bert, convnext, diffusion, gpt, mlp, mobilenet, recurrent, resnet, tabular, unet, wgan, yolox
from .spec import Objective, Spec


def _mlp(full, tiny, batch_size_full: int) -> Spec:
    return Spec(
        mlp.Mlp, full, tiny, mlp.batch, mlp.output,
        (Objective("loss", mlp.loss),), batch_size_full, 8,
    )


def _resnet(full, tiny) -> Spec:
    return Spec(
        resnet.ResNet, full, tiny, resnet.batch, resnet.output,
        (Objective("loss", resnet.loss),), 128, 4,
    )


def _recurrent(cell: str) -> Spec:
    return Spec(
        recurrent.Recurrent,
        lambda: recurrent.RecurrentConfig.full(cell),
        lambda: recurrent.RecurrentConfig.tiny(cell),
        recurrent.batch, recurrent.output, (Objective("loss", recurrent.loss),), 256, 8,
    )


ZOO: dict[str, Spec] = {
    "mlp": _mlp(mlp.MlpConfig.full, mlp.MlpConfig.tiny, 256),
    "mlp-medium": _mlp(mlp.MlpConfig.full_medium, mlp.MlpConfig.tiny_medium, 1024),
    "mlp-large": _mlp(mlp.MlpConfig.full_large, mlp.MlpConfig.tiny_large, 4096),
    "tabular": Spec(
        tabular.Tabular, tabular.TabularConfig.full, tabular.TabularConfig.tiny,
        tabular.batch, tabular.output, (Objective("loss", tabular.loss),), 4096, 8,
    ),
    "resnet18": _resnet(resnet.ResNetConfig.full, resnet.ResNetConfig.tiny),
    "resnet50": _resnet(resnet.ResNetConfig.full_50, resnet.ResNetConfig.tiny_50),
    "unet": Spec(
        unet.UNet, unet.UNetConfig.full, unet.UNetConfig.tiny,
        unet.batch, unet.output, (Objective("loss", unet.loss),), 32, 2,
    ),
    "bert": Spec(
        bert.Bert, bert.BertConfig.full, bert.BertConfig.tiny,
        bert.batch, bert.output, (Objective("loss", bert.loss),), 64, 4,
    ),
    "gpt": Spec(
        gpt.Gpt, gpt.GptConfig.full, gpt.GptConfig.tiny,
        gpt.batch, gpt.output, (Objective("loss", gpt.loss),), 8, 4,
    ),
    "lstm": _recurrent("lstm"),
    "bilstm": _recurrent("bilstm"),
    "gru": _recurrent("gru"),
    "rnn": _recurrent("rnn"),
    "wgan": Spec(
        wgan.Wgan, wgan.WganConfig.full, wgan.WganConfig.tiny, wgan.batch, wgan.output,
        (
            Objective("critic", wgan.critic_loss, lambda gan: gan.critic, wgan.clip_critic),
            Objective("generator", wgan.generator_loss, lambda gan: gan.generator),
        ), 128, 4,
    ),
    "mobilenet": Spec(
        mobilenet.MobileNet, mobilenet.MobileNetConfig.full, mobilenet.MobileNetConfig.tiny,
        mobilenet.batch, mobilenet.output, (Objective("loss", mobilenet.loss),), 128, 4,
    ),
    "convnext": Spec(
        convnext.ConvNext, convnext.ConvNextConfig.full, convnext.ConvNextConfig.tiny,
        convnext.batch, convnext.output, (Objective("loss", convnext.loss),), 64, 4,
    ),
    "yolox": Spec(
        yolox.Yolox, yolox.YoloxConfig.full, yolox.YoloxConfig.tiny,
        yolox.batch, yolox.output, (Objective("loss", yolox.loss),), 32, 4,
    ),
    "diffusion": Spec(
        diffusion.Diffusion, diffusion.DiffusionConfig.full, diffusion.DiffusionConfig.tiny,
        diffusion.batch, diffusion.output, (Objective("loss", diffusion.loss),), 64, 4,
    ),
}
