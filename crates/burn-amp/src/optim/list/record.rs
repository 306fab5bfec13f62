//! The states of parameters in a file.
//!
//! A state whose moments are F32, of a parameter without a separate master, has the form in which Burn's own optimizer
//! saves it, so either reads the other's file. Any other form carries the names of its formats, which Burn's optimizer
//! refuses.

use burn::{
    optim::{
        SimpleOptimizer,
        record::{AdaptorRecord, AdaptorRecordItem, AdaptorRecordItemV1, AdaptorRecordV1},
    },
    record::{PrecisionSettings, Record},
    tensor::{
        DType, Tensor, TensorPrimitive,
        backend::{AutodiffBackend, Backend},
    },
};
use burn_amp_kernels::{
    AmpBackend,
    optimizer::{Master, Moment},
};
use burn_backend::{TensorMetadata, ops::FloatTensorOps, tensor::FloatTensor};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

use super::{
    super::{MasterState, MasterWeights, OptimizerConfig, foreign},
    PlainOf,
};
use burn_amp_decorator::{
    AmpTensor, Amped, Context, Trains,
    optimizer::{ListItem, ListState},
};

type Inner<B> = <B as AutodiffBackend>::InnerBackend;
type SimpleOf<C, B> = <C as OptimizerConfig<Inner<B>>>::Optimizer;
type OneByOneRecord<C, B> = AdaptorRecord<MasterWeights<SimpleOf<C, B>>, B>;

/// The state of one parameter, of an [`AmpAdaptor`](super::AmpAdaptor) for the configuration `C`.
// Rustdoc 1.95 panics where it looks for the auto traits of this type.
#[doc(hidden)]
pub enum StateRecord<C: OptimizerConfig<B::InnerBackend>, B: Trains> {
    /// Of an optimizer that steps all parameters together.
    #[doc(hidden)]
    List(ListState<PlainOf<B>>),
    /// Of an optimizer that steps one parameter after the other.
    #[doc(hidden)]
    OneByOne(OneByOneRecord<C, B>),
}

/// [`StateRecord`] in a file.
#[doc(hidden)]
#[derive(Clone, Serialize, Deserialize)]
#[serde(bound = "", remote = "Self")]
pub enum StateItem<O: SimpleOptimizer<B::InnerBackend>, B: Trains, S: PrecisionSettings> {
    /// As Burn's own optimizer saves it.
    V1(AdaptorRecordItemV1<O, B::InnerBackend, S>),
    /// Of an optimizer that steps all parameters together, with a separate master.
    AmpList(ListItem),
    /// Of an optimizer that steps one parameter after the other, with a separate master.
    AmpOneByOne(AdaptorRecordItem<MasterWeights<O>, B, S>),
}

impl<O: SimpleOptimizer<B::InnerBackend>, B: Trains, S: PrecisionSettings> Serialize
    for StateItem<O, B, S>
{
    fn serialize<T: Serializer>(&self, serializer: T) -> Result<T::Ok, T::Error> {
        // What serde derives: with `remote`, it is no method of the trait.
        Self::serialize(self, serializer)
    }
}

impl<'de, O: SimpleOptimizer<B::InnerBackend>, B: Trains, S: PrecisionSettings> Deserialize<'de>
    for StateItem<O, B, S>
{
    /// A file of Burn's optimizer does not say which optimizer it is of, so the error names the one that loads it.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let item = Self::deserialize(deserializer).and_then(|item| match &item {
            Self::AmpList(list) => match list.check() {
                Ok(()) => Ok(item),
                Err(misfit) => Err(D::Error::custom(misfit)),
            },
            Self::V1(_) | Self::AmpOneByOne(_) => Ok(item),
        });
        item.map_err(foreign::not_of::<Self, _>)
    }
}

/// Evaluates an expression for the rank of a tensor, as a constant.
///
/// A macro, because a function cannot be generic over an expression that names the constant.
macro_rules! with_rank {
    ($rank:expr, $D:ident => $body:expr) => {
        with_rank!(@ $rank, $D => $body, 0 1 2 3 4 5 6 7 8)
    };
    (@ $rank:expr, $D:ident => $body:expr, $($at:literal)+) => {
        match $rank {
            $($at => {
                const $D: usize = $at;
                $body
            })+
            rank => unreachable!("Burn saves no state of rank {rank}"),
        }
    };
}

impl<C: OptimizerConfig<B::InnerBackend>, B: Trains> StateRecord<C, B> {
    /// The state for an optimizer that steps all parameters together; `None` if the parameter has none.
    pub(super) fn into_list(self) -> Option<ListState<PlainOf<B>>> {
        match self {
            Self::List(state) => Some(state),
            Self::OneByOne(AdaptorRecord::V1(record)) => list_of::<C, B>(record),
        }
    }

    /// The state for an optimizer that steps one parameter after the other; `None` if it is that of one that does not.
    pub(super) fn one_by_one(self) -> Option<OneByOneRecord<C, B>> {
        match self {
            Self::List(_) => None,
            Self::OneByOne(record) => Some(record),
        }
    }
}

