//! What CubeCL 0.10 and 0.11 call differently, by one name. The kernels compile with both.
//!
//! The crate for Burn 0.22 also renames a few types in its build script, which takes the runtime out of these sources.

use burn_backend::{Shape, ops::BoolTensorOps};
use burn_cubecl::{CubeBackend, CubeRuntime, tensor::CubeTensor};

#[cfg(not(burn_0_22))]
mod release {
    use cubecl::{prelude::*, std::tensor::layout::linear::LinearView};

    /// Memory of the device that a kernel is given.
    pub(crate) type Buffer<T> = Array<T>;

    /// The same as a part of something else that a kernel is given.
    pub(crate) type OwnedBuffer<T> = Array<T>;

    /// The same, held a second time.
    pub(crate) type SameBuffer<T> = Slice<T>;

    /// Holds a buffer a second time.
    #[cube]
    pub(crate) fn same<T: CubePrimitive>(buffer: &OwnedBuffer<T>) -> SameBuffer<T> {
        buffer.to_slice()
    }

    /// The values of a tensor in any layout.
    pub(crate) type TensorView<T> = LinearView<T>;

    /// The same, to be written.
    pub(crate) type TensorViewMut<T> = LinearView<T, ReadWrite>;

    /// Memory that the units of a cube share.
    pub(crate) type SharedOf<T> = SharedMemory<T>;

    /// Makes memory that the units of a cube share.
    #[cube]
    pub(crate) fn shared<T: CubePrimitive>(#[comptime] length: usize) -> SharedOf<T> {
        SharedMemory::<T>::new(length)
    }

    /// Loads an operand of the matrix units from memory that the units of a cube share: 16 × 16 elements from a vector on, whose
    /// rows or columns, by the layout, are so many elements apart.
    #[cube]
    pub(crate) fn load_fragment<F: Float, N: Size>(
        shared: &SharedOf<Vector<F, N>>,
        at: usize,
        #[comptime] apart: u32,
        #[comptime] ident: cmma::MatrixIdent,
        #[comptime] layout: cmma::MatrixLayout,
    ) -> cmma::Matrix<F> {
        let fragment =
            cmma::Matrix::<F>::from_value(ident, 16usize, 16usize, 16usize, layout, F::from_int(0));
        cmma::load(&fragment, &shared.slice(at, shared.len()), apart);
        fragment
    }

    /// Stores the result of the matrix units from an element on, with rows that are so many elements apart.
    #[cube]
    pub(crate) fn store_fragment(
        to: &mut Buffer<f32>,
        at: usize,
        fragment: &cmma::Matrix<f32>,
        apart: u32,
    ) {
        let length = to.len();
        let mut to = to.slice_mut(at, length);
        cmma::store(&mut to, fragment, apart, cmma::MatrixLayout::RowMajor);
    }

    /// An element of a vector.
    #[cube]
    pub(crate) fn element<T: Scalar, N: Size>(vector: Vector<T, N>, #[comptime] at: usize) -> T {
        vector[at]
    }

    /// The vector with another element.
    #[cube]
    pub(crate) fn with_element<T: Scalar, N: Size>(
        vector: Vector<T, N>,
        #[comptime] at: usize,
        value: T,
    ) -> Vector<T, N> {
        let mut vector = vector;
        vector[at] = value;
        vector
    }

    /// Which elements of one vector are less than those of another.
    #[cube]
    pub(crate) fn are_less<N: Size>(x: Vector<f32, N>, than: Vector<f32, N>) -> Vector<bool, N> {
        x.less_than(than)
    }

    /// Which elements of one vector are at most those of another.
    #[cube]
    pub(crate) fn are_at_most<N: Size>(x: Vector<f32, N>, than: Vector<f32, N>) -> Vector<bool, N> {
        x.less_equal(than)
    }
}

#[cfg(burn_0_22)]
mod release {
    use cubecl::{
        prelude::*,
        std::tensor::layout::linear::{LinearView, LinearViewMut},
    };

    pub(crate) type Buffer<T> = [T];

    pub(crate) type OwnedBuffer<T> = Box<[T]>;

    pub(crate) type SameBuffer<T> = Box<[T]>;

    #[cube]
    pub(crate) fn same<T: CubePrimitive>(buffer: &OwnedBuffer<T>) -> SameBuffer<T> {
        buffer.clone()
    }

    pub(crate) type TensorView<T> = LinearView<'static, T>;

    pub(crate) type TensorViewMut<T> = LinearViewMut<'static, T>;

    pub(crate) type SharedOf<T> = Shared<[T]>;

    #[cube]
    pub(crate) fn shared<T: CubePrimitive>(#[comptime] length: usize) -> SharedOf<T> {
        Shared::<[T]>::new_slice(length)
    }

    #[cube]
    pub(crate) fn load_fragment<F: Float, N: Size>(
        shared: &SharedOf<Vector<F, N>>,
        at: usize,
        #[comptime] apart: u32,
        #[comptime] ident: cmma::MatrixIdent,
        #[comptime] layout: cmma::MatrixLayout,
    ) -> cmma::Matrix<F> {
        let mut fragment =
            cmma::Matrix::<F>::from_value(ident, 16usize, 16usize, 16usize, layout, F::from_int(0));
        cmma::load(&mut fragment, &shared[at..], apart);
        fragment
    }

    #[cube]
    pub(crate) fn store_fragment(
        to: &mut Buffer<f32>,
        at: usize,
        fragment: &cmma::Matrix<f32>,
        apart: u32,
    ) {
        cmma::store(&mut to[at..], fragment, apart, cmma::MatrixLayout::RowMajor);
    }

    #[cube]
    pub(crate) fn element<T: Scalar, N: Size>(vector: Vector<T, N>, #[comptime] at: usize) -> T {
        vector.extract(at)
    }

    #[cube]
    pub(crate) fn with_element<T: Scalar, N: Size>(
        vector: Vector<T, N>,
        #[comptime] at: usize,
        value: T,
    ) -> Vector<T, N> {
        let mut vector = vector;
        vector.insert(at, value);
        vector
    }

    #[cube]
    pub(crate) fn are_less<N: Size>(x: Vector<f32, N>, than: Vector<f32, N>) -> Vector<bool, N> {
        x.less_than(&than)
    }

    #[cube]
    pub(crate) fn are_at_most<N: Size>(x: Vector<f32, N>, than: Vector<f32, N>) -> Vector<bool, N> {
        x.less_equal(&than)
    }
}

pub(crate) use release::*;

/// Expands a bool tensor.
pub(crate) fn expanded<R: CubeRuntime>(tensor: CubeTensor<R>, shape: Shape) -> CubeTensor<R> {
    #[cfg(not(burn_0_22))]
    return CubeBackend::<R, f32, i32, u8>::bool_expand(tensor, shape);
    #[cfg(burn_0_22)]
    return CubeBackend::bool_expand(tensor, shape);
}
