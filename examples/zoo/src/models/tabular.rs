//! Feed-forward net over tabular data: embedded categorical columns and numeric ones.

use burn::{
    module::Module,
    nn::{Embedding, EmbeddingConfig, Linear, LinearConfig},
    prelude::*,
    tensor::{TensorData, activation::relu, backend::AutodiffBackend},
};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::{
    Draw, Example, Net, ZooModel, accuracy,
    draw::{indices, normal_data},
    loss::binary_cross_entropy,
    weights::WeightsError,
};

#[derive(Clone, Debug)]
pub struct TabularConfig {
    /// The number of values of each categorical column.
    pub cardinalities: Vec<usize>,
    pub embedding_width: usize,
    pub numeric_columns: usize,
    /// Widths of the hidden layers.
    pub hidden: Vec<usize>,
}

impl TabularConfig {
    /// 475,585 parameters.
    pub fn full() -> Self {
        Self {
            cardinalities: vec![10_000, 5_000, 1_000, 500, 200, 100, 50, 10],
            embedding_width: 16,
            numeric_columns: 16,
            hidden: vec![512, 256],
        }
    }

    pub fn tiny() -> Self {
        Self {
            cardinalities: vec![20, 10, 5],
            embedding_width: 8,
            numeric_columns: 8,
            hidden: vec![32, 16],
        }
    }
}

#[derive(Module, Debug)]
pub struct Tabular<B: Backend> {
    embeddings: Vec<Embedding<B>>,
    layers: Vec<Linear<B>>,
}

/// Rows of a table.
#[derive(Clone, Debug)]
pub struct Rows<B: Backend> {
    /// `[batch, column]`.
    pub categorical: Tensor<B, 2, Int>,
    /// `[batch, column]`.
    pub numeric: Tensor<B, 2>,
    /// `[batch]`, 0 or 1.
    pub target: Tensor<B, 1, Int>,
}

impl<B: Backend> Tabular<B> {
    /// Logits `[batch]` of `[batch, column]` indices and values.
    pub fn forward(&self, categorical: Tensor<B, 2, Int>, numeric: Tensor<B, 2>) -> Tensor<B, 1> {
        let mut columns: Vec<Tensor<B, 2>> = categorical
            .chunk(self.embeddings.len(), 1)
            .into_iter()
            .zip(&self.embeddings)
            .map(|(column, embedding)| embedding.forward(column).squeeze_dim(1))
            .collect();
        columns.push(numeric);

        let (head, hidden) = self.layers.split_last().expect("the head is a layer");
        let x = hidden
            .iter()
            .fold(Tensor::cat(columns, 1), |x, layer| relu(layer.forward(x)));
        head.forward(x).squeeze_dim(1)
    }
}

impl ZooModel for TabularConfig {
    type Batch<B: Backend> = Rows<B>;
    type Net<B: Backend> = Tabular<B>;
    type TrainNet<B: AutodiffBackend> = Tabular<B>;

    /// Returns the shape of an item's categorical columns.
    fn item_shape(&self) -> Vec<usize> {
        vec![self.cardinalities.len()]
    }

    /// Each value of a column has a worth, the same in every draw. The target is whether the worths of a row add up to
    /// more than 0.
    fn batch<B: Backend>(&self, draw: Draw, device: &B::Device) -> Rows<B> {
        let (columns, items) = (self.cardinalities.len(), draw.items);
        let mut rng = draw.rng();
        let categorical: Vec<i32> = (0..items)
            .flat_map(|_| &self.cardinalities)
            .map(|cardinality| rng.random_range(0..*cardinality as i32))
            .collect();
        let numeric = floats([items, self.numeric_columns], &mut rng);

        let mut worth = StdRng::seed_from_u64(0);
        let of_values: Vec<Vec<f32>> = self
            .cardinalities
            .iter()
            .map(|cardinality| floats([1, *cardinality], &mut worth))
            .collect();
        let of_columns = floats([1, self.numeric_columns], &mut worth);
        let target = categorical
            .chunks(columns)
            .zip(numeric.chunks(self.numeric_columns))
            .map(|(indices, values)| {
                let categorical = of_values.iter().zip(indices);
                let categorical: f32 = categorical.map(|(worth, i)| worth[*i as usize]).sum();
                let numeric = of_columns.iter().zip(values);
                let numeric: f32 = numeric.map(|(worth, value)| worth * value).sum();
                i32::from(categorical + numeric > 0.0)
            })
            .collect();

        Rows {
            categorical: indices(categorical, [items, columns], device),
            numeric: Tensor::from_data(
                TensorData::new(numeric, [items, self.numeric_columns]),
                device,
            ),
            target: indices(target, [items], device),
        }
    }

    fn read_batch<B: Backend>(
        example: &Example,
        device: &B::Device,
    ) -> Result<Rows<B>, WeightsError> {
        let target: Tensor<B, 1> = example.floats("batch.target", device)?;
        Ok(Rows {
            categorical: example.ints("batch.categorical", device)?,
            numeric: example.floats("batch.numeric", device)?,
            target: target.int(),
        })
    }
}

fn floats(shape: [usize; 2], rng: &mut StdRng) -> Vec<f32> {
    normal_data(shape, rng).into_vec().expect("they are f32")
}

impl<B: Backend> Net<B> for Tabular<B> {
    type Model = TabularConfig;

    fn init(model: &TabularConfig, device: &B::Device) -> Self {
        let width = model.embedding_width;
        let features = width * model.cardinalities.len() + model.numeric_columns;
        let widths: Vec<usize> = [features]
            .into_iter()
            .chain(model.hidden.iter().copied())
            .chain([1])
            .collect();
        Self {
            embeddings: model
                .cardinalities
                .iter()
                .map(|cardinality| EmbeddingConfig::new(*cardinality, width).init(device))
                .collect(),
            layers: widths
                .windows(2)
                .map(|pair| LinearConfig::new(pair[0], pair[1]).init(device))
                .collect(),
        }
    }

    fn loss(&self, batch: &Rows<B>) -> Tensor<B, 1> {
        let logits = self.forward(batch.categorical.clone(), batch.numeric.clone());
        binary_cross_entropy(logits, batch.target.clone())
    }

    fn accuracy(&self, batch: &Rows<B>) -> Option<Tensor<B, 1>> {
        let logits = self.forward(batch.categorical.clone(), batch.numeric.clone());
        Some(accuracy::of_yes_or_no(logits, batch.target.clone()))
    }
}
