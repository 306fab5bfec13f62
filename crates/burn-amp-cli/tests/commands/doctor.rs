//! `burn-amp doctor`.

use super::*;

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
