//! Loads weights that PyTorch saved, as `examples/lab/pytorch/weights.py` writes them.

use std::path::{Path, PathBuf};

use burn::{module::ParamId, prelude::*, tensor::TensorData};
use burn_store::{
    ApplyError, ModuleAdapter, ModuleSnapshot, ModuleStore, PyTorchToBurnAdapter, SafetensorsStore,
    SafetensorsStoreError, TensorSnapshot, TensorSnapshotError,
};

/// The reason why weights cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum WeightsError {
    /// The file cannot be read.
    #[error("{path}")]
    File {
        path: PathBuf,
        source: SafetensorsStoreError,
    },
    /// A tensor of the file cannot be read.
    #[error("{path}: {tensor}")]
    Tensor {
        path: PathBuf,
        tensor: String,
        source: TensorSnapshotError,
    },
    /// The file lacks tensors of the model.
    #[error("{path}: no tensors for {missing:?}")]
    Missing { path: PathBuf, missing: Vec<String> },
    /// A tensor's shape differs from the model's.
    #[error("{path}")]
    Mismatch {
        path: PathBuf,
        source: Box<ApplyError>,
    },
}

/// PyTorch's recurrent layers by their names in a model, with the gates in the order of their tensors.
const CELLS: [(&str, &[&str]); 4] = [
    ("lstm", LSTM),
    ("bilstm", LSTM),
    ("gru", &["reset_gate", "update_gate", "new_gate"]),
    ("rnn", &["gate"]),
];

const LSTM: &[&str] = &["input_gate", "forget_gate", "cell_gate", "output_gate"];

/// The input projections of PyTorch's `nn.MultiheadAttention`, in the order of its tensors.
const PROJECTIONS: [&str; 3] = ["query", "key", "value"];

/// Loads a PyTorch state dict from a safetensors file into a model.
///
/// Fields have the same names as in PyTorch, but that of a recurrent layer is `layer`. Linear weights are transposed, norms renamed, and the gates of a recurrent layer and
/// the projections of a multi-head attention separated. Tensors that the model lacks, such as the counters of batch
/// norms, are ignored.
///
/// # Errors
///
/// Returns an error if the file cannot be read, or lacks a tensor of the model, or has it in a different shape.
pub fn load<B: Backend, M: Module<B>>(path: &Path, mut model: M) -> Result<M, WeightsError> {
    let read = |source| WeightsError::File {
        path: path.to_owned(),
        source,
    };
    let mut store = SafetensorsStore::from_file(path);
    let mut tensors = Vec::new();
    for (name, tensor) in store.get_all_snapshots().map_err(read)? {
        let Some(names) = parts(name) else {
            tensors.push(tensor.clone());
            continue;
        };
        let data = tensor.to_data().map_err(|source| WeightsError::Tensor {
            path: path.to_owned(),
            tensor: name.clone(),
            source,
        })?;
        let data = split(data, names.len());
        tensors.extend(names.into_iter().zip(data).map(snapshot));
    }

    let adapter = Box::new(PyTorchToBurnAdapter.chain(RmsNorms));
    let mut result = model.apply(tensors, None, Some(adapter), true);
    if let Some(source) = result.errors.pop() {
        return Err(WeightsError::Mismatch {
            path: path.to_owned(),
            source: Box::new(source),
        });
    }
    if !result.missing.is_empty() {
        return Err(WeightsError::Missing {
            path: path.to_owned(),
            missing: result.missing.into_iter().map(|(name, _)| name).collect(),
        });
    }
    Ok(model)
}

/// Finds the scale of an RMS norm, which burn-store's adapter does not rename as it does those of the other norms.
#[derive(Clone)]
struct RmsNorms;

impl ModuleAdapter for RmsNorms {
    fn adapt(&self, snapshot: &TensorSnapshot) -> TensorSnapshot {
        snapshot.clone()
    }

    fn get_alternative_param_name(&self, param: &str, container: &str) -> Option<String> {
        (container == "Struct:RmsNorm" && param == "gamma").then(|| "weight".to_owned())
    }

