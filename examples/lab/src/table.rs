//! Tables of text, for a terminal and for markdown.

use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Names.
    Left,
    /// Numbers.
    Right,
}

/// `N` columns with a header.
pub struct Table<const N: usize> {
    header: [&'static str; N],
    aligns: [Align; N],
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    pub fn new(columns: [(&'static str, Align); N]) -> Self {
        Self {
            header: columns.map(|(name, _)| name),
            aligns: columns.map(|(_, align)| align),
            rows: Vec::new(),
        }
    }

    pub fn push(&mut self, row: [String; N]) {
        self.rows.push(row);
    }

    /// Columns apart by two blanks, the header underlined.
    pub fn plain(&self) -> Plain<'_, N> {
        Plain(self)
    }

    /// A markdown table that is readable as text, too.
    pub fn markdown(&self) -> Markdown<'_, N> {
        Markdown(self)
    }

    fn widths(&self) -> [usize; N] {
        std::array::from_fn(|column| {
            let cells = self.rows.iter().map(|row| row[column].as_str());
            let widths = cells
                .chain([self.header[column]])
                .map(|cell| cell.chars().count());
            widths.max().unwrap_or(0)
        })
    }

    /// A row, filled up with blanks.
    fn padded(&self, row: &[impl AsRef<str>; N], widths: &[usize; N]) -> [String; N] {
        std::array::from_fn(|column| {
            let (cell, width) = (row[column].as_ref(), widths[column]);
            match self.aligns[column] {
                Align::Left => format!("{cell:<width$}"),
                Align::Right => format!("{cell:>width$}"),
            }
        })
    }
}

pub struct Plain<'a, const N: usize>(&'a Table<N>);

impl<const N: usize> fmt::Display for Plain<'_, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(table) = self;
        let widths = table.widths();
        let mut line = |cells: [String; N]| writeln!(f, "{}", cells.join("  ").trim_end());
        line(table.padded(&table.header, &widths))?;
        line(widths.map(|width| "-".repeat(width)))?;
        let rows = table.rows.iter();
        rows.map(|row| table.padded(row, &widths))
            .try_for_each(line)
    }
}

pub struct Markdown<'a, const N: usize>(&'a Table<N>);

impl<const N: usize> fmt::Display for Markdown<'_, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(table) = self;
        let widths = table.widths();
        let mut line = |cells: [String; N]| writeln!(f, "| {} |", cells.join(" | "));
        line(table.padded(&table.header, &widths))?;
        line(std::array::from_fn(|column| {
            let dashes = "-".repeat(widths[column].saturating_sub(1));
            match table.aligns[column] {
                Align::Left => format!("{dashes}-"),
                Align::Right => format!("{dashes}:"),
            }
        }))?;
        let rows = table.rows.iter();
        rows.map(|row| table.padded(row, &widths))
            .try_for_each(line)
    }
}

/// A number that may be missing.
pub fn cell<T>(value: Option<T>, text: impl FnOnce(T) -> String) -> String {
    value.map_or("-".to_owned(), text)
}

/// `12.3 MiB`
pub fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table<2> {
        let mut table = Table::new([("model", Align::Left), ("ms", Align::Right)]);
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
        assert_eq!(table().plain().to_string(), expected);
    }

    #[test]
    fn markdown_says_so_too() {
        let expected = "\
| model    |   ms |
| -------- | ---: |
| mlp      | 1.25 |
| resnet18 |    - |
";
        assert_eq!(table().markdown().to_string(), expected);
    }
}
