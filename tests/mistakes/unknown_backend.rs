//! burn-amp's feature for the backend is not turned on, or the backend is one of your own.

use burn::tensor::Tensor;
use burn_amp::Amp;

struct MyBackend;

fn main() {
    let _ = Tensor::<Amp<MyBackend>, 1>::zeros([1], &Default::default());
}
