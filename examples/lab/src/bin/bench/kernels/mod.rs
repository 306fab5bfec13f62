//! `bench kernels`: every kernel of burn-amp-kernels beside its reference in Burn's ops and beside a plain elementwise op of Burn, in one
//! run.
//!
//! | column | what it is |
//! |---|---|
//! | `GB/s` | bytes that the kernel reads and writes, counted from the shape, over its time |
//! | `of negation` | that as a share of the bytes per second of a negation in F32, one read and one write of each element |
//! | `reference` | the reference's time over the kernel's |
//!
//! On a GPU a shape should be much larger than the caches.

mod cases;
mod operands;
mod timing;

use std::{fmt, fs::OpenOptions, io::Write, path::Path};

use anyhow::{Context, Result};
use burn::tensor::DType;
use burn_amp_kernels::Kernels;
use serde::Serialize;

use self::{cases::Case, operands::Operands, timing::seconds};

/// A kernel on one shape and dtype.
#[derive(Clone, Debug, Serialize)]
pub struct Measurement {
    pub backend: String,
    pub device: String,
    pub kernel: &'static str,
    /// Of the operand that is stored low.
    pub dtype: String,
    pub rows: usize,
    pub columns: usize,
    /// Read and written by the kernel.
    pub bytes: usize,
    pub seconds: f64,
    /// Of the reference, in Burn's ops.
    pub reference_seconds: f64,
    /// Of a negation in F32 over as many elements.
    pub negation_bytes_per_second: f64,
}

impl Measurement {
    fn bytes_per_second(&self) -> f64 {
        self.bytes as f64 / self.seconds
    }
}

/// Measures every kernel for every shape and low dtype that the device computes in.
pub fn measure<B: Kernels>(
    backend: &str,
    device_name: &str,
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
            let operands = Operands::<B>::new(rows, columns, dtype, &device);
            let negation = seconds::<B>(&device, || drop(B::float_neg(operands.wide.clone())));
            for case in Case::<B>::all() {
                let measurement = Measurement {
                    backend: backend.to_owned(),
                    device: device_name.to_owned(),
                    kernel: case.name,
                    dtype: format!("{dtype:?}").to_lowercase(),
                    rows,
                    columns,
                    bytes: case.bytes_per_element * rows * columns,
                    seconds: seconds::<B>(&device, || (case.kernel)(&operands)),
                    reference_seconds: seconds::<B>(&device, || (case.reference)(&operands)),
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

/// A markdown table.
pub struct Table<'a>(pub &'a [Measurement]);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Measurement {
            backend, device, ..
        }) = self.0.first()
        {
            writeln!(f, "{backend}, {device}\n")?;
        }
        writeln!(
            f,
            "| kernel | dtype | shape | time | GB/s | of negation | reference |"
        )?;
        writeln!(f, "|---|---|---|---:|---:|---:|---:|")?;
        for measurement in self.0 {
            let Measurement {
                kernel,
                dtype,
                rows,
                columns,
                seconds,
                reference_seconds,
                negation_bytes_per_second,
                ..
            } = measurement;
            let bytes_per_second = measurement.bytes_per_second();
            writeln!(
                f,
                "| {kernel} | {dtype} | {rows} × {columns} | {:.1} µs | {:.1} | {:.0} % | {:.2} × |",
                seconds * 1e6,
                bytes_per_second / 1e9,
                100.0 * bytes_per_second / negation_bytes_per_second,
                reference_seconds / seconds,
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use burn::backend::Flex;

    use super::*;

    #[test]
    fn every_kernel_is_measured_and_has_a_row_and_a_line() {
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path().join("kernels.jsonl");
        let measured = measure::<Flex>("flex", "a CPU", &[(4, 32)], Some(&out)).unwrap();
        let cases = Case::<Flex>::all().len();
        assert_eq!(measured.len(), 2 * cases, "F16 and BF16");
        assert!(measured.iter().all(|measurement| measurement.seconds > 0.0));
        let lines = std::fs::read_to_string(&out).unwrap();
        assert_eq!(lines.lines().count(), measured.len());
        let table = Table(&measured).to_string();
        assert_eq!(table.matches("| 4 × 32 |").count(), measured.len());
    }
}
