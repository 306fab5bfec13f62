//! A backend with an instrument around each op of the backend that computes; generated from the same table as `Amp`.
//!
//! * [`Instrumented`]: the backend
//! * [`Instrument`]: what happens before and after a call
//! * [`Value`]: what an instrument is shown of a call
//! * `autodiff`, `ops`: the traits of Burn

mod autodiff;
mod ops;

use std::{fmt::Debug, marker::PhantomData};

#[cfg(not(burn_0_22))]
use burn_amp::extend::{AmpTensor, Amped};
use burn_amp_core::Op;
use burn_amp_kernels::{
    AmpBackend,
    kernel::{Kernel, Meta, TensorsOf},
    made::Memory,
};
use burn_backend::{
    Backend, BackendTypes, DType, DTypeUsageSet, FloatDType, TensorMetadata,
    ops::AttentionModuleOptions,
    tensor::{BoolTensor, FloatTensor, IntTensor},
};

/// What happens before and after each call of a backend `B`.
pub trait Instrument<B: AmpBackend>:
    Clone + Copy + Debug + Default + Send + Sync + 'static
{
    /// What is remembered of a call until its end.
    type Seen: Send;

    /// Is shown the operands, and may replace them.
    fn before<'a>(op: Op, operands: impl Iterator<Item = Value<'a, B>>) -> Self::Seen;

    /// Is shown the results, and may replace them.
    fn after<'a>(seen: Self::Seen, results: impl Iterator<Item = Value<'a, B>>);

    /// What the backend can do in a dtype.
    fn dtype_usage(device: &B::Device, dtype: DType) -> DTypeUsageSet {
        B::dtype_usage(device, dtype)
    }

    /// Runs a kernel: unless an instrument says otherwise, by its reference, of whose ops each is shown.
    fn run<K: Kernel>(
        kernel: K,
        operands: TensorsOf<Instrumented<B, Self>>,
    ) -> TensorsOf<Instrumented<B, Self>> {
        kernel.reference::<Instrumented<B, Self>>(operands)
    }
}

/// No instrument: the backend without its kernels, as the references of these are computed.
impl<B: AmpBackend> Instrument<B> for () {
    type Seen = ();

    fn before<'a>(_op: Op, _operands: impl Iterator<Item = Value<'a, B>>) {}

    fn after<'a>(_seen: (), _results: impl Iterator<Item = Value<'a, B>>) {}
}

/// A tensor of a call, or a dtype that the caller asks for.
pub enum Value<'a, B: Backend> {
    Float(&'a mut FloatTensor<B>),
    Int(&'a mut IntTensor<B>),
    Bool(&'a mut BoolTensor<B>),
    Dtype(FloatDType),
}

impl<'a, B: Backend> Value<'a, B> {
    /// The value, if it is a float tensor.
    pub fn float(self) -> Option<&'a mut FloatTensor<B>> {
        match self {
            Self::Float(x) => Some(x),
            Self::Int(_) | Self::Bool(_) | Self::Dtype(_) => None,
        }
    }

    /// Its shape and dtype, if it is a tensor.
    pub fn meta(&self) -> Option<Meta> {
        match self {
            Self::Float(x) => Some((x.shape(), x.dtype())),
            Self::Int(x) => Some((x.shape(), x.dtype())),
            Self::Bool(x) => Some((x.shape(), x.dtype())),
            Self::Dtype(_) => None,
        }
    }
}

/// `B`, with an instrument around its ops.
#[derive(Clone, Copy, Debug, Default)]
pub struct Instrumented<B, I>(PhantomData<(B, I)>);

impl<B: AmpBackend, I: Instrument<B>> BackendTypes for Instrumented<B, I> {
    type Device = B::Device;
    type FloatTensorPrimitive = B::FloatTensorPrimitive;
    type IntTensorPrimitive = B::IntTensorPrimitive;
    type BoolTensorPrimitive = B::BoolTensorPrimitive;
    type QuantizedTensorPrimitive = B::QuantizedTensorPrimitive;
    #[cfg(not(burn_0_22))]
    type FloatElem = B::FloatElem;
    #[cfg(not(burn_0_22))]
    type IntElem = B::IntElem;
    #[cfg(not(burn_0_22))]
    type BoolElem = B::BoolElem;
    #[cfg(burn_0_22)]
    type GraphPrimitive = B::GraphPrimitive;
}

impl<B: AmpBackend, I: Instrument<B>> Backend for Instrumented<B, I> {
    fn name(device: &Self::Device) -> String {
        format!("instrumented<{}>", B::name(device))
    }

    fn seed(device: &Self::Device, seed: u64) {
        B::seed(device, seed)
    }

    fn ad_enabled(device: &Self::Device) -> bool {
        B::ad_enabled(device)
    }

    fn dtype_usage(device: &Self::Device, dtype: DType) -> DTypeUsageSet {
        I::dtype_usage(device, dtype)
    }

    fn device_count(type_id: u16) -> usize {
        B::device_count(type_id)
    }

    #[cfg(burn_0_22)]
    fn flush(device: &Self::Device) -> Result<(), burn_backend::ExecutionError> {
        B::flush(device)
    }
}

/// With the provided methods: no test trains on several devices.
#[cfg(burn_0_22)]
impl<B: AmpBackend, I: Instrument<B>> burn_backend::distributed::DistributedOps<Self>
    for Instrumented<B, I>
{
}

/// An instrument sees ops one by one, so that none of them is fused as far as `Amp` knows.
impl<B: AmpBackend, I: Instrument<B>> AmpBackend for Instrumented<B, I> {
    fn run<K: Kernel>(kernel: K, operands: TensorsOf<Self>) -> TensorsOf<Self> {
        I::run(kernel, operands)
    }

    fn float_memory(tensor: &FloatTensor<Self>) -> Option<Memory> {
        B::float_memory(tensor)
    }

    fn is_same(one: &FloatTensor<Self>, other: &FloatTensor<Self>) -> bool {
        B::is_same(one, other)
    }

    fn int_memory(tensor: &IntTensor<Self>) -> Option<Memory> {
        B::int_memory(tensor)
    }

    fn bool_memory(tensor: &BoolTensor<Self>) -> Option<Memory> {
        B::bool_memory(tensor)
    }

    fn has_attention_kernel(options: &AttentionModuleOptions, has_bias: bool) -> bool {
        B::has_attention_kernel(options, has_bias)
    }
}

/// Over `Amp`, so that it can name parameters.
#[cfg(not(burn_0_22))]
impl<B, I> Amped for Instrumented<B, I>
where
    B: Amped + AmpBackend + Backend<FloatTensorPrimitive = AmpTensor<B::Plain, B::Graph>>,
    I: Instrument<B>,
{
    type Plain = B::Plain;
    type Source = B::Source;
    type Graph = B::Graph;
}
