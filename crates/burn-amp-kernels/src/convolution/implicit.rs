//! The weight gradient as an implicit product: windows are read in shared memory, and never written to memory.
//!
//! A product of few filters and channels leaves most of a tile of CubeCL's products empty, and it reads windows that take three times
//! the bytes of the images. Here a cube has a tile of filters and channels, and the sums of all elements of the window for it, in
//! the registers of its planes. For each piece of a line of the output it copies the gradient, and the lines of the images that
//! its windows reach, into shared memory; an element of the window is those lines from another place on. The pieces of all images are
//! divided into parts, whose sums are added afterwards.

use burn_backend::{DType, Shape, TensorMetadata, ops::ConvOptions};
use burn_cubecl::{
    CubeRuntime,
    kernel::into_contiguous,
    ops::{permute, reshape},
    tensor::CubeTensor,
};
use cubecl::{features::MmaConfig, prelude::*};

use super::along::{Along, along};
use crate::{
    cube::{
        names::{Buffer, load_fragment, shared, store_fragment},
        plan::{address_type, empty_on_device_of, storage, vector_size},
    },
    weight_product::column_sums_of,
};

/// The length and the width of a matrix of the device's matrix units.
const UNIT: usize = 16;
/// The planes that keep every multiprocessor of a large device busy: 16 for each of 132.
const PLANES: usize = 2048;
/// The most filters or channels that count as few: with more a tile of CubeCL's products is full.
const FEW: usize = 64;
/// The most elements of a window: their sums take eight registers of a unit each.
const MOST_ELEMENTS: usize = 9;
/// The most places of a line that are in shared memory at a time.
const MOST_COLUMNS: usize = 64;
/// The most bytes in shared memory, if the device has them: so a multiprocessor has several cubes.
const MOST_SHARED: usize = 48 << 10;
/// Elements between two rows in shared memory, without which they would lie in the same banks.
const PADDING: usize = 16;

/// What a cube has in shared memory and registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Tile {
    filters: usize,
    channels: usize,
    /// The places of a line of the output.
    columns: usize,
    /// The elements of a window.
    window: [usize; 2],
    /// The places of the images from one window to the next, and from one of its elements to the next.
    stride: usize,
    dilation: usize,
}

impl Tile {
    /// The planes of a cube, each of which has the sums of one matrix of filters and channels.
    fn planes(&self) -> usize {
        self.filters / UNIT * (self.channels / UNIT)
    }

    /// The places of a line of the images that the windows of the columns reach.
    fn span(&self) -> usize {
        (self.columns - 1) * self.stride + (self.window[1] - 1) * self.dilation + 1
    }

    fn elements(&self) -> usize {
        self.window[0] * self.window[1]
    }

    /// The elements in shared memory. Windows that lie far apart reach many places.
    fn shared(&self) -> usize {
        let places = self.window[0] * self.span();
        self.columns * (self.filters + PADDING) + places * (self.channels + PADDING)
    }
}

