use super::*;

#[test]
fn a_function_is_told_without_generics_and_closures() {
    for (symbol, expected) in [
        ("digits::main", "digits::main"),
        ("digits::main::{{closure}}", "digits::main"),
        ("digits::main::{closure#0}", "digits::main"),
        (
            "digits::train::<digits::Model<burn::Flex>>",
            "digits::train",
        ),
        (
            "<digits::Model<B> as digits::Forward<B>>::forward",
            "digits::Model::forward",
        ),
        ("<digits::Model<B>>::forward", "digits::Model::forward"),
        (
            "<burn_amp::backend::Amp<B,P,G> as burn_backend::ops::FloatTensorOps<B>>::float_add",
            "burn_amp::backend::Amp::float_add",
        ),
        ("forward<burn_flex::Flex>", "forward"),
        ("{closure#0}", ""),
        (
            "<&mut core::ops::F as core::ops::FnOnce>::call_once",
            "core::ops::F::call_once",
        ),
    ] {
        assert_eq!(function(symbol), expected, "{symbol}");
    }
}

#[test]
fn a_module_has_the_name_of_its_file() {
    assert_eq!(module(Path::new("src/model.rs")), "model");
    assert_eq!(module(Path::new("src/model/mod.rs")), "model");
}

#[test]
fn libraries_are_known_by_their_folders() {
    assert!(is_library(
        "/home/a/.cargo/registry/src/index/burn-nn-0.21.0/src/linear.rs"
    ));
    assert!(is_library(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/src/cast/call/mod.rs"
    )));
    assert!(!is_library(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/report.rs"
    )));
    assert!(!is_library("/home/a/digits/src/main.rs"));
}
