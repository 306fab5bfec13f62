//! Aligned columns.

use std::fmt::Write as _;

/// Writes rows in columns that are as wide as their widest cell. The first row is the header.
///
/// The last column is not padded, so that no line ends in spaces.
pub fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or_default()
    };
    let widths: Vec<_> = (0..count).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            write!(line, "{cell:<width$}  ").expect("a string takes any text");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A row of cells.
pub fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_lines_end_in_text() {
        let rows = [
            row(["op", "class"]),
            row(["float_exp", "full"]),
            row(["relu"]),
        ];
        assert_eq!(columns(&rows), "op         class\nfloat_exp  full\nrelu\n");
    }

    #[test]
    fn letters_are_counted_and_not_bytes() {
        assert_eq!(
            columns(&[row(["±", "x"]), row(["ab", "y"])]),
            "±   x\nab  y\n"
        );
    }
}
