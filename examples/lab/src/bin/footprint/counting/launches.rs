//! The launches of a thread, while they are recorded.

use std::cell::{Cell, RefCell};

use burn_amp_kernels::kernel::Meta;
use burn_backend::DType;
use lab::machine::Meter;

/// One op: what it read and wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    pub op: &'static str,
    /// The dtype of its first result, else of its first operand.
    pub dtype: Option<DType>,
    pub read: u64,
    pub written: u64,
}

impl Launch {
    /// The bytes that it moves.
    pub fn bytes(&self) -> u64 {
        self.read + self.written
    }

    /// Whether it is a matrix product or a convolution, whose traffic depends on how it is tiled.
    pub fn is_product(&self) -> bool {
        let sums = self.op.ends_with("_bias_backward");
        let product = |name| self.op.contains(name);
        !sums && ["matmul", "conv", "linear"].into_iter().any(product)
    }
}

/// What an op only looks at in another way, or leaves where it is: no launch.
const FREE: [&str; 15] = [
    "reshape",
    "transpose",
    "swap_dims",
    "permute",
    "expand",
    "slice",
    "unfold",
    "device",
    "to_device",
    "from_data",
    "into_data",
    "detach",
    "set_require_grad",
    "is_require_grad",
    "empty",
];

thread_local! {
    /// The most bytes on the heap so far; `None` while nobody measures.
    static HIGHEST: Cell<Option<u64>> = const { Cell::new(None) };
    /// The op up to which launches are skipped.
    static SKIPPED: Cell<Option<&'static str>> = const { Cell::new(None) };
    /// The launches so far; `None` while nobody records.
    static LAUNCHES: RefCell<Option<Vec<Launch>>> = const { RefCell::new(None) };
}

/// Runs `work` and returns the launches that it made on this thread, and its output.
pub fn recorded<T>(work: impl FnOnce() -> T) -> (Vec<Launch>, T) {
    SKIPPED.set(None);
    LAUNCHES.set(Some(Vec::new()));
    let output = work();
    (LAUNCHES.take().unwrap_or_default(), output)
}

/// Runs `work` and returns the most bytes on the heap after any of its ops on this thread, and its output.
///
/// What an op needs while it runs is not counted: Flex computes in BF16 by copies in F32, and a GPU does not.
pub fn highest<T>(work: impl FnOnce() -> T) -> (u64, T) {
    HIGHEST.set(Some(0));
    let output = work();
    (HIGHEST.take().unwrap_or_default(), output)
}

/// Leaves out the launches on this thread from now on, up to the next one of `op`, which is left out too.
pub fn skip_through(op: &'static str) {
    SKIPPED.set(Some(op));
}

/// Records a launch, unless the op is free or a cast to the dtype that the operand already has.
pub(super) fn record(op: &'static str, operands: Size, results: Size) {
    if let Some(highest) = HIGHEST.get() {
        let heap = Meter::Heap.in_use().unwrap_or_default();
        HIGHEST.set(Some(highest.max(heap)));
    }
    let name = ["float_", "int_", "bool_", "q_"]
        .iter()
        .find_map(|kind| op.strip_prefix(kind))
        .unwrap_or(op);
    let idle_cast = name == "cast" && operands.dtype == results.dtype;
    if idle_cast || FREE.contains(&name) {
        return;
    }
    if let Some(last) = SKIPPED.get() {
        if last == op {
            SKIPPED.set(None);
        }
        return;
    }
    LAUNCHES.with_borrow_mut(|launches| {
        if let Some(launches) = launches {
            launches.push(Launch {
                op,
                dtype: results.dtype.or(operands.dtype),
                read: operands.bytes,
                written: results.bytes,
            });
        }
    });
}

/// The bytes of some tensors, and the dtype of the first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Size {
    bytes: u64,
    dtype: Option<DType>,
}

/// A tensor counts with its logical elements, so that a broadcast one counts in full.
impl FromIterator<Meta> for Size {
    fn from_iter<T: IntoIterator<Item = Meta>>(tensors: T) -> Self {
        let mut size = Self::default();
        for (shape, dtype) in tensors {
            size.bytes += (shape.num_elements() * dtype.size()) as u64;
            size.dtype.get_or_insert(dtype);
        }
        size
    }
}
