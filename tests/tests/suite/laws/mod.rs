//! Laws: properties of every op that has a cast class.

mod accuracy;
mod classes;
pub(crate) mod drive;
#[cfg(not(feature = "cubecl"))]
mod off;
mod parity;
#[cfg(not(feature = "cubecl"))]
mod replay;
mod scalar;

use burn_amp_tests::{cases::Case, prelude::*};

use self::drive::*;

#[test]
fn every_op_with_a_class_has_a_case() {
    for op in Op::ALL {
        let has_class = Precision::ALL
            .iter()
            .any(|compute| op.class(*compute).is_some());
        assert_eq!(Case::<Plain>::of(*op).is_some(), has_class, "{op}");
    }
}

#[test]
fn an_op_is_left_out_only_if_the_plain_backend_cannot_run_it() {
    for (op, why) in NOT_DRIVEN {
        let run = || read(run_plain(*op, DType::F32, None));
        assert!(catch_unwind(run).is_err(), "{op} runs, but: {why}");
    }
}
