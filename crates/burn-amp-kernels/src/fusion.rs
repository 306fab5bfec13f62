//! The ops under Fusion: each is an operation of the stream that computes on the backend below.
//!
//! Elementwise ops keep the reference: Fusion fuses Burn's ops with their neighbours.

use std::{fmt, marker::PhantomData};

use burn_backend::{ops::AttentionModuleOptions, tensor::FloatTensor};
use burn_fusion::{Fusion, FusionBackend, FusionRuntime, FusionTensor, stream::Operation};
use burn_ir::{CustomOpIr, HandleContainer, OperationIr, TensorIr};

use crate::{
    AmpBackend,
    kernel::{Kernel, Meta, Tensors, TensorsOf},
    names::device_of,
    reading::Reading,
    tensors::has_f64,
};

impl<B: FusionBackend + AmpBackend> AmpBackend for Fusion<B> {
    fn run<K: Kernel>(kernel: K, operands: TensorsOf<Self>) -> TensorsOf<Self> {
        // In F64 the backend below computes the reference, which may have results of other kinds.
        if K::IS_FUSED || !K::READS_F64 && has_f64(&operands.floats) {
            return kernel.reference::<Self>(operands);
        }
        let results = kernel.results(&operands.metas());
        let compute = move |operands| B::run(kernel.clone(), operands);
        register::<B>(K::NAME, operands, results, compute)
    }

    fn fuses_elementwise() -> bool {
        true
    }

    fn prepare(device: &Self::Device) {
        B::prepare(device);
        // Burn 0.22 lets nobody change what `burn.toml` says.
        #[cfg(not(burn_0_22))]
        search_one_block();
    }

    fn runs_low_products(device: &Self::Device) -> bool {
        B::runs_low_products(device)
    }

    fn is_same(one: &FloatTensor<Self>, other: &FloatTensor<Self>) -> bool {
        one.id == other.id && device_of::<Self>(one) == device_of::<Self>(other)
    }

    fn read_later(tensor: FloatTensor<Self>) -> Reading {
        let client = tensor.client.clone();
        B::read_later(client.resolve_tensor_float::<B>(tensor))
    }

    fn has_attention_kernel(options: &AttentionModuleOptions, has_bias: bool) -> bool {
        B::has_attention_kernel(options, has_bias)
    }
}

/// Makes Fusion search one block of ops at a time, in the whole process, unless `burn.toml` asks for another number than Burn's
/// default. Streams that exist keep theirs.
///
/// Of several blocks, Fusion adds what reads the result of an op of ours to the block of this op, in which nothing is fused.
/// The only block ends with the op, so what comes after it is fused.
#[cfg(not(burn_0_22))]
fn search_one_block() {
    use burn_std::config::{BurnConfig, RuntimeConfig, fusion::BeamSearchConfig};

    let mut config = BurnConfig::clone(&BurnConfig::get());
    let blocks = &mut config.fusion.beam_search.max_blocks;
    if *blocks == BeamSearchConfig::default().max_blocks {
        *blocks = 1;
        *BurnConfig::storage().lock() = Some(config.into());
    }
}

/// A float, int or bool tensor of `Fusion<B>`.
type Tensor<B> = FusionTensor<<B as FusionBackend>::FusionRuntime>;

/// Registers an op with results of these shapes and dtypes.
fn register<B: FusionBackend>(
    name: &'static str,
    operands: Tensors<Tensor<B>>,
    results: Tensors<Meta>,
    compute: impl Fn(TensorsOf<B>) -> TensorsOf<B> + Send + Sync + 'static,
) -> Tensors<Tensor<B>> {
    let client = operands.floats[0].client.clone();
    let counts = [operands.floats.len(), operands.ints.len()];
    let result_counts = [results.floats.len(), results.ints.len()];
    let operands = all(operands);
    #[cfg(not(burn_0_22))]
    let streams = burn_fusion::stream::OperationStreams::with_inputs(&operands);
    #[cfg(burn_0_22)]
    let streams = burn_fusion::stream::StreamId::current();
    let uninit = |(shape, dtype)| TensorIr::uninit(client.create_empty_handle(), shape, dtype);
    let results: Vec<_> = all(results).into_iter().map(uninit).collect();
    let operands: Vec<_> = operands.into_iter().map(FusionTensor::into_ir).collect();
    let desc = CustomOpIr::new(name, &operands, &results);
    let operation = Custom {
        desc: desc.clone(),
        counts,
        compute,
        backend: PhantomData::<fn() -> B>,
    };
    let mut floats = client.register(streams, OperationIr::Custom(desc), operation);
    let mut ints = floats.split_off(result_counts[0]);
    let bools = ints.split_off(result_counts[1]);
    Tensors {
        floats,
        ints,
        bools,
    }
}

/// The floats, then the ints, then the bools.
fn all<T>(tensors: Tensors<T>) -> Vec<T> {
    let Tensors {
        floats,
        ints,
        bools,
    } = tensors;
    floats.into_iter().chain(ints).chain(bools).collect()
}

/// An operation of the stream: its description, and how the backend below computes it.
struct Custom<B, F> {
    desc: CustomOpIr,
    /// The numbers of float operands and of int operands; the others are bools.
    counts: [usize; 2],
    compute: F,
    backend: PhantomData<fn() -> B>,
}

impl<B, F> fmt::Debug for Custom<B, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Custom").field(&self.desc).finish()
    }
}

impl<B, F> Operation<B::FusionRuntime> for Custom<B, F>
where
    B: FusionBackend,
    F: Fn(TensorsOf<B>) -> TensorsOf<B> + Send + Sync,
{
    #[cfg(not(burn_0_22))]
    fn execute(&self, handles: &mut HandlesOf<B>) {
        self.compute(handles);
    }

    #[cfg(burn_0_22)]
    fn execute(&self, handles: &mut HandlesOf<B>) -> Result<(), burn_backend::ExecutionError> {
        self.compute(handles);
        Ok(())
    }
}

type HandlesOf<B> =
    HandleContainer<<<B as FusionBackend>::FusionRuntime as FusionRuntime>::FusionHandle>;

impl<B, F> Custom<B, F>
where
    B: FusionBackend,
    F: Fn(TensorsOf<B>) -> TensorsOf<B>,
{
    fn compute(&self, handles: &mut HandlesOf<B>) {
        let (floats, others) = self.desc.inputs.split_at(self.counts[0]);
        let (ints, bools) = others.split_at(self.counts[1]);
        let results = (self.compute)(Tensors {
            floats: floats
                .iter()
                .map(|operand| handles.get_float_tensor::<B>(operand))
                .collect(),
            ints: ints
                .iter()
                .map(|operand| handles.get_int_tensor::<B>(operand))
                .collect(),
            bools: bools
                .iter()
                .map(|operand| handles.get_bool_tensor::<B>(operand))
                .collect(),
        });
        let mut places = self.desc.outputs.iter().map(|place| &place.id);
        for (result, place) in results.floats.into_iter().zip(places.by_ref()) {
            handles.register_float_tensor::<B>(place, result);
        }
        for (result, place) in results.ints.into_iter().zip(places.by_ref()) {
            handles.register_int_tensor::<B>(place, result);
        }
        for (result, place) in results.bools.into_iter().zip(places) {
            handles.register_bool_tensor::<B>(place, result);
        }
    }
}
