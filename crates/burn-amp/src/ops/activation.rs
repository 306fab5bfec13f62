//! `ActivationOps`.

use burn_amp_core::{Op, activation_ops};
use burn_backend::{Backend, Scalar, ops::ActivationOps, tensor::FloatTensor};

use crate::{Amp, PolicySource, call::Call, graph::Graph};

activation_ops! { forward! }
