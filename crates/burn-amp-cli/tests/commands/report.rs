//! `burn-amp report` and `burn-amp tune`.

use super::*;

/// A report with one product, at a line of a file, and `count` calls in 2 steps.
fn saved_report(count: u64) -> String {
    use burn_amp_core::{
        Precision,
        report::{Calls, Casting, Kept, Report, Sample, Site, Why},
    };
    let mut report = Report::new("flex", "o1", Precision::BF16);
    report.steps = 2;
    report.calls = vec![Calls {
        site: Some(Site {
            file: "src/model.rs".into(),
            line: 31,
            function: "model::forward".into(),
        }),
        count,
        flops: 1000 * count,
        bytes: 2048 * count,
        shapes: vec![vec![32, 784], vec![784, 10]],
        casts: vec![Casting {
            from: Precision::F32,
            to: Precision::BF16,
            made: count,
            shared: 0,
            bytes: 6 * count,
            sample: Sample::default(),
        }],
        ..Calls::new(
            "float_matmul",
            vec![Precision::F32; 2],
            Precision::BF16,
            Why::Class("low".into()),
        )
    }];
    report.kept = Some(vec![Kept {
        op: "float_matmul".into(),
        site: report.calls[0].site.clone(),
        dtype: "bf16".into(),
        shape: vec![32, 784],
        count,
        bytes: count * 32 * 784 * 2,
    }]);
    report.gradients = vec![Kept {
        shape: vec![32, 10],
        bytes: count * 32 * 10 * 2,
        ..report.kept.as_ref().unwrap()[0].clone()
    }];
    report.to_json()
}

#[test]
fn report_shows_a_saved_report() {
    let folder = Folder::new().with("run.json", &saved_report(4));
    assert_snapshot("report.txt", &folder.run(&["report", "run.json"]).out);
    assert_snapshot(
        "report_snapshot.txt",
        &folder.run(&["report", "run.json", "--snapshot"]).out,
    );
    let ran = folder.run(&["report", "run.json", "--html", "run.html"]);
    assert_eq!((ran.status, ran.out.as_str()), (0, "run.html written.\n"));
    assert_snapshot(
        "report.html",
        &fs::read_to_string(folder.path("run.html")).unwrap(),
    );
    let json = folder.run(&["report", "run.json", "--json"]).out;
    assert_eq!(json.trim(), saved_report(4).trim());
}

#[test]
fn report_compares_two_and_has_status_1_if_they_differ() {
    let folder = Folder::new()
        .with("a.json", &saved_report(4))
        .with("b.json", &saved_report(6));
    let same = folder.run(&["report", "a.json", "a.json"]);
    assert_eq!(same.status, 0);
    let differ = folder.run(&["report", "a.json", "b.json"]);
    assert_eq!((differ.status, differ.err.as_str()), (1, ""));
    assert_snapshot("report_differences.txt", &differ.out);
    let json = folder.run(&["report", "a.json", "b.json", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(json[0]["after"]["calls"], 3.0);
}

#[test]
fn report_says_why_a_file_is_none() {
    let folder = Folder::new().with("a.json", "{\"a\": 1}");
    let ran = folder.run(&["report", "a.json"]);
    assert_eq!(ran.status, 2);
    assert!(
        ran.err.contains("a.json: not a precision report"),
        "{}",
        ran.err
    );
    assert_eq!(folder.run(&["report", "b.json"]).status, 2);
}

#[test]
fn tune_proposes_a_file_that_check_accepts() {
    const SHADOW: &str = r#"{ "ops": [
        { "op": "linear", "site": null, "stored": "bf16", "calls": 2, "worst": 0.004, "sum": 0.006 },
        { "op": "float_sin", "site": null, "stored": "bf16", "calls": 1, "worst": 0.25, "sum": 0.25 }
    ] }"#;
    let folder = Folder::new()
        .with("report.json", &saved_report(4))
        .with("shadow.json", SHADOW);
    let tune = |more: &[&str]| {
        folder.run(
            &[
                &["tune", "report.json", "shadow.json", "--tolerance", "0.01"][..],
                more,
            ]
            .concat(),
        )
    };
    let ran = tune(&[]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    fs::write(folder.path("amp.toml"), &ran.out).unwrap();
    let checked = folder.run(&["check", "--json"]);
    assert_eq!(checked.status, 0, "{}", checked.out);
    assert!(
        ran.out.contains("# An error of 2.5e-1 at ?. In f32"),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("float_sin = \"full\""), "{}", ran.out);
    assert!(!ran.out.contains("linear"), "{}", ran.out);

    let json: serde_json::Value = serde_json::from_str(&tune(&["--json"]).out).unwrap();
    assert_eq!(json[0]["class"], "full");

    for (args, expected) in [
        (
            ["report.json", "report.json", "0.01"],
            "not the report of a shadow comparison",
        ),
        (
            ["shadow.json", "shadow.json", "0.01"],
            "not a precision report",
        ),
        (
            ["report.json", "shadow.json", "2"],
            "a number between 0 and 1",
        ),
    ] {
        let [report, shadow, tolerance] = args;
        let ran = folder.run(&["tune", report, shadow, "--tolerance", tolerance]);
        assert_eq!(ran.status, 2);
        assert!(ran.err.contains(expected), "{}", ran.err);
    }
}
