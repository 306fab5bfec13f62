//! Counts the parameters of a module.

use burn::{
    module::{ModuleVisitor, Param},
    prelude::*,
};

/// Returns the number of trainable scalars. The running statistics of batch norms do not count, and nothing is
/// allocated: parameters that have not been used yet stay as they are.
pub fn parameters<B: Backend, M: Module<B>>(module: &M) -> usize {
    let mut count = Count::default();
    module.visit(&mut count);
    count.scalars
}

#[derive(Default)]
struct Count {
    scalars: usize,
    fields: Vec<String>,
}

impl<B: Backend> ModuleVisitor<B> for Count {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.fields.push(name.to_owned());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.fields.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        let statistic = |field: &String| field.starts_with("running_");
        if !self.fields.last().is_some_and(statistic) {
            self.scalars += param.lazy_shape().num_elements();
        }
    }
}
