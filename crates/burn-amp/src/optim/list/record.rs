//! The states of parameters in a file.
//!
//! A state whose moments are F32, of a parameter without a separate master, has the form in which Burn's own optimizer
//! saves it, so either reads the other's file. Any other form carries its name, which Burn's optimizer refuses.

use burn::{
    optim::{
        SimpleOptimizer,
        record::{AdaptorRecord, AdaptorRecordItem, AdaptorRecordItemV1, AdaptorRecordV1},
    },
    record::{PrecisionSettings, Record},
    tensor::{DType, Tensor, TensorData, TensorPrimitive, backend::AutodiffBackend},
};
use burn_amp_kernels::AmpBackend;
use burn_backend::{
    TensorMetadata,
    ops::FloatTensorOps,
    read_sync,
    tensor::{Device, FloatTensor, IntTensor},
};
use serde::{Deserialize, Serialize};

use super::{
    super::{
        MasterState, MasterWeights, OptimizerConfig, SkipOnDevice, SkipState, master_state::Master,
    },
    Plain,
    state::{ListMaster, ListState},
};
use crate::{backend::Amped, graph::NoGraph, policy::Context, tensor::AmpTensor};

type Inner<B> = <B as AutodiffBackend>::InnerBackend;
type Optimizer<C, B> = <C as OptimizerConfig<Inner<B>>>::Optimizer;

/// The state of one parameter, of an [`AmpAdaptor`](super::AmpAdaptor) for the configuration `C`.
pub enum StateRecord<C, B>
where
    B: AutodiffBackend<InnerBackend: Amped<Graph = NoGraph>>,
    C: OptimizerConfig<B::InnerBackend>,
{
    /// Of an optimizer that steps all parameters together.
    #[doc(hidden)]
    List(ListState<Plain<B>>),
    /// Of an optimizer that steps one parameter after the other.
    #[doc(hidden)]
    OneByOne(AdaptorRecord<MasterWeights<SkipOnDevice<Optimizer<C, B>>>, B>),
}

/// [`StateRecord`] in a file.
#[derive(Clone, Serialize, Deserialize)]
#[serde(bound = "")]
pub enum StateItem<O, B, S>
where
    B: AutodiffBackend<InnerBackend: Amped<Graph = NoGraph>>,
    O: SimpleOptimizer<B::InnerBackend>,
    S: PrecisionSettings,
{
    /// As Burn's own optimizer saves it.
    V1(AdaptorRecordItemV1<O, B::InnerBackend, S>),
    /// Of an optimizer that steps all parameters together, with a separate master.
    AmpList(ListItem),
    /// Of an optimizer that steps one parameter after the other, with a separate master.
    AmpOneByOne(AdaptorRecordItem<MasterWeights<SkipOnDevice<O>>, B, S>),
}

/// [`ListState`] in a file. Each tensor is stored in its own dtype, whatever the precision of the recorder.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListItem {
    time: usize,
    master: MasterItem,
    moments: Vec<TensorData>,
}

