//! Checks that no two types of a published crate share a name, so that a name in a message or in a review says which is
//! meant.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use anyhow::{Context, Result, ensure};
use syn::{
    Attribute, Block, Ident, Item, ItemMod, Meta,
    visit::{Visit, visit_item, visit_item_mod},
};

use crate::workspace;

/// The names that two types share. The list may shrink, and not grow.
const SHARED: [(&str, &str); 1] = [
    // Both are public, in the modules of what is read.
    ("crates/burn-amp-core", "ReadError"),
];

/// Fails if two types of a published crate share a name, unless the names are known.
pub fn check() -> Result<()> {
    let mut problems = Vec::new();
    let mut crates = BTreeMap::<String, Types>::new();
    for path in workspace::files("crates/*/src/*.rs")? {
        let (name, file) = path.split_once("/src/").context("a file in `src`")?;
        if file.ends_with("tests.rs") || file.contains("tests/") {
            continue;
        }
        let text = fs::read_to_string(workspace::root().join(&path))?;
        let source = syn::parse_file(&text).with_context(|| path.clone())?;
        let types = crates.entry(name.to_owned()).or_default();
        types.file = file.to_owned();
        types.visit_file(&source);
    }
    for (name, types) in &crates {
        let known = SHARED.iter().find(|(known, _)| known == name);
        problems.extend(types.problems(name, known.map_or("", |(_, names)| names)));
    }
    for problem in &problems {
        println!("{problem}");
    }
    ensure!(problems.is_empty(), "{} problems", problems.len());
    println!("{} crates: a type name is used once", crates.len());
    Ok(())
}

/// The files of a crate in which types are declared, by the names of the types. A file may declare a type once for each
/// feature.
#[derive(Default)]
struct Types {
    file: String,
    files: BTreeMap<String, BTreeSet<String>>,
}

impl Types {
    fn add(&mut self, name: &Ident) {
        let files = self.files.entry(name.to_string()).or_default();
        files.insert(self.file.clone());
    }

    /// The names that are shared and not known, and those that are known and not shared.
    fn problems(&self, of: &str, known: &str) -> Vec<String> {
        let known: Vec<_> = known.split_whitespace().collect();
        let shared = self.files.iter().filter(|(_, files)| files.len() > 1);
        let unknown = shared.filter(|(name, _)| !known.contains(&name.as_str()));
        let mut problems: Vec<_> = unknown
            .map(|(name, files)| {
                let files: Vec<_> = files.iter().map(String::as_str).collect();
                format!("{of}: `{name}` is declared in {}", files.join(", "))
            })
            .collect();
        let is_shared = |name: &str| self.files.get(name).is_some_and(|files| files.len() > 1);
        let old = known.iter().filter(|name| !is_shared(name));
        problems
            .extend(old.map(|name| format!("{of}: `{name}` is not shared; take it off the list")));
        problems
    }
}

impl<'a> Visit<'a> for Types {
    fn visit_item(&mut self, item: &'a Item) {
        match item {
            Item::Struct(it) if !is_test(&it.attrs) => self.add(&it.ident),
            Item::Enum(it) if !is_test(&it.attrs) => self.add(&it.ident),
            Item::Trait(it) if !is_test(&it.attrs) => self.add(&it.ident),
            Item::Type(it) if !is_test(&it.attrs) => self.add(&it.ident),
            item => visit_item(self, item),
        }
    }

    fn visit_item_mod(&mut self, module: &'a ItemMod) {
        if !is_test(&module.attrs) {
            visit_item_mod(self, module);
        }
    }

    /// Types inside functions are seen by nobody else.
    fn visit_block(&mut self, _: &'a Block) {}
}

/// Whether an item is compiled for tests only.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) => {
            let condition = list.tokens.to_string();
            list.path.is_ident("cfg") && (condition == "test" || condition.starts_with("all (test"))
        }
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "
        struct Once;
        #[cfg(feature = \"a\")]
        enum Once {}
        mod inner {
            pub trait Twice {}
            type Alias<T> = Vec<T>;
        }
        fn here() {
            struct Once;
        }
        #[cfg(test)]
        mod tests {
            struct Once;
        }
    ";

    #[test]
    fn types_of_a_crate_that_share_a_name_are_named_with_their_files() {
        let mut types = Types::default();
        for (file, source) in [("a.rs", SOURCE), ("b.rs", "enum Alias {} struct Twice;")] {
            types.file = file.to_owned();
            types.visit_file(&syn::parse_file(source).unwrap());
        }
        let alias = "c: `Alias` is declared in a.rs, b.rs";
        let twice = "c: `Twice` is declared in a.rs, b.rs";
        assert_eq!(types.problems("c", ""), [alias, twice]);
        let old = "c: `Once` is not shared; take it off the list";
        assert_eq!(types.problems("c", "Once Alias"), [twice, old]);
    }
}
