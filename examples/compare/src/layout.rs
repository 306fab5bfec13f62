//! Tables in markdown that are readable as text, too.

use std::fmt;

/// `N` columns; the first one is of names and stands left, the others right.
pub struct Table<const N: usize> {
    header: [&'static str; N],
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    pub fn new(header: [&'static str; N], rows: Vec<[String; N]>) -> Self {
        Self { header, rows }
    }
}

impl<const N: usize> fmt::Display for Table<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = self.header.map(str::to_owned);
        let widths: [usize; N] = std::array::from_fn(|column| {
            let cells = [&header].into_iter().chain(&self.rows);
            let widths = cells.map(|row| row[column].chars().count());
            widths.max().unwrap_or(0).max(2)
        });
        let mut line = |cell: &dyn Fn(usize) -> String| {
            let cells: Vec<String> = (0..N).map(cell).collect();
            writeln!(f, "| {} |", cells.join(" | "))
        };
        let padded = |row: &[String; N], column: usize| {
            let (cell, width) = (&row[column], widths[column]);
            match column {
                0 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            }
        };
        line(&|column| padded(&header, column))?;
        line(&|column| {
            let dashes = "-".repeat(widths[column] - 1);
            format!("{dashes}{}", if column == 0 { '-' } else { ':' })
        })?;
        self.rows
            .iter()
            .try_for_each(|row| line(&|column| padded(row, column)))
    }
}

/// A number that may be missing.
pub fn cell<T>(value: Option<T>, text: impl FnOnce(T) -> String) -> String {
    value.map_or("-".to_owned(), text)
}

/// `12.3 MiB`
pub fn mebibytes(bytes: f64) -> String {
    format!("{:.1} MiB", bytes / f64::from(1 << 20))
}

/// `1.2 s`, `120 ms`, `1.20 ms`
pub fn seconds(seconds: f64) -> String {
    match seconds {
        1.0.. => format!("{seconds:.1} s"),
        0.1.. => format!("{:.0} ms", seconds * 1e3),
        _ => format!("{:.2} ms", seconds * 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_left_and_numbers_right() {
        let rows = vec![
            ["f32", "12"].map(str::to_owned),
            ["bf16", "3"].map(str::to_owned),
        ];
        let expected = "\
| run  | ms |
| ---- | -: |
| f32  | 12 |
| bf16 |  3 |
";
        assert_eq!(Table::new(["run", "ms"], rows).to_string(), expected);
    }

    #[test]
    fn times_have_the_digits_that_count() {
        assert_eq!(
            [12.34, 0.1234, 0.001234].map(seconds),
            ["12.3 s", "123 ms", "1.23 ms"]
        );
    }
}
