use super::*;

#[test]
fn scales_that_are_no_powers_of_two() {
    refused(
        "\n[loss_scale]\ninit = 1000\n",
        "amp.toml:3: loss_scale.init: expected a power of two from 2^-126 to 2^127, found 1000; the nearest is 1024",
    );
    refused(
        "loss_scale.growth_factor = 1.1",
        "amp.toml:1: loss_scale.growth_factor: expected a power of two from 2 to 2^127, found 1.1; the nearest is 2",
    );
    refused(
        "loss_scale.backoff_factor = 0.9",
        "amp.toml:1: loss_scale.backoff_factor: expected a power of two from 2^-126 to 0.5, found 0.9; the nearest is 0.5",
    );
    refused(
        "loss_scale.max = 3e38",
        "amp.toml:1: loss_scale.max: expected a power of two from 2^-126 to 2^127, found 3e38; the nearest is 1.7014118e38",
    );
    refused(
        "loss_scale.min = 0.3",
        "amp.toml:1: loss_scale.min: expected a power of two from 2^-126 to 2^127, found 0.3; the nearest is 0.25",
    );
    refused_in_code(
        with(DynamicLossScale {
            growth_factor: 1.5,
            ..DynamicLossScale::default()
        }),
        "code: loss_scale.growth_factor: expected a power of two from 2 to 2^127, found 1.5; the nearest is 2",
    );
}

#[test]
fn numbers_out_of_range() {
    for (value, found) in [
        ("inf", "inf"),
        ("-inf", "-inf"),
        ("nan", "nan"),
        ("-nan", "-nan"),
        ("0", "0"),
        ("0.0", "0.0"),
        ("-0.0", "-0.0"),
        ("-1", "-1"),
        ("-1024.0", "-1024.0"),
        ("1e39", "1e39"),
        ("1e400", "1e400"),
        ("1e-40", "1e-40"),
    ] {
        for key in ["init", "min", "max"] {
            refused(
                &format!("loss_scale.{key} = {value}"),
                &format!(
                    "amp.toml:1: loss_scale.{key}: expected a power of two from 2^-126 to 2^127, found {found}"
                ),
            );
        }
    }
    refused(
        "loss_scale.growth_factor = 1.0",
        "amp.toml:1: loss_scale.growth_factor: expected a power of two from 2 to 2^127, found 1.0",
    );
    refused(
        "loss_scale.growth_factor = 0.5",
        "amp.toml:1: loss_scale.growth_factor: expected a power of two from 2 to 2^127, found 0.5",
    );
    refused(
        "loss_scale.backoff_factor = 1",
        "amp.toml:1: loss_scale.backoff_factor: expected a power of two from 2^-126 to 0.5, found 1",
    );
    refused(
        "loss_scale.backoff_factor = 0",
        "amp.toml:1: loss_scale.backoff_factor: expected a power of two from 2^-126 to 0.5, found 0",
    );
    refused(
        "loss_scale.growth_interval = 0",
        "amp.toml:1: loss_scale.growth_interval: expected a whole number from 1 to 4294967295, found 0",
    );
    refused(
        "loss_scale.hysteresis = -3",
        "amp.toml:1: loss_scale.hysteresis: expected a whole number from 1 to 4294967295, found -3",
    );
    refused(
        "loss_scale.hysteresis = 5_000_000_000",
        "amp.toml:1: loss_scale.hysteresis: expected a whole number from 1 to 4294967295, found 5000000000",
    );
    refused_in_code(
        with(DynamicLossScale {
            init: f32::NAN,
            ..DynamicLossScale::default()
        }),
        "code: loss_scale.init: expected a power of two from 2^-126 to 2^127, found NaN",
    );
    refused_in_code(
        with(DynamicLossScale {
            hysteresis: 0,
            ..DynamicLossScale::default()
        }),
        "code: loss_scale.hysteresis: expected a whole number from 1 to 4294967295, found 0",
    );
}

#[test]
fn scales_out_of_order() {
    let order = "expected loss_scale.min <= loss_scale.init <= loss_scale.max, found";
    refused(
        "loss_scale.min = 1\nloss_scale.init = 0.5\n",
        &format!("amp.toml:2: loss_scale.init: {order} 1 <= 0.5 <= 16777216"),
    );
    refused(
        "loss_scale.min = 131072",
        &format!("amp.toml:1: loss_scale.min: {order} 131072 <= 65536 <= 16777216"),
    );
    refused(
        "[loss_scale]\nmax = 4\nmin = 1\ninit = 8\n",
        &format!("amp.toml:4: loss_scale.init: {order} 1 <= 8 <= 4"),
    );
    refused_in_code(
        with(DynamicLossScale {
            min: 1.0,
            max: 4.0,
            ..DynamicLossScale::default()
        }),
        &format!("code: loss_scale.init: {order} 1 <= 65536 <= 4"),
    );
}

#[test]
fn only_a_scale_that_moves_has_limits() {
    let rule = DynamicLossScale {
        init: 2f32.powi(127),
        ..DynamicLossScale::default()
    };
    let config = |mode| LossScaleConfig {
        mode,
        ..rule.into()
    };
    for mode in [LossScaleMode::Static, LossScaleMode::Off] {
        assert!(with(config(mode)).validate().is_ok(), "{mode}");
    }
    for mode in [LossScaleMode::Auto, LossScaleMode::Dynamic] {
        assert!(with(config(mode)).validate().is_err(), "{mode}");
    }
}
