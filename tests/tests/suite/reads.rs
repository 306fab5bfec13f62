//! Law: data that the host reads have the plain backend's dtypes; the model never sees the storage dtype.

use burn::{
    record::{BytesRecorder, NamedMpkBytesRecorder},
    tensor::Transaction,
    train::metric::{
        AccuracyInput, AccuracyMetric, AurocInput, AurocMetric, ClassReduction,
        ConfusionStatsInput, FBetaScoreMetric, LossInput, LossMetric, Metric, MetricMetadata,
        Numeric, PrecisionMetric, RecallMetric,
    },
};
use burn_amp_tests::prelude::*;

/// A matrix that is the result of a `Low` op; its values are exact in every float dtype.
fn product<B: Backend>() -> Tensor<B, 2> {
    let lhs = Tensor::from_floats([[0.75, 0.25], [0.125, 0.875], [0.5, 0.25]], &here());
    lhs.matmul(Tensor::from_floats([[1.0, 0.0], [0.0, 1.0]], &here()))
}

fn is_stored_low() {
    let y = product::<Amp>();
    assert!(matches!(storage_dtype(&y), DType::F16 | DType::BF16));
    assert_eq!(y.dtype(), DType::F32);
}

fn reads<B: Backend<FloatElem = f32>>() -> Vec<TensorData> {
    let y = product::<B>();
    let device = y.device();
    let scalar: f32 = y.clone().sum().into_scalar();
    let low_scalar: f32 = y.clone().max().into_scalar();
    let vec = y.values();
    let slice = y.to_data();
    let slice = slice.as_slice::<f32>().unwrap();
    let read = vec![
        y.to_data(),
        y.clone().into_data(),
        TensorData::from([scalar, low_scalar]),
        TensorData::from(vec.as_slice()),
        TensorData::from(slice),
    ];
    let transaction = Transaction::default()
        .register(y.clone())
        .register(y.clone().exp())
        .register(Tensor::<B, 1, Int>::from_ints([1, 2], &device))
        .register(y.lower_elem(0.5))
        .execute();
    [read, transaction].concat()
}

#[test]
fn reads_and_transactions_give_the_plain_backends_data() {
    fn same() {
        is_stored_low();
        assert_eq!(reads::<Amp>(), reads::<Plain>());
    }
    for_each_low_policy!(same);
}

#[test]
fn an_explicit_cast_is_what_the_model_sees_and_what_is_stored() {
    fn casts() {
        let half = product::<Amp>().cast(DType::F16);
        assert_eq!(
            (half.dtype(), storage_dtype(&half)),
            (DType::F16, DType::F16)
        );
        let half_plain = product::<Plain>().cast(DType::F16).into_data();
        assert_eq!(half.clone().abs().into_data(), half_plain);
        // F16 and F32 operands give the same result as on a backend that promotes.
        assert_eq!((half.clone() + product()).dtype(), DType::F32);
        let full = half.cast(DType::F32);
        assert_eq!(
            (full.dtype(), storage_dtype(&full)),
            (DType::F32, DType::F32)
        );
    }
    for_each_low_policy!(casts);
}

#[test]
#[cfg_attr(
    feature = "cubecl",
    ignore = "Vulkan has no F64, and burn-cuda does not support it"
)]
fn f64_is_never_touched() {
    fn f64_reads<B: Backend>() -> Vec<TensorData> {
        let third = TensorData::from([[1.0f64 / 3.0, 1e-300], [1e300, -2.0 / 7.0]]);
        let x = Tensor::<B, 2>::from_data(third, (&here(), DType::F64));
        let product = x.clone().matmul(x.clone());
        let wide = x.clone() + product.clone().cast(DType::F64);
        [x.clone(), product, wide.sum_dim(1), x.exp()]
            .map(Tensor::into_data)
            .to_vec()
    }
    fn same() {
        let data = f64_reads::<Amp>();
        assert!(data.iter().all(|data| data.dtype == DType::F64));
        assert_eq!(data, f64_reads::<Plain>());
    }
    for_each_low_policy!(same);
}

