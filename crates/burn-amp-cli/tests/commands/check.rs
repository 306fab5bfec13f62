//! `burn-amp check`.

use super::*;

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
