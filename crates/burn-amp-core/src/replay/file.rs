//! The file of a step: safetensors, with the calls as JSON in its metadata.
//!
//! The tensors are named by their numbers, `0`, `1`, …; Python's `safetensors` opens the file too.

use std::{collections::HashMap, fs, io, path::Path};

use safetensors::{SafeTensorError, SafeTensors, tensor::TensorView};

use serde::{Deserialize, Serialize};

use super::{Argument, Fingerprint, Step};

/// The key of the calls in the metadata.
const STEP: &str = "burn_amp_step";
/// The key of the version of the format.
const VERSION_KEY: &str = "burn_amp_step_version";
/// The version that is written, and the only one that is read.
const VERSION: &str = "2";

/// The values of a tensor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Data {
    /// The dtype.
    pub dtype: Dtype,
    /// The shape.
    pub shape: Vec<usize>,
    /// The values in row-major order, each in little-endian order.
    pub bytes: Vec<u8>,
}

/// What a tensor is like, without its values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sketch {
    /// The dtype.
    pub dtype: Dtype,
    /// The shape.
    pub shape: Vec<usize>,
    /// A hash of the bits; tensors with the same bits have the same.
    pub fingerprint: u64,
}

impl Data {
    /// The dtype, the shape and a hash of the values.
    pub fn sketch(&self) -> Sketch {
        let mut fingerprint = Fingerprint::default();
        for bytes in self.bytes.chunks(4) {
            let number = bytes
                .iter()
                .rev()
                .fold(0, |number, byte| number << 8 | u64::from(*byte));
            fingerprint.add(number);
        }
        Sketch {
            dtype: self.dtype,
            shape: self.shape.clone(),
            fingerprint: fingerprint.0,
        }
    }
}

/// Declares the dtypes of values. A macro, because each name is that of safetensors too.
macro_rules! dtypes {
    ($($Name:ident = $Theirs:ident,)+) => {
        /// The dtype of [`Data`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "lowercase")]
        #[allow(missing_docs, reason = "the names say it")]
        pub enum Dtype { $($Name,)+ }

        impl Dtype {
            fn to_theirs(self) -> safetensors::Dtype {
                match self { $(Self::$Name => safetensors::Dtype::$Theirs,)+ }
            }

            fn of_theirs(dtype: safetensors::Dtype) -> Option<Self> {
                match dtype { $(safetensors::Dtype::$Theirs => Some(Self::$Name),)+ _ => None }
            }
        }
    };
}

dtypes! {
    F64 = F64, F32 = F32, F16 = F16, BF16 = BF16,
    I64 = I64, I32 = I32, I16 = I16, I8 = I8,
    U64 = U64, U32 = U32, U16 = U16, U8 = U8, Bool = BOOL,
}

/// The reason why a file is not read as a step.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The file is no safetensors file, or a part of one.
    #[error("no complete safetensors file, so no step that a run has written: {0}")]
    Format(#[from] SafeTensorError),
    /// The file is a safetensors file, and holds something else.
    #[error(
        "a safetensors file without a step: `replay.output` in amp.toml names the file that a run writes one to"
    )]
    NoStep,
    /// Another version of burn-amp wrote the file.
    #[error("a step of version {found}, but this burn-amp reads version {VERSION}")]
    Version {
        /// The version of the file.
        found: String,
    },
    /// The calls are not what this version writes.
    #[error("the calls of the step: {0}")]
    Calls(#[from] serde_json::Error),
    /// The calls mention values that the file does not have.
    #[error("the calls of the step mention tensor {0}, which is not in the file")]
    Missing(usize),
}

impl Step {
    /// Writes the step to a file.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn write(&self, file: &Path) -> io::Result<()> {
        let names: Vec<_> = (0..self.data.len()).map(|at| at.to_string()).collect();
        let views = self
            .data
            .iter()
            .map(|data| TensorView::new(data.dtype.to_theirs(), data.shape.clone(), &data.bytes));
        let views: Vec<_> = views.collect::<Result<_, _>>().map_err(io::Error::other)?;
        let metadata = HashMap::from([
            (VERSION_KEY.to_owned(), VERSION.to_owned()),
            (STEP.to_owned(), serde_json::to_string(self)?),
        ]);
        let bytes = safetensors::serialize(names.iter().zip(views), Some(metadata))
            .map_err(io::Error::other)?;
        // A run that is ended while it writes leaves the file as it was.
        let unfinished = file.with_added_extension("part");
        fs::write(&unfinished, bytes)?;
        fs::rename(unfinished, file)
    }

    /// Reads a step from a file.
    ///
    /// # Errors
    ///
    /// The file cannot be read, is cut off, holds something else, or is of another version.
    pub fn read(file: &Path) -> Result<Self, ReadError> {
        let bytes = fs::read(file)?;
        let (_, header) = SafeTensors::read_metadata(&bytes)?;
        let tensors = SafeTensors::deserialize(&bytes)?;
        let metadata = header.metadata().as_ref().ok_or(ReadError::NoStep)?;
        match metadata.get(VERSION_KEY).map(String::as_str) {
            Some(VERSION) => {}
            Some(found) => {
                return Err(ReadError::Version {
                    found: found.to_owned(),
                });
            }
            None => return Err(ReadError::NoStep),
        }
        let step = metadata.get(STEP).ok_or(ReadError::NoStep)?;
        let mut step: Self = serde_json::from_str(step)?;
        if !tensors.is_empty() && tensors.len() < step.tensors.len() {
            return Err(ReadError::Missing(tensors.len()));
        }
        step.data = (0..tensors.len())
            .map(|at| {
                let missing = || ReadError::Missing(at);
                let tensor = tensors.tensor(&at.to_string()).map_err(|_| missing())?;
                Ok(Data {
                    dtype: Dtype::of_theirs(tensor.dtype()).ok_or_else(missing)?,
                    shape: tensor.shape().to_vec(),
                    bytes: tensor.data().to_vec(),
                })
            })
            .collect::<Result<_, ReadError>>()?;
        step.check()?;
        Ok(step)
    }

    /// Checks that each tensor that is mentioned is there.
    fn check(&self) -> Result<(), ReadError> {
        let outside = self.outside.iter().map(|outside| outside.data);
        let arguments = self.calls.iter().flat_map(|call| &call.arguments);
        let data = arguments.filter_map(|argument| match argument {
            Argument::Data(at) => Some(*at),
            Argument::Float(_) | Argument::Floats(_) | Argument::Absent | Argument::Plain(_) => {
                None
            }
        });
        match outside.chain(data).find(|at| *at >= self.tensors.len()) {
            Some(at) => Err(ReadError::Missing(at)),
            None => Ok(()),
        }
    }
}
