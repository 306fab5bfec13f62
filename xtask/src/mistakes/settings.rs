//! Mistakes in files and environment variables.

use std::{env, fs, path::Path, process};

use anyhow::{Context, Result};
use burn_amp_core::Config;

use super::Told;

/// Texts of `amp.toml`, and of `amp.json` if they begin with a brace.
const FILES: &[&str] = &[
    "comput = \"f16\"",
    "precision = \"bf16\"",
    "init = 1024.0",
    "[loss_scale]\ncompute = \"f16\"",
    "[loss-scale]\nmode = \"dynamic\"",
    "[loss_scale]\ngrowth_intervall = 100",
    "compute = f16",
    "compute = \"fp16\"",
    "compute = \"float16\"",
    "compute = \"half\"",
    "compute = \"bfloat16\"",
    "compute = \"float32\"",
    "compute = \"bf16-mixed\"",
    "compute = \"f64\"",
    "compute = 16",
    "preset = \"O1\"",
    "preset = \"o0\"\ncompute = \"f16\"",
    "preset = \"o2\"\ncompute = \"f32\"",
    "loss_scale = 1024",
    "[loss_scale]\nmode = \"on\"",
    "[loss_scale]\ninit = 1000",
    "[loss_scale]\ninit = 2^40",
    "[loss_scale]\ninit = -1.0",
    "[loss_scale]\ninit = 0.5\nmin = 1.0",
    "[loss_scale]\ngrowth_interval = 1e3",
    "[loss_scale]\nhysteresis = 0",
    "[loss_scale]\ngrowth_factor = 1.5",
    "[loss_scale]\nbackoff_factor = 2",
    "[loss_scale]\nsync = \"false\"",
    "[ops]\nsoftmx = \"full\"",
    "[ops]\nmatmul = \"full\"",
    "[ops]\nconv = \"full\"",
    "[ops]\nsoftmax = \"f32\"",
    "[ops]\nint_add = \"full\"",
    "[overflow]\nlocate = \"yes\"",
    "[report]\nsteps = -1",
    "compute = \"f16\"\ncompute = \"bf16\"",
    "{\"compute\": \"fp16\"}",
    "{\"compute\": \"f16\",}",
];

/// Variables, and what they are set to.
const VARIABLES: &[(&str, &str)] = &[
    ("BURN_AMP_COMPUTE", "fp16"),
    ("BURN_AMP_COMPUTE", ""),
    ("BURN_AMP_LOSS_SCALE_INIT", "1_024"),
    ("BURN_AMP_LOSS_SCALE_INIT", "1000"),
    ("BURN_AMP_LOSS_SCALE_SYNC", "0"),
    ("BURN_AMP_OPS", "softmax:low"),
    ("BURN_AMP_OPS", "softmx=low"),
    ("BURN_AMP_CONFIG", "nowhere.toml"),
    ("BURN_AMP_LOSS_SCALE", "128"),
    ("BURN_AMP_PRECISION", "f16"),
];

/// A folder that goes with the value.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Result<Self> {
        let name = format!("burn-amp-mistakes-{}", process::id());
        let folder = tempfile::Builder::new().prefix(&name).tempdir();
        Ok(Self(folder.context("a temporary folder")?))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// What is said about the folder's file and these variables, without the path of the folder.
    fn said(&self, variables: &[(&str, &str)]) -> String {
        let owned = variables
            .iter()
            .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        let said = match Config::load_from(self.path(), owned) {
            Ok(_) => "nothing".to_owned(),
            Err(error) => error.to_string(),
        };
        said.replace(&format!("{}/", self.path().display()), "")
    }
}

/// Wrong values and keys.
pub fn of_files() -> Result<Vec<Told>> {
    let told = |text: &&str| {
        let (file, language) = match text.starts_with('{') {
            true => ("amp.json", "json"),
            false => ("amp.toml", "toml"),
        };
        let folder = Folder::new()?;
        fs::write(folder.path().join(file), text)?;
        Ok(Told {
            what: format!("```{language}\n{text}\n```"),
            said: folder.said(&[]),
        })
    };
    FILES.iter().map(told).collect()
}

/// Files that cannot be read, or are too many.
pub fn with_files() -> Result<Vec<Told>> {
    let mut told = Vec::new();
    let mut tell = |what: &str, make: &dyn Fn(&Path) -> Result<()>| -> Result<()> {
        let folder = Folder::new()?;
        make(folder.path())?;
        told.push(Told {
            what: what.to_owned(),
            said: folder.said(&[]),
        });
        Ok(())
    };
    tell("`amp.toml` and `amp.json` in one folder", &|folder| {
        fs::write(folder.join("amp.toml"), "")?;
        Ok(fs::write(folder.join("amp.json"), "{}")?)
    })?;
    tell("an `amp.toml` that is not UTF-8", &|folder| {
        Ok(fs::write(folder.join("amp.toml"), [0xff, 0xfe])?)
    })?;
    #[cfg(unix)]
    {
        tell("a folder called `amp.toml`", &|folder| {
            Ok(fs::create_dir(folder.join("amp.toml"))?)
        })?;
        tell("a link called `amp.toml` that leads nowhere", &|folder| {
            let link = folder.join("amp.toml");
            Ok(std::os::unix::fs::symlink("gone.toml", link)?)
        })?;
    }
    Ok(told)
}

/// Wrong variables.
pub fn of_variables() -> Result<Vec<Told>> {
    let told = |(name, text): &(&str, &str)| {
        let folder = Folder::new()?;
        // The file ends the search for one in the folders above.
        fs::write(folder.path().join("amp.toml"), "")?;
        Ok(Told {
            what: format!("`{name}={text}`"),
            said: folder.said(&[(name, text)]),
        })
    };
    VARIABLES.iter().map(told).collect()
}

/// A folder in which programs find a configuration, and that of no other folder.
pub fn empty() -> Result<tempfile::TempDir> {
    let folder = tempfile::tempdir_in(env::temp_dir())?;
    fs::write(folder.path().join("amp.toml"), "")?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mistake_is_answered() {
        let all = [of_files(), with_files(), of_variables()].map(Result::unwrap);
        for Told { what, said } in all.iter().flatten() {
            assert_ne!(said, "nothing", "{what}");
            assert!(!said.contains("burn-amp-mistakes"), "{said}");
        }
    }
}
