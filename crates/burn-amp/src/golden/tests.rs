//! Runs of known numbers, and of a few calls.

use burn::{
    backend::Flex,
    tensor::{ElementConversion, Tensor},
};

use super::*;

fn run(values: &[f32]) -> Golden {
    let mut golden = Golden {
        name: "flex bf16".into(),
        steps: Vec::new(),
        calls: None,
    };
    values.iter().for_each(|x| golden.step(*x, 2.0 * x));
    golden
}

#[test]
fn a_run_is_its_own_golden_one_and_one_unit_more_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("golden.txt");
    let first = run(&[1.5, -0.25, f32::NAN]);
    first.write(&file).unwrap();
    first.check(&file).unwrap();
    let other = Golden {
        name: "vulkan f16".into(),
        ..run(&[1.0])
    };
    let error = other.check(&file).unwrap_err().to_string();
    assert!(
        error.ends_with("golden.txt has no run of vulkan f16, but flex bf16; BLESS=1 adds it"),
        "{error}"
    );
    other.write(&file).unwrap();
    first.check(&file).unwrap();

    let mut moved = run(&[1.5]);
    moved
        .steps
        .push([(-0.25f32).to_bits() + 1, (-0.5f32).to_bits()]);
    let error = moved.check(&file).unwrap_err();
    assert!(
        matches!(
            error,
            GoldenError::Differs {
                step: 2,
                what: "loss",
                ulps: 1,
                ..
            }
        ),
        "{error}"
    );
    let error = run(&[1.5, -0.25]).check(&file).unwrap_err().to_string();
    assert_eq!(error, "flex bf16: 2 steps, and 3 in the file");
}

#[test]
fn a_wrong_line_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("golden.txt");
    for (text, line) in [
        ("1 0 0", 1),
        ("[a]\n2 0 0", 2),
        ("[a]\n1 0", 2),
        ("# x\n[a]\n1 0 xyz", 3),
    ] {
        fs::write(&file, text).unwrap();
        let error = run(&[1.0]).check(&file).unwrap_err();
        assert!(
            matches!(error, GoldenError::Syntax { line: found, .. } if found == line),
            "{text}: {error}"
        );
    }
}

type B = crate::Autodiff<crate::Amp<Flex>>;

/// A run of one step, whose calls are recorded: the sum of the scaled squares of `w`.
fn recorded(w: [f32; 2], scale: f32) -> Golden {
    let device = Default::default();
    let mut golden = Golden::of::<B>(&device).with_calls::<B>(&device);
    let w = Tensor::<B, 1>::from_floats(w, &device).require_grad();
    let loss = (w.clone() * w * scale).sum();
    golden.step(loss.clone().into_scalar().elem(), 0.0);
    loss.backward();
    golden
}

#[test]
fn the_call_that_is_another_one_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("golden.txt");
    let first = recorded([1.5, 2.0], 2.0);
    first.write(&file).unwrap();
    let beside = folder
        .path()
        .join("golden.amp-autodiff-flex-f32.safetensors");
    let step = Step::read(&beside).unwrap();
    assert_eq!((step.calls.len(), step.data.len()), (3, 0));

    let again = recorded([1.5, 2.0], 2.0);
    again.check(&file).unwrap();
    assert!(!again.calls.unwrap().exists());

    let told = |golden: Golden| {
        let error = golden.check(&file).unwrap_err();
        let GoldenError::Differs { cause, .. } = error else {
            panic!("{error}");
        };
        fs::remove_file(golden.calls.unwrap()).unwrap();
        cause
    };
    let other_data = told(recorded([1.5, 2.5], 2.0));
    assert!(
        other_data.starts_with("In the first step, argument 0 of call 0, `float_mul`")
            && other_data.contains("`burn-amp replay "),
        "{other_data}"
    );
    let other_call = told(recorded([1.5, 2.0], 3.0));
    assert!(
        other_call.starts_with("In the first step, another call: call 1, `float_mul_scalar`"),
        "{other_call}"
    );

    let mut later = recorded([1.5, 2.0], 2.0);
    later.steps[0][0] += 1;
    let later = told(later);
    assert!(
        later.starts_with("No call of the first step is another one")
            && later.contains("BURN_AMP_REPLAY_STEP=1"),
        "{later}"
    );
    fs::remove_file(&beside).unwrap();
    let missing = told(recorded([1.0, 2.0], 2.0));
    assert!(missing.starts_with("There is no "), "{missing}");
}

#[test]
fn units_are_counted_across_zero() {
    assert_eq!(ordered((-0.0f32).to_bits()), ordered(0.0f32.to_bits()));
    let [below, above] = [-f32::from_bits(1), f32::from_bits(2)].map(f32::to_bits);
    assert_eq!(ordered(below).abs_diff(ordered(above)), 3);
}
