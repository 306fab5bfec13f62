//! `cargo xtask config`: writes the table of configuration keys as the root's `amp.toml` and as a page of the book.

use std::fmt::Write as _;

use anyhow::Result;
use burn_amp_core::{Config, Key};

use crate::generated::{Command, Generated};

const AMP_TOML: &str = "\
# burn-amp's configuration. Every key is optional; these are the defaults. More: book/src/configuration.md.
#
# Every key has an environment variable that overrides the file: BURN_AMP_COMPUTE=f16, BURN_AMP_LOSS_SCALE_INIT=1024,
# BURN_AMP_OPS=\"float_exp=keep,softmax=low\". BURN_AMP_CONFIG names another file.

";

const HEADER: &str = "\
# Configuration

<!-- Generated from `crates/burn-amp-core/src/config/keys.rs` by `cargo xtask config`; do not edit. -->

Nothing has to be configured: every key has a default. [amp.toml](../../amp.toml) shows all keys with their defaults; this
page explains them.

## Precedence

Later sources override earlier ones, key by key:

1. the defaults;
2. the file: `amp.toml` or `amp.json` in the working directory, or else in the nearest parent directory that has one.
   `BURN_AMP_CONFIG=path` names the file instead; it must exist. A file whose name ends in `.json` is read as JSON;
3. the environment variables: that of a key is `BURN_AMP_` and the key in capitals, with `_` in place of a dot, such as
   `BURN_AMP_LOSS_SCALE_INIT` for `loss_scale.init`. A list in `BURN_AMP_OPS` overrides the file op by op.

Code overrides all of them. `burn_amp::configure` replaces the whole configuration of a device, and a policy source of
your own, `Amp<B, MyPolicy>`, that of a backend. `Config::load()` gives the configuration of file and variables, so that
code can change single values of it:

```rust
# use burn::backend::Flex;
# use burn_amp::{Amp, config::{Compute, Config}};
# type B = Amp<Flex>;
# let device = Default::default();
let mut config = Config::load()?;
config.compute = Compute::F16;
config.loss_scale.rule.init = 1024.0;
burn_amp::configure::<B>(&device, config)?;
# Ok::<(), burn_amp::config::SetupError>(())
```

Mistakes are errors, never ignored: an unknown key, op or `BURN_AMP_*` variable, a value of the wrong type or out of
range. The error names the file and line or the variable, what is allowed and the name that was probably meant.

```text
amp.toml:3: loss_scale: unknown key `intit`; allowed: mode, init, growth_factor, …; did you mean `init`?
```

## Keys

A key with a dot belongs to a table: `loss_scale.init` is `init` below `[loss_scale]` in TOML, and
`{\"loss_scale\": {\"init\": 1024}}` in JSON. A power of two may be written `\"2^10\"`, in a variable `2^10`.

| key | values | default | meaning |
|---|---|---|---|
";

const RULES: &str = "
Two rules concern several keys:

* `compute` suits `preset`: `auto` or `f32` with `o0`; `auto`, `bf16` or `f16` with `o2` and `o3`; anything with `o1`.
* `loss_scale.min <= loss_scale.init <= loss_scale.max`, unless the mode is `static` or `off`.

`[ops]` is a table of ops and their classes; [ops.md](ops.md) lists all ops with their default classes.

```toml
[ops]
float_exp = \"keep\"
softmax = \"full\"
```
";

/// The table of keys as files.
pub const FILES: Command = Command {
    name: "config",
    files,
};

fn files() -> Result<Vec<Generated>> {
    Ok(vec![
        Generated {
            path: "amp.toml",
            text: format!("{AMP_TOML}{}", Config::default()),
        },
        Generated {
            path: "book/src/configuration.md",
            text: page()?,
        },
    ])
}

fn page() -> Result<String> {
    let mut page = HEADER.to_owned();
    for key in Key::ALL {
        writeln!(
            page,
            "| `{}` | {} | `{}` | {} |",
            key.path(),
            values(key),
            key.default(),
            key.comment(),
        )?;
    }
    page.push_str(RULES);
    page.push_str("\n## Named values\n");
    for key in Key::ALL.iter().filter(|key| !key.names().is_empty()) {
        writeln!(page, "\n| `{}` | meaning |\n|---|---|", key.path())?;
        for (name, meaning) in key.names() {
            writeln!(page, "| `{name}` | {} |", meaning.trim())?;
        }
    }
    Ok(page)
}

fn values(key: &Key) -> String {
    if key.names().is_empty() {
        return key.allowed();
    }
    let names = key.names().iter().map(|(name, _)| format!("`{name}`"));
    names.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_one_row() {
        let page = page().unwrap();
        for key in Key::ALL {
            let start = format!("\n| `{}` | {} |", key.path(), values(key));
            assert_eq!(page.matches(&start).count(), 1, "{}", key.path());
            // As the page says.
            let variable = format!("BURN_AMP_{}", key.path().to_uppercase().replace('.', "_"));
            assert_eq!(key.variable(), variable);
        }
        let row = "| `loss_scale.growth_factor` | \
                   a power of two from 2 to 2^127 | `2.0` | \
                   multiplies the scale after growth_interval finite steps in a row |\n";
        assert!(page.contains(row), "{page}");
    }

    #[test]
    fn no_cell_breaks_the_table() {
        for key in Key::ALL {
            let meanings = key.names().iter().map(|(_, meaning)| *meaning);
            for cell in meanings.chain([key.comment(), &key.allowed(), &key.default()]) {
                assert!(!cell.contains(['|', '\n']), "{}: {cell}", key.path());
            }
        }
    }

    #[test]
    fn the_example_is_a_configuration() {
        let Generated { path, text } = &files().unwrap()[0];
        let config = Config::from_toml(text, path.as_ref()).unwrap();
        assert_eq!(config, Config::default());
    }
}
