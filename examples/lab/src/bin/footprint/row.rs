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
            let error = || gradients::error::<P::Training, S>(subject, &pytorch.folder, name);
            P::scaled_afresh(error).with_context(|| format!("{name} in {}", P::NAME))
        });
        let launches = P::scaled_afresh(|| memory::launches::<P::Training, S>(subject));
        let moved = launches.iter().filter(|launch| !launch.is_product());
        let row = Row {
            subject: name.to_owned(),
            precision: P::NAME.to_owned(),
            kept_bytes: P::scaled_afresh(|| memory::kept::<P::Training, S>(subject)),
            checkpointed_bytes: P::scaled_afresh(|| memory::kept::<P::Checkpointed, S>(subject)),
            peak_bytes: P::scaled_afresh(|| memory::peak::<P::Training, S>(subject)),
            traffic_bytes: moved.map(Launch::bytes).sum(),
            launches: launches.len() as u64,
            gradient_error: gradient_error.transpose()?,
        };
        Ok((row, launches))
    }
}
