//! The step `package`: checks that the published crates have everything that crates.io and docs.rs show, but for the
//! address of the repository, which is not public yet.

use anyhow::{Result, bail, ensure};
use cargo_metadata::Package;

use crate::workspace;

/// The files that the archive of every published crate must have.
const FILES: [&str; 3] = ["README.md", "LICENSE-MIT", "LICENSE-APACHE"];

/// Packs every published crate and checks cargo's warnings, the files and the metadata.
pub fn check() -> Result<()> {
    let packages: Vec<_> = workspace::members()?
        .into_iter()
        .filter(workspace::is_published)
        .collect();
    ensure!(!packages.is_empty(), "no crate is published");

    let mut problems = Vec::new();
    for package in &packages {
        let name = package.name.as_str();
        // Cargo writes the names of the files to standard output, and warnings to standard error.
        let (files, said) = cargo(&["--list"], &[name])?;
        problems.extend(warnings(name, &said));
        problems.extend(missing_files(name, &files));
        problems.extend(missing_metadata(package));
    }
    // All at once, because the crates depend on each other and may not be on crates.io yet.
    let names: Vec<_> = packages
        .iter()
        .map(|package| package.name.as_str())
        .collect();
    let (_, said) = cargo(&["--no-verify", "--quiet"], &names)?;
    problems.extend(warnings("cargo package", &said));

    problems.dedup();
    for problem in &problems {
        println!("{problem}");
    }
    ensure!(
        problems.is_empty(),
        "cargo package: {} problems",
        problems.len()
    );
    println!("{} have {}", names.join(", "), FILES.join(", "));
    Ok(())
}

/// Runs `cargo package` and returns its output and its messages; uses the network only if it fails offline.
fn cargo(args: &[&str], packages: &[&str]) -> Result<(String, String)> {
    let run = |network: &[&str]| {
        let mut command = workspace::cargo(&["package", "--allow-dirty"]);
        command.args(args).args(network);
        for name in packages {
            command.args(["--package", name]);
        }
        let output = command.output()?;
        let said = String::from_utf8(output.stderr)?;
        if !output.status.success() {
            bail!("{}:\n{said}", workspace::line(&command));
        }
        Ok((String::from_utf8(output.stdout)?, said))
    };
    run(&["--offline"]).or_else(|_| run(&[]))
}

/// What cargo says while there is no public repository; `cargo xtask publish` asks for its address.
const NO_REPOSITORY: &str = "manifest has no documentation, homepage or repository";

/// The warnings in cargo's messages.
fn warnings(name: &str, said: &str) -> Vec<String> {
    said.lines()
        .filter(|line| line.starts_with("warning") && !line.contains(NO_REPOSITORY))
        .map(|line| format!("{name}: {line}"))
        .collect()
}

/// The required files that the list of an archive lacks.
fn missing_files(name: &str, list: &str) -> Vec<String> {
    FILES
        .iter()
        .filter(|file| !list.lines().any(|line| line == **file))
        .map(|file| format!("{name}: no {file} in the archive"))
        .collect()
}

/// The fields that crates.io shows but the manifest does not set.
fn missing_metadata(package: &Package) -> Vec<String> {
    let fields = [
        ("description", package.description.is_some()),
        ("license", package.license.is_some()),
        ("readme", package.readme.is_some()),
        ("rust-version", package.rust_version.is_some()),
        ("keywords", !package.keywords.is_empty()),
        ("categories", !package.categories.is_empty()),
    ];
    fields
        .into_iter()
        .filter(|(_, is_set)| !is_set)
        .map(|(field, _)| {
            format!(
                "{}: no `{field}` in {}",
                package.name, package.manifest_path
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::workspace::is_published;

    fn package(publish: serde_json::Value) -> Package {
        serde_json::from_value(json!({
            "name": "burn-amp-core", "version": "0.1.0", "id": "core", "dependencies": [], "targets": [],
            "features": {}, "manifest_path": "/a/Cargo.toml", "publish": publish, "license": "MIT",
            "keywords": ["burn"], "categories": [],
        }))
        .unwrap()
    }

    #[test]
    fn a_crate_is_published_if_nothing_forbids_it() {
        assert!(is_published(&package(json!(null))));
        assert!(is_published(&package(json!(["crates-io"]))));
        assert!(!is_published(&package(json!([]))));
    }

    #[test]
    fn missing_files_and_fields_are_named() {
        let list = "Cargo.toml\nREADME.md\ndocs/LICENSE-MIT\n";
        assert_eq!(
            missing_files("a", list),
            [
                "a: no LICENSE-MIT in the archive",
                "a: no LICENSE-APACHE in the archive",
            ]
        );
        assert_eq!(
            missing_metadata(&package(json!(null))),
            [
                "burn-amp-core: no `description` in /a/Cargo.toml",
                "burn-amp-core: no `readme` in /a/Cargo.toml",
                "burn-amp-core: no `rust-version` in /a/Cargo.toml",
                "burn-amp-core: no `categories` in /a/Cargo.toml",
            ]
        );
    }

    #[test]
    fn a_warning_of_cargos_is_a_problem_and_its_progress_is_none() {
        let said = "   Packaging a v0.1.0\nwarning: manifest has no documentation, homepage or repository\n  |\n\
                    warning: no license\n";
        assert_eq!(warnings("a", said), ["a: warning: no license"]);
    }
}
