//! Runs the command and compares what it prints with the files in `snapshots`.
//!
//! `BLESS=1 cargo test -p burn-amp-cli` writes the files anew; read the difference before you commit it.

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
fn check_shows_each_value_with_its_origin() {
    let folder = Folder::new().with("amp.toml", AMP_TOML);
    let variables = [("BURN_AMP_PRESET", "o2"), ("BURN_AMP_OPS", "float_exp=low")];
    let ran = folder.run_with(&variables, &["check"]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert_snapshot("check.txt", &ran.out);
}

#[test]
fn check_without_a_file_shows_both_policies_that_a_device_may_choose() {
    assert_snapshot("check_defaults.txt", &Folder::new().run(&["check"]).out);
}

#[test]
fn check_as_json_has_the_values_their_origins_and_the_policy() {
    let folder = Folder::new().with("amp.toml", AMP_TOML);
    let ran = folder.run(&["check", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(json["keys"]["loss_scale.init"]["value"], 1024.0);
    assert_eq!(json["keys"]["loss_scale.init"]["from"], "amp.toml:8");
    assert_eq!(json["keys"]["preset"]["from"], "default");
    assert_eq!(json["ops"]["softmax"]["class"], "full");
    assert_eq!(json["policy"][0]["compute"], "f16");
    assert_eq!(json["policy"][0]["classes"]["softmax"], "full");
    assert_eq!(json["policy"][0]["classes"]["float_matmul"], "low");
}

#[test]
fn check_refuses_a_wrong_file_with_status_1() {
    let folder = Folder::new().with("amp.toml", "[loss_scale]\nintit = 2\n");
    let ran = folder.run(&["check"]);
    assert_eq!(ran.status, 1);
    assert_eq!(ran.out, "");
    assert_snapshot("check_wrong.txt", &ran.err);

    let ran = folder.run(&["check", "--json"]);
    assert_eq!((ran.status, ran.err.as_str()), (1, ""));
    let json: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert!(
        json["error"]
            .as_str()
            .unwrap()
            .contains("did you mean `init`?")
    );
}

#[test]
fn check_of_a_file_that_is_missing_has_status_2() {
    let ran = Folder::new().run(&["check", "large.toml"]);
    assert_eq!(ran.status, 2);
    assert_eq!(ran.err, "burn-amp: there is no file large.toml\n");
}

/// A folder, a file that is not text and none at all: every command that reads a file says which, and ends alike.
#[test]
fn what_cannot_be_read_is_named_and_has_status_2() {
    let folder = Folder::new().with_folder("runs");
    fs::write(folder.path("binary"), [0xff, 0xfe, 0x00]).unwrap();
    for (command, wanted) in [
        (&["check"][..], "a configuration such as `amp.toml`"),
        (&["report"], "the JSON file of a precision report"),
        (
            &["tune", "none.json", "--tolerance", "0.1"],
            "the JSON file of a precision report",
        ),
    ] {
        let said = |file: &str| {
            let args = [&command[..1], &[file], &command[1..]].concat();
            let ran = folder.run(&args);
            assert_eq!((ran.status, ran.out.as_str()), (2, ""), "{args:?}");
            ran.err
        };
        assert_eq!(
            said("runs"),
            format!("burn-amp: runs is a folder; expected {wanted}\n")
        );
        assert_eq!(
            said("binary"),
            format!("burn-amp: binary is not UTF-8 text; expected {wanted}\n")
        );
        assert_eq!(said("none"), "burn-amp: there is no file none\n");
    }
}

#[test]
fn check_of_an_amp_toml_that_cannot_be_read_has_status_2() {
    let folder = Folder::new().with_folder("amp.toml");
    let ran = folder.run(&["check"]);
    assert_eq!(
        (ran.status, ran.err.as_str()),
        (2, "burn-amp: FOLDER/amp.toml: is a folder, not a file\n")
    );
    let folder = Folder::new();
    fs::write(folder.path("amp.toml"), [0xff, 0xfe]).unwrap();
    let ran = folder.run(&["check"]);
    assert_eq!(
        (ran.status, ran.err.as_str()),
        (2, "burn-amp: FOLDER/amp.toml: not UTF-8 text\n")
    );
}

#[test]
fn check_reads_the_file_that_is_named() {
    let folder = Folder::new()
        .with("amp.toml", "not toml")
        .with("large.toml", "preset = \"o3\"\n");
    let ran = folder.run(&["check", "large.toml", "--compute", "bf16"]);
    assert!(ran.out.starts_with("large.toml is valid."), "{}", ran.out);
    assert!(ran.out.contains("large.toml:1"), "{}", ran.out);
}

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

/// A report with one product, at a line of a file, and `count` calls in 2 steps.
fn saved_report(count: u64) -> String {
    use burn_amp_core::{
        Precision,
        report::{Calls, Casting, Kept, Report, Sample, Site, Why},
    };
    let mut report = Report::new("flex", "o1", Precision::BF16);
    report.steps = 2;
    report.calls = vec![Calls {
        site: Some(Site {
            file: "src/model.rs".into(),
            line: 31,
            function: "model::forward".into(),
        }),
        count,
        flops: 1000 * count,
        bytes: 2048 * count,
        shapes: vec![vec![32, 784], vec![784, 10]],
        casts: vec![Casting {
            from: Precision::F32,
            to: Precision::BF16,
            made: count,
            shared: 0,
            bytes: 6 * count,
            sample: Sample::default(),
        }],
        ..Calls::new(
            "float_matmul",
            vec![Precision::F32; 2],
            Precision::BF16,
            Why::Class("low".into()),
        )
    }];
    report.kept = Some(vec![Kept {
        op: "float_matmul".into(),
        site: report.calls[0].site.clone(),
        dtype: "bf16".into(),
        shape: vec![32, 784],
        count,
        bytes: count * 32 * 784 * 2,
    }]);
    report.to_json()
}

#[test]
fn report_shows_a_saved_report() {
    let folder = Folder::new().with("run.json", &saved_report(4));
    assert_snapshot("report.txt", &folder.run(&["report", "run.json"]).out);
    assert_snapshot(
        "report_snapshot.txt",
        &folder.run(&["report", "run.json", "--snapshot"]).out,
    );
    let ran = folder.run(&["report", "run.json", "--html", "run.html"]);
    assert_eq!((ran.status, ran.out.as_str()), (0, "run.html written.\n"));
    assert_snapshot(
        "report.html",
        &fs::read_to_string(folder.path("run.html")).unwrap(),
    );
    let json = folder.run(&["report", "run.json", "--json"]).out;
    assert_eq!(json.trim(), saved_report(4).trim());
}

#[test]
fn report_compares_two_and_has_status_1_if_they_differ() {
    let folder = Folder::new()
        .with("a.json", &saved_report(4))
        .with("b.json", &saved_report(6));
    let same = folder.run(&["report", "a.json", "a.json"]);
    assert_eq!(same.status, 0);
    let differ = folder.run(&["report", "a.json", "b.json"]);
    assert_eq!((differ.status, differ.err.as_str()), (1, ""));
    assert_snapshot("report_differences.txt", &differ.out);
    let json = folder.run(&["report", "a.json", "b.json", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(json[0]["after"]["calls"], 3.0);
}

#[test]
fn report_says_why_a_file_is_none() {
    let folder = Folder::new().with("a.json", "{\"a\": 1}");
    let ran = folder.run(&["report", "a.json"]);
    assert_eq!(ran.status, 2);
    assert!(
        ran.err.contains("a.json: not a precision report"),
        "{}",
        ran.err
    );
    assert_eq!(folder.run(&["report", "b.json"]).status, 2);
}

#[test]
fn tune_proposes_a_file_that_check_accepts() {
    const SHADOW: &str = r#"{ "ops": [
        { "op": "linear", "site": null, "stored": "bf16", "calls": 2, "worst": 0.004, "sum": 0.006 },
        { "op": "float_sin", "site": null, "stored": "bf16", "calls": 1, "worst": 0.25, "sum": 0.25 }
    ] }"#;
    let folder = Folder::new()
        .with("report.json", &saved_report(4))
        .with("shadow.json", SHADOW);
    let tune = |more: &[&str]| {
        folder.run(
            &[
                &["tune", "report.json", "shadow.json", "--tolerance", "0.01"][..],
                more,
            ]
            .concat(),
        )
    };
    let ran = tune(&[]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    fs::write(folder.path("amp.toml"), &ran.out).unwrap();
    let checked = folder.run(&["check", "--json"]);
    assert_eq!(checked.status, 0, "{}", checked.out);
    assert!(
        ran.out.contains("# An error of 2.5e-1 at ?. In f32"),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("float_sin = \"full\""), "{}", ran.out);
    assert!(!ran.out.contains("linear"), "{}", ran.out);

    let json: serde_json::Value = serde_json::from_str(&tune(&["--json"]).out).unwrap();
    assert_eq!(json[0]["class"], "full");

    for (args, expected) in [
        (
            ["report.json", "report.json", "0.01"],
            "not the report of a shadow comparison",
        ),
        (
            ["shadow.json", "shadow.json", "0.01"],
            "not a precision report",
        ),
        (
            ["report.json", "shadow.json", "2"],
            "a number between 0 and 1",
        ),
    ] {
        let [report, shadow, tolerance] = args;
        let ran = folder.run(&["tune", report, shadow, "--tolerance", tolerance]);
        assert_eq!(ran.status, 2);
        assert!(ran.err.contains(expected), "{}", ran.err);
    }
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

/// A Cargo.lock with these packages, as cargo writes them.
fn locked(packages: &str) -> Folder {
    Folder::new().with("Cargo.lock", &format!("version = 4\n{packages}"))
}

fn autodiff(version: &str, rest: &str) -> String {
    format!("[[package]]\nname = \"burn-autodiff\"\nversion = \"{version}\"\n{rest}\n")
}

const FROM_REGISTRY: &str = "source = \"registry+https://github.com/rust-lang/crates.io-index\"";
const PATCHED: &str = "dependencies = [\n \"burn-amp-core\",\n \"burn-amp-decorator\",\n]";
const UNUSED: &str = "[[patch.unused]]\nname = \"burn-autodiff\"\nversion = \"0.22.1\"\n";

#[test]
fn doctor_says_whether_a_program_trains_through_burn_amp_and_why_not() {
    let decorator = "[[package]]\nname = \"burn-amp-decorator\"\nversion = \"0.1.0\"\n";
    let plain = |version| autodiff(version, FROM_REGISTRY);
    let cases = [
        (
            autodiff("0.22.1", PATCHED),
            0,
            "Burn 0.22.1: burn-amp is on",
        ),
        (plain("0.22.1"), 1, "No patch replaces `burn-autodiff`"),
        (plain("0.22.1") + UNUSED, 1, "for 0.22.1, which is unused"),
        (
            plain("0.22.2") + UNUSED,
            1,
            "write `burn = \"=0.22.1\"` in the manifest",
        ),
        (plain("0.22.0"), 1, "burn-amp supports 0.21.0 and 0.22.1"),
        (plain("0.21.0"), 1, "Add `burn-amp` to the dependencies"),
        (
            plain("0.21.0") + decorator,
            0,
            "Burn 0.21.0: burn-amp is on",
        ),
        (String::new(), 1, "No program here trains with Burn"),
        (
            autodiff("0.22.1", PATCHED) + &plain("0.21.0"),
            1,
            "Burn 0.21.0: burn-amp is",
        ),
    ];
    for (packages, status, says) in cases {
        let folder = locked(&packages).with_folder("src");
        for path in [&["doctor"][..], &["doctor", "."], &["doctor", "Cargo.lock"]] {
            let ran = folder.run(path);
            assert_eq!(ran.status, status, "{packages}{}{}", ran.out, ran.err);
            assert!(ran.out.contains(says), "{says}: {}", ran.out);
        }
        let json = folder.run(&["doctor", "--json"]);
        let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
        assert_eq!(json["on"], status == 0);
    }
    let ran = Folder::new().run(&["doctor", "."]);
    assert_eq!(
        (ran.status, ran.err.as_str()),
        (2, "burn-amp: there is no file ./Cargo.lock\n")
    );
    let ran = Folder::new()
        .with("Cargo.lock", "[[package")
        .run(&["doctor"]);
    assert_eq!(ran.status, 2, "{}", ran.err);
}
