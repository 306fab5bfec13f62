//! The values of the parameters of layers.

use super::all::*;

/// Puts drawn values into the parameters of a module: weights of about unit gain, factors near 1. Running statistics
/// get such values, too, and stay outside the graph.
pub struct Draw<B: Backend> {
    pub rng: Rng,
    pub to: Setting<B>,
}

impl<B: Backend> ModuleMapper<B> for Draw<B> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
        let (id, old, mapper) = param.consume();
        let shape = old.shape().to_vec();
        let gain = (3.0 / shape[..D - 1].iter().product::<usize>().max(1) as f64)
            .sqrt()
            .min(1.0);
        let noise = self.to.noise(shape, self.rng.bits());
        let noise = Tensor::from_primitive(TensorPrimitive::Float(noise));
        let values = if D == 1 {
            noise * 0.5 + 0.75
        } else {
            noise * gain
        };
        Param::from_mapped_value(id, values.set_require_grad(old.is_require_grad()), mapper)
    }
}
