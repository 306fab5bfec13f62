//! One file per model: its configuration, module, batch and loss.
//!
//! Fields have the same names as in `examples/lab/pytorch/models`, so that weights saved by PyTorch can be loaded.

mod attention;
pub mod bert;
pub mod gpt;
pub mod lstm;
pub mod mlp;
pub mod resnet;
pub mod tabular;
pub mod unet;
pub mod wgan;
