//! `cargo xtask ops-table`: writes the op table as a page of the book.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use burn_amp_core::{Class, Op, Precision};

use crate::{
    generated::{self, Generated, Options},
    shape,
};

const COMMAND: &str = "ops-table";

const HEADER: &str = "\
# Classes of the float ops

<!-- Generated from `crates/burn-amp-core/src/table.rs` by `cargo xtask ops-table`; do not edit. -->

This page is generated from `crates/burn-amp-core/src/table.rs` by `cargo xtask ops-table`. It gives the cast class of
every op of Burn 0.21.0 that has one, under preset `o1` and without overrides, once for each compute dtype. The ops that
are missing here do no float arithmetic, or their caller names the dtype. The op's name is its key in `[ops]` of
`amp.toml`.

| class | operands | result |
|---|---|---|
| `low` | cast to the compute dtype | compute dtype |
| `full` | cast to F32 | F32 |
| `internal` | computed in F32 | cast back to the operands' dtype |
| `widest` | cast to the widest dtype among them | that dtype |
| `keep` | as they are | as they are |

In a shape `F`, `I`, `Bool` and `Q` are float, int, bool and quantized tensors; `Wide` is a float result that stays in
F32 whatever dtype it was computed in. The last column gives the reason where burn-amp has a function of its own for an
op.

";

/// Writes, prints or checks the page.
pub fn run(options: Options) -> Result<()> {
    generated::run(options, COMMAND, &[file()?])
}

/// Fails if the page in the repository differs from the one generated from the table.
pub fn check() -> Result<()> {
    generated::check(COMMAND, &[file()?])
}

fn file() -> Result<Generated> {
    Ok(Generated {
        path: "book/src/ops.md",
        text: page()?,
    })
}

fn page() -> Result<String> {
    let mut page = HEADER.to_owned();
    page.push_str("| op | trait | F16 | BF16 | shape | by hand |\n|---|---|---|---|---|---|\n");
    for op in Op::ALL {
        let (Some(f16), Some(bf16)) = (op.class(Precision::F16), op.class(Precision::BF16)) else {
            continue;
        };
        let name = op.name();
        let shape = shape::tidy(op.shape()).context(name)?;
        let by_hand = op.by_hand().unwrap_or_default();
        writeln!(
            page,
            "| `{name}` | `{}` | {} | {} | `{shape}` | {by_hand} |",
            op.trait_name(),
            Class::name(f16),
            Class::name(bf16),
        )?;
    }
    Ok(page)
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
            "| `float_div` | `FloatTensorOps` | full | widest | `(F, F) -> F` | \
             an F32 tensor of one element does not widen the other operand |"
        );
        assert_eq!(
            row(&page, "float_exp").unwrap(),
            "| `float_exp` | `FloatTensorOps` | full | full | `(F) -> F` |  |"
        );
        assert_eq!(
            row(&page, "float_gather").unwrap(),
            "| `float_gather` | `FloatTensorOps` | keep | keep | `(usize, F, I) -> F` | \
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
