//! The filters and channels of a convolution in groups, as its kernels go over them.

use burn_backend::{DType, ops::ConvOptions};
use burn_cubecl::{CubeRuntime, tensor::CubeTensor};
use cubecl::prelude::*;

use crate::cube::plan::vector_size;

/// The numbers of filters and channels, in vectors.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub(super) struct GroupSizes {
    /// Of the output.
    pub filters: usize,
    /// Of the images.
    pub channels: usize,
    /// Of a group.
    pub filters_in_group: usize,
    pub channels_in_group: usize,
}

/// How filters and channels are divided into vectors.
pub(super) struct Grouping {
    pub vector_size: usize,
    filters: usize,
    channels: usize,
    filters_in_group: usize,
    channels_in_group: usize,
}

impl Grouping {
    /// Divides the filters, the channels and the channels of a group. Where each group has one of both, as in a depthwise
    /// convolution, a vector of filters reads a vector of channels; elsewhere vectors have one element.
    pub fn new<R: CubeRuntime>(
        x: &CubeTensor<R>,
        [filters, channels, channels_in_group]: [usize; 3],
        options: &ConvOptions<2>,
    ) -> Self {
        let filters_in_group = filters / options.groups;
        let vector_size = match (filters_in_group, channels_in_group) {
            // Eight elements of half precision, and as many sums, do not fit into the registers of a unit.
            (1, 1) => vector_size(&x.client, DType::F32.size(), &[channels]),
            _ => 1,
        };
        Self {
            vector_size,
            filters: filters / vector_size,
            channels: channels / vector_size,
            filters_in_group,
            channels_in_group,
        }
    }

    /// Passes the numbers to a kernel.
    pub fn arg<R: CubeRuntime>(&self) -> GroupSizesLaunch<R> {
        GroupSizesLaunch::new(
            self.filters,
            self.channels,
            self.filters_in_group,
            self.channels_in_group,
        )
    }
}
