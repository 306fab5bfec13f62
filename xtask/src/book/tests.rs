use super::*;

fn problems(files: &[(&str, &str)]) -> Vec<String> {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let pages: Vec<_> = files
        .iter()
        .map(|(path, _)| PathBuf::from(path))
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    let links = pages
        .iter()
        .flat_map(|page| broken_links(root.path(), page).unwrap());
    let mut all: Vec<_> = links.collect();
    all.extend(missing_pages(root.path(), &pages).unwrap());
    all.extend(untested_pages(root.path(), &pages).unwrap());
    all.extend(wrong_design(root.path(), &pages).unwrap());
    all
}

const SUMMARY: (&str, &str) = ("book/src/SUMMARY.md", "[a](a.md)");

#[test]
fn links_to_pages_headings_and_files_of_the_repository_resolve() {
    let found = problems(&[
        SUMMARY,
        (
            "book/src/a.md",
            "# A b\n[x](#a-b) [y](../../z/z.rs) [z](../../z)",
        ),
        ("README.md", "[a](book/src/a.md#a-b) [z](z)"),
        ("z/z.rs", ""),
        (TESTED, ""),
    ]);
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn broken_links_are_named_with_their_page() {
    let found = problems(&[
        SUMMARY,
        ("book/src/a.md", "[x](#c) [y](b.md) [z](../../README.md)"),
        ("README.md", "[w](gone)"),
        (TESTED, ""),
    ]);
    assert_eq!(
        found,
        [
            "book/src/a.md: #c: no such heading",
            "book/src/a.md: b.md: no such file",
            "book/src/a.md: ../../README.md: mdBook makes it a link to a page that it does not write; link to the folder",
            "README.md: gone: no such file",
        ]
    );
}

#[test]
fn a_page_that_is_not_listed_or_not_tested_is_named() {
    let found = problems(&[
        SUMMARY,
        ("book/src/a.md", "```rust\n1\n```"),
        ("book/src/b.md", ""),
        (TESTED, "\"book/src/c.md\""),
    ]);
    assert_eq!(
        found,
        [
            "book/src/SUMMARY.md: no link to b.md",
            "book/src/a.md: its Rust examples are not in tests/src/book.rs",
        ]
    );
}

#[test]
fn a_page_on_the_design_is_short_and_names_files_that_exist() {
    let long = "word ".repeat(INSIDE_WORDS + 1);
    let found = problems(&[
        ("book/src/SUMMARY.md", "[a](inside/a.md) [b](inside/b.md)"),
        (
            "book/src/inside/a.md",
            "`cast/a.rs` `cast/gone.rs` `mod.rs`",
        ),
        ("book/src/inside/b.md", &long),
        ("crates/burn-amp-decorator/src/cast/a.rs", ""),
        (TESTED, ""),
    ]);
    assert_eq!(
        found,
        [
            "book/src/inside/a.md: `cast/gone.rs`: no such file",
            "book/src/inside/b.md: 901 words, at most 900",
        ]
    );
}

#[test]
fn the_pages_of_the_repository_are_right() {
    check().unwrap();
}