#[derive(Clone, Serialize, Deserialize)]
enum MasterItem {
    Parameter,
    F32(TensorData),
    Offset(TensorData),
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

impl<C, B> StateRecord<C, B>
where
    B: AutodiffBackend<InnerBackend: Amped<Graph = NoGraph>>,
    C: OptimizerConfig<B::InnerBackend>,
{
    /// The state for an optimizer that steps all parameters together; `None` if the parameter has none.
    pub(super) fn into_list(self) -> Option<ListState<Plain<B>>> {
        match self {
            Self::List(state) => Some(state),
            Self::OneByOne(AdaptorRecord::V1(record)) => list_of::<C, B>(record),
        }
    }

    /// The state for an optimizer that steps one parameter after the other.
    pub(super) fn into_one_by_one(
        self,
    ) -> Option<AdaptorRecord<MasterWeights<SkipOnDevice<Optimizer<C, B>>>, B>> {
        match self {
            Self::List(state) => one_by_one::<C, B>(state),
            Self::OneByOne(record) => Some(record),
        }
    }
}

/// Converts the state of a list to that of a single parameter.
fn one_by_one<C, B>(
    state: ListState<Plain<B>>,
) -> Option<AdaptorRecord<MasterWeights<SkipOnDevice<Optimizer<C, B>>>, B>>
where
    B: AutodiffBackend<InnerBackend: Amped<Graph = NoGraph>>,
    C: OptimizerConfig<B::InnerBackend>,
{
    let ListState {
        time,
        undecided: _,
        master,
        moments,
    } = state;
    let rank = match (&master, moments.first()) {
        (_, Some(moment)) => moment.rank(),
        (ListMaster::F32(master), None) => master.rank(),
        (ListMaster::Offset(offset), None) => offset.rank(),
        (ListMaster::Parameter, None) => return None,
    };
    with_rank!(rank, D => {
        let moments = moments.into_iter().map(amp_tensor::<B, D>).collect();
        let inner = C::state_of((time, moments)).map(SkipState::of);
        let master = match master {
            ListMaster::Parameter => Master::Parameter,
            ListMaster::F32(master) => Master::F32(amp_tensor::<B, D>(master)),
            ListMaster::Offset(offset) => Master::Offset(Tensor::from_primitive(offset)),
        };
        Some(AdaptorRecord::from_state::<D>(MasterState { master, inner }))
    })
}

/// Converts the state of a single parameter to that of a list.
fn list_of<C, B>(
    record: AdaptorRecordV1<MasterWeights<SkipOnDevice<Optimizer<C, B>>>, B::InnerBackend>,
) -> Option<ListState<Plain<B>>>
where
    B: AutodiffBackend<InnerBackend: Amped<Graph = NoGraph>>,
    C: OptimizerConfig<B::InnerBackend>,
{
    with_rank!(rank_of(&record), D => {
        let MasterState { master, inner } = record.into_state::<D>();
        let master = match master {
            Master::Parameter => ListMaster::Parameter,
            Master::F32(master) => ListMaster::F32(plain::<B, D>(master)),
            Master::Offset(offset) => ListMaster::Offset(offset.into_primitive()),
        };
        let inner = inner.and_then(SkipState::decided).and_then(C::parts_of);
        let (time, moments) = inner.unwrap_or_default();
        let state = ListState {
            time,
            master,
            moments: moments.into_iter().map(plain::<B, D>).collect(),
            ..ListState::new()
        };
        state.decided()
    })
}

/// The state as Burn's own optimizer keeps it; `None` if there is a separate master. Waits for the device.
fn burns<O, I>(
    record: AdaptorRecordV1<MasterWeights<SkipOnDevice<O>>, I>,
) -> Option<AdaptorRecordV1<O, I>>
where
    I: Amped<Graph = NoGraph>,
    O: SimpleOptimizer<I>,
{
    with_rank!(rank_of(&record), D => {
        match record.into_state::<D>() {
            MasterState {
                master: Master::Parameter,
                inner: Some(state),
            } => state.decided().map(AdaptorRecordV1::from_state::<D>),
            _ => None,
        }
    })
}

/// Returns the rank of the parameter that a state belongs to.
fn rank_of<O: SimpleOptimizer<I>, I: burn::tensor::backend::Backend>(
    record: &AdaptorRecordV1<O, I>,
) -> usize {
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
fn amp_tensor<B, const D: usize>(tensor: FloatTensor<Plain<B>>) -> Tensor<B::InnerBackend, D>
where
    B: AutodiffBackend<InnerBackend: Amped<Graph = NoGraph>>,
{
    let device = Plain::<B>::float_device(&tensor);
    let context = Context::of::<<B::InnerBackend as Amped>::Source>(&device);
    Tensor::from_primitive(TensorPrimitive::Float(AmpTensor::new(tensor, context)))
}

/// Returns the tensor of the plain backend, in the dtype of a state.
fn plain<B, const D: usize>(tensor: Tensor<B::InnerBackend, D>) -> FloatTensor<Plain<B>>
where
    B: AutodiffBackend<InnerBackend: Amped<Graph = NoGraph>>,
{
    tensor.into_primitive().tensor().into_inner()
}

impl<C, B> Record<B> for StateRecord<C, B>
where
    B: AutodiffBackend<InnerBackend: Amped<Graph = NoGraph>>,
    C: OptimizerConfig<B::InnerBackend>,
{
    type Item<S: PrecisionSettings> = StateItem<Optimizer<C, B>, B, S>;

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
        let is_burns = matches!(state.master, ListMaster::Parameter)
            && state
                .moments
                .iter()
                .all(|moment| moment.dtype() == DType::F32);
        if is_burns && let Some(moment) = state.moments.first() {
            let record = with_rank!(moment.rank(), D => {
                let moments = state.moments.iter().cloned().map(amp_tensor::<B, D>).collect();
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
                        inner: Some(SkipState::of(record.into_state::<D>())),
                    }))
                })
            }
            StateItem::AmpList(item) => Self::List(item.into_state(device)),
            StateItem::AmpOneByOne(item) => Self::OneByOne(Record::from_item(item, device)),
        }
    }
}

impl<C, B> Clone for StateRecord<C, B>
where
    B: AutodiffBackend<InnerBackend: Amped<Graph = NoGraph>>,
    C: OptimizerConfig<B::InnerBackend>,
{
    fn clone(&self) -> Self {
        match self {
            Self::List(state) => Self::List(state.clone()),
            Self::OneByOne(record) => Self::OneByOne(record.clone()),
        }
    }
}

impl ListItem {
    fn of<B: AmpBackend>(state: ListState<B>) -> Self {
        let ListState {
            time,
            undecided: _,
            master,
            moments,
        } = state;
        Self {
            time,
            master: match master {
                ListMaster::Parameter => MasterItem::Parameter,
                ListMaster::F32(master) => MasterItem::F32(data::<B>(master)),
                ListMaster::Offset(offset) => MasterItem::Offset(int_data::<B>(offset)),
            },
            moments: moments.into_iter().map(data::<B>).collect(),
        }
    }

    fn into_state<B: AmpBackend>(self, device: &Device<B>) -> ListState<B> {
        let Self {
            time,
            master,
            moments,
        } = self;
        ListState {
            time,
            master: match master {
                MasterItem::Parameter => ListMaster::Parameter,
                MasterItem::F32(data) => ListMaster::F32(B::float_from_data(data, device)),
                MasterItem::Offset(data) => ListMaster::Offset(B::int_from_data(data, device)),
            },
            moments: moments
                .into_iter()
                .map(|data| B::float_from_data(data, device))
                .collect(),
            ..ListState::new()
        }
    }
}

/// Reads a tensor from the device.
///
/// # Panics
///
/// Panics if the device cannot deliver it, as Burn's records do.
fn data<B: AmpBackend>(tensor: FloatTensor<B>) -> TensorData {
    read_sync(B::float_into_data(tensor))
        .expect("the optimizer's state can be read from the device")
}

fn int_data<B: AmpBackend>(tensor: IntTensor<B>) -> TensorData {
    read_sync(B::int_into_data(tensor)).expect("the optimizer's state can be read from the device")
}
