use super::*;

const BURN: &str = "pub trait ModuleOps<B: Backend> {
    fn linear(x: FloatTensor<B>, weight: FloatTensor<B>) -> FloatTensor<B>;
    fn linear_weight_backward(x: FloatTensor<B>, grad: FloatTensor<B>) -> FloatTensor<B> { x }
    fn attention(x: FloatTensor<B>) -> FloatTensor<B>;
}";

const TABLE: &[Row] = &[
    row("linear", "(F, F) -> F", None),
    row("linear_weight_backward", "(F, F) -> Wide", None),
    row("attention", "(F) -> F", Some("composed here")),
];

const fn row(name: &'static str, shape: &'static str, by_hand: Option<&'static str>) -> Row {
    Row {
        trait_name: "ModuleOps",
        name,
        shape,
        by_hand,
    }
}

fn methods(source: &str) -> Vec<Method> {
    burn::parse(source, "ModuleOps").unwrap()
}

fn sources(source: &str) -> Sources {
    let mut sources = Sources::default();
    sources.add(source).unwrap();
    sources
}

#[test]
fn a_table_with_every_method_in_its_shape_passes() {
    assert!(table_against_burn(TABLE, &methods(BURN)).is_empty());
}

#[test]
fn new_removed_and_changed_methods_are_named() {
    let newer = BURN
        .replace("fn attention(", "fn flash_attention(")
        .replace("x: FloatTensor<B>, weight", "x: &FloatTensor<B>, weight");
    assert_eq!(
        table_against_burn(TABLE, &methods(&newer)),
        [
            "ModuleOps::flash_attention (F) -> F: in Burn, not in the table",
            "ModuleOps::linear: (F, F) -> F in the table, (&F, F) -> F in Burn",
            "ModuleOps::attention: in the table, not in Burn",
        ]
    );
}

#[test]
fn an_op_by_hand_must_have_the_shape_of_its_method_too() {
    let newer = BURN.replace(
        "attention(x: FloatTensor<B>)",
        "attention(x: FloatTensor<B>, scale: f64)",
    );
    assert_eq!(
        table_against_burn(TABLE, &methods(&newer)),
        ["ModuleOps::attention: (F) -> F in the table, (F, f64) -> F in Burn"]
    );
}

#[test]
fn a_method_of_another_trait_is_no_match() {
    let mut elsewhere = TABLE.to_vec();
    elsewhere[0].trait_name = "ActivationOps";
    assert_eq!(
        table_against_burn(&elsewhere, &methods(BURN)),
        [
            "ModuleOps::linear (F, F) -> F: in Burn, not in the table",
            "ActivationOps::linear: in the table, not in Burn",
        ]
    );
}

#[test]
fn what_the_decorator_leaves_out_is_named() {
    let backend = [Method {
        trait_name: "Backend",
        name: "ad_enabled".to_owned(),
        shape: "(&Device) -> bool".to_owned(),
    }];
    assert_eq!(
        decorator_against_table(&sources("fn attention() {}"), TABLE, &backend),
        [
            "Backend::ad_enabled: not forwarded by `impl Backend for Amp`",
            "ModuleOps::attention: by hand in the table (composed here), but crates/burn-amp-decorator/src has no \
             `fn attention` next to `module_ops!`",
            "ModuleOps: `module_ops!` is not called in crates/burn-amp-decorator/src",
        ]
    );
    let complete = sources(
        "impl<B: Backend> Backend for Amp<B> { fn ad_enabled() -> bool { B::ad_enabled() } }
         impl<B: Backend> ModuleOps<Self> for Amp<B> { module_ops! { forward! } }
         fn attention() {}",
    );
    assert!(decorator_against_table(&complete, TABLE, &backend).is_empty());
}

#[test]
fn an_inherited_method_is_written_nowhere() {
    let backend = [Method {
        trait_name: "DistributedBackend",
        name: "comm_device".to_owned(),
        shape: "(&TensorRef<B>) -> Device".to_owned(),
    }];
    let inherits = sources("impl<B: Backend> DistributedBackend for Amp<B> {}");
    assert!(decorator_against_table(&inherits, &[], &backend).is_empty());
    let forwards = sources("impl<B> DistributedBackend for Amp<B> { unsafe fn comm_device() {} }");
    assert_eq!(
        decorator_against_table(&forwards, &[], &backend),
        [
            "DistributedBackend::comm_device: forwarded, although xtask has it as inherited \
             (asks `Amp` for the device of its own tensor)"
        ]
    );
}

#[test]
fn every_op_of_the_table_belongs_to_a_trait_that_is_read() {
    for op in Op::ALL {
        assert!(
            burn::OP_TRAITS
                .iter()
                .any(|(name, _)| *name == op.trait_name())
        );
    }
}
