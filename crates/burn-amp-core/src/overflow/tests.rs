use super::*;

fn cause(what: NotFinite, min: f64, max: f64) -> Cause {
    Cause {
        what,
        op: "float_matmul".into(),
        site: Some(Site {
            file: "src/model.rs".into(),
            line: 31,
            function: "model::forward".into(),
        }),
        computed_in: Precision::F16,
        operands: vec![Operand {
            parameter: Some("head.weight".into()),
            dtype: Precision::F32,
            shape: vec![2, 2],
            range: Range::of([min, max, 0.0, 1.0]),
            made: None,
        }],
        values: Range::of([1.0, f64::INFINITY, f64::NAN, -2.5]),
    }
}

#[test]
fn a_range_counts_what_is_not_finite() {
    let range = Range::of([1.0, f64::NEG_INFINITY, f64::NAN, -2.5]);
    assert_eq!((range.min, range.max), (-2.5, 1.0));
    assert_eq!((range.infinite, range.nan, range.elements), (1, 1, 4));
    assert!(!range.is_finite());
    assert!(Range::of([]).is_finite());
    let masked = |values: &[f64]| Range::of(values.iter().copied()).is_masked();
    assert!(masked(&[1.0, f64::NEG_INFINITY]));
    assert!(!masked(&[1.0]) && !masked(&[f64::NEG_INFINITY, f64::INFINITY]));
    assert!(!masked(&[f64::NEG_INFINITY, f64::NAN]));
    assert_eq!(range.to_string(), "-2.5 to 1, 1 of 4 inf, 1 of 4 NaN");
    assert_eq!(
        Range::of([f64::NAN]).to_string(),
        "no finite value, 1 of 1 NaN"
    );
    assert_eq!(
        Range::of([1e-7, 65504.0, 1e9]).to_string(),
        "1.000e-7 to 1.000e9"
    );
    assert!(Range::of([65520.0]).overflows_in(Precision::F16));
    assert!(!Range::of([65519.0]).overflows_in(Precision::F16));
}

#[test]
fn only_what_f16_cannot_hold_is_of_range() {
    let is_of_range = |change: fn(&mut Cause)| {
        let mut cause = cause(NotFinite::Result, -3.0, 300.0);
        change(&mut cause);
        cause.is_of_range()
    };
    let in_f32 = |cause: &mut Cause| cause.computed_in = Precision::F32;
    let of_f16 = |cause: &mut Cause| {
        cause.computed_in = Precision::F32;
        cause.what = NotFinite::Sum;
        cause.operands[0].dtype = Precision::F16;
    };
    let received = |cause: &mut Cause| {
        cause.what = NotFinite::Gradient {
            received: Range::default(),
        };
    };
    assert!(is_of_range(|_| ()));
    assert!(is_of_range(of_f16) && is_of_range(received));
    assert!(!is_of_range(in_f32));
    assert!(!is_of_range(|cause| cause.what = NotFinite::Operand));
    assert!(!is_of_range(|cause| cause.values = Range::of([f64::NAN])));
}

#[test]
fn a_cause_is_told_by_what_was_not_finite_first() {
    let told = |what, min, max| cause(what, min, max).to_string();
    assert_eq!(
        told(NotFinite::Result, -3.0, 300.0),
        "the result of `float_matmul`, computed in f16, at src/model.rs:31: -2.5 to 1, 1 of 4 inf, 1 of 4 NaN; \
         operand 0: head.weight f32 [2, 2] -3 to 300"
    );
    assert_eq!(
        told(NotFinite::Result, -3.0, 1e6),
        "the cast of an operand of `float_matmul` to f16 at src/model.rs:31: -2.5 to 1, 1 of 4 inf, 1 of 4 NaN; \
         operand 0: head.weight f32 [2, 2] -3 to 1.000e6, beyond the range of f16"
    );
    let mut made = cause(NotFinite::Result, -3.0, 1e6);
    made.operands[0].made = Some(Made {
        op: "float_mul_scalar".into(),
        site: made.site.clone().map(|site| Site { line: 12, ..site }),
    });
    let made = made.to_string();
    assert!(
        made.ends_with("beyond the range of f16, made by `float_mul_scalar` at src/model.rs:12"),
        "{made}"
    );
    let received = Range::of([256.0]);
    assert_eq!(
        told(NotFinite::Gradient { received }, -3.0, 300.0),
        "the backward pass of `float_matmul` at src/model.rs:31: -2.5 to 1, 1 of 4 inf, 1 of 4 NaN; the gradient of \
         its result: 256 to 256; operand 0: head.weight f32 [2, 2] -3 to 300"
    );
    assert_eq!(
        cause(NotFinite::Sum, 0.0, 1.0)
            .parameters()
            .collect::<Vec<_>>(),
        ["head.weight"]
    );
}