/// A layer, and a parameter that is the result of a `Low` op: stored low, saved as F32.
type Saved<B> = (Linear<B>, Param<Tensor<B, 2>>);

fn init<B: Backend>() -> Saved<B> {
    let linear = LinearConfig::new(3, 2).init(&here());
    (linear, Param::from_tensor(product()))
}

fn goes_both_ways<R>(recorder: R)
where
    R: BytesRecorder<Plain, Vec<u8>> + BytesRecorder<Amp, Vec<u8>>,
{
    fn load<B: Backend, R: BytesRecorder<B, Vec<u8>>>(recorder: &R, bytes: Vec<u8>) -> Saved<B> {
        init().load_record(recorder.load(bytes, &here()).unwrap())
    }
    fn save<B: Backend, R: BytesRecorder<B, Vec<u8>>>(recorder: &R, model: Saved<B>) -> Vec<u8> {
        recorder.record(model.into_record(), ()).unwrap()
    }
    fn bits<B: Backend>((linear, product): &Saved<B>) -> [TensorData; 3] {
        let bias = linear.bias.as_ref().unwrap().val().into_data();
        [
            linear.weight.val().into_data(),
            bias,
            product.val().into_data(),
        ]
    }

    let amp = init::<Amp>();
    let amp_bits = bits(&amp);
    let saved = save::<Amp, R>(&recorder, amp);
    let plain = load::<Plain, R>(&recorder, saved.clone());
    assert_eq!(bits(&plain), amp_bits);
    let saved_plain = save::<Plain, R>(&recorder, plain);
    assert!(saved_plain == saved);
    assert_eq!(bits(&load::<Amp, R>(&recorder, saved_plain)), amp_bits);
}

#[test]
fn records_go_from_amp_to_plain_burn_and_back_bit_for_bit() {
    fn all_recorders() {
        goes_both_ways(BinBytesRecorder::<FullPrecisionSettings>::default());
        goes_both_ways(NamedMpkBytesRecorder::<FullPrecisionSettings>::default());
    }
    for_each_low_policy!(all_recorders);
}

fn metrics<B: Backend>() -> Vec<f64> {
    fn value<M: Metric + Numeric>(mut metric: M, input: M::Input) -> f64 {
        let progress = burn::data::dataloader::Progress::new(1, 1);
        let metadata = MetricMetadata {
            progress: progress.clone(),
            global_progress: progress,
            iteration: Some(0),
            lr: None,
        };
        metric.update(&input, &metadata);
        metric.value().current()
    }

    let scores = product::<B>();
    let device = scores.device();
    let classes = Tensor::from_ints([0, 1, 1], &device);
    let one_hot = Tensor::<B, 2, Int>::from_ints([[1, 0], [0, 1], [0, 1]], &device);
    let one_hot: Tensor<B, 2, Bool> = one_hot.bool();
    let confusion = || ConfusionStatsInput::new(scores.clone(), one_hot.clone());
    let mut values = vec![
        value(
            AccuracyMetric::new(),
            AccuracyInput::new(scores.clone(), classes.clone()),
        ),
        value(LossMetric::new(), LossInput::new(scores.clone().mean())),
        value(AurocMetric::new(), AurocInput::new(scores.clone(), classes)),
    ];
    for reduction in [ClassReduction::Micro, ClassReduction::Macro] {
        values.extend([
            value(PrecisionMetric::multiclass(1, reduction), confusion()),
            value(RecallMetric::multilabel(0.4, reduction), confusion()),
            value(FBetaScoreMetric::multiclass(2.0, 1, reduction), confusion()),
        ]);
    }
    values
}

#[test]
fn burn_trains_metrics_read_what_they_read_on_the_plain_backend() {
    fn same() {
        assert_eq!(metrics::<Amp>(), metrics::<Plain>());
    }
    for_each_low_policy!(same);
    assert!(metrics::<Plain>().iter().all(|value| *value > 0.0));
}