#[cube(launch, address_type = "dynamic")]
fn implicit_conv2d_weight_kernel<F: Float, N: Size>(
    images: &Buffer<Vector<F, N>>,
    grad: &Buffer<Vector<F, N>>,
    sums: &mut Buffer<f32>,
    height: Along,
    width: Along,
    filters: usize,
    channels: usize,
    pieces: usize,
    pieces_of_line: usize,
    pieces_of_part: usize,
    #[comptime] tile: Tile,
    #[define(F)] _dtype: StorageType,
) {
    let vector = N::value().comptime();
    let filter_vectors = comptime!(tile.filters / vector);
    let channel_vectors = comptime!(tile.channels / vector);
    // From one row in shared memory to the next, in vectors.
    let grad_row = comptime!((tile.filters + PADDING) / vector);
    let image_row = comptime!((tile.channels + PADDING) / vector);
    let columns = comptime!(tile.columns);
    let span = comptime!(tile.span());
    let elements = comptime!(tile.elements());
    let units = comptime!(tile.planes()) * PLANE_DIM as usize;
    let unit = UNIT_POS as usize;

    let filter_tiles = filters / tile.filters;
    let first_filter = CUBE_POS_X as usize % filter_tiles * tile.filters;
    let first_channel = CUBE_POS_X as usize / filter_tiles * tile.channels;
    let part = CUBE_POS_Y as usize;
    // The matrix of this plane.
    let filter_matrices = comptime!(tile.filters / UNIT);
    let filter = UNIT_POS_Y as usize % filter_matrices * UNIT;
    let channel = UNIT_POS_Y as usize / filter_matrices * UNIT;

    let mut shared_grad = shared::<Vector<F, N>>(comptime!(columns * grad_row));
    let mut shared_images = shared::<Vector<F, N>>(comptime!(tile.window[0] * span * image_row));
    let mut results = Sequence::<cmma::Matrix<f32>>::new();
    #[unroll]
    for _ in 0..elements {
        results.push(cmma::Matrix::<f32>::from_value(
            cmma::MatrixIdent::Accumulator,
            UNIT,
            UNIT,
            UNIT,
            cmma::MatrixLayout::Undefined,
            0.0f32,
        ));
    }

    // Places behind the last window are not read: their gradient is zero, but infinity times zero is not.
    let last_place = width.padded(width.places - 1, comptime!(tile.window[1] - 1));
    let first_piece = part * pieces_of_part;
    for piece in first_piece..pieces.min(first_piece + pieces_of_part) {
        let (line, first_column) = (piece / pieces_of_line, piece % pieces_of_line * columns);
        let (image, row) = (line / height.places, line % height.places);
        for at in range_stepped(unit, columns * filter_vectors, units) {
            let (place, vector_of) = (at / filter_vectors, at % filter_vectors);
            let column = first_column + place;
            let mut value = Vector::<F, N>::zeroed();
            if column < width.places {
                let place = (line * width.places + column) * filters + first_filter;
                value = grad[place / vector + vector_of];
            }
            shared_grad[place * grad_row + vector_of] = value;
        }
        let first_place = first_column * tile.stride;
        for at in range_stepped(unit, tile.window[0] * span * channel_vectors, units) {
            let (place, vector_of) = (at / channel_vectors, at % channel_vectors);
            let y = height.padded(row, place / span);
            let x = first_place + place % span;
            let mut value = Vector::<F, N>::zeroed();
            if height.is_within(y) && width.is_within(x) && x <= last_place {
                let line = image * height.size + (y - height.padding);
                let place = line * width.size + (x - width.padding);
                value = images[(place * channels + first_channel) / vector + vector_of];
            }
            shared_images[place * image_row + vector_of] = value;
        }
        sync_cube();

        for step in 0..comptime!(columns / UNIT) {
            let first = step * UNIT;
            let grad = load_fragment::<F, N>(
                &shared_grad,
                first * grad_row + filter / vector,
                comptime!((grad_row * vector) as u32),
                cmma::MatrixIdent::A,
                cmma::MatrixLayout::ColMajor,
            );
            #[unroll]
            for element in 0..elements {
                let (in_height, in_width) =
                    comptime!((element / tile.window[1], element % tile.window[1]));
                let place = comptime!(in_height * span + in_width * tile.dilation);
                let window = load_fragment::<F, N>(
                    &shared_images,
                    (first * tile.stride + place) * image_row + channel / vector,
                    comptime!((tile.stride * image_row * vector) as u32),
                    cmma::MatrixIdent::B,
                    cmma::MatrixLayout::RowMajor,
                );
                let result = results.index(element);
                cmma::execute(&grad, &window, result, result);
            }
        }
        sync_cube();
    }
    #[unroll]
    for element in 0..elements {
        let row = (part * elements + element) * filters + first_filter + filter;
        let at = row * channels + first_channel + channel;
        store_fragment(sums, at, results.index(element), channels as u32);
    }
}

