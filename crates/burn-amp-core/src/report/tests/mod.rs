mod shown;

use super::*;

/// A report of two steps: products in BF16, a logarithm in F32 and the step of an optimizer.
fn report() -> Report {
    use Precision::{BF16, F32};
    let site = |line, function: &str| {
        Some(Site {
            file: "src/model.rs".into(),
            line,
            function: function.into(),
        })
    };
    let low = || Why::Class("low".into());
    let mut report = Report::new("flex", "o1", BF16);
    report.steps = 2;
    report.calls = vec![
        Calls {
            site: site(7, "model::forward"),
            count: 2,
            flops: 4000,
            bytes: 4096,
            shapes: vec![vec![32, 784], vec![784, 10]],
            casts: vec![Casting {
                from: F32,
                to: BF16,
                made: 3,
                shared: 1,
                bytes: 6144,
                sample: Sample::default(),
            }],
            ..Calls::new("float_matmul", vec![F32, F32], BF16, low())
        },
        Calls {
            site: site(9, "model::forward"),
            count: 2,
            bytes: 1 << 20,
            ..Calls::new("float_log", vec![BF16], F32, Why::Class("full".into()))
        },
        Calls {
            count: 8,
            bytes: 1 << 30,
            ..Calls::new("float_add", vec![F32, F32], F32, Why::Gradient)
        },
        Calls {
            site: site(8, "model::forward"),
            count: 2,
            flops: 1000,
            ..Calls::new("float_matmul", vec![F32, F32], F32, Why::FullPrecision)
        },
        Calls {
            site: site(3, "model::block"),
            count: 2,
            result: Some(BF16),
            ..Calls::new("gelu", vec![BF16], F32, Why::Class("internal".into()))
        },
    ];
    report.sort();
    report
}

#[test]
fn a_sample_counts_what_is_beyond_the_range_of_a_dtype_and_below_it() {
    use Precision::{BF16, F16};
    let values = [
        0.0,
        -0.0,
        1.0,
        65519.0,
        65520.0,
        -1e9,
        1e-9,
        f64::INFINITY,
        f64::NAN,
    ];
    let of = |to| {
        let Sample {
            values,
            overflowed,
            flushed,
        } = Sample::of(values, to);
        (values, overflowed, flushed)
    };
    assert_eq!(of(F16), (9, 2, 1));
    assert_eq!(of(BF16), (9, 0, 0));

    let mut report = report();
    let text = |report: &Report| report.to_text();
    assert!(!text(&report).contains("sampled"));
    let mut casts = report.calls.iter_mut().flat_map(|calls| &mut calls.casts);
    casts.next().expect("a call casts").sample = Sample::of(values, F16);
    let sampled =
        "of 9 sampled values in casts to half precision 22.22 % overflow, and 11.11 % become 0";
    assert!(text(&report).contains(sampled), "{}", text(&report));
    assert!(text(&report).contains("Values lost in casts"));
    // A report that was written before there were samples.
    let mut json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
    for calls in json["calls"].as_array_mut().unwrap() {
        for cast in calls["casts"].as_array_mut().unwrap() {
            cast.as_object_mut().unwrap().remove("sample").unwrap();
        }
    }
    let old = Report::from_json(&json.to_string()).unwrap();
    assert_eq!(old.totals().sample, Sample::default());
}

