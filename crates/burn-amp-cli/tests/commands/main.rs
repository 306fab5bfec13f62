//! Runs the command and compares what it prints with the files in `snapshots`.
//!
//! `BLESS=1 cargo test -p burn-amp-cli` writes the files anew; read the difference before you commit it.

mod doctor;

mod report;

mod check;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

/// What a command wrote and returned.
struct Ran {
    out: String,
    err: String,
    status: i32,
}

/// A folder in which commands run, with no variables of burn-amp's.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn with(self, name: &str, text: &str) -> Self {
        fs::write(self.path(name), text).unwrap();
        self
    }

    fn with_folder(self, name: &str) -> Self {
        fs::create_dir(self.path(name)).unwrap();
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn run(&self, args: &[&str]) -> Ran {
        self.run_with(&[], args)
    }

    fn run_with(&self, variables: &[(&str, &str)], args: &[&str]) -> Ran {
        let mut command = Command::new(env!("CARGO_BIN_EXE_burn-amp"));
        for (name, _) in env::vars_os() {
            if name.to_string_lossy().starts_with("BURN_AMP_") {
                command.env_remove(name);
            }
        }
        let variables = variables.iter().copied();
        let output = command
            .args(args)
            .envs(variables)
            .current_dir(&self.0)
            .output()
            .unwrap();
        // The folder has another name in each run.
        let text = |bytes: Vec<u8>| {
            let text = String::from_utf8(bytes).unwrap();
            text.replace(&self.0.path().display().to_string(), "FOLDER")
        };
        Ran {
            out: text(output.stdout),
            err: text(output.stderr),
            status: output.status.code().unwrap(),
        }
    }
}

/// Compares a text with a file of this test.
fn assert_snapshot(name: &str, text: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/snapshots")
        .join(name);
    if env::var_os("BLESS").is_some() {
        fs::write(&file, text).unwrap();
    }
    let expected = fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(text, expected, "{name}; BLESS=1 writes it anew");
}

const AMP_TOML: &str = "\
compute = \"f16\"

[ops]
softmax = \"full\"
float_exp = \"keep\"

[loss_scale]
init = 1024
";

#[test]
fn ops_are_filtered_by_name_class_trait_and_change() {
    let folder = Folder::new().with("amp.toml", AMP_TOML);
    assert_snapshot(
        "ops_internal.txt",
        &folder.run(&["ops", "--class", "internal"]).out,
    );
    assert_snapshot("ops_changed.txt", &folder.run(&["ops", "--changed"]).out);
    assert_snapshot(
        "ops_softmax.txt",
        &folder
            .run(&["ops", "softmax", "--defaults", "--trait", "activation"])
            .out,
    );
}

#[test]
fn ops_without_an_answer_have_status_1_and_a_hint() {
    let ran = Folder::new().run(&["ops", "sofmax"]);
    assert_eq!(ran.status, 1);
    assert_eq!(
        ran.err,
        "burn-amp: no op with a class that was asked for has `sofmax` in its name; did you mean `softmax`?\n"
    );
}

#[test]
fn ops_as_json_lists_every_op_with_a_class() {
    let ran = Folder::new().run(&["ops", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let of_table = burn_amp_core::Op::ALL
        .iter()
        .filter(|op| op.class(burn_amp_core::Precision::F16).is_some());
    assert_eq!(json.as_array().unwrap().len(), of_table.count());
}

#[test]
fn explain_says_what_happens_why_and_how_to_change_it() {
    let folder = Folder::new().with("amp.toml", AMP_TOML);
    for op in [
        "float_div",
        "float_exp",
        "softmax",
        "layer_norm",
        "float_zeros",
    ] {
        let ran = folder.run(&["explain", op]);
        assert_eq!(ran.status, 0, "{}", ran.err);
        assert_snapshot(&format!("explain_{op}.txt"), &ran.out);
    }
    let both = Folder::new().run(&["explain", "div"]);
    assert_snapshot("explain_div_on_any_device.txt", &both.out);
}

#[test]
fn explain_names_the_nearest_op() {
    let ran = Folder::new().run(&["explain", "layr_norm"]);
    assert_eq!(ran.status, 1);
    assert_eq!(
        ran.err,
        "burn-amp: unknown op `layr_norm`; did you mean `layer_norm`?\n"
    );
}

#[test]
fn init_writes_a_file_that_check_accepts_and_replaces_none() {
    let folder = Folder::new();
    let ran = folder.run(&["init", "--compute", "f16", "--preset", "o2"]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    let text = fs::read_to_string(folder.path("amp.toml")).unwrap();
    assert_snapshot("init.toml", &text);
    assert_eq!(folder.run(&["check"]).status, 0);

    let again = folder.run(&["init"]);
    assert_eq!(again.status, 2);
    assert_eq!(
        again.err,
        "burn-amp: amp.toml: the file exists; --force replaces it\n"
    );
    assert_eq!(fs::read_to_string(folder.path("amp.toml")).unwrap(), text);
    assert_eq!(folder.run(&["init", "--force"]).status, 0);
    assert_ne!(fs::read_to_string(folder.path("amp.toml")).unwrap(), text);
}

#[test]
fn init_refuses_settings_that_check_would_refuse() {
    let ran = Folder::new().run(&["init", "-", "--preset", "o0", "--compute", "bf16"]);
    assert_eq!(ran.status, 2);
    assert_eq!(ran.out, "");
    assert!(
        ran.err.contains("compute auto or f32 with preset o0"),
        "{}",
        ran.err
    );
}

#[test]
fn every_shell_has_completions_that_know_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = Folder::new().run(&["completions", shell]);
        assert_eq!(ran.status, 0, "{}", ran.err);
        assert!(ran.out.contains("explain"), "{shell}");
    }
}

#[test]
fn help_shows_examples_and_exit_statuses() {
    assert_snapshot("help.txt", &Folder::new().run(&["--help"]).out);
    assert_snapshot(
        "help_check.txt",
        &Folder::new().run(&["check", "--help"]).out,
    );
}

#[test]
fn a_wrong_command_line_has_status_2() {
    assert_eq!(Folder::new().run(&["chek"]).status, 2);
    assert_eq!(Folder::new().run(&["ops", "--class", "half"]).status, 2);
}
