//! The smallest exact checkpoint, and one that burn-amp 0.1 has written.

use std::path::Path;

use burn::{
    module::ModuleMapper,
    record::NamedMpkGzFileRecorder,
    tensor::{TensorData, bf16},
};
use burn_amp::optim::MasterModel;

use super::*;

policy!(StoredBf16, in_bf16(|it| it.preset = Preset::O2));

type Layer = Linear<B>;
type Together = LossScaleOptimizer<AmpAdaptor<AdamWConfig, Layer, B>>;

fn optimizer() -> Together {
    let adam = AmpOptimizer::new(AdamWConfig::new()).with_masters(Masters::Bits24);
    adam.with_moments(Moments::Bits8).init()
}

/// Takes steps with gradients that are the same on every processor.
fn train(mut layer: Layer, optimizer: &mut Together, steps: std::ops::Range<usize>) -> Layer {
    for step in steps {
        let slopes = |shape: Shape| {
            let values = (0..shape.num_elements())
                .map(|at| ((at * 7919 + step * 104_729) % 257) as f32 / 128.0 - 1.0);
            let data = TensorData::new(values.collect::<Vec<_>>(), shape);
            Tensor::<B, 1>::from_data(data.convert::<bf16>(), (&here(), DType::BF16))
        };
        let sum = |param: Tensor<B, 1>| (slopes(param.shape()) * param).sum();
        let loss = sum(layer.weight.val().flatten(0, 1)) + sum(layer.bias.as_ref().unwrap().val());
        let grads = GradientsParams::from_grads(loss.backward(), &layer);
        layer = optimizer.step(1e-4, layer, grads);
    }
    layer
}

fn recorder() -> NamedMpkGzFileRecorder<FullPrecisionSettings> {
    NamedMpkGzFileRecorder::default()
}

fn write(directory: &Path, layer: &Layer, optimizer: &Together) {
    let (recorder, record) = (recorder(), layer.clone().into_record());
    Recorder::<B>::record(&recorder, record, directory.join("model")).unwrap();
    let record = Optimizer::<Layer, B>::to_record(optimizer);
    Recorder::<B>::record(&recorder, record, directory.join("optimizer")).unwrap();
}

fn read(directory: &Path, width: usize) -> (Layer, Together) {
    let (recorder, layer) = (recorder(), new(width));
    let record = Recorder::<B>::load(&recorder, directory.join("model"), &here()).unwrap();
    let layer = layer.load_record(record);
    let record = Recorder::<B>::load(&recorder, directory.join("optimizer"), &here()).unwrap();
    (
        layer,
        Optimizer::<Layer, B>::load_record(optimizer(), record),
    )
}

fn new(width: usize) -> Layer {
    cast_params(LinearConfig::new(width, width).init(&here()))
}

/// The bits of the parameters and of their masters.
fn bits(layer: &Layer, optimizer: &Together) -> [Vec<u8>; 2] {
    let masters = optimizer.inner().master_model(layer.clone());
    [layer, &masters].map(|layer| save::<B, _>(layer.clone()))
}

#[test]
fn a_checkpoint_takes_five_bytes_per_parameter_and_resumes_exactly() {
    let _policy = enter::<StoredBf16>();
    const WIDTH: usize = 512;
    let directory = tempfile::tempdir().unwrap();
    let mut first = optimizer();
    let layer = train(new(WIDTH), &mut first, 0..20);
    write(directory.path(), &layer, &first);
    let bytes = ["model.mpk.gz", "optimizer.mpk.gz"].map(|name| {
        let metadata = fs::metadata(directory.path().join(name)).unwrap();
        metadata.len() as f64 / (WIDTH * WIDTH) as f64
    });
    println!(
        "bytes per parameter: model {:.3}, optimizer {:.3}",
        bytes[0], bytes[1]
    );
    assert!(bytes.iter().sum::<f64>() <= 5.1, "{bytes:?}");

    let (resumed, mut second) = read(directory.path(), WIDTH);
    let resumed = train(resumed, &mut second, 20..40);
    let layer = train(layer, &mut first, 20..40);
    assert!(bits(&layer, &first) == bits(&resumed, &second));
}

/// Sets weights to fixed values, and keeps their ids.
struct Restart;

impl ModuleMapper<B> for Restart {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
        param.map(|tensor| {
            let values = (0..tensor.shape().num_elements())
                .map(|at| bf16::from_f32((at % 241) as f32 / 120.0 - 1.0));
            let data = TensorData::new(values.collect::<Vec<_>>(), tensor.shape());
            Tensor::from_data(data, (&tensor.device(), DType::BF16)).require_grad()
        })
    }
}

/// The files of `tests/data`, which later versions do not write anew, are read as what they were written from.
#[test]
fn a_checkpoint_of_burn_amp_0_1_is_read() {
    let _policy = enter::<StoredBf16>();
    const WIDTH: usize = 64;
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/checkpoint-0.1");
    if std::env::var_os("BLESS").is_some() && !directory.exists() {
        fs::create_dir_all(&directory).unwrap();
        let mut optimizer = optimizer();
        let layer = train(new(WIDTH).map(&mut Restart), &mut optimizer, 0..4);
        write(&directory, &layer, &optimizer);
    }
    let (layer, mut loaded) = read(&directory, WIDTH);
    let mut optimizer = optimizer();
    let expected = train(layer.clone().map(&mut Restart), &mut optimizer, 0..4);
    assert!(bits(&layer, &loaded) == bits(&expected, &optimizer));
    let layer = train(layer, &mut loaded, 4..8);
    let expected = train(expected, &mut optimizer, 4..8);
    assert!(bits(&layer, &loaded) == bits(&expected, &optimizer));
}
