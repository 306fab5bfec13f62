use super::*;
use crate::{
    layers::Layer,
    non_finite::{Event, Events, Place},
    run::{Outcome, Record, Step, Validation},
};

/// A run of ten steps that came to an end.
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
        precision,
        seed,
        record: Record {
            steps: vec![step; 10],
            validations: vec![validation(0, 2.0), validation(10, loss)],
            peak_memory: Some(mebibytes << 20),
            ..Record::default()
        },
        outcome: Outcome::Finished,
    }
}

fn f32_runs() -> Vec<Run> {
    vec![
        run(Precision::F32, 1, 1.00, 0.100, 100),
        run(Precision::F32, 2, 1.04, 0.110, 102),
        run(Precision::F32, 3, 0.96, 0.100, 100),
    ]
}

fn circumstances() -> Circumstances {
    Circumstances {
        loss_ranks: true,
        shapes: Shapes {
            parameters: 100,
            matrix_share: 0.9,
            odd_share: 0.0,
            odd: Vec::new(),
        },
        fixed_share: Some(0.1),
        rounds_f32: false,
    }
}

/// What is said of `run` beside three runs of F32.
fn said_of(run: Run, circumstances: &Circumstances, hardware: Hardware) -> Judgement {
    let runs = [f32_runs(), vec![run]].concat();
    let mut judgements = judge(&runs, circumstances, |_| hardware);
    assert_eq!(judgements.len(), 2);
    judgements.remove(1)
}

fn bf16(loss: f64, seconds: f64, mebibytes: u64) -> Run {
    run(Precision::Bf16, 1, loss, seconds, mebibytes)
}

#[test]
fn headlines_say_whether_it_pays() {
    for (loss, seconds, mebibytes, headline) in [
        (1.00, 0.05, 60, "pays off here: as good, faster, smaller."),
        (1.03, 0.10, 60, "pays off here: as good, as fast, smaller."),
        (0.50, 0.05, 150, "pays off here: as good, faster, larger."),
        (
            1.00,
            0.10,
            100,
            "does not pay off here: as good, as fast, as large.",
        ),
        (
            1.00,
            0.20,
            60,
            "does not pay off here: as good, slower, smaller.",
        ),
        // F32's runs came to 1.00, 1.04 and 0.96, which is 0.08 apart; 1 in 20 others would end above 1 + 2.920 * 0.04 * sqrt(4/3) = 1.135.
        (1.07, 0.05, 60, "pays off here: as good, faster, smaller."),
        (1.09, 0.05, 60, "is perhaps worse, faster, smaller."),
        (
            1.13,
            0.20,
            60,
            "does not pay off here: perhaps worse, slower, smaller.",
        ),
        (
            1.14,
            0.05,
            60,
            "does not pay off here: worse, faster, smaller.",
        ),
        (
            f64::NAN,
            0.05,
            60,
            "does not pay off here: worse, faster, smaller.",
        ),
        // F32's runs took 0.100 to 0.110 s: only beyond both of them, and 5 % more, is another time.
        (
            1.00,
            0.096,
            100,
            "does not pay off here: as good, as fast, as large.",
        ),
        (
            1.00,
            0.094,
            100,
            "pays off here: as good, faster, as large.",
        ),
        (
            1.00,
            0.115,
            100,
            "does not pay off here: as good, as fast, as large.",
        ),
        (
            1.00,
            0.116,
            100,
            "does not pay off here: as good, slower, as large.",
        ),
    ] {
        let run = bf16(loss, seconds, mebibytes);
        let judgement = said_of(run, &circumstances(), Hardware::Accelerated);
        assert_eq!(judgement.headline, headline, "{loss} {seconds} {mebibytes}");
    }
}

#[test]
fn what_is_not_known_is_not_said() {
    let mut without_memory = bf16(1.0, 0.05, 0);
    without_memory.record.peak_memory = None;
    let judgement = said_of(without_memory, &circumstances(), Hardware::Accelerated);
    assert_eq!(judgement.headline, "pays off here: as good, faster.");

    let critic = Circumstances {
        loss_ranks: false,
        ..circumstances()
    };
    let judgement = said_of(bf16(9.0, 0.05, 60), &critic, Hardware::Accelerated);
    assert_eq!(
        judgement.headline,
        "is of unknown quality, faster, smaller."
    );

    let alone = judge(&[bf16(1.0, 0.05, 60)], &circumstances(), |_| {
        Hardware::Accelerated
    });
    assert_eq!(alone[0].headline, "is of unknown quality.");
    assert_eq!(
        alone[0].because,
        ["Validation loss 1.0000; no run of f32 to judge it by."]
    );
}

