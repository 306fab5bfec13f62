//! `cargo xtask book`: checks the links of all Markdown pages and builds the book with mdBook.
//!
//! Links to other sites are not followed: that needs the network, and they change independently of the repository.
//! rustdoc checks the links of the crates' documentation, in the step `doc`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use crate::{laws, markdown, type_names, workspace};

/// The folder of the book's pages.
const PAGES: &str = "book/src";

/// The folder of the pages on the design.
const INSIDE: &str = "book/src/inside";

/// The most words of a page on the design: five minutes.
const INSIDE_WORDS: usize = 900;

/// The most words of `DESIGN.md`: a quarter of an hour.
const DESIGN_WORDS: usize = 2500;

/// The folders in which the pages on the design look for the files that they name.
const FOLDERS: [&str; 5] = [
    "",
    "crates",
    "crates/burn-amp/src",
    "crates/burn-amp-decorator/src",
    "crates/burn-amp-kernels/src",
];

/// The module of the test crate that has the pages as documentation.
const TESTED: &str = "tests/src/book.rs";

/// Checks all pages, and builds the book.
pub fn run() -> Result<()> {
    check()?;
    build()
}

/// Whether the book can be built.
pub fn can_build() -> bool {
    workspace::succeeds(Command::new("mdbook").arg("--version"))
}

/// Builds the book into `target/book`.
///
/// # Errors
///
/// Returns an error if mdBook is not installed, or a page is wrong.
pub fn build() -> Result<()> {
    ensure!(
        can_build(),
        "mdbook is not installed; `cargo install --locked mdbook`"
    );
    workspace::run(&mut workspace::command("mdbook", &["build", "book"]))
}

/// Checks the links of all pages, the table of contents, that every Rust example is tested, that the pages on the design
/// are short and name files that exist, that the page of laws is up to date, and that a type's name says which is meant.
pub fn check() -> Result<()> {
    let root = workspace::root();
    let pages = workspace::files("*.md")?;
    let pages: Vec<_> = pages.into_iter().map(PathBuf::from).collect();
    let mut problems = Vec::new();
    for page in &pages {
        problems.extend(broken_links(&root, page)?);
    }
    problems.extend(missing_pages(&root, &pages)?);
    problems.extend(untested_pages(&root, &pages)?);
    problems.extend(wrong_design(&root, &pages)?);
    for problem in &problems {
        println!("{problem}");
    }
    ensure!(problems.is_empty(), "{} problems", problems.len());
    println!("{} pages: all links resolve", pages.len());
    laws::PAGE.check()?;
    type_names::check()
}

fn read(root: &Path, page: &Path) -> Result<String> {
    fs::read_to_string(root.join(page)).with_context(|| page.display().to_string())
}

/// The links of a page that lead nowhere.
fn broken_links(root: &Path, page: &Path) -> Result<Vec<String>> {
    let text = read(root, page)?;
    let folder = page.parent().unwrap_or(Path::new(""));
    let of_book = page.starts_with(PAGES);
    let mut broken = Vec::new();
    for link in markdown::links(&text) {
        let why = if link.contains("://") || link.starts_with("mailto:") {
            None
        } else {
            let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = if path.is_empty() {
                page.to_owned()
            } else {
                folder.join(path)
            };
            local(root, &target, anchor, of_book)?
        };
        if let Some(why) = why {
            broken.push(format!("{}: {link}: {why}", page.display()));
        }
    }
    Ok(broken)
}

/// Why a link to a file of the repository leads nowhere.
fn local(root: &Path, target: &Path, anchor: &str, of_book: bool) -> Result<Option<&'static str>> {
    let full = root.join(target);
    let Ok(resolved) = full.canonicalize() else {
        return Ok(Some("no such file"));
    };
    let is_markdown = resolved
        .extension()
        .is_some_and(|extension| extension == "md");
    if of_book && is_markdown && !resolved.starts_with(root.join(PAGES).canonicalize()?) {
        return Ok(Some(
            "mdBook makes it a link to a page that it does not write; link to the folder",
        ));
    }
    if anchor.is_empty() || full.is_dir() {
        return Ok(None);
    }
    let anchors = markdown::anchors(&fs::read_to_string(&full)?);
    Ok((!anchors.iter().any(|it| it == anchor)).then_some("no such heading"))
}

/// The pages that the table of contents lacks.
fn missing_pages(root: &Path, pages: &[PathBuf]) -> Result<Vec<String>> {
    let summary = Path::new(PAGES).join("SUMMARY.md");
    let listed = markdown::links(&read(root, &summary)?);
    let of_book = pages
        .iter()
        .filter_map(|page| page.strip_prefix(PAGES).ok());
    let missing = of_book.filter(|page| {
        *page != Path::new("SUMMARY.md") && !listed.iter().any(|link| Path::new(link) == *page)
    });
    Ok(missing
        .map(|page| format!("{}: no link to {}", summary.display(), page.display()))
        .collect())
}

/// The pages of the book, and the README, whose Rust examples no test compiles.
fn untested_pages(root: &Path, pages: &[PathBuf]) -> Result<Vec<String>> {
    let tested = read(root, Path::new(TESTED))?;
    let mut untested = Vec::new();
    for page in pages {
        if !page.starts_with(PAGES) && page != Path::new("README.md") {
            continue;
        }
        let text = read(root, page)?;
        let mut lines = markdown::lines(&text);
        let has_examples = lines
            .any(|(language, _)| language.is_some_and(|language| language.starts_with("rust")));
        if has_examples && !tested.contains(&format!("\"{}\"", page.display())) {
            untested.push(format!(
                "{}: its Rust examples are not in {TESTED}",
                page.display()
            ));
        }
    }
    Ok(untested)
}

/// The pages on the design that are too long, and the files that they name and that do not exist.
fn wrong_design(root: &Path, pages: &[PathBuf]) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for page in pages {
        let most = match page.to_str() {
            Some("DESIGN.md") => DESIGN_WORDS,
            Some("book/src/inside/laws.md") => usize::MAX,
            _ if page.starts_with(INSIDE) => INSIDE_WORDS,
            _ => continue,
        };
        let text = read(root, page)?;
        let words = text.split_whitespace().count();
        if words > most {
            problems.push(format!("{}: {words} words, at most {most}", page.display()));
        }
        let files =
            markdown::code(&text).filter(|span| span.contains('/') && span.ends_with(".rs"));
        let lost = files.filter(|file| {
            !FOLDERS
                .iter()
                .any(|folder| root.join(folder).join(file).exists())
        });
        problems.extend(lost.map(|file| format!("{}: `{file}`: no such file", page.display())));
    }
    Ok(problems)
}

#[cfg(test)]
mod tests;
