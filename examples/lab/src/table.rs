//! Tables for a terminal and in markdown, and how their cells are written.

/// Rows of cells under a header. A column's name starts with `<` to align it left, or with `>` to align it right.
pub struct Table {
    is_number: Vec<bool>,
    /// The header and the rows.
    lines: Vec<Vec<String>>,
}

impl Table {
    /// An empty table with a header such as `<model | >step ms`.
    pub fn new(header: &str) -> Self {
        let names: Vec<&str> = header.split('|').map(str::trim).collect();
        Self {
            is_number: names.iter().map(|name| name.starts_with('>')).collect(),
            lines: vec![names.iter().map(|name| name[1..].to_owned()).collect()],
        }
    }

    /// # Panics
    ///
    /// Panics if the number of cells differs from that of the header.
    pub fn push(&mut self, row: impl Into<Vec<String>>) {
        let row = row.into();
        assert_eq!(row.len(), self.is_number.len(), "a cell for each column");
        self.lines.push(row);
    }

    /// The table for a terminal: two spaces between columns, the header underlined.
    pub fn plain(&self) -> String {
        let line = |cells: Vec<String>| cells.join("  ").trim_end().to_owned() + "\n";
        self.padded('-').into_iter().map(line).collect()
    }

    /// The table in markdown, padded so that it reads well as text.
    pub fn markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        self.padded(':').into_iter().map(line).collect()
    }

    /// All lines with cells of equal widths. The rule below a column of numbers ends with `end`.
    fn padded(&self, end: char) -> Vec<Vec<String>> {
        let width = |column: usize| {
            let widths = self.lines.iter().map(|row| row[column].chars().count());
            widths.max().unwrap_or(0).max(2)
        };
        let widths: Vec<usize> = (0..self.is_number.len()).map(width).collect();
        let mut rule = Vec::new();
        for (is_number, width) in self.is_number.iter().zip(&widths) {
            let end = if *is_number { end } else { '-' };
            rule.push(format!("{end:->width$}"));
        }
        let pad = |row: &Vec<String>| -> Vec<String> {
            let cells = row.iter().zip(&self.is_number).zip(&widths);
            cells
                .map(|((cell, is_number), width)| {
                    if *is_number {
                        format!("{cell:>width$}")
                    } else {
                        format!("{cell:<width$}")
                    }
                })
                .collect()
        };
        let mut lines: Vec<Vec<String>> = self.lines.iter().map(pad).collect();
        lines.insert(1, rule);
        lines
    }
}

/// The text of a number, or `-` if it is missing.
pub fn cell<T>(value: Option<T>, text: impl FnOnce(T) -> String) -> String {
    value.map_or("-".to_owned(), text)
}

/// Formats bytes, such as `12.3 MiB`.
pub fn mebibytes(bytes: f64) -> String {
    format!("{:.1} MiB", bytes / f64::from(1 << 20))
}

/// Formats seconds, such as `1.2 s`, `120 ms` or `1.20 ms`.
pub fn seconds(seconds: f64) -> String {
    match seconds {
        1.0.. => format!("{seconds:.1} s"),
        0.1.. => format!("{:.0} ms", seconds * 1e3),
        _ => format!("{:.2} ms", seconds * 1e3),
    }
}

/// Formats a share, such as `83 %`.
pub fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new("<model | >ms");
        table.push(["mlp", "1.25"].map(str::to_owned));
        table.push(["resnet18", "-"].map(str::to_owned));
        table
    }

    #[test]
    fn names_stand_left_and_numbers_right() {
        let expected = "\
model       ms
--------  ----
mlp       1.25
resnet18     -
";
        assert_eq!(table().plain(), expected);
    }

    #[test]
    fn markdown_aligns_the_columns_too() {
        let expected = "\
| model    |   ms |
| -------- | ---: |
| mlp      | 1.25 |
| resnet18 |    - |
";
        assert_eq!(table().markdown(), expected);
    }

    #[test]
    fn times_have_the_digits_that_count() {
        let times = [12.34, 0.1234, 0.001234].map(seconds);
        assert_eq!(times, ["12.3 s", "123 ms", "1.23 ms"]);
    }
}
