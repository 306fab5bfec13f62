//! The runs of a session side by side, for a terminal.

use std::fmt;

use lab::{
    entry::Entry,
    precision::Precision,
    table::{Table, cell, mebibytes},
};

pub struct Summary<'a>(pub &'a [Entry]);

impl Summary<'_> {
    /// The run of the same work in `precision`.
    fn in_precision(&self, entry: &Entry, precision: Precision) -> Option<&Entry> {
        let Self(entries) = self;
        let mut all = entries.iter().rev();
        all.find(|other| other.precision == precision.name() && other.compares_to(entry))
    }

    /// The time that loss scaling adds to a step, as a part of the step without it.
    fn scaler_cost(&self, entry: &Entry) -> Option<f64> {
        let scaled = [Precision::AmpF16, Precision::AmpF16Static128].map(Precision::name);
        if !scaled.contains(&entry.precision.as_str()) {
            return None;
        }
        let unscaled = self.in_precision(entry, Precision::AmpF16Unscaled)?;
        Some(entry.step_ms_median? / unscaled.step_ms_median? - 1.0)
    }
}

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(entries) = self;
        let Some(first) = entries.first() else {
            return f.write_str("nothing was measured");
        };
        let mut table = Table::new(
            "<model | <batch | <precision | >steps | >step ms | >p10 | >p90 | >items/s | >vs f32 \
             | >scaler | >peak memory | >loss | >skipped | <error",
        );
        let milliseconds = |ms| cell(ms, |ms: f64| format!("{ms:.2}"));
        for entry in *entries {
            let speed_up = self
                .in_precision(entry, Precision::F32)
                .and_then(|f32| entry.speed_up_over(f32));
            table.push([
                entry.model.clone(),
                entry.batch(),
                entry.precision.clone(),
                entry.steps.to_string(),
                milliseconds(entry.step_ms_median),
                milliseconds(entry.step_ms_p10),
                milliseconds(entry.step_ms_p90),
                cell(entry.items_per_s, |items| format!("{items:.1}")),
                cell(speed_up, |factor| format!("{factor:.2}x")),
                cell(self.scaler_cost(entry), |part| {
                    format!("{:+.1} %", 100.0 * part)
                }),
                cell(entry.peak_memory_bytes, |bytes| mebibytes(bytes as f64)),
                cell(entry.loss_last, |loss| format!("{loss:.4}")),
                cell(entry.skipped_steps, |steps| steps.to_string()),
                entry.error.clone().unwrap_or_default(),
            ]);
        }
        let Entry {
            version,
            backend,
            device,
            warmup,
            ..
        } = first;
        writeln!(
            f,
            "burn-amp {version}, {backend} on {device}, after {warmup} steps of warm-up"
        )?;
        write!(f, "{}", table.plain())?;
        writeln!(
            f,
            "scaler: the time that loss scaling adds to a step of {}",
            Precision::AmpF16Unscaled.name()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(precision: Precision, step_ms: f64) -> Entry {
        let mut entry: Entry = serde_json::from_value(serde_json::json!({
            "model": "mlp", "size": "tiny", "batch_size": 8, "precision": precision.name(), "warmup": 5,
            "device": "a CPU", "backend": "flex", "framework": "burn-amp", "version": "0.1.0", "steps": 20,
        }))
        .unwrap();
        entry.shape = Some(vec![8, 784]);
        entry.step_ms_median = Some(step_ms);
        entry.items_per_s = Some(8000.0 / step_ms);
        entry
    }

    #[test]
    fn compares_to_f32_and_to_the_run_without_a_scaler() {
        let mut failed = entry(Precision::O2, 1.0);
        failed.steps = 0;
        failed.step_ms_median = None;
        failed.items_per_s = None;
        failed.error = Some("panic: out of memory".to_owned());
        let entries = [
            entry(Precision::F32, 2.0),
            entry(Precision::AmpF16, 1.1),
            entry(Precision::AmpF16Unscaled, 1.0),
            failed,
        ];
        let expected = "\
burn-amp 0.1.0, flex on a CPU, after 5 steps of warm-up
model  batch  precision         steps  step ms  p10  p90  items/s  vs f32   scaler  peak memory  loss  skipped  error
-----  -----  ----------------  -----  -------  ---  ---  -------  ------  -------  -----------  ----  -------  --------------------
mlp    8x784  f32                  20     2.00    -    -   4000.0   1.00x        -            -     -        -
mlp    8x784  amp-f16              20     1.10    -    -   7272.7   1.82x  +10.0 %            -     -        -
mlp    8x784  amp-f16-unscaled     20     1.00    -    -   8000.0   2.00x        -            -     -        -
mlp    8x784  o2                    0        -    -    -        -       -        -            -     -        -  panic: out of memory
scaler: the time that loss scaling adds to a step of amp-f16-unscaled
";
        assert_eq!(Summary(&entries).to_string(), expected);
    }
}
