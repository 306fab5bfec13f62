use std::{collections::BTreeSet, fs, path::Path};

use crate::{
    Config,
    config::{
        Key,
        tree::{Entry, Value},
    },
};

/// A key is known to its row, to the struct that has its field and to the code that uses it. In this folder the structs
/// are in `mod.rs` and `loss_scale.rs`, and the rules of `check.rs` use some keys.
#[test]
fn no_other_file_of_this_folder_names_a_key() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/config");
    let names: BTreeSet<_> = Key::ALL.iter().map(|key| key.table_and_name().1).collect();
    let mut read = Vec::new();
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() || ["keys.rs", "mod.rs", "loss_scale.rs", "check.rs"].contains(&&*name) {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let (code, _tests) = text.split_once("#[cfg(test)]").unwrap_or((&text, ""));
        let skipped = |line: &str| line.trim_start().starts_with("//") || line.starts_with("use ");
        let lines = code.lines().filter(|line| !skipped(line));
        for line in lines {
            let word = |c: char| c.is_alphanumeric() || c == '_';
            let mut words = line.split(|c| !word(c)).filter(|w| names.contains(w));
            // `min` and `max` are methods of numbers, too
            if let Some(key) = words.find(|key| !line.contains(&format!(".{key}("))) {
                panic!("{name} names `{key}`: {line}");
            }
        }
        read.push(name);
    }
    for file in ["kinds.rs", "load.rs", "tree.rs"] {
        assert!(read.iter().any(|name| name == file), "{file} was not read");
    }
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
