//! Where windows lie in padded images, along one of the two dimensions.

use burn_backend::ops::ConvOptions;
use burn_cubecl::CubeRuntime;
use cubecl::prelude::*;

use crate::names::padding_before;

/// The sizes of images and windows along one dimension.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub(super) struct Along {
    /// Of the images.
    pub size: usize,
    /// Of the window.
    pub window: usize,
    /// The number of windows.
    pub places: usize,
    pub stride: usize,
    pub padding: usize,
    pub dilation: usize,
}

#[cube]
impl Along {
    /// The place in a padded image of an element of a window.
    pub fn padded(&self, place: usize, element: usize) -> usize {
        place * self.stride + element * self.dilation
    }

    /// Whether a place in a padded image is one of the image.
    pub fn is_within(&self, padded: usize) -> bool {
        padded >= self.padding && padded < self.padding + self.size
    }

    /// Whether there is a window of which an element is this place in a padded image.
    pub fn has_window(&self, padded: usize, element: usize) -> bool {
        let from = element * self.dilation;
        padded >= from
            && (padded - from).is_multiple_of(self.stride)
            && (padded - from) / self.stride < self.places
    }

    /// This window.
    pub fn window_at(&self, padded: usize, element: usize) -> usize {
        (padded - element * self.dilation) / self.stride
    }

    /// The first window of which an element does not lie before the image.
    pub fn first_place(&self, element: usize) -> usize {
        steps_before(
            element * self.dilation,
            self.padding,
            self.stride,
            self.places,
        )
    }

    /// The first window of which an element lies after the image.
    pub fn end_place(&self, element: usize) -> usize {
        let end = self.padding + self.size;
        steps_before(element * self.dilation, end, self.stride, self.places)
    }

    /// The first element of a window that does not lie before the image.
    pub fn first_element(&self, place: usize) -> usize {
        steps_before(
            place * self.stride,
            self.padding,
            self.dilation,
            self.window,
        )
    }

    /// The first element of a window that lies after the image.
    pub fn end_element(&self, place: usize) -> usize {
        let end = self.padding + self.size;
        steps_before(place * self.stride, end, self.dilation, self.window)
    }
}

/// The number of steps of such a length, from a place on, that begin before another place; at most `most`.
#[cube]
fn steps_before(from: usize, to: usize, length: usize, most: usize) -> usize {
    let mut steps = 0usize;
    if from < to {
        steps = (to - from).div_ceil(length).min(most);
    }
    steps
}

/// The arguments of a kernel for both dimensions of images of such a height and width.
pub(super) fn along<R: CubeRuntime>(
    sizes: [usize; 2],
    window: [usize; 2],
    places: [usize; 2],
    options: &ConvOptions<2>,
) -> [AlongLaunch<R>; 2] {
    let padding = padding_before(options);
    [0, 1].map(|at| {
        AlongLaunch::new(
            sizes[at],
            window[at],
            places[at],
            options.stride[at],
            padding[at],
            options.dilation[at],
        )
    })
}
