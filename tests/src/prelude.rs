//! What most tests name.

pub use burn::{
    module::{AutodiffModule, Module, ModuleMapper, ModuleVisitor, Param},
    nn::{LayerNorm, LayerNormConfig, Linear, LinearConfig},
    optim::{
        AdamConfig, AdamWConfig, GradientsAccumulator, GradientsParams, Optimizer, RmsPropConfig,
        SgdConfig, momentum::MomentumConfig,
    },
    prelude::ElementConversion,
    record::{BinBytesRecorder, FullPrecisionSettings, Recorder},
    tensor::{
        Bool, DType, Distribution, FloatDType, Int, Shape, Tensor, TensorData, TensorMetadata,
        TensorPrimitive,
        backend::{AutodiffBackend, Backend},
        ops::FloatTensorOps,
    },
};
pub use burn_amp::{
    cast_params, cast_params_to,
    config::{Class, Op, Precision, Preset},
    loss_scale,
    optim::{AmpOptimizer, LossScaleOptimizer},
    scaling::Outcome,
    storage_dtype,
};
pub use burn_backend::{
    read_sync,
    tensor::{BoolTensor, FloatTensor, IntTensor},
};

pub use crate::{
    Amp, AmpAutodiff, Compute, Config, ConfigSource, DynamicLossScale, InBf16, InF16,
    LossScaleConfig, LossScaleMode, OneByOne, Plain, PlainAutodiff, ReferenceAutodiff, References,
    changed, computing_in, enter, enter_config, for_each_low_policy, in_bf16, in_f16,
    models::{load, noise, save, seeded},
    near::{epsilon, precision},
    policy, scaling,
    short::{Values, here, stepped},
    under_each, within,
};
