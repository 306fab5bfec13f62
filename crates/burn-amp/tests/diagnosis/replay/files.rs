//! The files to which steps are written.

use super::{net::step_of_net, *};

#[test]
fn a_step_that_shows_an_origin_is_not_replaced_by_one_that_does_not() {
    let file = file::<Poisoned>();
    let pass = |value: f32, factor: f32| {
        let w = full::<Poisoned>(value).require_grad();
        (w.clone().matmul(w) * factor).sum().backward();
        Step::read(&file).unwrap().cause.unwrap()
    };
    assert_eq!(pass(f32::NAN, 1.0).what, NotFinite::Operand);
    assert_eq!(pass(300.0, 1.0).what, NotFinite::Result);
    assert_eq!(pass(f32::NAN, 1.0).what, NotFinite::Result);
    std::fs::remove_file(&file).unwrap();
}

written!(Cut, in_f16(2f32.powi(30)));

#[test]
fn a_file_that_is_cut_off_or_of_something_else_is_an_error() {
    let (step, _) = step_of_net::<Cut>();
    let file = file::<Cut>();
    step.write(&file).unwrap();
    let read = Step::read(&file).unwrap();
    assert_eq!((read.data, read.calls.len()), (step.data, step.calls.len()));
    let bytes = std::fs::read(&file).unwrap();
    for length in [0, 7, 100, bytes.len() - 1] {
        std::fs::write(&file, &bytes[..length]).unwrap();
        let error = Step::read(&file).unwrap_err();
        assert!(matches!(error, ReadError::Format(_)), "{length}: {error}");
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let other = |from: &str, to: &str| {
        assert!(text.contains(from) && from.len() == to.len());
        let at = bytes
            .windows(from.len())
            .position(|bytes| bytes == from.as_bytes())
            .unwrap();
        let mut bytes = bytes.clone();
        bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
        std::fs::write(&file, bytes).unwrap();
        Step::read(&file).unwrap_err()
    };
    let error = other(
        "burn_amp_step_version\":\"2\"",
        "burn_amp_step_version\":\"9\"",
    );
    assert_eq!(
        error.to_string(),
        "a step of version 9, but this burn-amp reads version 2"
    );
    let error = other("burn_amp_step_version", "burn_amp_step_missing");
    assert!(matches!(error, ReadError::NoStep), "{error}");
    std::fs::remove_file(&file).unwrap();
    assert!(matches!(Step::read(&file), Err(ReadError::Io(_))));
}

#[test]
fn the_step_after_a_skipped_one_is_written_before_the_panic_that_ends_the_run() {
    policy!(OnSkip, after_a_skip(file::<Self>(), true));

    let file = file::<OnSkip>();
    let pass = || {
        let w = full::<OnSkip>(300.0).require_grad();
        // The parameter lives on, so its gradient is checked.
        w.clone().matmul(w.clone()).sum().backward();
    };
    pass();
    assert!(!file.exists(), "the first step is not searched");
    let end = std::panic::catch_unwind(|| (0..10).for_each(|_| pass()));
    assert!(end.is_err(), "every step overflows");
    let step = Step::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(step.scale, Some(2f32.powi(18)));
    let replayed = replay::<Flex>(&step, &Default::default());
    assert_same(&step, &replayed);
}

#[test]
fn a_file_needs_a_step_and_a_step_needs_a_file() {
    let mut config = Config::default();
    config.replay.output = "step.safetensors".into();
    assert_eq!(
        config.validate().unwrap_err().to_string(),
        "code: replay.output: expected replay.step of 1 or more, or overflow.locate on_skip or always, with \
         replay.output, found replay.step 0 and overflow.locate off"
    );
    config.replay.step = 3;
    assert!(config.validate().is_ok());
    config.replay.output = String::new();
    assert_eq!(
        config.validate().unwrap_err().to_string(),
        "code: replay.step: expected replay.output with replay.step, found no replay.output"
    );
}

/// Three passes of a model, of which one is written.
fn passes<P: ConfigSource>() {
    let w = full::<P>(0.5).require_grad();
    for pass in 1..=3 {
        (w.clone().matmul(w.clone()) * pass as f32).sum().backward();
    }
}

#[test]
fn a_step_that_is_chosen_by_its_number_is_written_whether_it_overflows_or_not() {
    policy!(
        Second,
        computing_in(Compute::Bf16, |it| {
            it.replay.output = file::<Self>().display().to_string();
            it.replay.step = 2;
        })
    );

    passes::<Second>();
    let step = Step::read(&file::<Second>()).unwrap();
    std::fs::remove_file(file::<Second>()).unwrap();
    assert_eq!((step.calls.len(), step.cause.is_none()), (3, true));
    let factor = serde_json::to_string(&step.calls[1].arguments).unwrap();
    assert!(factor.contains("2.0"), "{factor}");
    let replayed = replay::<Flex>(&step, &Default::default());
    let same = replayed.recorded.unwrap().same(&step);
    assert!(same.is_all() && same.of_gradients == 1, "{same:?}");
}

#[test]
fn a_file_without_values_can_be_compared_and_not_run() {
    policy!(
        Secret,
        computing_in(Compute::Bf16, |it| {
            it.replay.output = file::<Self>().display().to_string();
            it.replay.step = 1;
            it.replay.with_values = false;
        })
    );

    passes::<Secret>();
    let step = Step::read(&file::<Secret>()).unwrap();
    let bytes = std::fs::read(file::<Secret>()).unwrap();
    std::fs::remove_file(file::<Secret>()).unwrap();
    // Only the header, which says that there are no tensors.
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    assert_eq!(bytes.len() as u64, 8 + header);
    assert_eq!((step.data.len(), step.tensors.len()), (0, 1));
    let error = replay::<Flex>(&step, &Default::default())
        .recorded
        .unwrap_err();
    assert!(error.contains("no values of tensors"), "{error}");
    assert_eq!(changes(&step, &step.clone()), []);
    let mut other = step.clone();
    other.tensors[0].fingerprint += 1;
    assert!(matches!(
        changes(&step, &other)[0],
        Change::Input { argument: 0, .. }
    ));
}
