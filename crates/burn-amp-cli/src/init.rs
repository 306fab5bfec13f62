//! `burn-amp init`: writes an `amp.toml` in which every key has its default and a comment.

use std::{fs::File, io::Write, path::Path};

use burn_amp_core::Config;
use serde_json::json;

use crate::{args::InitArgs, failure::Failure};

const HEADER: &str = "\
# The configuration of burn-amp. Every key is optional; a key that is missing has its default. `burn-amp check` validates
# this file, and `burn-amp explain OP` says what a class does to an op.
#
# Every key has an environment variable that overrides this file: BURN_AMP_COMPUTE=f16, BURN_AMP_LOSS_SCALE_INIT=1024,
# BURN_AMP_OPS=\"float_exp=keep,softmax=low\". BURN_AMP_CONFIG names another file.

";

pub fn run(args: &InitArgs, as_json: bool) -> Result<String, Failure> {
    let InitArgs {
        file,
        preset,
        compute,
        force,
    } = args;
    let defaults = Config::default();
    let config = Config {
        preset: preset.unwrap_or(defaults.preset),
        compute: compute.unwrap_or(defaults.compute),
        ..defaults
    };
    config
        .validate()
        .map_err(|error| Failure::Usage(error.to_string()))?;
    let text = format!("{HEADER}{config}");
    if file == Path::new("-") {
        return Ok(text);
    }
    if file
        .extension()
        .is_some_and(|extension| extension == "json")
    {
        return Err(Failure::Usage(format!(
            "{}: only TOML has comments; name a file that ends in .toml",
            file.display()
        )));
    }
    write(file, &text, *force)?;
    Ok(match as_json {
        true => format!("{}\n", json!({ "file": file })),
        false => format!(
            "{} written. `burn-amp check` validates it.\n",
            file.display()
        ),
    })
}

fn write(file: &Path, text: &str, force: bool) -> Result<(), Failure> {
    let fail = |error: std::io::Error| {
        let hint = match error.kind() {
            std::io::ErrorKind::AlreadyExists => "the file exists; --force replaces it".into(),
            _ => error.to_string(),
        };
        Failure::Usage(format!("{}: {hint}", file.display()))
    };
    let mut options = File::options();
    match force {
        true => options.write(true).create(true).truncate(true),
        false => options.write(true).create_new(true),
    };
    let mut file = options.open(file).map_err(fail)?;
    file.write_all(text.as_bytes()).map_err(fail)
}
