//! What a launch moves and computes, from its metadata.

use super::{
    kernel::{Access, Field, Kernel},
    log::Launch,
};

/// A buffer of a launch: where it lies, how many bytes it has, what the kernel does with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub start: u64,
    pub bytes: u64,
    pub access: Access,
}

/// The buffers of a launch; `None` if the metadata does not have their lengths.
pub fn spans(kernel: &Kernel, launch: &Launch) -> Option<Vec<Span>> {
    let buffers = kernel.buffers.iter().enumerate();
    buffers
        .map(|(index, buffer)| {
            Some(Span {
                start: *launch.pointers.get(index)?,
                bytes: value(kernel.lengths?, index, &launch.words)? * buffer.unit,
                access: buffer.access,
            })
        })
        .collect()
}

/// The bytes that a launch moves: each buffer once, one that is read and written twice; of a table that is looked up or
/// added to by index, as many as there are values.
pub fn bytes(entry: &str, spans: &[Span]) -> u64 {
    let mut sizes: Vec<u64> = spans.iter().map(|span| span.bytes).collect();
    sizes.sort_unstable();
    let looks_up = entry.starts_with("gather") || entry.starts_with("select_kernel");
    let adds = entry.starts_with("scatter") || entry.starts_with("select_assign");
    // A table, values and indices: the values are neither the largest nor the smallest.
    match sizes.as_slice() {
        [_, values, _] if looks_up => 2 * values,
        [_, values, _] if adds => 3 * values,
        _ => spans
            .iter()
            .map(|span| match span.access {
                Access::Read | Access::Write => span.bytes,
                Access::ReadWrite => 2 * span.bytes,
            })
            .sum(),
    }
}

/// The floating-point operations of a matrix product.
///
/// The operands of b products have `b·m·k`, `b·k·n` and `b·m·n` elements, so `b·m·n·k` is the root of their product over b.
/// The lengths are those without padding, which follow those with padding; the last scalar is the number of products.
/// A convolution, whose operands are larger by its window, counts too little by a side of the window.
pub fn product_flops(kernel: &Kernel, launch: &Launch) -> Option<f64> {
    let lengths = kernel.lengths?;
    let buffers = kernel.buffers.len();
    if buffers < 3 || lengths.count < 2 * buffers {
        return None;
    }
    let mut elements = 1.0;
    for (index, buffer) in kernel.buffers.iter().take(3).enumerate() {
        // Lengths without padding are in units too; a unit is some elements of 2 or 4 bytes.
        let units = value(lengths, buffers + index, &launch.words)? as f64;
        elements *= units * buffer.unit as f64 / element_bytes(&launch.entry, index);
    }
    let scalars = kernel.scalars?;
    // The scalars are padded with a zero to whole words of 8 bytes.
    let products = (0..scalars.count)
        .rev()
        .filter_map(|index| value(scalars, index, &launch.words))
        .find(|value| *value > 0)?;
    Some(2.0 * (elements / products as f64).sqrt())
}

/// The bytes of an element of a product's operand, from the kernel's name: `matmul_entry_lhs_bf16_.._rhs_bf16_.._acc_f32_..`.
fn element_bytes(entry: &str, operand: usize) -> f64 {
    let mark = ["lhs_", "rhs_", "acc_"][operand];
    let dtype = entry.split(mark).nth(1).unwrap_or_default();
    match dtype.split('_').next() {
        Some("bf16" | "f16") => 2.0,
        _ => 4.0,
    }
}

fn value(field: Field, index: usize, words: &[u32]) -> Option<u64> {
    if index >= field.count {
        return None;
    }
    let at = field.offset / 4 + index * field.element / 4;
    let low = u64::from(*words.get(at)?);
    match field.element {
        4 => Some(low),
        8 => Some(low | u64::from(*words.get(at + 1)?) << 32),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::kernel::Buffer;

    fn kernel(count: usize, buffers: &[(u64, Access)]) -> Kernel {
        let field = |offset, count| {
            Some(Field {
                offset,
                element: 4,
                count,
            })
        };
        let buffers = buffers.iter();
        Kernel {
            descriptors: 0,
            buffers: buffers
                .map(|&(unit, access)| Buffer { unit, access })
                .collect(),
            scalars: field(0, 2),
            lengths: field(8, count),
        }
    }

    fn launch(entry: &str, words: &[u32]) -> Launch {
        Launch {
            hash: String::new(),
            entry: entry.to_owned(),
            pointers: vec![0x1000, 0x2000, 0x3000],
            words: words.to_vec(),
        }
    }

    #[test]
    fn what_is_read_and_written_moves_twice() {
        let kernel = kernel(2, &[(16, Access::ReadWrite), (4, Access::Read)]);
        let spans = spans(&kernel, &launch("add", &[0, 0, 10, 5])).unwrap();
        assert_eq!(spans[1].start, 0x2000);
        assert_eq!(bytes("add", &spans), 2 * 160 + 20);
    }

    #[test]
    fn a_lookup_moves_what_it_looks_up() {
        let span = |bytes| Span {
            start: 0,
            bytes,
            access: Access::Read,
        };
        let spans = [span(1000), span(4), span(64)];
        assert_eq!(bytes("select_kernel_t_f32", &spans), 128);
        assert_eq!(bytes("select_assign_kernel_f_f32", &spans), 192);
    }

    #[test]
    fn the_operations_of_a_batch_of_products() {
        let kernel = kernel(
            6,
            &[(16, Access::Read), (16, Access::Read), (16, Access::Write)],
        );
        // 3 products of [16, 32] and [32, 8] in BF16, in vectors of 8, without padding.
        let lengths = [3 * 16 * 32 / 8, 3 * 32 * 8 / 8, 3 * 16 * 8 / 8];
        let words = [&[3, 0], &lengths[..], &lengths].concat();
        let entry = "matmul_entry_lhs_bf16_lhs_size_8_rhs_bf16_rhs_size_8_acc_bf16_acc_size_8";
        let flops = product_flops(&kernel, &launch(entry, &words)).unwrap();
        assert_eq!(flops, f64::from(2 * 3 * 16 * 32 * 8));
    }
}
