use super::*;

#[test]
fn unknown_keys() {
    refused(
        "\nprest = \"o1\"\n",
        &format!("amp.toml:2: unknown key `prest`; allowed: {KEYS}; did you mean `preset`?"),
    );
    refused(
        "[loss_scale]\nmode = \"auto\"\nintit = 2.0\n",
        &format!(
            "amp.toml:3: loss_scale: unknown key `intit`; allowed: {LOSS_SCALE}; did you mean `init`?"
        ),
    );
    refused(
        "[optimizer]\nlr = 1",
        &format!("amp.toml:1: unknown key `optimizer`; allowed: {KEYS}"),
    );
    refused(
        "\"loss_scale.init\" = 2.0",
        &format!(
            "amp.toml:1: unknown key `loss_scale.init`; allowed: {KEYS}; did you mean `loss_scale`?"
        ),
    );
    refused_json(
        r#"{"prest": "o1"}"#,
        &format!("amp.json: unknown key `prest`; allowed: {KEYS}; did you mean `preset`?"),
    );
}

#[test]
fn a_key_at_the_wrong_level_is_told_its_table() {
    refused(
        "init = 1024.0",
        &format!(
            "amp.toml:1: unknown key `init`; allowed: {KEYS}; did you mean `loss_scale.init`?"
        ),
    );
    refused(
        "[loss_scale]\nmode = \"dynamic\"\ncompute = \"f16\"\n",
        &format!(
            "amp.toml:3: loss_scale: unknown key `compute`; allowed: {LOSS_SCALE}; \
             `compute` belongs to the top of the file, above the first table"
        ),
    );
}

#[test]
fn unknown_ops() {
    refused(
        "[ops]\nfloat_exp = \"full\"\nsoftmx = \"full\"\n",
        "amp.toml:3: ops: unknown op `softmx`; did you mean `softmax`?",
    );
    refused(
        "ops = { quux = \"full\" }",
        "amp.toml:1: ops: unknown op `quux`; allowed: the methods of Burn's op traits, for example `float_matmul`; \
         `burn-amp ops` lists them",
    );
    refused(
        "ops = { conv = \"full\" }",
        "amp.toml:1: ops: unknown op `conv`; allowed: conv1d, conv2d, conv3d, deform_conv2d, conv_transpose1d, conv_transpose2d, … (`burn-amp ops conv`)",
    );
    refused(
        "ops.matmul = \"full\"",
        "amp.toml:1: ops: unknown op `matmul`; did you mean `float_matmul`?",
    );
}

#[test]
fn ops_that_no_class_applies_to() {
    let why =
        "cannot be given a class: it does no float arithmetic, or its caller chooses the dtype";
    refused(
        "ops.float_cast = \"low\"",
        &format!("amp.toml:1: ops: `float_cast` {why}"),
    );
    refused_in_code(
        Config {
            ops: [(Op::int_add, Class::Low)].into(),
            ..Config::default()
        },
        &format!("code: ops: `int_add` {why}"),
    );
}

#[test]
fn unknown_names() {
    refused(
        "[ops]\nsoftmax = \"ful\"\n",
        "amp.toml:2: ops.softmax: unknown class `ful`; allowed: low, full, internal, widest, keep; \
         did you mean `full`?",
    );
    refused(
        "preset = \"o5\"",
        "amp.toml:1: preset: unknown preset `o5`; allowed: o0, o1, o2, o3",
    );
    refused(
        "compute = \"BF16\"",
        "amp.toml:1: compute: unknown compute dtype `BF16`; allowed: auto, bf16, f16, f32; did you mean `bf16`?",
    );
    refused(
        "compute = \"f64\"",
        "amp.toml:1: compute: unknown compute dtype `f64`; allowed: auto, bf16, f16, f32",
    );
    refused(
        "loss_scale.mode = \"dinamic\"",
        "amp.toml:1: loss_scale.mode: unknown mode `dinamic`; allowed: auto, dynamic, static, check, off; \
         did you mean `dynamic`?",
    );
}
