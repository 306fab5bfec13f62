//! `bench kernels`: each kernel of burn-amp-kernels, its reference in Burn's ops, and a plain elementwise op of Burn.
//!
//! | column | what it is |
//! |---|---|
//! | `GB/s` | bytes that the kernel reads and writes, counted from the shape, over its time |
//! | `of negation` | `GB/s` as a share of that of a negation in F32, which reads and writes each element once |
//! | `reference` | the reference's time over the kernel's |
//!
//! On a GPU a shape should be much larger than the caches.

mod cases;
mod operands;
mod timing;

use std::{fs::OpenOptions, io::Write, path::Path};

use anyhow::{Context, Result};
use burn::tensor::DType;
use burn_amp_kernels::AmpBackend;
use instrumented::Instrumented;
use lab::{
    machine::Machine,
    table::{Table, percent},
};
use serde::Serialize;

use self::{cases::Case, operands::operands, timing::seconds};

/// The measurement of a kernel on one shape and dtype.
#[derive(Clone, Debug, Serialize)]
pub struct Measurement {
    pub backend: String,
    pub device: String,
    pub kernel: &'static str,
    /// The dtype of the operand in low precision.
    pub dtype: String,
    pub rows: usize,
    pub columns: usize,
    /// Bytes that the kernel reads and writes.
    pub bytes: usize,
    pub seconds: f64,
    /// The seconds that the reference in Burn's ops takes.
    pub reference_seconds: f64,
    /// Bandwidth of a negation in F32 over as many elements.
    pub negation_bytes_per_second: f64,
}

impl Measurement {
    fn bytes_per_second(&self) -> f64 {
        self.bytes as f64 / self.seconds
    }
}

/// Measures every kernel for every shape and low dtype that the device computes in.
pub fn measure<B: AmpBackend>(
    machine: &Machine,
    shapes: &[(usize, usize)],
    out: Option<&Path>,
) -> Result<Vec<Measurement>> {
    let device = Default::default();
    let dtypes = [DType::F16, DType::BF16].into_iter();
    let dtypes: Vec<_> = dtypes
        .filter(|dtype| B::supports_dtype(&device, *dtype))
        .collect();
    let mut measurements = Vec::new();
    for &(rows, columns) in shapes {
        for &dtype in &dtypes {
            let operands = operands::<B>(rows, columns, dtype, &device);
            let negation = seconds::<B>(&device, || drop(B::float_neg(operands.wide.clone())));
            let references = Case::<Instrumented<B, ()>>::all();
            for (case, reference) in Case::<B>::all().into_iter().zip(references) {
                let measurement = Measurement {
                    backend: machine.backend.to_owned(),
                    device: machine.device.clone(),
                    kernel: case.name,
                    dtype: format!("{dtype:?}").to_lowercase(),
                    rows,
                    columns,
                    bytes: case.bytes_per_element * rows * columns,
                    seconds: seconds::<B>(&device, || (case.work)(&operands)),
                    reference_seconds: seconds::<B>(&device, || (reference.work)(&operands)),
                    negation_bytes_per_second: (8 * rows * columns) as f64 / negation,
                };
                if let Some(out) = out {
                    append(out, &measurement)?;
                }
                measurements.push(measurement);
            }
        }
    }
    Ok(measurements)
}

fn append(file: &Path, measurement: &Measurement) -> Result<()> {
    let mut out = OpenOptions::new()
        .create(true)
        .append(true)
        .open(file)
        .with_context(|| format!("cannot append to {}", file.display()))?;
    writeln!(out, "{}", serde_json::to_string(measurement)?)?;
    Ok(())
}

/// The measurements as a markdown table.
pub fn table(measurements: &[Measurement]) -> String {
    let Some(Measurement {
        backend, device, ..
    }) = measurements.first()
    else {
        return String::new();
    };
    let mut table =
        Table::new("<kernel | <dtype | <shape | >time | >GB/s | >of negation | >reference");
    for it in measurements {
        let bandwidth = it.bytes_per_second();
        table.push([
            it.kernel.to_owned(),
            it.dtype.clone(),
            format!("{} × {}", it.rows, it.columns),
            format!("{:.1} µs", it.seconds * 1e6),
            format!("{:.1}", bandwidth / 1e9),
            percent(bandwidth / it.negation_bytes_per_second),
            format!("{:.2} ×", it.reference_seconds / it.seconds),
        ]);
    }
    format!("{backend}, {device}\n\n{}", table.markdown())
}

#[cfg(test)]
mod tests {
    use burn::backend::Flex;

    use super::*;

    #[test]
    fn every_kernel_is_measured_and_has_a_row_and_a_line() {
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path().join("kernels.jsonl");
        let measured = measure::<Flex>(&Machine::flex(), &[(4, 32)], Some(&out)).unwrap();
        let cases = Case::<Flex>::all().len();
        assert_eq!(measured.len(), 2 * cases, "F16 and BF16");
        assert!(measured.iter().all(|measurement| measurement.seconds > 0.0));
        let lines = std::fs::read_to_string(&out).unwrap();
        assert_eq!(lines.lines().count(), measured.len());
        assert_eq!(
            table(&measured).matches("| 4 × 32 |").count(),
            measured.len()
        );
    }
}
