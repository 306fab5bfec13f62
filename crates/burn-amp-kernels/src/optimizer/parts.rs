//! A [`ListStep`] as a flat list of tensors, and back: the form in which it passes through Fusion's stream.

use burn_backend::{Backend, DType, FloatDType, Shape, TensorMetadata, tensor::FloatTensor};

use super::{ListStep, Listed, Rule, Stepped};

/// What a [`ListStep`] is besides its tensors.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    rule: Rule,
    lr: f64,
    scaled_by: bool,
    unless_overflowed: bool,
    clip: bool,
    parameters: Vec<Part>,
}

#[derive(Clone, Debug)]
struct Part {
    factor: f32,
    master: bool,
    moments: usize,
    time: i32,
    low: Option<FloatDType>,
}

impl Parts {
    /// Takes a step apart.
    pub(crate) fn of<B: Backend>(step: ListStep<B>) -> (Self, Vec<FloatTensor<B>>) {
        let ListStep {
            rule,
            lr,
            scaled_by,
            unless_overflowed,
            clip,
            parameters: listed,
        } = step;
        let mut parts = Self {
            rule,
            lr,
            scaled_by: scaled_by.is_some(),
            unless_overflowed: unless_overflowed.is_some(),
            clip: clip.is_some(),
            parameters: Vec::with_capacity(listed.len()),
        };
        let mut tensors: Vec<_> = [scaled_by, unless_overflowed, clip]
            .into_iter()
            .flatten()
            .collect();
        for listed in listed {
            let Listed {
                parameter,
                gradient,
                factor,
                master,
                moments,
                time,
                low,
            } = listed;
            parts.parameters.push(Part {
                factor,
                master: master.is_some(),
                moments: moments.len(),
                time,
                low,
            });
            tensors.extend([gradient, parameter]);
            tensors.extend(master.into_iter().chain(moments));
        }
        (parts, tensors)
    }

    /// Puts a step together, with tensors of the same or of another backend.
    pub(crate) fn step<B: Backend>(&self, tensors: Vec<FloatTensor<B>>) -> ListStep<B> {
        let mut tensors = tensors.into_iter();
        let mut next = || {
            tensors
                .next()
                .expect("a step has the tensors it was made of")
        };
        ListStep {
            rule: self.rule,
            lr: self.lr,
            scaled_by: self.scaled_by.then(&mut next),
            unless_overflowed: self.unless_overflowed.then(&mut next),
            clip: self.clip.then(&mut next),
            parameters: self
                .parameters
                .iter()
                .map(|part| Listed {
                    gradient: next(),
                    parameter: next(),
                    factor: part.factor,
                    master: part.master.then(&mut next),
                    moments: (0..part.moments).map(|_| next()).collect(),
                    time: part.time,
                    low: part.low,
                })
                .collect(),
        }
    }

    /// Describes the tensors of the result, from those of the step.
    pub(crate) fn results<T: TensorMetadata>(&self, tensors: &[T]) -> Vec<(Shape, DType)> {
        let globals = [self.scaled_by, self.unless_overflowed, self.clip];
        let mut at = globals.into_iter().filter(|is_there| *is_there).count();
        let mut results = Vec::new();
        for part in &self.parameters {
            let own = 1 + usize::from(part.master) + part.moments;
            let changed = &tensors[at + 1..=at + own];
            results.extend(
                changed
                    .iter()
                    .map(|tensor| (tensor.shape(), tensor.dtype())),
            );
            results.extend(part.low.map(|low| (changed[0].shape(), low.into())));
            at += 1 + own;
        }
        results
    }

    /// Takes a result apart.
    pub(crate) fn flatten<B: Backend>(stepped: Vec<Stepped<B>>) -> Vec<FloatTensor<B>> {
        let mut tensors = Vec::new();
        for stepped in stepped {
            let Stepped {
                parameter,
                master,
                moments,
                low,
            } = stepped;
            tensors.push(parameter);
            tensors.extend(master.into_iter().chain(moments).chain(low));
        }
        tensors
    }

    /// Puts a result together.
    pub(crate) fn stepped<B: Backend>(&self, tensors: Vec<FloatTensor<B>>) -> Vec<Stepped<B>> {
        let mut tensors = tensors.into_iter();
        let mut next = || {
            tensors
                .next()
                .expect("an op returns the tensors it announced")
        };
        self.parameters
            .iter()
            .map(|part| Stepped {
                parameter: next(),
                master: part.master.then(&mut next),
                moments: (0..part.moments).map(|_| next()).collect(),
                low: part.low.map(|_| next()),
            })
            .collect()
    }
}
