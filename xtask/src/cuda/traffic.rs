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

/// The bytes that a launch moves: each buffer once, one that is read and written twice. Of a table that is looked up or
/// added to by index, as many as there are values; of a tensor that is written to in part, and of one of which a part is
/// copied, that part.
pub fn bytes(entry: &str, spans: &[Span]) -> u64 {
    let mut sizes: Vec<u64> = spans.iter().map(|span| span.bytes).collect();
    sizes.sort_unstable();
    let looks_up = entry.starts_with("gather") || entry.starts_with("select_kernel");
    let adds = entry.starts_with("scatter") || entry.starts_with("select_assign");
    // A table, values and indices: the values are neither the largest nor the smallest.
    match sizes.as_slice() {
        [_, values, _] if looks_up => 2 * values,
        [_, values, _] if adds => 3 * values,
        [values, _] if entry.starts_with("slice_assign") => 2 * values,
        [smaller, _] if entry.starts_with("copy_kernel") || entry.starts_with("slice_kernel") => {
            let written = spans.iter().filter(|span| span.access != Access::Read);
            smaller + written.map(|span| span.bytes).sum::<u64>()
        }
        _ => spans
            .iter()
            .map(|span| match span.access {
                Access::Read | Access::Write => span.bytes,
                Access::ReadWrite => 2 * span.bytes,
            })
            .sum(),
    }
}

/// The floating-point operations of a matrix product: twice the output's elements times the common dimension.
///
/// The metadata has the lengths of all buffers, with padding and then without, and before them shapes and strides in an
/// order that depends on the kernel. So the dimensions m, n, k follow from the lengths `b·m·k`, `b·k·n` and `b·m·n` of b
/// products, of which one operand may be shared, if what follows are whole numbers and, unless the kernel is fused with
/// what comes after and has its shapes elsewhere, among its scalars.
///
/// A convolution, whose operands are images, counts anything: the plan knows its operations.
pub fn product_flops(kernel: &Kernel, launch: &Launch) -> Option<f64> {
    let (lengths, scalars) = (kernel.lengths?, kernel.scalars?);
    let buffers = kernel.buffers.len();
    let elements = |index: usize| -> Option<f64> {
        let buffer = kernel.buffers.get(index)?;
        let units = value(lengths, buffers + index, &launch.words)?;
        Some((units * (buffer.unit / buffer.scalar)) as f64)
    };
    let numbers: Vec<u64> = (0..scalars.count)
        .filter_map(|index| value(scalars, index, &launch.words))
        .collect();
    let written = (0..buffers).filter(|index| kernel.buffers[*index].access != Access::Read);
    let output = written.filter_map(elements).fold(0.0, f64::max);
    let (lhs, rhs) = (elements(0)?, elements(1)?);
    // The number of products is the last one; zeros pad the scalars to whole words of 8 bytes.
    let b = *numbers.iter().rev().find(|number| **number > 0)? as f64;
    let is_fused = buffers > 3;
    let is_dimension = |x: f64| x.fract() == 0.0 && (is_fused || numbers.contains(&(x as u64)));
    for (lhs, rhs) in [(lhs / b, rhs), (lhs / b, rhs / b), (lhs, rhs / b)] {
        let output = output / b;
        let m = (lhs * output / rhs).sqrt();
        let n = (rhs * output / lhs).sqrt();
        let k = (lhs * rhs / output).sqrt();
        if [m, n, k].into_iter().all(is_dimension) {
            return Some(2.0 * b * m * n * k);
        }
    }
    None
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

    fn kernel(scalars: usize, lengths: usize, buffers: &[(u64, u64, Access)]) -> Kernel {
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
                .map(|&(unit, scalar, access)| Buffer {
                    unit,
                    scalar,
                    access,
                })
                .collect(),
            scalars: field(0, scalars),
            lengths: field(4 * scalars, lengths),
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
        let kernel = kernel(2, 2, &[(16, 4, Access::ReadWrite), (4, 4, Access::Read)]);
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
    fn a_part_moves_without_the_rest() {
        let span = |bytes, access| Span {
            start: 0,
            bytes,
            access,
        };
        let into = [span(1000, Access::ReadWrite), span(64, Access::Read)];
        assert_eq!(bytes("slice_assign_kernel_e_f32", &into), 128);
        let of = [span(1000, Access::Read), span(64, Access::Write)];
        assert_eq!(bytes("copy_kernel_t_f32_n_4", &of), 128);
        let expanded = [span(64, Access::Read), span(1000, Access::Write)];
        assert_eq!(bytes("copy_kernel_t_f32_n_4", &expanded), 1064);
    }

    const MATMUL: [(u64, u64, Access); 3] = [
        (16, 2, Access::Read),
        (16, 2, Access::Read),
        (16, 2, Access::Write),
    ];

    /// The words of a launch whose buffers have these elements, in vectors of 8.
    fn words(scalars: &[u32], elements: &[u32]) -> Vec<u32> {
        let lengths: Vec<u32> = elements.iter().map(|elements| elements / 8).collect();
        [scalars, &lengths, &lengths].concat()
    }

    #[test]
    fn the_operations_of_products_with_and_without_a_shared_operand() {
        let kernel = kernel(6, 6, &MATMUL);
        // 3 products of [16, 32] and [32, 8], each with matrices of its own, or with one right side.
        for rhs in [3 * 32 * 8, 32 * 8] {
            let words = words(&[16, 32, 8, 1, 3, 0], &[3 * 16 * 32, rhs, 3 * 16 * 8]);
            let flops = product_flops(&kernel, &launch("matmul_entry", &words)).unwrap();
            assert_eq!(flops, f64::from(2 * 3 * 16 * 32 * 8), "{rhs}");
        }
    }

    #[test]
    fn the_operations_of_a_product_that_adds_a_bias() {
        let bias = (16, 2, Access::Read);
        let kernel = kernel(4, 8, &[MATMUL[0], MATMUL[1], bias, MATMUL[2]]);
        let words = words(&[1, 8, 1, 0], &[16 * 32, 32 * 8, 8, 16 * 8]);
        let flops = product_flops(&kernel, &launch("matmul_entry", &words)).unwrap();
        assert_eq!(flops, f64::from(2 * 16 * 32 * 8));
    }
}
