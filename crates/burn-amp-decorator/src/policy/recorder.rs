//! The calls of the current step on a device, and the tensors that entered it, for a file that is run again.

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use burn_amp_core::{
    Precision, ReplayConfig,
    replay::{Call, Nature},
};
use burn_autodiff::Autodiff;
use burn_backend::{
    Backend,
    tensor::{BoolTensor, FloatTensor, IntTensor},
};
use parking_lot::Mutex;

use crate::{
    graph::{Leaf, Origin},
    watching,
};

/// Records the calls of a step on one device, for a file.
#[derive(Debug)]
pub(crate) struct StepRecorder<B: Backend> {
    config: ReplayConfig,
    /// Whether the current step is recorded, whether it overflows or not.
    is_asked: AtomicBool,
    /// The file that a program has asked for.
    asked: Mutex<Option<PathBuf>>,
    step: Mutex<StepRecording<B>>,
    /// Whether the file has a step in which the overflow begins with an op, and not with what came from outside.
    has_origin: Mutex<bool>,
}

/// The calls of a step so far.
#[derive(Debug, Default)]
pub(crate) struct StepRecording<B: Backend> {
    pub(crate) calls: Vec<Call>,
    pub(crate) outside: Vec<Outside<B>>,
    pub(crate) data: Vec<KeptTensor<B>>,
    /// The numbers of the tensors that the calls have made.
    made: HashSet<u64>,
    /// The numbers of the tensors from outside.
    known: HashMap<Key, u64>,
}

/// A float tensor that no call of the step made.
#[derive(Debug)]
pub(crate) struct Outside<B: Backend> {
    pub(crate) id: u64,
    /// The place of its values in [`StepRecording::data`].
    pub(crate) data: usize,
    pub(crate) logical: Precision,
    pub(crate) nature: Nature,
    pub(crate) is_cut: bool,
    pub(crate) origin: Option<Arc<Origin>>,
    /// The node of a leaf without its values.
    pub(crate) handle: Option<FloatTensor<Autodiff<B>>>,
    /// Kept so that no other leaf has the same [`Key`].
    #[expect(dead_code, reason = "its address is what counts")]
    pub(crate) leaf: Option<Arc<Leaf<B>>>,
}

/// The values of a tensor on the device.
#[derive(Debug)]
pub(crate) enum KeptTensor<B: Backend> {
    Float(FloatTensor<B>),
    Int(IntTensor<B>),
    Bool(BoolTensor<B>),
}

/// What clones of a tensor from outside have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    /// The address of a leaf.
    Leaf(usize),
    /// The number of a node of the graph.
    Node(u64),
}

/// The number of the next tensor. Numbers are never used again, so a tensor of an earlier step is known as such.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Returns a number for a tensor.
pub(crate) fn next_id() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl<B: Backend> StepRecorder<B> {
    pub(super) fn new(config: ReplayConfig) -> Self {
        let recorder = Self {
            is_asked: AtomicBool::new(false),
            asked: Mutex::default(),
            step: Mutex::default(),
            has_origin: Mutex::new(false),
            config,
        };
        recorder.next_step(0);
        recorder
    }

    /// Whether the calls of a step are recorded, which is searched for an overflow or not.
    #[inline]
    pub(crate) fn is_on(&self, is_searched: bool) -> bool {
        is_searched && self.config.step == 0 && !self.config.output.is_empty()
            || self.is_asked.load(Ordering::Relaxed)
    }

    /// Whether the values of tensors are written.
    pub(crate) fn writes_values(&self) -> bool {
        self.config.with_values
    }

    /// The file for the current step, whether it overflows or not.
    pub(crate) fn asked_file(&self) -> Option<PathBuf> {
        if !self.is_asked.load(Ordering::Relaxed) {
            return None;
        }
        Some(self.asked.lock().take().unwrap_or_else(|| self.file()))
    }

    /// The file that the configuration names.
    pub(crate) fn file(&self) -> PathBuf {
        PathBuf::from(&self.config.output)
    }

    /// Records the calls from now on to the next backward pass.
    pub(crate) fn ask(&self, file: PathBuf) {
        *self.asked.lock() = Some(file);
        drop(self.end_of_step());
        self.turn(true);
    }

    /// Decides whether the next step is recorded, by the number of backward passes so far.
    pub(crate) fn next_step(&self, passes: u64) {
        let is_chosen = self.config.step > 0 && passes + 1 == u64::from(self.config.step);
        self.turn(is_chosen || self.asked.lock().is_some());
    }

    fn turn(&self, on: bool) {
        if self.is_asked.swap(on, Ordering::Relaxed) != on {
            match on {
                true => watching::begin(),
                false => watching::end(),
            }
        }
    }

    /// Changes what is recorded of the current step.
    pub(crate) fn with<T>(&self, change: impl FnOnce(&mut StepRecording<B>) -> T) -> T {
        change(&mut self.step.lock())
    }

    /// Ends the step and returns what was recorded of it.
    pub(crate) fn end_of_step(&self) -> StepRecording<B> {
        std::mem::take(&mut *self.step.lock())
    }

    /// Whether a step replaces the one in the file. One whose overflow began outside of it does not replace one that
    /// shows an origin: once the parameters are NaN, every step is of that kind.
    pub(crate) fn replaces(&self, shows_origin: bool) -> bool {
        let mut has_origin = self.has_origin.lock();
        let replaces = shows_origin || !*has_origin;
        *has_origin |= shows_origin;
        replaces
    }
}

impl<B: Backend> Drop for StepRecorder<B> {
    /// A context that lost the race to be the one of its device is dropped.
    fn drop(&mut self) {
        self.turn(false);
    }
}

impl<B: Backend> StepRecording<B> {
    /// Returns the number of an operand: its own, if a call of this step made it, or that of a tensor from outside, which
    /// `outside` describes, with its values, when it is seen for the first time.
    pub(crate) fn id_of(
        &mut self,
        own: u64,
        key: Option<Key>,
        outside: impl FnOnce(u64, usize) -> (Outside<B>, FloatTensor<B>),
    ) -> u64 {
        if self.made.contains(&own) {
            return own;
        }
        if let Some(id) = key.and_then(|key| self.known.get(&key)) {
            return *id;
        }
        let id = next_id();
        let (outside, values) = outside(id, self.data.len());
        self.data.push(KeptTensor::Float(values));
        self.outside.push(outside);
        if let Some(key) = key {
            self.known.insert(key, id);
        }
        id
    }

    /// Keeps the values of an operand, and returns their place.
    pub(crate) fn keep(&mut self, stored: KeptTensor<B>) -> usize {
        self.data.push(stored);
        self.data.len() - 1
    }

    /// Adds a call.
    pub(crate) fn add(&mut self, call: Call) {
        self.made
            .extend(call.results.iter().map(|result| result.id));
        self.calls.push(call);
    }
}
