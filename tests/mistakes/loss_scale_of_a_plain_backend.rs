//! The loss scale of a backend without `Amp`.

use burn::backend::{Autodiff, Flex};

fn main() {
    burn_amp::loss_scale::<Autodiff<Flex>>(&Default::default());
}