/// Converts the state of a single parameter, which Burn's optimizer has saved, to that of a list.
fn list_of<C: OptimizerConfig<B::InnerBackend>, B: Trains>(
    record: AdaptorRecordV1<MasterWeights<SimpleOf<C, B>>, B::InnerBackend>,
) -> Option<ListState<PlainOf<B>>> {
    with_rank!(rank_of(&record), D => {
        let MasterState { master, inner } = record.into_state::<D>();
        let master = master.map(plain::<B, D>, Tensor::into_primitive);
        let (time, moments) = inner.and_then(C::parts_of).unwrap_or_default();
        let moments: Vec<_> = moments.into_iter().map(plain::<B, D>).collect();
        let shape = match (&master, moments.first()) {
            (_, Some(moment)) => moment.shape(),
            (Master::F32(master), None) => master.shape(),
            (Master::Offset(offset), None) => offset.shape(),
            (Master::Parameter, None) => return None,
        };
        let state = ListState {
            time,
            master,
            moments: moments.into_iter().map(Moment::Wide).collect(),
            ..ListState::new(shape)
        };
        state.decided()
    })
}

/// The state as Burn's own optimizer keeps it; `None` if there is a separate master.
fn burns<O: SimpleOptimizer<I>, I: Backend>(
    record: AdaptorRecordV1<MasterWeights<O>, I>,
) -> Option<AdaptorRecordV1<O, I>> {
    with_rank!(rank_of(&record), D => match record.into_state::<D>() {
        MasterState {
            master: Master::Parameter,
            inner: Some(state),
        } => Some(AdaptorRecordV1::from_state::<D>(state)),
        _ => None,
    })
}

/// The moments if Burn's own optimizer has them in the same form: in F32, of a parameter without a separate master.
fn burns_moments<P: AmpBackend>(state: &ListState<P>) -> Option<Vec<FloatTensor<P>>> {
    if !matches!(state.master, Master::Parameter) {
        return None;
    }
    let moments = state.moments.iter();
    let moments = moments.map(|moment| match moment {
        Moment::Wide(moment) if moment.dtype() == DType::F32 => Some(moment.clone()),
        Moment::Wide(_) | Moment::Bf16(_) | Moment::Bits8(_) => None,
    });
    moments.collect()
}

/// Returns the rank of the parameter that a state belongs to.
fn rank_of<O: SimpleOptimizer<I>, I: Backend>(record: &AdaptorRecordV1<O, I>) -> usize {
    match record {
        AdaptorRecordV1::Rank0(_) => 0,
        AdaptorRecordV1::Rank1(_) => 1,
        AdaptorRecordV1::Rank2(_) => 2,
        AdaptorRecordV1::Rank3(_) => 3,
        AdaptorRecordV1::Rank4(_) => 4,
        AdaptorRecordV1::Rank5(_) => 5,
        AdaptorRecordV1::Rank6(_) => 6,
        AdaptorRecordV1::Rank7(_) => 7,
        AdaptorRecordV1::Rank8(_) => 8,
    }
}

/// Wraps a tensor of the plain backend.
fn amp_tensor<B: Trains, const D: usize>(
    tensor: FloatTensor<PlainOf<B>>,
) -> Tensor<B::InnerBackend, D> {
    let device = PlainOf::<B>::float_device(&tensor);
    let context = Context::of::<<B::InnerBackend as Amped>::Source>(&device);
    Tensor::from_primitive(TensorPrimitive::Float(AmpTensor::new(tensor, context)))
}

/// Returns the tensor of the plain backend, in the dtype of a state.
fn plain<B: Trains, const D: usize>(tensor: Tensor<B::InnerBackend, D>) -> FloatTensor<PlainOf<B>> {
    tensor.into_primitive().tensor().into_inner()
}

impl<C: OptimizerConfig<B::InnerBackend>, B: Trains> Record<B> for StateRecord<C, B> {
    type Item<S: PrecisionSettings> = StateItem<SimpleOf<C, B>, B, S>;

    /// Incurs device-to-host reads.
    fn into_item<S: PrecisionSettings>(self) -> Self::Item<S> {
        let state = match self {
            Self::List(state) => state,
            Self::OneByOne(AdaptorRecord::V1(record)) => {
                return match burns(record.clone()) {
                    Some(record) => StateItem::V1(record.into_item()),
                    None => StateItem::AmpOneByOne(AdaptorRecord::V1(record).into_item()),
                };
            }
        };
        if let Some(moments) = burns_moments(&state) {
            let record = with_rank!(state.shape.num_dims(), D => {
                let moments = moments.into_iter().map(amp_tensor::<B, D>).collect();
                C::state_of((state.time, moments)).map(AdaptorRecordV1::from_state::<D>)
            });
            if let Some(record) = record {
                return StateItem::V1(record.into_item());
            }
        }
        StateItem::AmpList(ListItem::of(state))
    }

    fn from_item<S: PrecisionSettings>(item: Self::Item<S>, device: &B::Device) -> Self {
        match item {
            StateItem::V1(item) => {
                let record = AdaptorRecordV1::from_item(item, device);
                with_rank!(rank_of(&record), D => {
                    Self::OneByOne(AdaptorRecord::from_state::<D>(MasterState {
                        master: Master::Parameter,
                        inner: Some(record.into_state::<D>()),
                    }))
                })
            }
            StateItem::AmpList(item) => Self::List(item.into_state(device)),
            StateItem::AmpOneByOne(item) => Self::OneByOne(Record::from_item(item, device)),
        }
    }
}

impl<C: OptimizerConfig<B::InnerBackend>, B: Trains> Clone for StateRecord<C, B> {
    fn clone(&self) -> Self {
        match self {
            Self::List(state) => Self::List(state.clone()),
            Self::OneByOne(record) => Self::OneByOne(record.clone()),
        }
    }
}
