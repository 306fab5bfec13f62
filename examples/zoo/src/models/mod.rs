//! One file per model: its configuration, module, batch and loss.
//!
//! Fields are called as in `examples/lab/pytorch/models`, so that weights that PyTorch saved find their places.

mod attention;
pub mod bert;
pub mod gpt;
pub mod lstm;
pub mod mlp;
pub mod resnet;
pub mod tabular;
pub mod unet;
pub mod wgan;
