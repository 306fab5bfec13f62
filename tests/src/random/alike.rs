//! Whether each call of a program's first backward pass is as near to the exact values as its dtype allows.

use std::{
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

use burn::backend::Flex;
use burn_amp::replay::{ReplayError, Side, Step, compare, write_next_step};

use super::all::*;
use super::subject::{F16, O0};

/// How many times as far as its dtype allows a value may be. On Vulkan convolutions add up in F16.
const TOLERANCE: f64 = if cfg!(feature = "vulkan") { 16.0 } else { 1.0 };

/// Compares the backend under test with Flex in the same dtypes.
pub fn check_alike(program: &Program) -> Verdict {
    if program.roots.is_empty() {
        return Verdict::Unfit;
    }
    let once = Program {
        passes: 1,
        checkpointing: false,
        ..program.clone()
    };
    let verdicts = [
        alike::<O0>("o0", &once),
        #[cfg(not(feature = "vulkan"))] // A software driver lacks BF16.
        alike::<super::subject::Bf16>("bf16", &once),
        alike::<F16>("f16", &once),
    ];
    let is_right = |verdict: &Verdict| matches!(verdict, Verdict::Right);
    let other = verdicts.into_iter().find(|verdict| !is_right(verdict));
    other.unwrap_or(Verdict::Right)
}

/// Runs a program in a step that is written.
fn written<P: Tested>(program: &Program) -> Option<Step> {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let name = format!("{}_alike.safetensors", std::process::id());
    let file: PathBuf = std::env::temp_dir().join(name);
    write_next_step::<<Under<P> as Subject>::B>(&Default::default(), &file);
    let ran = caught(|| run::<Under<P>>(program, &Circumstances::default()));
    let step = Step::read(&file);
    let _ = std::fs::remove_file(&file);
    ran.ok().and(step.ok())
}

fn alike<P: Tested>(policy: &'static str, program: &Program) -> Verdict {
    let Some(step) = written::<P>(program) else {
        return Verdict::Unfit;
    };
    let subject = Side::<Plain> {
        device: &Default::default(),
        path: "Plain",
        all_in: None,
    };
    let reference = Side::<Flex> {
        device: &Default::default(),
        path: "Flex",
        all_in: None,
    };
    let text = match caught(|| compare(&step, &subject, &reference, TOLERANCE, |_| ())) {
        Ok(Ok(compared)) => {
            if compared.differences.is_empty() && compared.not_compared.is_empty() {
                return Verdict::Right;
            }
            compared.to_text(&step, false)
        }
        // The loss of a program may be one of its leaves.
        Ok(Err(ReplayError::Loss)) => return Verdict::Unfit,
        Ok(Err(error)) => error.to_string(),
        Err(message) => message,
    };
    Verdict::Wrong(Failure::Apart { policy, text })
}
