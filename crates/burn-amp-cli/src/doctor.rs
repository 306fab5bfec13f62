//! `burn-amp doctor`: says from `Cargo.lock` whether a program trains through burn-amp, and if not, why.

use std::{
    env, fmt,
    path::{Path, PathBuf},
};

use serde_json::json;
use toml::{Table, Value};

use crate::{args::DoctorArgs, failure::Failure, input};

/// The crate in which a program finds its autodiff, and which burn-amp replaces from Burn 0.22 on.
const AUTODIFF: &str = "burn-autodiff";

/// The crate that is in every program of burn-amp.
const DECORATOR: &str = "burn-amp-decorator";

/// The release in which a backend type says that burn-amp is used.
const BY_TYPE: &str = "0.21.0";

/// The release in which a patch of the manifest says so.
const BY_PATCH: &str = "0.22.1";

pub fn run(args: &DoctorArgs, as_json: bool) -> Result<String, Failure> {
    let file = lock_file(args.path.as_deref())?;
    let text = input::text(&file, "a Cargo.lock")?;
    let lock: Table = text.parse().map_err(|error: toml::de::Error| {
        Failure::Usage(format!("{}: {}", file.display(), error.message()))
    })?;
    let findings = findings(&lock);
    let is_on = findings.iter().all(|finding| finding.is_on);
    let text = match as_json {
        true => {
            let findings = findings.iter().map(
                |Finding { burn, is_on, why }| json!({ "burn": burn, "on": is_on, "why": why }),
            );
            format!(
                "{:#}\n",
                json!({ "on": is_on, "programs": findings.collect::<Vec<_>>() })
            )
        }
        false => findings.iter().map(Finding::to_string).collect(),
    };
    match is_on {
        true => Ok(text),
        false => Err(Failure::Differs(text)),
    }
}

/// Whether the programs of a workspace that use one release of Burn train through burn-amp.
struct Finding {
    /// The release, if there is one.
    burn: Option<String>,
    is_on: bool,
    why: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.is_on { "on" } else { "off" };
        match &self.burn {
            Some(burn) => writeln!(f, "Burn {burn}: burn-amp is {state}. {}", self.why),
            None => writeln!(f, "burn-amp is {state}. {}", self.why),
        }
    }
}

/// The file that the command reads: the one that is given, that of the folder that is given, or the nearest one.
fn lock_file(path: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(path) = path {
        return Ok(if path.is_dir() {
            path.join("Cargo.lock")
        } else {
            path.into()
        });
    }
    let here = env::current_dir().map_err(|error| Failure::Usage(error.to_string()))?;
    let mut files = here.ancestors().map(|folder| folder.join("Cargo.lock"));
    files.find(|file| file.is_file()).ok_or_else(|| {
        Failure::Usage(
            "no Cargo.lock here or in a parent folder: build the program first, or name its folder"
                .into(),
        )
    })
}

/// What a lock file says about each release of Burn in it.
fn findings(lock: &Table) -> Vec<Finding> {
    let packages: Vec<_> = tables(lock.get("package")).collect();
    let has_amp = packages
        .iter()
        .any(|package| text(package, "name") == DECORATOR);
    let autodiffs = packages
        .iter()
        .filter(|package| text(package, "name") == AUTODIFF);
    let unused = lock.get("patch").and_then(|patch| patch.get("unused"));
    let unused = tables(unused).find(|package| text(package, "name") == AUTODIFF);
    let findings: Vec<_> = autodiffs
        .map(|package| {
            let burn = text(package, "version");
            let (is_on, why) = match burn {
                BY_TYPE => by_type(has_amp),
                _ => by_patch(burn, is_replaced(package), unused),
            };
            Finding {
                burn: Some(burn.into()),
                is_on,
                why,
            }
        })
        .collect();
    match findings.is_empty() {
        false => findings,
        true => vec![Finding {
            burn: None,
            is_on: false,
            why: format!(
                "No program here trains with Burn: there is no `{AUTODIFF}`, which Burn's feature `autodiff` adds."
            ),
        }],
    }
}

/// Whether a package is burn-amp's, and not Burn's own of the same name.
fn is_replaced(package: &Table) -> bool {
    let dependencies = package.get("dependencies").and_then(Value::as_array);
    let mut names = dependencies.into_iter().flatten().filter_map(Value::as_str);
    names.any(|name| name.split(' ').next() == Some(DECORATOR))
}

fn by_type(has_amp: bool) -> (bool, String) {
    match has_amp {
        true => (
            true,
            "It computes where the backend type is `Autodiff<Amp<…>>` of burn-amp; a run says so on standard error.".into(),
        ),
        false => (
            false,
            "Add `burn-amp` to the dependencies, and change the backend type to `burn_amp::Autodiff<burn_amp::Amp<…>>`.".into(),
        ),
    }
}

fn by_patch(burn: &str, is_replaced: bool, unused: Option<&Table>) -> (bool, String) {
    if is_replaced {
        return (
            true,
            "Its patch replaces `burn-autodiff`; a run says on standard error what it computes in."
                .into(),
        );
    }
    let why = match unused {
        _ if burn != BY_PATCH => format!(
            "burn-amp supports {BY_TYPE} and {BY_PATCH}, and its patch fits no other release: write `burn = \"={BY_PATCH}\"` in the manifest, and lock Burn's other crates to it as well, with `cargo update NAME --precise {BY_PATCH}`."
        ),
        Some(unused) => format!(
            "The manifest has a patch, for {}, which is unused: run `cargo update -p {AUTODIFF}`.",
            text(unused, "version")
        ),
        None => format!(
            "No patch replaces `{AUTODIFF}`: add to the manifest of the workspace `[patch.crates-io]` with `{AUTODIFF} = {{ path = \"…/burn-amp/burn-0.22/burn-autodiff\" }}`."
        ),
    };
    (false, why)
}

fn tables(array: Option<&Value>) -> impl Iterator<Item = &Table> {
    let array = array.and_then(Value::as_array);
    array.into_iter().flatten().filter_map(Value::as_table)
}

fn text<'a>(package: &'a Table, key: &str) -> &'a str {
    package.get(key).and_then(Value::as_str).unwrap_or_default()
}
