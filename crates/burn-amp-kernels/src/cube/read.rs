//! Reading a tensor later.

use std::{future::poll_fn, mem, task::Poll};

use burn_backend::{ExecutionError, TensorData};
use burn_cubecl::{CubeRuntime, kernel::into_contiguous, tensor::CubeTensor};
use cubecl::server::CopyDescriptor;

use crate::reading::Reading;

/// Enqueues the copy of a tensor to the host.
///
/// CubeCL enqueues it when it is asked for the read. What it returns must not be polled before the values are needed: on
/// CUDA its first poll waits for the device.
pub(crate) fn read_later<R: CubeRuntime>(tensor: CubeTensor<R>) -> Reading {
    Reading::begin(async {
        let tensor = into_contiguous(tensor);
        let (shape, dtype) = (tensor.meta.shape().clone(), tensor.dtype);
        let strides = tensor.meta.strides().clone();
        let copy = CopyDescriptor::new(
            tensor.handle.binding(),
            shape.clone(),
            strides,
            dtype.size(),
        );
        let read = tensor.client.read_one_tensor_async(copy);
        first_poll_ends().await;
        let bytes = read.await.map_err(|error| ExecutionError::WithContext {
            reason: error.to_string(),
        })?;
        Ok(TensorData::from_bytes(bytes, shape, dtype))
    })
}

/// Is pending when it is polled for the first time, and ready from then on.
async fn first_poll_ends() {
    let mut is_polled = false;
    poll_fn(|_| match mem::replace(&mut is_polled, true) {
        false => Poll::Pending,
        true => Poll::Ready(()),
    })
    .await;
}
