//! One file per model: its configuration, module, batch and loss.
//!
//! Fields have the same names as in `examples/lab/pytorch/models`, so that weights saved by PyTorch can be loaded.

mod attention;
pub mod bert;
mod conv_norm;
pub mod convnext;
pub mod diffusion;
pub mod gpt;
pub mod mlp;
pub mod mobilenet;
pub mod recurrent;
pub mod resnet;
pub mod tabular;
pub mod unet;
pub mod wgan;
pub mod yolox;
