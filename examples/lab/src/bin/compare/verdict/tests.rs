use super::*;
use crate::run::tests::{run as steps, validation};

/// A run of ten steps that finished.
fn run(precision: Precision, seed: u32, loss: f64, seconds: f64, mebibytes: u64) -> Run {
    let mut run = Run {
        precision,
        seed,
        validations: vec![validation(0, 2.0), validation(10, loss)],
        peak_memory: Some(mebibytes << 20),
        ..steps(&[1.0; 10])
    };
    run.steps.iter_mut().for_each(|step| step.seconds = seconds);
    run
}

/// Three runs of F32, and one of BF16.
fn runs(loss: f64, seconds: f64, mebibytes: u64) -> Vec<Run> {
    vec![
        run(Precision::F32, 1, 1.00, 0.100, 100),
        run(Precision::F32, 2, 1.04, 0.110, 102),
        run(Precision::F32, 3, 0.96, 0.100, 100),
        run(Precision::AmpBf16, 1, loss, seconds, mebibytes),
    ]
}

/// The headline of the last verdict.
fn last_headline(runs: &[Run]) -> String {
    judge(runs, false, true).pop().unwrap().headline
}

/// Loss, seconds per step and mebibytes of a run, and the headline. F32's losses are 1.00, 1.04 and 0.96, which is 0.08
/// apart; its steps take 0.100 to 0.110 s, and only 5 % beyond both is another time.
const HEADLINES: &str = "\
1.00 0.050  60 pays off here: as good, faster, smaller.
1.03 0.100  60 pays off here: as good, as fast, smaller.
1.00 0.100 100 does not pay off here: as good, as fast, as large.
1.07 0.050  60 pays off here: as good, faster, smaller.
1.09 0.050  60 is perhaps worse, faster, smaller.
1.15 0.200  60 does not pay off here: perhaps worse, slower, smaller.
1.17 0.050  60 does not pay off here: worse, faster, smaller.
 NaN 0.050  60 does not pay off here: worse, faster, smaller.
1.00 0.094 100 pays off here: as good, faster, as large.
1.00 0.115 100 does not pay off here: as good, as fast, as large.
1.00 0.116 100 does not pay off here: as good, slower, as large.";

#[test]
fn headlines_say_whether_it_pays_off() {
    for line in HEADLINES.lines() {
        let (numbers, headline) = line.split_at("1.00 0.050  60 ".len());
        let mut numbers = numbers.split_whitespace().map(|it| it.parse().unwrap());
        let mut next = || -> f64 { numbers.next().unwrap() };
        let runs = runs(next(), next(), next() as u64);
        assert_eq!(last_headline(&runs), headline, "{line}");
    }
}

#[test]
fn numbers_are_given_for_each_word() {
    let verdict = judge(&runs(1.10, 0.2, 60), true, true);
    let expected = "Validation loss 1.0000; 0.0800 is noise: 3 seeds differ by that, or it is 1 %.";
    assert_eq!(verdict[0].because, [expected]);
    let expected = [
        "Validation loss 1.1000, +0.1000 compared with f32.",
        "A step takes 200 ms, 1.94 times f32's 103 ms.",
        "Peak memory is 60.0 MiB, 0.60 times f32's 100.7 MiB.",
        EMULATED,
    ];
    assert_eq!(verdict[1].because, expected);
}

#[test]
fn what_is_unknown_is_not_judged() {
    let mut runs = runs(9.0, 0.05, 60);
    assert_eq!(last_headline(&runs[3..]), "is of unknown quality.");
    // Two seeds do not show that a precision is worse, and a seed that goes wrong is none.
    let failure = || Some("out of memory".to_owned());
    runs[1].failure = failure();
    let expected = "is perhaps worse, faster, smaller.";
    assert_eq!(last_headline(&runs), expected);
    runs[0].validations[1].loss = 1.99;
    let f32 = |runs: &[Run], loss_ranks| judge(runs, false, loss_ranks)[0].headline.clone();
    assert!(f32(&runs, true).starts_with("did not learn"));
    assert!(f32(&runs, false).starts_with("trained to the end"));
    let expected = "is of unknown quality, faster, smaller.";
    assert_eq!(last_headline(&runs), expected);

    runs[3].failure = failure();
    assert!(last_headline(&runs).ends_with("f32 can: it is the precision."));
    assert!(last_headline(&runs[3..]).ends_with("as it is set up here."));
    runs[0].failure = failure();
    assert!(last_headline(&runs).ends_with("nor can f32: it is not the precision."));
    runs[2].failure = failure();
    assert!(f32(&runs, true).starts_with("went wrong itself"));
}
