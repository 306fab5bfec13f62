//! Lists of tensors for kernels that take several of them per launch.
//!
//! Law: however many parameters there are, a step takes at most 12 launches where a device has the bindings.

use burn_backend::{DType, Shape, TensorMetadata};
use burn_cubecl::{CubeRuntime, tensor::CubeTensor};
use cubecl::prelude::*;

use super::plan::{empty_on_device_of, strided_vector_size};

/// The fewest tensors per launch for which a longer list is cut: the code of a kernel grows with their number.
const TENSORS: usize = 16;

/// The most tensors per launch. NVRTC compiles an optimizer's kernel of 16 tensors in a second and one of 192 in twenty, and
/// its parameters, 104 bytes for a tensor with 5 buffers, are below the 32764 bytes that CUDA takes since 12.1.
const MOST_TENSORS: usize = 192;

/// The launches that a list should take, however long it is.
const LAUNCHES: usize = 12;

/// Returns how many tensors a launch should take, so that a list of `count` tensors takes at most [`LAUNCHES`]. The list
/// has tensors of several `classes`, which share no launch.
pub(crate) fn wanted_tensors(count: usize, classes: usize) -> usize {
    // Each class may leave one launch that is not full.
    let full = LAUNCHES.saturating_sub(classes).max(1);
    count.div_ceil(full).clamp(TENSORS, MOST_TENSORS)
}

/// A tensor of a list, in the form in which a kernel reads it.
pub(crate) struct ListedTensor<R: CubeRuntime> {
    /// Its position in the list.
    pub(crate) index: usize,
    /// Its values: in the order of memory as `[n]` if there are no gaps between them, otherwise the tensor itself.
    pub(crate) values: CubeTensor<R>,
    tensor: CubeTensor<R>,
}

/// The tensors of one launch.
pub(crate) struct Chunk<R: CubeRuntime> {
    pub(crate) tensors: Vec<ListedTensor<R>>,
    pub(crate) dtype: DType,
    /// The elements per vector, for all of the tensors.
    pub(crate) vector_size: usize,
}

impl<R: CubeRuntime> ListedTensor<R> {
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
    empty_on_device_of(tensor, tensor.shape(), DType::F32)
}

/// Sorts tensors into chunks by dtype and vector size, without the empty ones. A kernel binds `buffers` buffers per
/// tensor.
pub(crate) fn chunks<R: CubeRuntime>(tensors: Vec<CubeTensor<R>>, buffers: usize) -> Vec<Chunk<R>> {
    /// The flags, and the buffer in which CubeCL passes shapes and strides.
    const OTHER_BUFFERS: usize = 2;

    /// The classes of a list: dtypes, each with several vector sizes.
    const CLASSES: usize = 4;

    let wanted = wanted_tensors(tensors.len(), CLASSES);
    let mut chunks: Vec<Chunk<R>> = Vec::new();
    for (index, tensor) in tensors.into_iter().enumerate() {
        if tensor.meta.num_elements() == 0 {
            continue;
        }
        let dtype = tensor.dtype;
        let bindings = tensor.client.properties().hardware.max_bindings as usize;
        let most = most_tensors(bindings, buffers, OTHER_BUFFERS).min(wanted);
        let tensor = ListedTensor::new(index, tensor);
        let vector_size = strided_vector_size(&tensor.values);
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

/// Returns the most tensors per launch for which a device has bindings, of a kernel that binds `buffers` buffers per tensor
/// and `others` besides.
pub(crate) fn most_tensors(bindings: usize, buffers: usize, others: usize) -> usize {
    (bindings.saturating_sub(others) / buffers).max(1)
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
    let dim = CubeDim::new(client, longest);
    (cubes(client, longest, dim.num_elems() as usize), dim)
}

/// Returns how many cubes, of `units` units each, stride over tensors together. The longest tensor takes `longest` units.
pub(crate) fn cubes<R: CubeRuntime>(
    client: &ComputeClient<R>,
    longest: usize,
    units: usize,
) -> CubeCount {
    /// Enough cubes per multiprocessor to keep memory busy; each strides over the rest.
    const CUBES_PER_MULTIPROCESSOR: u32 = 8;

    let cubes = u32::try_from(longest.div_ceil(units)).unwrap_or(u32::MAX);
    CubeCount::new_1d(cubes.clamp(1, CUBES_PER_MULTIPROCESSOR * multiprocessors(client)))
}

/// Returns how many multiprocessors a device has.
pub(crate) fn multiprocessors<R: CubeRuntime>(client: &ComputeClient<R>) -> u32 {
    /// The assumption for a device that does not report it.
    const MULTIPROCESSORS: u32 = 32;

    let hardware = &client.properties().hardware;
    hardware
        .num_streaming_multiprocessors
        .unwrap_or(MULTIPROCESSORS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The launches of lists of these lengths, on a device with that many `bindings`, with five buffers per tensor.
    fn launches(lists: &[usize], bindings: usize) -> usize {
        let wanted = wanted_tensors(lists.iter().sum(), lists.len());
        let most = most_tensors(bindings, 5, 4).min(wanted);
        lists.iter().map(|len| len.div_ceil(most)).sum()
    }

    #[test]
    fn a_long_list_takes_at_most_twelve_launches_on_cuda() {
        const CUDA: usize = 1024;
        for classes in 1..=4usize {
            for count in classes..=8 * MOST_TENSORS {
                let mut lists = vec![1; classes];
                lists[0] = count - (classes - 1);
                assert!(launches(&lists, CUDA) <= LAUNCHES, "{count}, {classes}");
                let even = vec![count.div_ceil(classes); classes];
                assert!(launches(&even, CUDA) <= LAUNCHES, "{count}, {classes}");
            }
        }
        // A short list is cut as small as before.
        assert_eq!(launches(&[34], CUDA), 3);
    }

    #[test]
    fn a_device_with_few_bindings_takes_more() {
        assert_eq!(launches(&[34], 31), 7);
        assert_eq!(launches(&[300], 31), 60);
    }
}
