//! What most tests name.

pub use std::panic::{AssertUnwindSafe, catch_unwind};

pub use burn::{
    backend::{Autodiff, Flex, autodiff::checkpoint::strategy},
    grad_clipping::GradientClippingConfig,
    module::{AutodiffModule, Module, ModuleMapper, ModuleVisitor, Param},
    nn::{
        BatchNorm, BatchNormConfig, Embedding, EmbeddingConfig, LayerNorm, LayerNormConfig, Linear,
        LinearConfig, Relu,
        attention::{MhaInput, MultiHeadAttention, MultiHeadAttentionConfig},
        conv::{Conv2d, Conv2dConfig},
        loss::CrossEntropyLossConfig,
    },
    optim::{
        AdaGradConfig, AdamConfig, AdamWConfig, AdanConfig, GradientsAccumulator, GradientsParams,
        MuonConfig, Optimizer, RmsPropConfig, SgdConfig, adaptor::OptimizerAdaptor,
        decay::WeightDecayConfig, momentum::MomentumConfig,
    },
    prelude::ElementConversion,
    record::{
        BinBytesRecorder, BinFileRecorder, FullPrecisionSettings, HalfPrecisionSettings, Record,
        Recorder,
    },
    tensor::{
        Bool, DType, Distribution, FloatDType, Int, Shape, Tensor, TensorData, TensorMetadata,
        TensorPrimitive,
        activation::{gelu, relu, sigmoid, softmax},
        backend::{AutodiffBackend, Backend},
        ops::{BoolTensorOps, FloatTensorOps},
    },
};
pub use burn_amp::{
    AmpBackend, cast_params, cast_params_to,
    config::{Class, Op, Precision, Preset},
    extend::Amped,
    full_precision, loss_scale,
    optim::{
        AmpAdaptor, AmpOptimizer, Clipping, LossScaleOptimizer, MasterWeights, Masters,
        OptimizerConfig,
    },
    scaling::{Outcome, name_parameters},
    storage_dtype, thresholds,
};
pub use burn_backend::{
    BoolDType, IntDType, Scalar, Slice, get_device_settings, read_sync,
    tensor::{BoolTensor, Device, FloatTensor, IndexingUpdateOp, IntTensor, QuantizedTensor},
};

pub use crate::{
    Amp, AmpAutodiff, Compute, Config, ConfigSource, DynamicLossScale, InBf16, InF16,
    LossScaleConfig, LossScaleMode, OneByOne, Plain, PlainAutodiff, ReferenceAutodiff, References,
    UnscaledF16, changed, computing_in, enter, enter_config, for_each_low_policy, in_bf16, in_f16,
    models::{load, noise, save, seeded},
    near::{epsilon, precision},
    policy, scaling,
    short::{Values, activation, bytes_of, from_bytes, here, reloaded, says, stepped},
    under_each, within,
};
