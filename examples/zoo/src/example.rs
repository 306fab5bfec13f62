//! Reads the batch that PyTorch saved next to the weights, as `examples/lab/pytorch/weights.py` writes it.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use burn::{prelude::*, tensor::TensorData};
use burn_store::{ModuleStore, SafetensorsStore};

use crate::weights::WeightsError;

/// The tensors of a safetensors file: a batch as `batch.x`, `batch.target` and so on, and results to compare with.
#[derive(Clone, Debug)]
pub struct Example {
    path: PathBuf,
    tensors: BTreeMap<String, TensorData>,
}

impl Example {
    /// Reads all tensors of the file.
    ///
    /// # Errors
    ///
    /// Returns an error if the file or one of its tensors cannot be read.
    pub fn open(path: &Path) -> Result<Self, WeightsError> {
        let file = |source| WeightsError::File {
            path: path.to_owned(),
            source,
        };
        let mut store = SafetensorsStore::from_file(path);
        let mut tensors = BTreeMap::new();
        for (name, tensor) in store.get_all_snapshots().map_err(file)? {
            let data = tensor.to_data().map_err(|source| WeightsError::Tensor {
                path: path.to_owned(),
                tensor: name.clone(),
                source,
            })?;
            tensors.insert(name.clone(), data);
        }
        Ok(Self {
            path: path.to_owned(),
            tensors,
        })
    }

    /// Returns the tensor called `name`.
    ///
    /// # Errors
    ///
    /// Returns an error if the file has none.
    pub fn data(&self, name: &str) -> Result<TensorData, WeightsError> {
        let tensor = self.tensors.get(name).cloned();
        tensor.ok_or_else(|| WeightsError::Missing {
            path: self.path.clone(),
            missing: vec![name.to_owned()],
        })
    }

    /// Returns the tensor called `name` with the backend's float type.
    ///
    /// # Errors
    ///
    /// Returns an error if the file has none.
    pub fn floats<B: Backend, const D: usize>(
        &self,
        name: &str,
        device: &B::Device,
    ) -> Result<Tensor<B, D>, WeightsError> {
        Ok(Tensor::from_data(self.data(name)?, device))
    }

    /// Returns the tensor called `name` with the backend's int type.
    ///
    /// # Errors
    ///
    /// Returns an error if the file has none.
    pub fn ints<B: Backend, const D: usize>(
        &self,
        name: &str,
        device: &B::Device,
    ) -> Result<Tensor<B, D, Int>, WeightsError> {
        Ok(Tensor::from_data(self.data(name)?, device))
    }
}
