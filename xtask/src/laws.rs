//! `cargo xtask laws`: writes the laws that the tests hold as a page of the book.
//!
//! A law is a paragraph of a file's header that begins with `Law:`. A file may have several.

use std::{fmt::Write as _, fs};

use anyhow::{Context, Result};

use crate::{
    generated::{Command, Generated},
    workspace,
};

const HEADER: &str = "\
# Laws

<!-- Generated from the headers of the tests by `cargo xtask laws`; do not edit. -->

What the tests hold, in one sentence for each law. A law stands in the header of the file that tests it, after `Law:`, and
`cargo xtask laws` collects them here. The tests of `tests/tests/suite` run on every backend, except those that say why not.

| law | tested in |
|---|---|
";

/// The page of the laws.
pub const PAGE: Command = Command {
    name: "laws",
    files,
};

fn files() -> Result<Vec<Generated>> {
    Ok(vec![Generated {
        path: "book/src/inside/laws.md",
        text: page()?,
    }])
}

fn page() -> Result<String> {
    let mut page = HEADER.to_owned();
    for path in workspace::files("*.rs")? {
        let text =
            fs::read_to_string(workspace::root().join(&path)).with_context(|| path.clone())?;
        for law in laws(&text) {
            writeln!(page, "| {law} | `{path}` |")?;
        }
    }
    Ok(page)
}

/// The laws in the header of a file, each with a capital and without its full stop.
fn laws(text: &str) -> Vec<String> {
    let header = text.lines().map_while(|line| line.strip_prefix("//!"));
    let header: Vec<_> = header.map(str::trim).collect();
    let paragraphs = header
        .split(|line| line.is_empty())
        .map(|lines| lines.join(" "));
    let laws = paragraphs.filter_map(|paragraph| {
        let law = paragraph.strip_prefix("Law: ")?.trim_end_matches('.');
        let (first, rest) = law.split_at_checked(1)?;
        Some(first.to_uppercase() + rest)
    });
    laws.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn laws_are_paragraphs_of_the_header() {
        let text = "//! Law: no bit\n//! changes.\n//!\n//! More.\n//!\n//! Law: `x` is kept.\n\n//! Law: not this\n";
        assert_eq!(laws(text), ["No bit changes", "`x` is kept"]);
        assert_eq!(laws("use law;\n//! Law: too late"), Vec::<String>::new());
    }
}
