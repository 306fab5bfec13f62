//! The step `manifests`: checks that every TOML file of the repository is valid TOML.
//!
//! Cargo accepts some invalid files, so a workspace that builds may still be unreadable for other tools and for later
//! versions of cargo.

use std::{fs, ops::Range};

use anyhow::{Context, Result, ensure};
use toml::de::DeTable;

use crate::workspace;

/// Parses every `*.toml` file that git tracks or does not ignore; prints the errors.
pub fn check() -> Result<()> {
    let files = workspace::files("*.toml")?;
    let mut problems = Vec::new();
    for name in &files {
        let path = workspace::root().join(name);
        let text = fs::read_to_string(&path).with_context(|| name.to_owned())?;
        problems.extend(problem(name, &text));
    }
    for problem in &problems {
        println!("{problem}");
    }
    let (wrong, all) = (problems.len(), files.len());
    ensure!(wrong == 0, "{wrong} of {all} files are not valid TOML");
    println!("{all} files are valid TOML");
    Ok(())
}

/// Describes the first syntax error of a file: file, line, the line itself, and the reason.
fn problem(name: &str, text: &str) -> Option<String> {
    let error = DeTable::parse(text).err()?;
    let reason = error.message();
    let Some(Range { start, .. }) = error.span() else {
        return Some(format!("{name}: {reason}"));
    };
    let before = text.get(..start).unwrap_or(text);
    let line = before.matches('\n').count();
    let content = text.lines().nth(line).unwrap_or_default().trim();
    Some(format!("{name}:{}: {reason}: `{content}`", line + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_toml_is_no_problem() {
        assert_eq!(problem("a.toml", "[a]\nb = { path = \"c\" }\n"), None);
        assert_eq!(problem("a.toml", ""), None);
    }

    #[test]
    fn a_value_without_a_key_is_named_by_file_line_and_reason() {
        let text =
            "[workspace.dependencies]\nserde = \"1\"\nbench = { path = \"bench\", \"machine\" }\n";
        let problem = problem("Cargo.toml", text).unwrap();
        assert!(problem.starts_with("Cargo.toml:3: "), "{problem}");
        assert!(
            problem.ends_with(": `bench = { path = \"bench\", \"machine\" }`"),
            "{problem}"
        );
    }

    #[test]
    fn duplicate_keys_and_open_ends_are_problems() {
        for (text, line) in [("a = 1\na = 2\n", 2), ("[a\n", 1), ("a = \"b", 1)] {
            let problem = problem("a.toml", text).unwrap();
            assert!(
                problem.starts_with(&format!("a.toml:{line}: ")),
                "{problem}"
            );
        }
    }
}
