//! What a class does to the operands of an op.

use burn_amp_core::{Op, Operands, Policy, Precision};

/// A call of an op: the dtypes of its operands, the dtype that it computes in, and that of its result.
pub struct Case {
    pub operands: Vec<Precision>,
    pub computes_in: Precision,
    /// `None` if the result is no float tensor.
    pub result: Option<Precision>,
}

/// The calls that show what a policy does: all operands in F32, all in low precision, and a mixture.
pub fn cases(op: Op, policy: &Policy) -> Vec<Case> {
    let low = match policy.compute().is_low() {
        true => policy.compute(),
        false => Precision::F16,
    };
    let operands = match float_operands(op) {
        0 => vec![],
        1 => vec![vec![Precision::F32], vec![low]],
        2 => vec![
            vec![Precision::F32; 2],
            vec![low; 2],
            vec![low, Precision::F32],
        ],
        more => vec![
            vec![Precision::F32; more],
            vec![low; more],
            [vec![low], vec![Precision::F32; more - 1]].concat(),
        ],
    };
    operands
        .into_iter()
        .map(|operands| case(op, policy, operands))
        .collect()
}

fn case(op: Op, policy: &Policy, operands: Vec<Precision>) -> Case {
    let looked_at = operands
        .iter()
        .fold(Operands::default(), |all, dtype| all.and(*dtype, *dtype));
    let casts = match policy.compute().is_low() {
        true => policy.casts(op, looked_at),
        false => looked_at.promoted(),
    };
    let computes_in = casts.computes_in(operands[0]);
    let result = match returns(op) {
        // Stored as `x` is, whatever γ and β are stored in.
        Returns::Float if op == Op::layer_norm && casts.results.is_some() => Some(operands[0]),
        Returns::Float => Some(casts.results.unwrap_or(computes_in)),
        Returns::Wide => Some(computes_in.join(Precision::F32)),
        Returns::Other => None,
    };
    Case {
        operands,
        computes_in,
        result,
    }
}

enum Returns {
    Float,
    Wide,
    Other,
}

/// The shape of an op's signature as Rust would write it: `(Vec<F>, usize) -> F`.
pub fn shape(op: Op) -> String {
    let words: Vec<_> = op.shape().split_whitespace().collect();
    words
        .join(" ")
        .replace(" < ", "<")
        .replace(" >", ">")
        .replace("& ", "&")
        .replace("> ,", ">,")
}

/// What the op returns, by the words of the table.
fn returns(op: Op) -> Returns {
    let result = op
        .shape()
        .rsplit_once("->")
        .map_or("", |(_, result)| result);
    match result.trim() {
        "Wide" => Returns::Wide,
        result if words(result).any(|word| word == "F" || word.ends_with("Backward")) => {
            Returns::Float
        }
        _ => Returns::Other,
    }
}

/// The number of float operands that are always there, by the words of the table.
fn float_operands(op: Op) -> usize {
    let shape = op.shape();
    let operands = shape
        .rsplit_once("->")
        .map_or(shape, |(operands, _)| operands);
    // An operand in `Option` or `Vec` is not always there; one of a list is.
    let squeezed: String = operands.chars().filter(|c| !c.is_whitespace()).collect();
    let required = squeezed.replace("Option<F>", "");
    words(&required).filter(|word| *word == "F").count()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(op: Op, policy: &Policy) -> Vec<(usize, Precision, Option<Precision>)> {
        let cases = cases(op, policy).into_iter();
        cases
            .map(|case| (case.operands.len(), case.computes_in, case.result))
            .collect()
    }

    #[test]
    fn cases_are_those_of_the_policy() {
        use Precision::{BF16, F16, F32};
        let bf16 = Policy::new(BF16, &Default::default());
        assert_eq!(results(Op::float_matmul, &bf16), [(2, BF16, Some(BF16)); 3]);
        assert_eq!(
            results(Op::gelu, &bf16),
            [(1, F32, Some(F32)), (1, F32, Some(BF16))]
        );
        assert_eq!(
            results(Op::float_equal, &bf16),
            [(2, F32, None), (2, BF16, None), (2, F32, None)]
        );
        let plain = Policy::new(F32, &Default::default());
        assert_eq!(
            results(Op::float_exp, &plain),
            [(1, F32, Some(F32)), (1, F16, Some(F16))]
        );
    }

    #[test]
    fn shapes_are_written_as_in_rust() {
        assert_eq!(shape(Op::float_cat), "(Vec<F>, usize) -> F");
        assert_eq!(shape(Op::linear), "(F, F, Option<F>) -> F");
        for op in Op::ALL {
            let shape = shape(*op);
            assert!(
                !shape.contains(" ,") && !shape.contains("& ") && !shape.contains("< "),
                "{shape}"
            );
        }
    }

    #[test]
    fn operands_that_may_be_missing_do_not_count() {
        assert_eq!(float_operands(Op::linear), 2);
        assert_eq!(float_operands(Op::attention), 3);
        assert_eq!(float_operands(Op::float_cat), 1);
        assert_eq!(float_operands(Op::float_zeros), 0);
    }
}
