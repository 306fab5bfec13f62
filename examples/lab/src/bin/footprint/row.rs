//! The numbers of one subject in one precision.

use anyhow::{Context, Result};
use serde::Serialize;

use crate::{
    counting::Launch,
    gradients::{self, GradientError},
    memory,
    precision::{Bf16, F16, F32, Precision},
    pytorch::PyTorch,
    subject::{Subject, Visitor},
};

#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub subject: String,
    pub precision: String,
    pub kept_bytes: u64,
    pub tensor_bytes: u64,
    pub checkpointed_bytes: u64,
    pub peak_bytes: u64,
    pub traffic_bytes: u64,
    pub launches: u64,
    /// `None` if no folder of PyTorch's was given.
    pub gradient_error: Option<GradientError>,
}

/// Measures a subject in each precision.
pub struct Measure<'a> {
    pub name: &'static str,
    pub pytorch: Option<&'a PyTorch>,
}

/// The rows of a subject in F32, BF16 and F16, and the launches that they sum up.
pub struct Measured {
    pub rows: [Row; 3],
    pub launches: [Vec<Launch>; 3],
}

impl Visitor for Measure<'_> {
    type Output = Result<Measured>;

    fn visit<S: Subject>(self, subject: &S) -> Result<Measured> {
        let (f32, f32_launches) = self.row::<F32, S>(subject)?;
        let (bf16, bf16_launches) = self.row::<Bf16, S>(subject)?;
        let (f16, f16_launches) = self.row::<F16, S>(subject)?;
        Ok(Measured {
            rows: [f32, bf16, f16],
            launches: [f32_launches, bf16_launches, f16_launches],
        })
    }
}

impl Measure<'_> {
    fn row<P: Precision, S: Subject>(&self, subject: &S) -> Result<(Row, Vec<Launch>)> {
        let name = self.name;
        let gradient_error = self.pytorch.map(|pytorch| {
            let error = || gradients::error::<P::Training, S>(subject, pytorch, name);
            P::scaled_afresh(error).with_context(|| format!("{name} in {}", P::NAME))
        });
        let launches = P::scaled_afresh(|| memory::launches::<P::Training, S>(subject));
        let moved = launches.iter().filter(|launch| !launch.is_product());
        let row = Row {
            subject: name.to_owned(),
            precision: P::NAME.to_owned(),
            kept_bytes: P::scaled_afresh(|| memory::kept::<P::Training, S>(subject, 1)),
            tensor_bytes: P::scaled_afresh(|| memory::tensors::<P::Training, S>(subject)),
            checkpointed_bytes: P::scaled_afresh(|| memory::kept::<P::Checkpointed, S>(subject, 1)),
            peak_bytes: P::scaled_afresh(|| memory::peak::<P::Training, S>(subject)),
            traffic_bytes: moved.map(Launch::bytes).sum(),
            launches: launches.len() as u64,
            gradient_error: gradient_error.transpose()?,
        };
        Ok((row, launches))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject;

    fn measured(name: &'static str) -> Measured {
        let measure = Measure {
            name,
            pytorch: None,
        };
        subject::visit(name, measure).unwrap().unwrap()
    }

    #[test]
    fn attention_keeps_less_than_half_and_launches_are_those_that_are_counted() {
        let _alone = memory::ALONE.lock();
        let Measured { rows, launches } = measured("mha");
        let [f32, bf16, f16] = &rows;
        assert_eq!(
            rows.each_ref().map(|row| row.precision.as_str()),
            ["f32", "bf16", "f16"]
        );
        assert!(2 * bf16.tensor_bytes < f32.tensor_bytes, "{bf16:?} {f32:?}");
        assert!(
            f16.tensor_bytes <= f16.kept_bytes,
            "the nodes of the graph come on top: {f16:?}"
        );
        assert!(f32.checkpointed_bytes < f32.kept_bytes, "{f32:?}");
        for (row, launches) in rows.iter().zip(&launches) {
            assert_eq!(row.launches, launches.len() as u64);
            let all: u64 = launches.iter().map(Launch::bytes).sum();
            assert!(
                0 < row.traffic_bytes && row.traffic_bytes < all,
                "products do not count"
            );
        }
    }
}