#[test]
fn the_losses_are_shown_beside_those_of_f32_and_what_chance_does() {
    let said = |runs: &[Run]| {
        let judgements = judge(runs, &circumstances(), |_| Hardware::Accelerated);
        judgements.last().unwrap().because[0].clone()
    };
    let yardstick = |runs: &[Run]| {
        let judgements = judge(runs, &circumstances(), |_| Hardware::Accelerated);
        judgements[0].because[1].clone()
    };
    let mut runs = f32_runs();
    let expected = "3 seeds end 0.0800 apart, so up to 1.0800 is as good as the first of them.";
    assert_eq!(yardstick(&runs), expected);
    let expected =
        "One seed tells nothing of chance; up to 1.0100 (1 % more) is taken for as good.";
    assert_eq!(yardstick(&runs[..1]), expected);
    runs[1].record.validations[1].loss = 1.002;
    let expected =
        "2 seeds end 0.0020 apart, less than 1 %, so up to 1.0100 (1 % more) is as good.";
    assert_eq!(yardstick(&runs[..2]), expected);

    for (loss, expected) in [
        (1.02, "Validation loss 1.0200, f32 1.0000, 1.0400, 0.9600."),
        (
            1.10,
            "Validation loss 1.1000, f32 1.0000, 1.0400, 0.9600. By chance 1 in 20 runs of f32 would end above 1.1349: \
             more --seeds or epochs would tell.",
        ),
        (
            1.20,
            "Validation loss 1.2000, f32 1.0000, 1.0400, 0.9600. Fewer than 1 in 20 runs of f32 would end above 1.1349.",
        ),
        (f64::NAN, "The validation loss is not finite."),
    ] {
        let runs = [f32_runs(), vec![bf16(loss, 0.05, 60)]].concat();
        assert_eq!(said(&runs), expected);
    }
    let one = [f32_runs().remove(0), bf16(1.20, 0.05, 60)];
    assert_eq!(
        said(&one),
        "Validation loss 1.2000, f32 1.0000. One run does not tell what chance does: more --seeds would."
    );
}

#[test]
fn a_baseline_that_did_not_learn_judges_nothing() {
    let mut runs = [f32_runs(), vec![bf16(1.98, 0.05, 60)]].concat();
    for run in &mut runs[..3] {
        run.record.validations[1].loss = 1.99;
    }
    let judgements = judge(&runs, &circumstances(), |_| Hardware::Accelerated);
    assert!(judgements[0].headline.starts_with("did not learn"));
    assert_eq!(
        judgements[1].headline,
        "is of unknown quality, faster, smaller."
    );
}

#[test]
fn reasons_for_not_being_faster_come_from_what_is_known() {
    let with = |change: fn(&mut Circumstances)| {
        let mut circumstances = circumstances();
        change(&mut circumstances);
        circumstances
    };
    let odd = |circumstances: &mut Circumstances| {
        circumstances.shapes.odd_share = 0.24;
        circumstances.shapes.odd = vec![Layer {
            name: "head.weight".to_owned(),
            shape: vec![768, 50257],
            is_matrix: true,
        }];
    };
    for (circumstances, hardware, reason) in [
        (
            circumstances(),
            Hardware::Emulated,
            "The CPU emulates half precision",
        ),
        (
            circumstances(),
            Hardware::Plain,
            "no units for matrix products",
        ),
        (
            circumstances(),
            Hardware::Accelerated,
            "probably not matmul-bound",
        ),
        (
            with(|it| it.fixed_share = Some(0.7)),
            Hardware::Accelerated,
            "Too small: about 70 %",
        ),
        (
            with(odd),
            Hardware::Accelerated,
            "24 % of the matrices' parameters: head.weight [768, 50257]",
        ),
        (
            with(|it| it.shapes.matrix_share = 0.3),
            Hardware::Accelerated,
            "Not matmul-bound: 30 %",
        ),
        (
            with(|it| it.rounds_f32 = true),
            Hardware::Accelerated,
            "TF32",
        ),
    ] {
        let slower = said_of(bf16(1.0, 0.2, 60), &circumstances, hardware);
        let text = slower.to_string();
        assert!(text.contains(reason), "{reason}: {text}");
        assert!(
            text.contains("200 ms per step, f32 100 ms to 110 ms: 1.82 times."),
            "{text}"
        );

        // Only an emulated time needs a word when it is better.
        let faster = said_of(bf16(1.0, 0.05, 60), &circumstances, hardware).to_string();
        assert_eq!(
            faster.contains(reason),
            hardware == Hardware::Emulated,
            "{faster}"
        );
        assert!(
            faster.contains("50.00 ms per step, f32 100 ms to 110 ms: 0.50 times."),
            "{faster}"
        );
    }
}

