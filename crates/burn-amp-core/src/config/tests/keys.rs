use std::{collections::BTreeSet, fs, path::Path};

use crate::{
    Config,
    config::{
        Key,
        tree::{Entry, Value},
    },
};

/// The row of a key names its field and its path, the struct has the field, and the code that uses it reads the field.
/// In this folder the structs are in `mod.rs`, `gradients.rs`, `loss_scale.rs`, `overflow.rs`, `health.rs`, `replay.rs` and `report.rs`, and `check.rs` uses some keys.
#[test]
fn no_other_file_of_this_folder_uses_a_field_or_names_a_key() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/config");
    let mut read = Vec::new();
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir()
            || [
                "keys.rs",
                "mod.rs",
                "gradients.rs",
                "loss_scale.rs",
                "overflow.rs",
                "health.rs",
                "replay.rs",
                "report.rs",
                "check.rs",
            ]
            .contains(&&*name)
        {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let code = text
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"));
        for (line, key) in code.flat_map(|line| Key::ALL.iter().map(move |key| (line, key))) {
            assert!(!uses(line, key), "{name} uses {}: {line}", key.path());
        }
        read.push(name);
    }
    for file in ["kinds.rs", "load.rs", "tree.rs"] {
        assert!(read.iter().any(|name| name == file), "{file} was not read");
    }
}

/// Whether a line has the field `.min`, but not the method `.min(…)`, or the text `"min"` or `"loss_scale.min"`.
fn uses(line: &str, key: &Key) -> bool {
    let name = key.table_and_name().1;
    let ends =
        |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '(');
    let field = format!(".{name}");
    line.match_indices(&field)
        .any(|(i, _)| ends(&line[i + field.len()..]))
        || line.contains(&format!("\"{name}\""))
        || line.contains(&format!("\"{}\"", key.path()))
}

#[test]
fn fields_and_paths_are_uses_of_a_key_and_methods_are_not() {
    let min = Key::find("loss_scale.min").unwrap();
    assert!(uses("config.loss_scale.rule.min = 1.0;", min));
    assert!(uses("sources.last(\"loss_scale.min\")", min));
    assert!(uses("match name { \"min\" => 1 }", min));
    assert!(!uses("a.min(b) - x.minimum", min));
}

#[test]
fn every_row_is_complete() {
    let paths: BTreeSet<_> = Key::ALL.iter().map(Key::path).collect();
    assert_eq!(paths.len(), Key::ALL.len());
    let variables: BTreeSet<_> = Key::ALL.iter().map(Key::variable).collect();
    assert_eq!(variables.len(), Key::ALL.len());
    for key in Key::ALL {
        let (path, comment) = (key.path(), key.comment());
        assert!(!comment.is_empty() && !comment.ends_with('.'), "{path}");
        assert!(!key.allowed().is_empty(), "{path}");
        assert!(
            key.names().iter().all(|(_, meaning)| !meaning.is_empty()),
            "{path}"
        );
        assert!(key.check(&Config::default()).is_ok(), "{path}");
    }
}

#[test]
fn printed_lines_are_short_enough_to_read() {
    for line in Config::default().to_string().lines() {
        assert!(line.len() <= 120, "{line}");
    }
}

#[test]
fn a_key_that_is_not_bare_is_quoted() {
    let toml = |key: &str| {
        let entry = Entry {
            key: key.into(),
            value: Value::String("full".into()),
            line: None,
        };
        entry.to_toml()
    };
    assert_eq!(toml("head-0_a"), "head-0_a = \"full\"");
    assert_eq!(toml("head.*"), "\"head.*\" = \"full\"");
    assert_eq!(toml("a\"\\"), r#""a\"\\" = "full""#);
    assert_eq!(toml(""), "\"\" = \"full\"");
}
