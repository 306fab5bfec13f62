//! What a report shows: tables, the page, advice.

use super::*;
use crate::health::{Counts, Look, ParameterHealth, Updates};

#[test]
fn dimensions_that_are_no_multiple_of_8_are_idle() {
    let report = report();
    let idle = report.idle(9);
    assert_eq!(idle.len(), 1);
    assert_eq!(idle[0].idle_dimensions(), [("n", 10)]);

    let of = |op: &str, shapes: &[&[usize]]| {
        let calls = Calls {
            shapes: shapes.iter().map(|shape| shape.to_vec()).collect(),
            ..Calls::new(op, vec![], Precision::F16, Why::Operands)
        };
        calls.idle_dimensions()
    };
    assert_eq!(of("linear", &[&[4, 2, 16], &[16, 8]]), []);
    assert_eq!(of("linear", &[&[3, 5, 16], &[16, 8]]), [("m", 15)]);
    assert_eq!(
        of("conv2d", &[&[8, 3, 32, 32], &[64, 3, 7, 7]]),
        [("channels in", 3)]
    );
    assert_eq!(of("float_add", &[&[3], &[3]]), []);
}

#[test]
fn the_tables_say_what_was_recorded() {
    let text = report().to_text();
    for line in [
        "Precision report: 2 steps of preset o1 in bf16 on flex",
        "  8 calls per step",
        "  1.5 casts per step, which move 3 KiB",
        "  80 % of the 2.5 KFLOP of matrix products, convolutions and attention per forward pass in half precision",
        "  float_log  src/model.rs:9  bf16 -> f32  512 KiB  class full",
        "  float_matmul  src/model.rs:7  f32 -> bf16   1.5     0.5  3 KiB  [32, 784] [784, 10]",
        "  float_matmul  src/model.rs:7  [32, 784] [784, 10]  n = 10            2 KFLOP",
    ] {
        assert!(
            text.lines().any(|found| found == line),
            "no line `{line}` in\n{text}"
        );
    }
    assert!(text.lines().all(|line| line == line.trim_end()), "{text}");
}

#[test]
fn the_page_has_the_tables_and_escapes_what_it_shows() {
    let mut report = report();
    report.backend = "fusion<flex>".into();
    let page = report.to_html();
    assert!(page.contains("on fusion&lt;flex&gt;</title>"), "{page}");
    assert!(page.contains("<td>bf16 → f32</td>"), "{page}");
    for title in [
        "Ops of the model",
        "Ops of the optimizer",
        "In f32 on the hot path",
        "Most expensive casts",
    ] {
        assert!(page.contains(&format!("<h2>{title}</h2>")), "{title}");
    }
    for tag in [
        "table", "tr", "td", "th", "ul", "li", "p", "div", "body", "html",
    ] {
        let count = |text: &str| page.matches(text).count();
        let opened = count(&format!("<{tag}>")) + count(&format!("<{tag} "));
        assert_eq!(opened, count(&format!("</{tag}>")), "{tag}");
    }
}

#[test]
fn advice_is_given_once_for_each_place_and_pattern() {
    use Precision::{BF16, F16, F32};
    let given = |calls: Calls| {
        let mut report = Report::new("flex", "o1", BF16);
        report.calls = vec![calls.clone(), calls];
        let lints: Vec<_> = report.advice().iter().map(|advice| advice.lint).collect();
        lints
    };
    let sum = |computed_in, count| Calls {
        shapes: vec![vec![count]],
        ..Calls::new("float_sum", vec![BF16], computed_in, Why::Operands)
    };
    assert_eq!(given(sum(BF16, 4096)), [Lint::LowReduction]);
    assert_eq!(given(sum(BF16, 4095)), []);
    assert_eq!(given(sum(F32, 4096)), []);

    let mut unscaled = Report::new("flex", "o1", F16);
    assert_eq!(unscaled.advice(), []);
    unscaled.scales_loss = false;
    assert_eq!(unscaled.advice()[0].lint, Lint::Unscaled);
    assert!(
        unscaled
            .to_text()
            .contains("\nAdvice\n  The loss of an F16 model is not scaled")
    );
    assert!(unscaled.to_html().contains("<h2>Advice</h2>"));
}

/// A look at a step in which so many of the updates of `up` were lost.
fn look(step: u64, lost: u64) -> Look {
    let parameter = |id, name: &str, lost| ParameterHealth {
        id,
        name: name.into(),
        stored: Precision::BF16,
        gradient: Counts {
            elements: 200,
            zero: 50,
            subnormal: 1,
            ..Counts::default()
        },
        update: Updates { due: 100, lost },
    };
    Look {
        optimizer: 1,
        step,
        scale: None,
        clip: None,
        parameters: vec![parameter(1, "head", 0), parameter(2, "<up>", lost)],
    }
}

#[test]
fn the_health_of_a_run_is_a_table_and_pictures_of_the_worst_first() {
    let mut report = report();
    report.health = vec![look(10, 0), look(20, 40), look(30, 90)];
    let text = report.to_text();
    assert!(
        text.contains("<up>         30  90.0 %  25.0 %      0.5 %       0.0 %"),
        "{text}"
    );
    let page = report.to_html();
    let [worst, other] =
        ["&lt;up&gt;<br>90 % lost, 25 % zero", "head<br>0 % lost"].map(|part| page.find(part));
    assert!(worst.is_some() && worst < other, "{page}");
    // From the first step to the last, and from 0 % at the bottom to 90 %.
    assert!(
        page.contains("points=\"0.0,56.0 110.0,33.6 220.0,5.6\""),
        "{page}"
    );
    assert_eq!(Report::from_json(&report.to_json()).unwrap(), report);
}
