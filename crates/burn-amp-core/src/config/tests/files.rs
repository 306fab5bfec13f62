use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use super::{message, toml};
use crate::{Class, Compute, Config, ConfigError, Op};

/// A folder of its own for one test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "burn-amp-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(path.join("sub/sub")).unwrap();
        Self(path)
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.0.join(file), text).unwrap();
    }

    fn load(&self, dir: &str, variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
        let variables = variables
            .iter()
            .map(|(name, text)| (name.to_string(), text.to_string()));
        Config::load_from(&self.0.join(dir), variables)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0); // a leftover in the temporary folder does not fail a test
    }
}

/// The configuration of a file and variables.
pub(super) fn loaded(text: &str, variables: Vec<(String, String)>) -> Result<Config, ConfigError> {
    let folder = Folder::new();
    folder.write("amp.toml", text);
    Config::load_from(&folder.0, variables)
}

#[test]
fn the_nearest_ancestor_counts() {
    let folder = Folder::new();
    folder.write("amp.toml", "compute = \"f16\"");
    assert_eq!(folder.load("sub/sub", &[]).unwrap().compute, Compute::F16);
    folder.write("sub/amp.json", r#"{"compute": "bf16"}"#);
    assert_eq!(folder.load("sub/sub", &[]).unwrap().compute, Compute::Bf16);
    assert_eq!(folder.load("", &[]).unwrap().compute, Compute::F16);
}

#[test]
fn without_file_and_variables_there_are_the_defaults() {
    let folder = Folder::new();
    assert_eq!(folder.load("", &[]).unwrap(), Config::default());
}

#[test]
fn variables_override_the_file_op_by_op() {
    let folder = Folder::new();
    folder.write(
        "amp.toml",
        "compute = \"f16\"\n[ops]\nsoftmax = \"low\"\nfloat_exp = \"low\"\n",
    );
    let variables = [
        ("BURN_AMP_COMPUTE", "bf16"),
        ("BURN_AMP_OPS", "softmax=keep"),
    ];
    let config = folder.load("", &variables).unwrap();
    assert_eq!(config.compute, Compute::Bf16);
    let expected = [(Op::float_exp, Class::Low), (Op::softmax, Class::Keep)];
    assert_eq!(config.ops, expected.into());
}

#[test]
fn the_named_file_replaces_the_found_one() {
    let folder = Folder::new();
    folder.write("amp.toml", "compute = \"f16\"");
    folder.write("sub/other.json", r#"{"compute": "bf16"}"#);
    let named = [("BURN_AMP_CONFIG", "sub/other.json")];
    assert_eq!(folder.load("", &named).unwrap().compute, Compute::Bf16);
}

#[test]
fn a_named_file_must_be_there() {
    let folder = Folder::new();
    folder.write("amp.toml", "");
    for name in ["none.toml", "sub"] {
        assert_eq!(
            message(folder.load("", &[("BURN_AMP_CONFIG", name)])),
            format!(
                "BURN_AMP_CONFIG: there is no file {}",
                folder.0.join(name).display()
            )
        );
    }
}

#[test]
fn two_files_in_one_folder() {
    let folder = Folder::new();
    folder.write("amp.toml", "");
    folder.write("amp.json", "{}");
    let path = |name| folder.0.join(name).display().to_string();
    assert_eq!(
        message(folder.load("sub", &[])),
        format!(
            "{} and {} both exist; keep one of them, or name one in BURN_AMP_CONFIG",
            path("amp.toml"),
            path("amp.json")
        )
    );
    let named = [("BURN_AMP_CONFIG", "amp.json")];
    assert_eq!(folder.load("", &named).unwrap(), Config::default());
}

#[test]
fn a_file_that_is_not_text() {
    let folder = Folder::new();
    fs::write(folder.0.join("amp.toml"), [0xff, 0xfe]).unwrap();
    assert_eq!(
        message(folder.load("", &[])),
        format!("{}: not UTF-8 text", folder.0.join("amp.toml").display())
    );
}

#[test]
fn a_folder_and_a_link_that_leads_nowhere_are_not_passed_over() {
    let folder = Folder::new();
    fs::create_dir(folder.0.join("amp.toml")).unwrap();
    let error = message(folder.load("", &[]));
    assert!(
        error.contains("amp.toml: is a folder, not a file"),
        "{error}"
    );

    #[cfg(unix)]
    {
        fs::remove_dir(folder.0.join("amp.toml")).unwrap();
        std::os::unix::fs::symlink(folder.0.join("gone"), folder.0.join("amp.toml")).unwrap();
        let error = message(folder.load("", &[]));
        assert!(error.contains("amp.toml: cannot be read: "), "{error}");
    }
}

#[test]
fn errors_name_file_and_line() {
    let folder = Folder::new();
    folder.write("amp.toml", "\npreset = \"o9\"\n");
    assert_eq!(
        message(folder.load("sub", &[])),
        format!(
            "{}:2: preset: unknown preset `o9`; allowed: o0, o1, o2, o3",
            folder.0.join("amp.toml").display()
        )
    );
}

#[test]
fn a_byte_order_mark_and_windows_line_ends_are_read() {
    assert_eq!(
        toml("\u{feff}compute = \"f16\"\r\n").unwrap().compute,
        Compute::F16
    );
    assert_eq!(
        message(toml("preset = \"o1\"\r\ncompute = 1\r\n")),
        "amp.toml:2: compute: expected a string, found 1"
    );
}

#[test]
fn the_example_ends_with_the_printed_defaults() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../amp.toml");
    let Ok(text) = fs::read_to_string(&file) else {
        return; // outside the repository: the packaged crate has no example
    };
    let text = text.replace("\r\n", "\n"); // a checkout may have changed the line ends
    assert!(text.ends_with(&Config::default().to_string()));
    assert_eq!(toml(&text).unwrap(), Config::default());
}
