//! Prints in which precision burn-amp computes, or why it does not.

use burn::tensor::Device;

fn main() {
    match burn_amp::effective_config(&Device::flex()) {
        Ok(config) => println!("computes in {}", config.compute.name()),
        Err(error) => println!("{error}"),
    }
    assert_eq!(burn_amp::is_on(), burn_amp::full_precision(|| ()).is_ok());
}
