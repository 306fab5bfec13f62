//! What every run of an experiment trains: the command line, checked.

use burn::{backend::Autodiff, tensor::backend::Backend};
use zoo::{Entry, Net, Size, UnknownModel, Visitor, ZooModel};

use crate::{
    cli::{Args, Replacement},
    layers::{self, Shapes},
};

#[derive(Clone, Debug)]
pub struct Plan {
    pub entry: &'static Entry,
    pub size: Size,
    /// Fields that the model's configuration has.
    pub set: Vec<Replacement>,
    pub batch_size: usize,
    pub epochs: usize,
    pub steps_per_epoch: usize,
    pub validation_items: usize,
    pub learning_rate: f64,
}

/// Why there is nothing to train.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    #[error(transparent)]
    UnknownModel(#[from] UnknownModel),
    #[error("--set: {model} has no number `{field}`")]
    UnknownField { model: &'static str, field: String },
}

impl Plan {
    /// # Errors
    ///
    /// If a number is to be set that the model does not have.
    pub fn new(args: &Args) -> Result<Self, PlanError> {
        let entry = zoo::entry(&args.model)?;
        let size = args.size();
        for Replacement { field, .. } in &args.set {
            if !zoo::visit(entry.name, size, HasNumber(field))? {
                return Err(PlanError::UnknownField {
                    model: entry.name,
                    field: field.clone(),
                });
            }
        }
        Ok(Self {
            entry,
            size,
            set: args.set.clone(),
            batch_size: args.batch_size(entry),
            epochs: args.epochs.get(),
            steps_per_epoch: args.steps_per_epoch.get(),
            validation_items: args.validation_items.get(),
            learning_rate: args.learning_rate,
        })
    }

    /// Calls the visitor with the model, its numbers replaced.
    pub fn visit<V: Visitor>(&self, visitor: V) -> V::Output {
        let set = &self.set;
        zoo::visit(self.entry.name, self.size, Replaced { set, visitor })
            .expect("the plan holds a row of the zoo")
    }

    /// What the model's shapes say, and whether a lower loss of it means a better model.
    pub fn describe<P: Backend>(&self, device: &P::Device) -> (Shapes, bool) {
        self.visit(Describe::<P> { device })
    }
}

/// Whether a model's configuration has a number of this name.
struct HasNumber<'a>(&'a str);

impl Visitor for HasNumber<'_> {
    type Output = bool;

    fn visit<M: ZooModel>(self, _: &'static Entry, mut model: M) -> bool {
        model.number(self.0).is_some()
    }
}

struct Replaced<'a, V> {
    set: &'a [Replacement],
    visitor: V,
}

impl<V: Visitor> Visitor for Replaced<'_, V> {
    type Output = V::Output;

    fn visit<M: ZooModel>(self, entry: &'static Entry, mut model: M) -> V::Output {
        for Replacement { field, number } in self.set {
            *model
                .number(field)
                .expect("the fields were looked up when the plan was made") = *number;
        }
        self.visitor.visit(entry, model)
    }
}

struct Describe<'a, P: Backend> {
    device: &'a P::Device,
}

impl<P: Backend> Visitor for Describe<'_, P> {
    type Output = (Shapes, bool);

    fn visit<M: ZooModel>(self, _: &'static Entry, model: M) -> Self::Output {
        let net = M::TrainNet::<Autodiff<P>>::init(&model, self.device);
        (Shapes::of(&layers::layers(&net)), M::LOSS_RANKS)
    }
}

#[cfg(test)]
mod tests {
    use burn::backend::Flex;
    use clap::Parser;

    use super::*;

    fn plan(arguments: &str) -> Result<Plan, PlanError> {
        let arguments = ["compare"].into_iter().chain(arguments.split_whitespace());
        Plan::new(&Args::parse_from(arguments))
    }

    #[test]
    fn a_number_that_is_set_changes_the_model() {
        let parameters = |arguments| {
            let (shapes, _) = plan(arguments)
                .unwrap()
                .describe::<Flex>(&Default::default());
            shapes.parameters
        };
        let tiny = parameters("--model gpt");
        assert_eq!(parameters("--model gpt --set positions=33"), tiny + 32);
    }

    #[test]
    fn a_number_that_the_model_does_not_have_is_refused() {
        let error = plan("--model mlp --set depth=3").unwrap_err();
        assert_eq!(error.to_string(), "--set: mlp has no number `depth`");
    }

    #[test]
    fn the_loss_of_a_critic_ranks_nothing() {
        let ranks = |arguments| {
            plan(arguments)
                .unwrap()
                .describe::<Flex>(&Default::default())
                .1
        };
        assert!(ranks("--model mlp"));
        assert!(!ranks("--model wgan"));
    }
}
