//! `cargo xtask ops-table`: writes the op table as a page of the book.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use burn_amp_core::{Class, Op, Precision};

use crate::{
    generated::{Command, Generated},
    shape,
};

const HEADER: &str = "\
# Classes of the float ops

<!-- Generated from `crates/burn-amp-core/src/table.rs` by `cargo xtask ops-table`; do not edit. -->

This page is generated from `crates/burn-amp-core/src/table.rs` by `cargo xtask ops-table`. It gives the cast class of
every op of Burn 0.21.0 that has one, under preset `o1` and without overrides, once for each compute dtype. The ops that
are missing here do no float arithmetic, or their caller names the dtype. An op's name is that of the method of Burn's op
traits (`float_matmul` is a tensor's `matmul`), and its key in `[ops]` of `amp.toml`.

| class | operands | result |
|---|---|---|
| `low` | cast to the compute dtype | compute dtype |
| `full` | cast to F32 | F32 |
| `internal` | computed in F32 | cast back to the operands' dtype |
| `widest` | cast to the widest dtype among them | that dtype |
| `keep` | as they are | as they are |

In a shape `F`, `I`, `Bool` and `Q` are float, int, bool and quantized tensors; `Wide` is a float result that stays in
F32 whatever dtype it was computed in. The last column says what else burn-amp does with an op, by a rule or in a
function of its own.

";

/// The page of the ops.
pub const PAGE: Command = Command {
    name: "ops-table",
    files,
};

fn files() -> Result<Vec<Generated>> {
    Ok(vec![Generated {
        path: "book/src/ops.md",
        text: page()?,
    }])
}

fn page() -> Result<String> {
    let mut page = HEADER.to_owned();
    by_class(&mut page)?;
    page.push_str("\n## All ops\n\n| op | F16 | BF16 | shape | besides |\n|---|---|---|---|---|\n");
    for op in Op::ALL {
        let (Some(f16), Some(bf16)) = (op.class(Precision::F16), op.class(Precision::BF16)) else {
            continue;
        };
        let name = op.name();
        let shape = shape::tidy(op.shape()).context(name)?;
        let besides = op.by_rule().or(op.by_hand()).unwrap_or_default();
        writeln!(
            page,
            "| `{name}` | {} | {} | `{shape}` | {besides} |",
            Class::name(f16),
            Class::name(bf16),
        )?;
    }
    Ok(page)
}

/// The ops of each class, so that the page answers which ops run low.
fn by_class(page: &mut String) -> Result<()> {
    page.push_str("## By class\n\n| class | ops |\n|---|---|\n");
    for class in Class::ALL {
        let of_class = Op::ALL.iter().filter_map(|op| {
            let (f16, bf16) = (op.class(Precision::F16)?, op.class(Precision::BF16)?);
            (bf16 == class).then(|| match f16 == class {
                true => format!("`{op}`"),
                false => format!("`{op}` (in F16: {})", Class::name(f16)),
            })
        });
        let ops: Vec<_> = of_class.collect();
        writeln!(page, "| `{class}` | {} |", ops.join(", "))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(page: &str, op: &str) -> Option<String> {
        let start = format!("| `{op}` |");
        page.lines()
            .find(|line| line.starts_with(&start))
            .map(str::to_owned)
    }

    #[test]
    fn every_op_with_a_class_has_one_row_and_no_other_op_has() {
        let page = page().unwrap();
        for op in Op::ALL {
            let has_class = op
                .class(Precision::F16)
                .or(op.class(Precision::BF16))
                .is_some();
            assert_eq!(row(&page, op.name()).is_some(), has_class, "{op}");
        }
    }

    #[test]
    fn a_row_gives_both_classes_the_shape_and_the_reason() {
        let page = page().unwrap();
        assert_eq!(
            row(&page, "float_div").unwrap(),
            "| `float_div` | full | widest | `(F, F) -> F` | \
             an F32 tensor of one element does not widen the other operand |"
        );
        assert_eq!(
            row(&page, "float_exp").unwrap(),
            "| `float_exp` | full | full | `(F) -> F` |  |"
        );
        assert_eq!(
            row(&page, "float_gather").unwrap(),
            "| `float_gather` | keep | keep | `(usize, F, I) -> F` | \
             reading one log-probability per row avoids the gradient of the whole log-softmax |"
        );
    }

    #[test]
    fn the_header_explains_every_class() {
        for class in Class::ALL {
            assert!(row(HEADER, class.name()).is_some(), "{class}");
        }
    }
}
