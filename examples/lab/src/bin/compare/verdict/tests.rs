use lab::machine::Machine;

use super::*;
use crate::{
    non_finite::{NonFinite, Place},
    parameters::Shapes,
    run::{Step, Validation},
};

/// A run of ten steps that finished.
fn run(precision: Precision, seed: u32, loss: f64, seconds: f64, mebibytes: u64) -> Run {
    let step = Step {
        loss: 1.0,
        loss_scale: 1.0,
        skipped: false,
        seconds,
    };
    let validation = |step, loss| Validation {
        step,
        loss,
        accuracy: None,
    };
    Run {
        steps: vec![step; 10],
        validations: vec![validation(0, 2.0), validation(10, loss)],
        peak_memory: Some(mebibytes << 20),
        ..Run::new(precision, seed)
    }
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

fn judged(runs: &[Run], emulates_half: bool) -> Vec<Verdict> {
    let machine = Machine {
        emulates_half,
        ..Machine::flex()
    };
    let model = Model {
        machine: &machine,
        shapes: Shapes::of(&[]),
        loss_ranks: true,
        fixed_share: None,
    };
    judge(runs, &model, |_| false)
}

/// Loss, seconds per step and mebibytes of a run, and the headline. F32's losses are 1.00, 1.04 and 0.96, which is 0.08
/// apart; its steps take 0.100 to 0.110 s, and only 5 % beyond both is another time.
const HEADLINES: &str = "\
1.00 0.050  60 pays off here: as good, faster, smaller.
1.03 0.100  60 pays off here: as good, as fast, smaller.
0.50 0.050 150 pays off here: as good, faster, larger.
1.00 0.100 100 does not pay off here: as good, as fast, as large.
1.00 0.200  60 does not pay off here: as good, slower, smaller.
1.07 0.050  60 pays off here: as good, faster, smaller.
1.09 0.050  60 is perhaps worse, faster, smaller.
1.15 0.200  60 does not pay off here: perhaps worse, slower, smaller.
1.17 0.050  60 does not pay off here: worse, faster, smaller.
 NaN 0.050  60 does not pay off here: worse, faster, smaller.
1.00 0.096 100 does not pay off here: as good, as fast, as large.
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
        assert_eq!(judged(&runs, false)[1].headline, headline, "{line}");
    }
}

#[test]
fn numbers_are_given_for_each_word() {
    let verdict = judged(&runs(1.10, 0.2, 60), false);
    let expected = [
        "Validation loss 2.0000 before training, 1.0000 after it.",
        "Losses differ by chance: 0.0800 is noise, as 3 seeds differ by that, or at least 1 %.",
    ];
    assert_eq!(verdict[0].because, expected);
    let expected = [
        "Validation loss 2.0000 before training, 1.1000 after it.",
        "That is +0.1000 compared with f32: above the noise, but perhaps by chance; more --seeds or epochs would show.",
        "200 ms per step, f32 100 ms to 110 ms: 1.82 times.",
        "The device has no units for matrix products in this precision.",
        "60.0 MiB at most in memory, f32 100.0 MiB to 102.0 MiB: 0.60 times.",
    ];
    assert_eq!(verdict[1].because, expected);

    // Where half precision is emulated, even a faster step means nothing.
    let reasons = |emulates| judged(&runs(1.0, 0.05, 60), emulates)[1].because.len();
    assert_eq!([false, true].map(reasons), [4, 5]);
}

#[test]
fn what_is_unknown_is_not_judged() {
    let headline = |runs: &[Run]| judged(runs, false).pop().unwrap().headline;
    let mut runs = runs(1.10, 0.15, 60);
    runs[3].peak_memory = None;
    assert_eq!(
        headline(&runs),
        "does not pay off here: perhaps worse, slower."
    );
    assert_eq!(headline(&runs[3..]), "is of unknown quality.");
    // Two seeds do not show that a precision is worse.
    runs[3] = run(Precision::AmpF16, 1, 9.0, 0.05, 60);
    assert_eq!(
        headline(&runs),
        "does not pay off here: worse, faster, smaller."
    );
    assert_eq!(headline(&runs[1..]), "is perhaps worse, faster, smaller.");
    // A baseline that did not learn judges no quality.
    runs.iter_mut()
        .for_each(|run| run.validations[1].loss = 1.99);
    let verdict = judged(&runs, false);
    assert!(verdict[0].headline.starts_with("did not learn"));
    assert_eq!(
        verdict[1].headline,
        "is of unknown quality, faster, smaller."
    );
}

#[test]
fn a_run_that_becomes_non_finite_is_reported_with_its_first_place() {
    let mut runs = runs(1.0, 0.05, 60);
    runs[3].outcome = Outcome::NonFinite;
    NonFinite::record(&mut runs[3].non_finite, Place::loss(), 10, 1.0);
    runs[3].steps[0].skipped = true;
    runs[3].final_loss_scale = Some(16384.0);
    let verdict = &judged(&runs, true)[1];
    assert_eq!(
        verdict.headline,
        "cannot train this model as it is set up here."
    );
    let expected = [
        "Stopped after step 10: parameters are not finite any more.",
        "F32 finished with the same batches: it is the precision.",
        "Non-finite in step 10: the loss.",
        "Skipped steps: 1 of 10; the loss scale ended at 16384.",
    ];
    assert_eq!(verdict.because, expected);

    runs[0].outcome = Outcome::Failed("out of memory".to_owned());
    let verdict = judged(&runs, true);
    assert!(verdict[0].headline.starts_with("went wrong itself"));
    assert_eq!(verdict[0].because, ["Failed in step 11: out of memory."]);
    assert!(verdict[1].because[1].starts_with("F32 went wrong as well"));
}

#[test]
fn another_seed_that_goes_wrong_is_reported_and_measures_no_noise() {
    let mut runs = runs(1.02, 0.05, 60);
    runs[1].outcome = Outcome::NonFinite;
    runs[2].outcome = Outcome::Failed("out of memory".to_owned());
    let verdict = judged(&runs, false);
    assert_eq!(verdict[0].headline, "learned.");
    assert!(verdict[0].because[2].starts_with("Seed 2 went wrong. Stopped after step 10"));
    assert!(verdict[0].because[3].starts_with("Seed 3 went wrong. Failed in step 11"));
    assert_eq!(verdict[1].headline, "is perhaps worse, faster, smaller.");
}
