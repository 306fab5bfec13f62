//! Writes a complete `amp.toml`.

use std::fmt;

use super::{Config, LossScaleConfig};

impl fmt::Display for Config {
    /// Writes every key, with comments; a valid configuration parses back to an equal one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            preset,
            compute,
            ops,
            loss_scale,
        } = self;
        line(
            f,
            "preset",
            &quoted(preset),
            "o0 f32 | o1 autocast | o2 low parameters, norms f32 | o3 all low",
        )?;
        line(f, "compute", &quoted(compute), "auto | bf16 | f16 | f32")?;
        writeln!(f, "\n[ops] # low | full | internal | widest | keep")?;
        for (op, class) in ops {
            writeln!(f, "{op} = {}", quoted(class))?;
        }
        writeln!(f, "\n[loss_scale]")?;
        write!(f, "{loss_scale}")
    }
}

impl fmt::Display for LossScaleConfig {
    /// Writes every key, with comments, without the head of the table.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            mode,
            init,
            growth_factor,
            backoff_factor,
            growth_interval,
            hysteresis,
            min,
            max,
            sync,
        } = self;
        // `{:?}` writes a float in TOML's syntax: with a point or an exponent
        line(f, "mode", &quoted(mode), "auto | dynamic | static | off")?;
        line(f, "init", &format!("{init:?}"), "the first scale")?;
        line(
            f,
            "growth_factor",
            &format!("{growth_factor:?}"),
            "after growth_interval finite steps",
        )?;
        line(
            f,
            "backoff_factor",
            &format!("{backoff_factor:?}"),
            "after an overflow",
        )?;
        line(
            f,
            "growth_interval",
            &growth_interval.to_string(),
            "finite steps in a row",
        )?;
        line(
            f,
            "hysteresis",
            &hysteresis.to_string(),
            "overflows in a row until the scale backs off",
        )?;
        line(f, "min", &format!("{min:?}"), "the smallest scale")?;
        line(f, "max", &format!("{max:?}"), "the largest scale")?;
        line(
            f,
            "sync",
            &sync.to_string(),
            "false: the host does not wait for the finite check",
        )
    }
}

fn line(f: &mut fmt::Formatter<'_>, key: &str, value: &str, comment: &str) -> fmt::Result {
    writeln!(f, "{:<24} # {comment}", format!("{key} = {value}"))
}

fn quoted(name: impl fmt::Display) -> String {
    format!("\"{name}\"")
}
