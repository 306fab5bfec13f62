//! Aligned columns for a terminal.

/// The lines of a table, whose columns are as wide as their widest cells and two spaces apart. No line ends in spaces.
pub(crate) fn columns<R: AsRef<[String]>>(
    rows: &[R],
    is_number: impl Fn(usize) -> bool,
) -> Vec<String> {
    let rows = rows.iter().map(AsRef::as_ref);
    let mut widths = Vec::new();
    for row in rows.clone() {
        widths.resize(widths.len().max(row.len()), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let padded = |(column, (cell, width)): (usize, (&String, &usize))| match is_number(column) {
        true => format!("{cell:>width$}  "),
        false => format!("{cell:<width$}  "),
    };
    rows.map(|row| {
        let line: String = row.iter().zip(&widths).enumerate().map(padded).collect();
        line.trim_end().to_owned()
    })
    .collect()
}