#[test]
fn a_time_among_scattered_times_of_f32_is_not_called_the_same() {
    let mut runs = [f32_runs(), vec![bf16(1.0, 0.15, 60)]].concat();
    for step in &mut runs[1].record.steps {
        step.seconds = 0.2;
    }
    let said = |runs: &[Run]| judge(runs, &circumstances(), |_| Hardware::Accelerated).remove(1);
    let judgement = said(&runs);
    assert_eq!(judgement.headline, "pays off here: as good, smaller.");
    assert_eq!(
        judgement.because[1],
        "150 ms per step, f32 100 ms to 200 ms."
    );
    assert!(judgement.because[2].starts_with("F32's own runs differ by more than 25 %"));

    for step in &mut runs[3].record.steps {
        step.seconds = 0.3;
    }
    assert_eq!(
        said(&runs).headline,
        "does not pay off here: as good, slower, smaller."
    );
}

fn events(loss_scale: f64, places: &[(usize, Place)]) -> Events {
    let mut events = Events::default();
    for (step, place) in places {
        events.push(Event {
            step: *step,
            loss_scale,
            place: place.clone(),
        });
    }
    events
}

#[test]
fn a_run_that_goes_non_finite_is_reported_with_its_first_place() {
    let mut lost = bf16(1.0, 0.05, 60);
    lost.outcome = Outcome::NonFinite;
    let parameters = Place::Parameters {
        count: 2,
        first: "fc.weight".to_owned(),
    };
    lost.record.events = events(1.0, &[(10, Place::Loss), (10, parameters)]);
    let judgement = said_of(lost.clone(), &circumstances(), Hardware::Emulated);
    assert_eq!(
        judgement.headline,
        "cannot train this model as it is set up here."
    );
    assert_eq!(
        judgement.because,
        [
            "Stopped after step 10: parameters are not finite any more.",
            "Non-finite in step 10: the loss.",
            "Non-finite in step 10: 2 parameters, the first of them fc.weight.",
            "F32 came to the end with the same batches: it is the precision.",
        ]
    );

    let mut runs = f32_runs();
    runs[0].outcome = Outcome::Failed("out of memory".to_owned());
    runs.push(lost);
    let judgements = judge(&runs, &circumstances(), |_| Hardware::Emulated);
    assert!(judgements[0].headline.starts_with("went wrong itself"));
    assert_eq!(judgements[0].because, ["Failed in step 11: out of memory."]);
    let last = judgements[1].because.last().unwrap();
    assert_eq!(last, "F32 went wrong as well: it is not the precision.");
}

#[test]
fn another_seed_that_goes_wrong_is_reported_and_measures_no_chance() {
    let mut runs = [f32_runs(), vec![bf16(1.02, 0.05, 60)]].concat();
    runs[1].outcome = Outcome::NonFinite;
    runs[2].outcome = Outcome::Failed("out of memory".to_owned());
    let judgements = judge(&runs, &circumstances(), |_| Hardware::Accelerated);
    assert_eq!(judgements[0].headline, "learned.");
    assert!(judgements[0].because[2].starts_with("Seed 2 went wrong. Stopped after step 10"));
    assert!(judgements[0].because[3].starts_with("Seed 3 went wrong. Failed in step 11"));
    assert_eq!(judgements[1].headline, "is perhaps worse, faster, smaller.");
}

#[test]
fn skipped_steps_are_counted() {
    let mut skipping = run(Precision::F16, 1, 1.0, 0.05, 60);
    skipping.record.steps[0].skipped = true;
    skipping.record.steps[1].skipped = true;
    skipping.record.final_loss_scale = Some(16384.0);
    let gradients = Place::Gradients {
        count: 1,
        of: 62,
        nearest_to_loss: "conv1.weight".to_owned(),
    };
    skipping.record.events = events(65536.0, &[(1, gradients.clone()), (2, gradients)]);
    let judgement = said_of(skipping, &circumstances(), Hardware::Accelerated);
    assert_eq!(
        judgement.headline,
        "pays off here: as good, faster, smaller."
    );
    assert_eq!(
        judgement.because[3..],
        [
            "Non-finite in step 1 at a loss scale of 65536: 1 of 62 gradients, nearest to the loss conv1.weight, and in \
             1 steps after it.",
            "Steps skipped: 2 of 10; the loss scale ended at 16384.",
        ]
    );
}
