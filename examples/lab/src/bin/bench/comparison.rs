//! Our entries and PyTorch's side by side, by model, batch and precision.

use std::fmt;

use lab::{
    entry::{Entry, F32, OURS, PYTORCH},
    table::{Table, cell, mebibytes},
};

/// The comparison as a markdown table. If a run was measured several times, the last one counts; a run that only one
/// side has gets a row too.
pub struct Comparison<'a>(pub &'a [Entry]);

impl Comparison<'_> {
    /// Returns the last entry for each run, in the order in which their models and precisions first appeared.
    fn latest(&self) -> Vec<&Entry> {
        let mut latest: Vec<&Entry> = Vec::new();
        for entry in self.0 {
            let equal = |old: &Entry| old.precision == entry.precision && old.compares_to(entry);
            match latest.iter_mut().find(|old| equal(old)) {
                Some(old) => *old = entry,
                None => latest.push(entry),
            }
        }
        latest
    }
}

/// A precision that only PyTorch has, where F32 with and without TF32 differ; CubeCL's F32 has no such switch.
const TF32: &str = "tf32";

/// Whether the two entries belong in one row by their precisions.
///
/// CubeCL multiplies F32 matrices on tensor cores in TF32 if that is the fastest kernel, so our F32 has two
/// counterparts.
fn are_counterparts(our: &Entry, their: &Entry) -> bool {
    our.precision == their.precision || (our.precision == F32 && their.precision == TF32)
}

/// A row of the table: our entry, PyTorch's, or both.
type Pair<'a> = (Option<&'a Entry>, Option<&'a Entry>);

/// Pairs each entry of ours with each of PyTorch's of the same work; either side may have several backends.
fn pairs<'a>(entries: &[&'a Entry]) -> Vec<Pair<'a>> {
    let mut rows: Vec<Pair<'a>> = Vec::new();
    let (ours, theirs): (Vec<&Entry>, Vec<&Entry>) =
        entries.iter().partition(|entry| entry.framework == OURS);
    for our in &ours {
        let mut matches: Vec<&Entry> = theirs
            .iter()
            .copied()
            .filter(|their| are_counterparts(our, their) && our.may_be_same_work(their))
            .collect();
        if matches.iter().any(|their| our.same_work(their)) {
            matches.retain(|their| our.same_work(their));
        }
        if matches.iter().any(|their| their.device == our.device) {
            matches.retain(|their| their.device == our.device);
        }
        if matches.is_empty() {
            rows.push((Some(our), None));
        }
        rows.extend(matches.into_iter().map(|their| (Some(*our), Some(their))));
    }
    for their in theirs {
        if rows.iter().any(|(_, paired)| *paired == Some(their)) {
            continue;
        }
        // After the last row of the same model, so that a model's precisions stay together.
        let of_model = |(our, paired): &Pair<'_>| {
            our.or(*paired)
                .is_some_and(|entry| entry.may_be_same_work(their))
        };
        let last = rows.iter().rposition(of_model);
        rows.insert(last.map_or(rows.len(), |row| row + 1), (None, Some(their)));
    }
    rows
}

impl fmt::Display for Comparison<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = self.latest();
        let mut table = Table::new(
            "<model | <batch | <precision | <burn-amp | >step ms | >items/s | >peak | >vs f32 \
             | <PyTorch | >step ms | >items/s | >peak | >vs f32 | >burn-amp / PyTorch",
        );
        for (ours, theirs) in pairs(&entries) {
            let Some(entry) = ours.or(theirs) else {
                continue;
            };
            let ratio = ours.zip(theirs).and_then(|(a, b)| a.speed_up_over(b));
            let precision = match ours.zip(theirs) {
                Some((our, their)) if our.precision != their.precision => {
                    format!("{} / {}", our.precision, their.precision)
                }
                Some(_) | None => entry.precision.clone(),
            };
            let work = [entry.model.clone(), entry.batch(), precision];
            let ratio = [cell(ratio, |ratio| format!("{ratio:.2}"))];
            let (our, their) = (numbers(ours, &entries), numbers(theirs, &entries));
            let row = [&work[..], &our, &their, &ratio].concat();
            table.push(row);
        }

        let mut machines: Vec<String> = Vec::new();
        for framework in [OURS, PYTORCH] {
            for entry in entries.iter().filter(|entry| entry.framework == framework) {
                let (version, backend) = (&entry.version, &entry.backend);
                let machine = format!("* {framework} {version}, {backend} on {}", entry.device);
                if !machines.contains(&machine) {
                    writeln!(f, "{machine}")?;
                    machines.push(machine);
                }
            }
        }
        writeln!(f)?;
        write!(f, "{}", table.markdown())?;
        writeln!(
            f,
            "\nMedian step time. vs f32: items/s over those in f32 on the same backend; burn-amp / PyTorch: items/s of \
             both, above 1 where burn-amp is faster. PyTorch's tf32 is paired with Burn's f32, too: on CUDA, CubeCL \
             multiplies F32 matrices in TF32 where that is the fastest."
        )?;
        if entries.iter().any(|entry| entry.error.is_some()) {
            writeln!(f)?;
        }
        for entry in &entries {
            if let Some(error) = &entry.error {
                let (framework, backend, model) = (&entry.framework, &entry.backend, &entry.model);
                let (batch, precision) = (entry.batch(), &entry.precision);
                writeln!(
                    f,
                    "* {framework} {backend}, {model} {batch} {precision}: {error}"
                )?;
            }
        }
        Ok(())
    }
}