/// Returns the gradient `[filters, channels, height, width]` of a convolution of few filters or channels; `None` for others, for
/// windows that do not fit, and without matrix units. Images and gradient have their channels last.
pub(super) fn weight_gradient<R: CubeRuntime>(
    images: &CubeTensor<R>,
    grad: &CubeTensor<R>,
    window: [usize; 2],
    options: &ConvOptions<2>,
) -> Option<CubeTensor<R>> {
    let [batch, image_height, image_width, channels] = images.shape().dims();
    let [_, rows, columns, filters] = grad.shape().dims();
    let plane = plane_with_matrix_units(images)?;
    let tile = Tile {
        filters: tile_of(filters, 64)?,
        channels: tile_of(channels, 32)?,
        columns: columns.next_multiple_of(UNIT).min(MOST_COLUMNS),
        window,
        stride: options.stride[1],
        dilation: options.dilation[1],
    };
    let are_few = filters.min(channels) <= FEW;
    let shared = images.client.properties().hardware.max_shared_memory_size;
    let fits = (2..=MOST_ELEMENTS).contains(&tile.elements())
        && tile.shared() * images.dtype.size() <= MOST_SHARED.min(shared);
    if !are_few || !fits {
        return None;
    }
    let (images, grad) = (
        into_contiguous(images.clone()),
        into_contiguous(grad.clone()),
    );

    let tiles = filters / tile.filters * (channels / tile.channels);
    let pieces_of_line = columns.div_ceil(tile.columns);
    let pieces = batch * rows * pieces_of_line;
    let results = tile.elements() * filters * channels;
    // Enough for a device, of which none writes more bytes of sums than it reads.
    let parts_of_device = (PLANES / tile.planes()).div_ceil(tiles);
    let worth = (2 * results).div_ceil((filters + channels) * tile.columns);
    let pieces_of_part = pieces.div_ceil(parts_of_device).max(worth);
    let parts = pieces.div_ceil(pieces_of_part);
    let sums = empty_on_device_of(&images, Shape::new([parts, results]), DType::F32);
    let [height, width] = along(
        [image_height, image_width],
        window,
        [rows, columns],
        options,
    );
    implicit_conv2d_weight_kernel::launch::<R>(
        &images.client,
        CubeCount::Static(tiles as u32, parts as u32, 1),
        CubeDim::new_2d(plane, tile.planes() as u32),
        address_type([&images, &grad, &sums]),
        vector_size(
            &images.client,
            images.dtype.size(),
            &[tile.filters, tile.channels],
        ),
        images.clone().into_array_arg(),
        grad.clone().into_array_arg(),
        sums.clone().into_array_arg(),
        height,
        width,
        filters,
        channels,
        pieces,
        pieces_of_line,
        pieces_of_part,
        tile,
        storage(images.dtype),
    );
    let gradient = column_sums_of(&sums)?;
    let shape = Shape::new([window[0], window[1], filters, channels]);
    Some(permute(reshape(gradient, shape), &[2, 3, 0, 1]))
}

/// The largest tile of whole matrices into which so many filters or channels can be divided.
fn tile_of(size: usize, most: usize) -> Option<usize> {
    let mut tiles = [64, 32, UNIT].into_iter().filter(|tile| *tile <= most);
    tiles.find(|tile| size.is_multiple_of(*tile))
}

/// The units of a plane, if the device multiplies matrices of this dtype with sums in F32.
fn plane_with_matrix_units<R: CubeRuntime>(tensor: &CubeTensor<R>) -> Option<u32> {
    let properties = tensor.client.properties();
    let (dtype, unit) = (storage(tensor.dtype), UNIT as u32);
    let matrices = MmaConfig {
        a_type: dtype,
        b_type: dtype,
        cd_type: storage(DType::F32),
        m: unit,
        n: unit,
        k: unit,
    };
    let hardware = &properties.hardware;
    let has_units = properties.features.matmul.cmma.contains(&matrices)
        && hardware.plane_size_min == hardware.plane_size_max;
    has_units.then_some(hardware.plane_size_max)
}
