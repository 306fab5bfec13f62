use super::*;

fn casts(op: Op, dtypes: &[Precision]) -> Casts {
    let operands = dtypes
        .iter()
        .fold(Operands::default(), |all, d| all.and(*d, *d));
    Policy::new(Precision::BF16, &BTreeMap::new()).casts(op, operands)
}

#[test]
fn each_class_casts_as_it_says() {
    use Precision::{BF16, F16, F32};
    let storage = |op, dtypes| {
        let casts = casts(op, dtypes);
        (casts.operands, casts.results)
    };
    assert_eq!(storage(Op::float_matmul, &[F32, BF16]), (Some(BF16), None));
    assert_eq!(storage(Op::float_exp, &[BF16]), (Some(F32), None));
    assert_eq!(storage(Op::gelu, &[BF16]), (Some(F32), Some(BF16)));
    assert_eq!(storage(Op::float_add, &[BF16, F16]), (Some(F32), None));
    assert_eq!(storage(Op::float_add, &[BF16, BF16]), (None, None));
    assert_eq!(storage(Op::float_neg, &[BF16]), (None, None));
    assert_eq!(storage(Op::float_cast, &[BF16]), (None, None));
}

#[test]
fn a_result_has_the_logical_dtype_of_the_plain_backend_but_for_full_ops() {
    let policy = Policy::new(Precision::BF16, &BTreeMap::new());
    let operands = Operands::default().and(Precision::F32, Precision::F16);
    for op in Op::ALL {
        let expected = match policy.class(*op) {
            Some(Class::Full) => Precision::F32,
            _ => Precision::F16,
        };
        assert_eq!(policy.casts(*op, operands).logical, Some(expected), "{op}");
    }
}

#[test]
fn zeros_and_ones_in_f32_take_the_dtype_of_a_low_operand_and_of_no_other() {
    let policy = Policy::new(Precision::BF16, &BTreeMap::new());
    let product = |other: Precision, mask: Precision| {
        let operands = Operands::default().and(other, Precision::F32);
        policy
            .casts(
                Op::float_mul,
                operands.and_zeros_and_ones(mask, Precision::F32),
            )
            .operands
    };
    use Precision::{BF16, F16, F32, F64, Flex32};
    for low in [BF16, F16] {
        assert_eq!(product(low, F32), Some(low));
        assert_eq!(product(low, F64), Some(F64));
        assert_eq!(product(low, low), None);
        assert_eq!(product(F32, low), Some(F32));
    }
    assert_eq!(product(Flex32, F32), Some(F32));
    assert_eq!(product(F32, F32), None);
}

#[test]
fn one_element_in_f32_is_read_in_f32_and_widens_no_low_operand() {
    use Precision::{BF16, F16, F32};
    let operands = |low| Operands::default().and(low, F32).and_one_element(F32);
    let storage = |compute, op, low| {
        let policy = Policy::new(compute, &BTreeMap::new());
        let casts = policy.casts(op, operands(low));
        (casts.operands, casts.results)
    };
    assert_eq!(storage(BF16, Op::float_mul, BF16), (Some(F32), Some(BF16)));
    assert_eq!(storage(BF16, Op::float_add, F16), (Some(F32), Some(F16)));
    assert_eq!(storage(F16, Op::float_div, F16), (Some(F32), None));
    assert_eq!(storage(F32, Op::float_mul, BF16), (Some(F32), None));
}

#[test]
fn f64_is_never_touched_and_carries_the_rest_along() {
    for op in Op::ALL {
        let untouched = Casts {
            logical: Some(Precision::F64),
            ..Casts::default()
        };
        assert_eq!(casts(*op, &[Precision::F64]), untouched, "{op}");
    }
    assert_eq!(
        casts(Op::float_matmul, &[Precision::F64, Precision::F32]).operands,
        Some(Precision::F64)
    );
}

#[test]
fn all_low_runs_low_what_the_table_computes_in_f32() {
    let table = Policy::new(Precision::BF16, &BTreeMap::new());
    let all_low = Policy::all_low(
        Precision::BF16,
        &BTreeMap::from([(Op::float_exp, Class::Full)]),
    );
    for op in Op::ALL {
        let expected = match table.class(*op) {
            Some(Class::Full) if *op == Op::float_exp => Some(Class::Full),
            Some(Class::Low | Class::Full | Class::Internal) => Some(Class::Low),
            other @ (Some(Class::Widest | Class::Keep) | None) => other,
        };
        assert_eq!(all_low.class(*op), expected, "{op}");
    }
}

#[test]
fn an_exact_call_runs_in_f32() {
    let policy = Policy::new(Precision::BF16, &BTreeMap::new());
    let operands = Operands {
        exact: true,
        ..Operands::default().and(Precision::F32, Precision::F32)
    };
    for op in Op::ALL {
        let to = policy.casts(*op, operands).operands;
        assert!(matches!(to, None | Some(Precision::F32)), "{op}");
    }
}

#[test]
fn mixed_operands_are_promoted_under_every_class() {
    for class in Class::ALL {
        let policy = Policy::new(Precision::F16, &BTreeMap::from([(Op::float_add, class)]));
        let operands = Operands::default()
            .and(Precision::F32, Precision::F32)
            .and(Precision::F16, Precision::F32);
        assert!(
            policy.casts(Op::float_add, operands).operands.is_some(),
            "{class}"
        );
    }
}