#[test]
fn what_is_kept_is_told_by_op_and_largest_first() {
    let kept = |op: &str, dtype: &str, count, bytes| Kept {
        op: op.into(),
        site: None,
        dtype: dtype.into(),
        shape: vec![2, 3],
        count,
        bytes,
    };
    let mut report = report();
    assert_eq!(
        (report.kept_bytes(), report.largest_kept(9).len()),
        (None, 0)
    );
    let text = report.to_text();
    assert!(text.contains("this backend cannot tell"), "{text}");
    assert!(!text.contains("Kept for the backward pass"));

    report.kept = Some(vec![
        kept("gelu", "bf16", 2, 2048),
        kept("float_matmul", "bf16", 4, 4096),
        kept("gelu", "bool", 2, 4096),
    ]);
    report.sort();
    assert_eq!(report.kept_bytes(), Some(10240));
    assert_eq!(
        report.kept_by_op(),
        [("gelu", 4, 6144), ("float_matmul", 4, 4096)]
    );
    let largest: Vec<_> = report
        .largest_kept(2)
        .iter()
        .map(|kept| kept.bytes)
        .collect();
    assert_eq!(largest, [4096, 4096]);
    let text = report.to_text();
    assert!(text.contains("5 KiB kept for the backward pass"), "{text}");
    assert!(
        text.contains("gelu                2  3 KiB   60 %"),
        "{text}"
    );
    assert!(text.contains("bool [2, 3]"), "{text}");
    assert_eq!(Report::from_json(&report.to_json()).unwrap(), report);

    // A report that was written before it told what is kept.
    let mut json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
    json.as_object_mut().unwrap().remove("kept").unwrap();
    assert_eq!(Report::from_json(&json.to_string()).unwrap().kept, None);
}

#[test]
fn totals_are_sums_over_all_steps() {
    let totals = report().totals();
    assert_eq!(totals.calls, 16);
    assert_eq!((totals.casts, totals.cast_bytes), (3, 6144));
    assert_eq!((totals.flops, totals.low_flops), (5000, 4000));
    let matmul = &totals.ops["float_matmul"];
    assert_eq!(matmul.all_calls(), 4);
    assert_eq!(matmul.calls[&Precision::BF16], 2);
}

#[test]
fn what_stays_in_f32_is_told_largest_first_and_without_the_optimizer() {
    let report = report();
    let ops: Vec<_> = report
        .largest_in_f32(9)
        .iter()
        .map(|calls| &*calls.op)
        .collect();
    assert_eq!(ops, ["float_log"]);
    let f32 = Report {
        compute: Precision::F32,
        ..report
    };
    assert!(f32.largest_in_f32(9).is_empty());
}

#[test]
fn a_report_survives_json_and_another_version_is_refused() {
    let report = report();
    assert_eq!(Report::from_json(&report.to_json()).unwrap(), report);
    let newer = report
        .to_json()
        .replacen("\"version\": 1", "\"version\": 2", 1);
    assert_eq!(
        Report::from_json(&newer).unwrap_err().to_string(),
        "the report has version 2 of the format, and this program reads version 1"
    );
    assert!(matches!(Report::from_json("{}"), Err(ReadError::Syntax(_))));
}

#[test]
fn a_snapshot_is_sorted_and_knows_no_lines() {
    let mut moved = report();
    for calls in &mut moved.calls {
        if let Some(site) = &mut calls.site {
            site.line += 100;
        }
    }
    moved.calls.reverse();
    let snapshot = report().snapshot();
    assert_eq!(moved.snapshot(), snapshot);
    let lines: Vec<_> = snapshot.lines().skip(2).collect();
    assert_eq!(
        lines,
        [
            "?  float_add  f32, f32 -> f32  x4",
            "model::block  gelu  bf16 -> f32 -> bf16  x1",
            "model::forward  float_log  bf16 -> f32  x1",
            "model::forward  float_matmul  f32, f32 -> bf16  x1  casts 1.5",
            "model::forward  float_matmul  f32, f32 -> f32  x1",
        ]
    );
}

#[test]
fn equal_reports_do_not_differ_and_others_say_where() {
    let before = report();
    assert_eq!(differences(&before, &before), []);

    let mut after = report();
    // The logarithm goes low, and a product is called twice as often.
    let log = after
        .calls
        .iter_mut()
        .find(|calls| calls.op == "float_log")
        .unwrap();
    (log.computed_in, log.result) = (Precision::BF16, Some(Precision::BF16));
    let product = after
        .calls
        .iter_mut()
        .find(|calls| calls.flops == 4000)
        .unwrap();
    product.count = 4;
    let told: Vec<_> = differences(&before, &after)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        told,
        [
            "+ model::forward  float_log  bf16 -> bf16  x1",
            "- model::forward  float_log  bf16 -> f32  x1",
            "~ model::forward  float_matmul  f32, f32 -> bf16  x1, casts 1.5 -> x2, casts 1.5",
        ]
    );
}
