//! The runs side by side: a table to read and a file to compute with.

use std::{fmt, path::Path};

use crate::{
    precision::{Precision, Watched},
    training::Trained,
};

/// One training in one precision.
pub struct Run {
    pub precision: Precision,
    pub trained: Trained,
    /// What burn-amp did; `None` in plain F32.
    pub amp: Option<Watched>,
}

impl Run {
    /// The mean training loss of the last epoch.
    fn final_loss(&self) -> f64 {
        let Trained {
            losses,
            steps_per_epoch,
            ..
        } = &self.trained;
        let last = &losses[losses.len().saturating_sub(*steps_per_epoch)..];
        last.iter().sum::<f64>() / last.len() as f64
    }

    fn row(&self) -> [String; COLUMNS] {
        let amp = |cell: fn(&Watched) -> String| self.amp.as_ref().map_or("-".to_owned(), cell);
        [
            self.precision.to_string(),
            format!("{:.1} %", 100.0 * self.trained.accuracy),
            format!("{:.4}", self.final_loss()),
            amp(|amp| exact(amp.final_loss_scale)),
            amp(|amp| {
                let skipped = amp.skipped.iter().filter(|skipped| **skipped).count();
                format!("{skipped} of {}", amp.skipped.len())
            }),
            amp(|amp| amp.casts_per_step.to_string()),
            format!("{:.1} s", self.trained.time.as_secs_f64()),
        ]
    }
}

/// Formats a loss scale exactly: `f32` alone shows 2⁴⁰ as 1099511600000, the fewest digits that read back as the same
/// number.
fn exact(scale: f32) -> String {
    f64::from(scale).to_string()
}

const COLUMNS: usize = 7;
const HEADER: [&str; COLUMNS] = [
    "precision",
    "test accuracy",
    "final loss",
    "final loss scale",
    "skipped steps",
    "casts per step",
    "time",
];

/// The runs as a table, one line each.
pub struct Table<'a>(pub &'a [Run]);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows: Vec<_> = self.0.iter().map(Run::row).collect();
        let widths: [usize; COLUMNS] = std::array::from_fn(|column| {
            let cells = rows.iter().map(|row| row[column].len());
            cells.chain([HEADER[column].len()]).max().unwrap_or(0)
        });

        line(f, &HEADER, &widths)?;
        line(f, &widths.map(|width| "-".repeat(width)), &widths)?;
        rows.iter().try_for_each(|row| line(f, row, &widths))
    }
}

/// Formats a row: names are aligned left, numbers right.
fn line(
    f: &mut fmt::Formatter<'_>,
    cells: &[impl AsRef<str>; COLUMNS],
    widths: &[usize; COLUMNS],
) -> fmt::Result {
    let [name, numbers @ ..] = cells;
    let [name_width, number_widths @ ..] = widths;
    write!(f, "{:<name_width$}", name.as_ref())?;
    for (number, width) in numbers.iter().zip(number_widths) {
        write!(f, "  {:>width$}", number.as_ref())?;
    }
    writeln!(f)
}

/// Writes the numbers of every step of every run.
pub fn write_csv(path: &Path, runs: &[Run]) -> csv::Result<()> {
    let mut file = csv::Writer::from_path(path)?;
    file.write_record([
        "precision",
        "epoch",
        "step",
        "loss",
        "loss_scale",
        "skipped",
    ])?;
    for Run {
        precision,
        trained,
        amp,
    } in runs
    {
        for (step, loss) in trained.losses.iter().enumerate() {
            let (scale, skipped) = match amp {
                Some(amp) => (amp.loss_scales[step], amp.skipped[step]),
                None => (1.0, false),
            };
            file.write_record([
                precision.to_string(),
                (step / trained.steps_per_epoch + 1).to_string(),
                (step + 1).to_string(),
                loss.to_string(),
                exact(scale),
                u8::from(skipped).to_string(),
            ])?;
        }
    }
    Ok(file.flush()?)
}