/// Backend, step time, throughput, memory, and speed-up over F32 on the same backend.
fn numbers(entry: Option<&Entry>, entries: &[&Entry]) -> [String; 5] {
    let Some(entry) = entry else {
        return [(); 5].map(|()| "-".to_owned());
    };
    let is_f32 = |other: &&&Entry| other.precision == F32 && other.compares_to(entry);
    let f32 = entries.iter().find(is_f32);
    let speed_up = f32.and_then(|f32| entry.speed_up_over(f32));
    [
        entry.backend.clone(),
        entry
            .step_ms_median
            .map_or("failed".to_owned(), |step| format!("{step:.2}")),
        cell(entry.items_per_s, |items| format!("{items:.1}")),
        cell(entry.peak_memory_bytes, |bytes| mebibytes(bytes as f64)),
        cell(speed_up, |factor| format!("{factor:.2}x")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(lines: &[(&str, &str, &str, f64, Option<u64>)]) -> Vec<Entry> {
        let entry = |(framework, backend, precision, step_ms, peak): &(_, _, _, f64, _)| {
            serde_json::from_value(serde_json::json!({
                "framework": framework, "backend": backend, "precision": precision, "step_ms_median": step_ms,
                "items_per_s": 64e3 / step_ms, "peak_memory_bytes": peak, "version": "1", "device": "H200",
                "model": "bert", "size": "full", "batch_size": 64, "shape": [64, 128], "warmup": 5, "steps": 20,
            }))
        };
        lines.iter().map(|line| entry(line).unwrap()).collect()
    }

    #[test]
    fn lines_up_both_frameworks() {
        let gib = Some(1 << 30);
        let entries = entries(&[
            ("burn-amp", "cuda", "f32", 200.0, gib),
            ("burn-amp", "cuda", "amp-bf16", 999.0, None),
            ("burn-amp", "cuda", "amp-bf16", 80.0, None),
            ("pytorch", "cuda", "tf32", 100.0, gib),
            ("pytorch", "cuda", "f32", 160.0, gib),
            ("pytorch", "cuda", "amp-bf16", 64.0, gib),
        ]);
        let expected = "\
* burn-amp 1, cuda on H200
* pytorch 1, cuda on H200

| model | batch  | precision  | burn-amp | step ms | items/s |       peak | vs f32 | PyTorch | step ms | items/s |       peak | vs f32 | burn-amp / PyTorch |
| ----- | ------ | ---------- | -------- | ------: | ------: | ---------: | -----: | ------- | ------: | ------: | ---------: | -----: | -----------------: |
| bert  | 64x128 | f32 / tf32 | cuda     |  200.00 |   320.0 | 1024.0 MiB |  1.00x | cuda    |  100.00 |   640.0 | 1024.0 MiB |  1.60x |               0.50 |
| bert  | 64x128 | f32        | cuda     |  200.00 |   320.0 | 1024.0 MiB |  1.00x | cuda    |  160.00 |   400.0 | 1024.0 MiB |  1.00x |               0.80 |
| bert  | 64x128 | amp-bf16   | cuda     |   80.00 |   800.0 |          - |  2.50x | cuda    |   64.00 |  1000.0 | 1024.0 MiB |  2.50x |               0.80 |

Median step time. vs f32: items/s over those in f32 on the same backend; burn-amp / PyTorch: items/s of both, above 1 where burn-amp is faster. \
PyTorch's tf32 is paired with Burn's f32, too: on CUDA, CubeCL multiplies F32 matrices in TF32 where that is the fastest.
";
        assert_eq!(Comparison(&entries).to_string(), expected);
    }

    #[test]
    fn other_shapes_and_devices_are_not_mixed_up() {
        let mut entries = entries(&[
            ("burn-amp", "cuda", "f32", 4.0, None),
            ("pytorch", "cuda", "f32", 2.0, None),
            ("pytorch", "cuda", "f32", 8.0, None),
            ("pytorch", "cpu", "f32", 9.0, None),
        ]);
        entries[1].shape = Some(vec![64, 512]);
        entries[3].device = "a CPU".to_owned();
        let latest = Comparison(&entries);
        let rows: Vec<_> = pairs(&latest.latest())
            .into_iter()
            .map(|(our, their)| {
                [our, their].map(|entry| entry.and_then(|entry| entry.step_ms_median))
            })
            .collect();
        assert_eq!(
            rows,
            [[Some(4.0), Some(8.0)], [None, Some(9.0)], [None, Some(2.0)],]
        );
    }

    #[test]
    fn an_entry_that_failed_before_it_had_a_batch_is_paired_with_ours() {
        let mut entries = entries(&[
            ("burn-amp", "flex", "amp-f16", 4.0, None),
            ("pytorch", "cpu", "amp-f16", 1.0, None),
            ("pytorch", "cpu", "tf32", 1.0, None),
        ]);
        for entry in &mut entries[1..] {
            entry.shape = None;
        }
        let latest = Comparison(&entries);
        assert_eq!(
            pairs(&latest.latest()),
            [
                (Some(&entries[0]), Some(&entries[1])),
                (None, Some(&entries[2])),
            ]
        );
    }

    #[test]
    fn an_entry_without_numbers_is_failed_and_says_why() {
        let mut entries = entries(&[("pytorch", "cuda", "f32", 1.0, None)]);
        entries[0].step_ms_median = None;
        entries[0].items_per_s = None;
        entries[0].error = Some("OutOfMemoryError: CUDA out of memory".to_owned());
        let table = Comparison(&entries).to_string();
        assert!(table.contains(" failed |"), "{table}");
        assert!(
            table.ends_with(
                "* pytorch cuda, bert 64x128 f32: OutOfMemoryError: CUDA out of memory\n"
            ),
            "{table}"
        );
    }
}
