//! The launches and the traffic of a subject, op by op.

use std::collections::BTreeMap;

use lab::table::Table;

use crate::counting::Launch;

/// The ops of a subject besides matrix products and convolutions, those with the most traffic in BF16 first.
pub fn table(name: &str, launches: &[Vec<Launch>; 3]) -> String {
    let mut by_op: BTreeMap<String, [(u64, u64); 3]> = BTreeMap::new();
    for (precision, launches) in launches.iter().enumerate() {
        for launch in launches.iter().filter(|launch| !launch.is_product()) {
            let dtype = launch
                .dtype
                .map_or(String::new(), |dtype| format!(" {dtype:?}").to_lowercase());
            let (count, bytes) =
                &mut by_op.entry(format!("{}{dtype}", launch.op)).or_default()[precision];
            *count += 1;
            *bytes += launch.bytes();
        }
    }
    let mut ops: Vec<_> = by_op.into_iter().collect();
    ops.sort_by_key(|(_, [_, bf16, _])| std::cmp::Reverse(bf16.1));
    let mut table =
        Table::new("<op and dtype of its result | >f32 | >KiB | >bf16 | >KiB | >f16 | >KiB");
    for (op, columns) in ops {
        let numbers = columns.iter().flat_map(|(count, bytes)| {
            [count.to_string(), format!("{:.0}", *bytes as f64 / 1024.0)]
        });
        table.push([op].into_iter().chain(numbers).collect::<Vec<_>>());
    }
    format!("{name}: launches and traffic by op\n\n{}\n", table.plain())
}