    fn clone_box(&self) -> Box<dyn ModuleAdapter> {
        Box::new(self.clone())
    }
}

/// Returns the names in the model of the tensors that PyTorch keeps in one, below each other along the first dimension:
/// the gates of a recurrent layer, such as `lstm.weight_ih_l0`, or the projections of a multi-head attention, such as
/// `attention.in_proj_weight`. `out_proj`, which is called `output` in the model, is a tensor of one part.
fn parts(name: &str) -> Option<Vec<String>> {
    let (module, tensor) = name.rsplit_once('.')?;
    if let Some(kind) = tensor.strip_prefix("in_proj_") {
        return Some(
            PROJECTIONS
                .map(|part| format!("{module}.{part}.{kind}"))
                .into(),
        );
    }
    if let Some(module) = module.strip_suffix(".out_proj") {
        return Some(vec![format!("{module}.output.{tensor}")]);
    }
    let (_, gates) = CELLS.iter().find(|(cell, _)| *cell == module)?;
    let (tensor, direction) = match tensor.strip_suffix("_reverse") {
        Some(tensor) => (tensor, ".reverse"),
        None if module == "bilstm" => (tensor, ".forward"),
        None => (tensor, ""),
    };
    let (kind, of) = tensor.strip_suffix("_l0")?.split_once('_')?;
    let transform = match of {
        "ih" => "input_transform",
        "hh" => "hidden_transform",
        _ => return None,
    };
    let name = |gate| format!("layer{direction}.{gate}.{transform}.{kind}");
    Some(gates.iter().map(name).collect())
}

/// Returns equal parts of a tensor along its first dimension.
fn split(data: TensorData, parts: usize) -> Vec<TensorData> {
    let mut shape = data.shape.clone();
    shape[0] /= parts;
    data.as_bytes()
        .chunks(data.as_bytes().len() / parts)
        .map(|part| TensorData::from_bytes_vec(part.to_vec(), shape.clone(), data.dtype))
        .collect()
}

fn snapshot((name, data): (String, TensorData)) -> TensorSnapshot {
    let path = name.split('.').map(str::to_owned).collect();
    TensorSnapshot::from_data(data, path, Vec::new(), ParamId::new())
}

#[cfg(test)]
mod tests {
    use burn::{
        backend::Flex,
        nn::{Linear, LinearConfig},
    };

    use super::*;

    #[test]
    fn an_error_names_the_file() {
        let model: Linear<Flex> = LinearConfig::new(2, 3).init(&Default::default());
        let error = load(Path::new("nowhere.safetensors"), model).unwrap_err();
        assert!(matches!(error, WeightsError::File { .. }), "{error:?}");
        assert_eq!(error.to_string(), "nowhere.safetensors");
    }

    #[test]
    fn the_tensors_of_an_lstm_are_taken_apart_by_gate() {
        let names = parts("lstm.weight_hh_l0").unwrap();
        assert_eq!(names[2], "layer.cell_gate.hidden_transform.weight");
        let names = parts("bilstm.bias_ih_l0_reverse").unwrap();
        assert_eq!(names[3], "layer.reverse.output_gate.input_transform.bias");
        assert_eq!(parts("head.weight"), None);

        let data = TensorData::from([[0.0f32, 1.0], [2.0, 3.0], [4.0, 5.0], [6.0, 7.0]]);
        assert_eq!(split(data, 4)[3], TensorData::from([[6.0f32, 7.0]]));
    }

    #[test]
    fn the_tensors_of_an_attention_are_taken_apart_by_projection() {
        let names = parts("attention.in_proj_bias").unwrap();
        assert_eq!(
            names,
            [
                "attention.query.bias",
                "attention.key.bias",
                "attention.value.bias"
            ]
        );
        assert_eq!(
            parts("attention.out_proj.weight").unwrap(),
            ["attention.output.weight"]
        );
    }
}
