//! Lists of tensors for kernels that take several of them per launch.

use burn_backend::{DType, Shape, TensorMetadata};
use burn_cubecl::{CubeRuntime, ops::numeric::empty_device_contiguous_dtype, tensor::CubeTensor};
use cubecl::{prelude::*, tensor_vector_size_parallel};

/// The most tensors per launch: the code of a kernel grows with their number.
const TENSORS: usize = 16;

/// A tensor of a list, in the form in which a kernel reads it.
pub(crate) struct Listed<R: CubeRuntime> {
    /// Its position in the list.
    pub(crate) index: usize,
    /// Its values: in the order of memory as `[n]` if there are no gaps between them, otherwise the tensor itself.
    pub(crate) values: CubeTensor<R>,
    tensor: CubeTensor<R>,
}

/// The tensors of one launch.
pub(crate) struct Chunk<R: CubeRuntime> {
    pub(crate) tensors: Vec<Listed<R>>,
    pub(crate) dtype: DType,
    /// The elements per vector, for all of the tensors.
    pub(crate) vector_size: usize,
}

impl<R: CubeRuntime> Listed<R> {
    fn new(index: usize, tensor: CubeTensor<R>) -> Self {
        Self {
            index,
            values: if_dense_flat(tensor.clone()),
            tensor,
        }
    }

    /// Makes an uninitialized F32 tensor of the same shape; returns it, and its values in the order of `self.values`.
    pub(crate) fn empty_like(&self) -> (CubeTensor<R>, CubeTensor<R>) {
        let values = empty_f32_like(&self.values);
        let is_flat = self.values.meta.shape() != self.tensor.meta.shape();
        let tensor = if is_flat {
            CubeTensor {
                handle: values.handle.clone(),
                dtype: DType::F32,
                ..self.tensor.clone()
            }
        } else {
            values.clone()
        };
        (tensor, values)
    }

    fn vector_size(&self) -> usize {
        let meta = &self.values.meta;
        tensor_vector_size_parallel(
            self.values
                .client
                .io_optimized_vector_sizes(self.values.dtype.size()),
            meta.shape(),
            meta.strides(),
            meta.rank() - 1,
        )
    }
}

/// Returns a tensor without gaps in memory, such as a transposed one, as `[n]`: the order of elements does not matter
/// here.
fn if_dense_flat<R: CubeRuntime>(tensor: CubeTensor<R>) -> CubeTensor<R> {
    let (shape, strides) = (tensor.meta.shape(), tensor.meta.strides());
    let mut dims: Vec<_> = shape
        .iter()
        .zip(strides.iter())
        .filter(|(size, _)| **size != 1)
        .collect();
    dims.sort_by_key(|(_, stride)| **stride);
    let mut elements = 1;
    let is_dense = dims.into_iter().all(|(size, stride)| {
        let is_next = *stride == elements;
        elements *= size;
        is_next
    });
    if !is_dense {
        return tensor;
    }
    CubeTensor::new_contiguous(
        tensor.client,
        tensor.device,
        Shape::new([elements]),
        tensor.handle,
        tensor.dtype,
    )
}

/// Makes an uninitialized F32 tensor of the shape of `tensor`.
pub(crate) fn empty_f32_like<R: CubeRuntime>(tensor: &CubeTensor<R>) -> CubeTensor<R> {
    empty_device_contiguous_dtype(
        tensor.client.clone(),
        tensor.device.clone(),
        tensor.shape(),
        DType::F32,
    )
}

/// Sorts tensors into chunks by dtype and vector size, without the empty ones. A kernel binds `buffers` buffers per
/// tensor.
pub(crate) fn chunks<R: CubeRuntime>(tensors: Vec<CubeTensor<R>>, buffers: usize) -> Vec<Chunk<R>> {
    /// The flags, and the buffer in which CubeCL passes shapes and strides.
    const OTHER_BUFFERS: usize = 2;

    let mut chunks: Vec<Chunk<R>> = Vec::new();
    for (index, tensor) in tensors.into_iter().enumerate() {
        if tensor.meta.num_elements() == 0 {
            continue;
        }
        let dtype = tensor.dtype;
        let most = most_tensors(&tensor.client, buffers, OTHER_BUFFERS);
        let tensor = Listed::new(index, tensor);
        let vector_size = tensor.vector_size();
        match chunks.iter_mut().rev().find(|chunk| {
            chunk.dtype == dtype && chunk.vector_size == vector_size && chunk.tensors.len() < most
        }) {
            Some(chunk) => chunk.tensors.push(tensor),
            None => chunks.push(Chunk {
                tensors: vec![tensor],
                dtype,
                vector_size,
            }),
        }
    }
    chunks
}

/// Returns the most tensors per launch of a kernel that binds `buffers` buffers per tensor and `others` besides.
pub(crate) fn most_tensors<R: CubeRuntime>(
    client: &ComputeClient<R>,
    buffers: usize,
    others: usize,
) -> usize {
    let bindings = client.properties().hardware.max_bindings as usize;
    (bindings.saturating_sub(others) / buffers).clamp(1, TENSORS)
}

impl<R: CubeRuntime> Chunk<R> {
    /// Returns the cubes, and the units per cube, that stride over the tensors together.
    pub(crate) fn geometry(&self, client: &ComputeClient<R>) -> (CubeCount, CubeDim) {
        let lengths = self.tensors.iter();
        let lengths = lengths.map(|tensor| tensor.values.meta.num_elements() / self.vector_size);
        geometry(client, lengths.max().unwrap_or(0))
    }
}

/// Returns the cubes, and the units per cube, that stride over tensors of at most `longest` vectors.
pub(crate) fn geometry<R: CubeRuntime>(
    client: &ComputeClient<R>,
    longest: usize,
) -> (CubeCount, CubeDim) {
    /// Enough cubes per multiprocessor to keep memory busy; each strides over the rest.
    const CUBES_PER_MULTIPROCESSOR: u32 = 8;
    /// The assumption for a device that does not report how many multiprocessors it has.
    const MULTIPROCESSORS: u32 = 32;

    let dim = CubeDim::new(client, longest);
    let hardware = &client.properties().hardware;
    let multiprocessors = hardware
        .num_streaming_multiprocessors
        .unwrap_or(MULTIPROCESSORS);
    let cubes = u32::try_from(longest.div_ceil(dim.num_elems() as usize)).unwrap_or(u32::MAX);
    let cubes = cubes.clamp(1, CUBES_PER_MULTIPROCESSOR * multiprocessors);
    (CubeCount::new_1d(cubes), dim)
}
