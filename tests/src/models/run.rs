//! Functions that initialize, save, load and run a model.

use std::sync::{Mutex, PoisonError};

use super::*;

/// Fixed values between -1 and 1 that look random, so that their sums cancel no more than those of random values.
pub fn noise<B: Backend>(len: usize, device: &B::Device) -> Tensor<B, 1> {
    // Multiplicative hashing of the squares, with 2^32 / golden ratio (Knuth, TAOCP 6.4).
    let values: Vec<f32> = (1..=len as u32)
        .map(|i| i.wrapping_mul(i).wrapping_mul(2654435769) as i32 as f32 / 2f32.powi(31))
        .collect();
    Tensor::from_data(TensorData::new(values, [len]), device)
}

/// Locked by functions that may draw random numbers, because a backend has one generator per process.
static TURN: Mutex<()> = Mutex::new(());

/// Returns the record of a new module. The values are the same in every process, the parameter ids are new.
pub fn seeded<B: Backend, M: Module<B>>(init: impl FnOnce(&B::Device) -> M) -> Vec<u8> {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    B::seed(&here(), 1);
    save::<B, M>(init(&here()))
}

/// A layer that has the same values on every backend.
pub fn linear<B: AutodiffBackend>(inputs: usize, outputs: usize) -> nn::Linear<B> {
    let config = nn::LinearConfig::new(inputs, outputs);
    let record = seeded::<PlainAutodiff, nn::Linear<PlainAutodiff>>(|device| config.init(device));
    load::<B, _>(config.init(&here()), record)
}

/// Returns the record of a module, as bytes.
pub fn save<B: Backend, M: Module<B>>(module: M) -> Vec<u8> {
    bytes_of::<B>(module.into_record())
}

/// Loads the parameters of a record into a module.
pub fn load<B: Backend, M: Module<B>>(module: M, record: Vec<u8>) -> M {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    module.load_record(from_bytes::<B, _>(record))
}

/// The results and gradients of an example.
#[derive(Debug, PartialEq)]
pub struct Run {
    pub results: Named,
    pub gradients: Named,
}

/// Runs an example forward and backward from the parameters of `record`.
///
/// `inspect` gets the model and the gradients. After an overflow, which withholds the gradients, the step is run again.
pub fn run<E: Example, B: AutodiffBackend>(
    record: &[u8],
    inspect: impl Fn(&E::Model<B>, &B::Gradients),
) -> Run {
    let model = load::<B, _>(E::init::<B>(&here()), record.to_vec());
    for _ in 0..24 {
        let x = noise::<B>(E::INPUT, &here()).require_grad();
        let output = E::forward(&model, x.clone());
        let weights = noise(output.dims()[0], &here()) + 0.5;
        let loss = (output.clone() * weights).square().mean();
        let mut grads = loss.backward();
        let Some(gradient) = x.grad_remove(&mut grads) else {
            continue;
        };
        inspect(&model, &grads);
        let mut all = vec![("input".to_string(), gradient.into_data())];
        all.extend(gradients::<B, _>(&model, &grads));
        return Run {
            results: vec![
                ("output".to_string(), output.into_data()),
                ("loss".to_string(), loss.into_data()),
            ],
            gradients: all,
        };
    }
    panic!("no gradients in 24 steps");
}

/// The gradients of a module's parameters, with the parameters' names.
pub fn gradients<B: AutodiffBackend, M: Module<B>>(module: &M, grads: &B::Gradients) -> Named {
    struct Collect<'a, B: AutodiffBackend> {
        grads: &'a B::Gradients,
        path: Vec<String>,
        found: Named,
    }

    impl<B: AutodiffBackend> ModuleVisitor<B> for Collect<'_, B> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
            if let Some(gradient) = param.val().grad(self.grads) {
                self.found.push((self.path.join("."), gradient.into_data()));
            }
        }

        fn enter_module(&mut self, name: &str, _: &str) {
            self.path.push(name.to_string());
        }

        fn exit_module(&mut self, _: &str, _: &str) {
            self.path.pop();
        }
    }

    let mut collect = Collect {
        grads,
        path: Vec::new(),
        found: Vec::new(),
    };
    module.visit(&mut collect);
    collect.found
}
