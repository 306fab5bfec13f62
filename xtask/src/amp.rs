//! Reads the methods and functions in the sources of `Amp`, the decorator, without compiling them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use anyhow::{Context, Result};
use syn::{ImplItem, Item, ItemImpl, Type, UseTree};

use crate::workspace;

/// The name of the decorator's type.
const DECORATOR: &str = "Amp";

/// The names of methods and functions in the sources of the decorator's crate.
#[derive(Debug, Default)]
pub struct Sources {
    /// The methods written out in each `impl … for Amp<…>`, by the name of the trait.
    methods: BTreeMap<String, BTreeSet<String>>,
    /// The names of functions, and of what is imported, in the file of each `impl … for Amp<…>` that calls a macro, by the
    /// name of the macro.
    functions: BTreeMap<String, BTreeSet<String>>,
}

impl Sources {
    /// Reads the files that match a pattern.
    pub fn read(pattern: &str) -> Result<Self> {
        let mut sources = Self::default();
        for path in workspace::files(pattern)? {
            let source = fs::read_to_string(workspace::root().join(&path));
            source
                .map_err(anyhow::Error::from)
                .and_then(|source| sources.add(&source))
                .with_context(|| path)?;
        }
        Ok(sources)
    }

    /// Adds the names in one source file.
    pub fn add(&mut self, source: &str) -> Result<()> {
        let file = syn::parse_file(source)?;
        let mut functions = BTreeSet::new();
        for item in &file.items {
            match item {
                Item::Fn(function) => {
                    functions.insert(function.sig.ident.to_string());
                }
                Item::Use(import) => imported(&import.tree, &mut functions),
                _ => {}
            }
        }
        for item in &file.items {
            let Item::Impl(item) = item else { continue };
            let Some(trait_name) = decorated(item) else {
                continue;
            };
            let methods = self.methods.entry(trait_name).or_default();
            for item in &item.items {
                match item {
                    ImplItem::Fn(method) => {
                        methods.insert(method.sig.ident.to_string());
                    }
                    ImplItem::Macro(call) => {
                        let table = last(&call.mac.path);
                        self.functions.insert(table, functions.clone());
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Whether an `impl` of the trait for the decorator writes out the method.
    pub fn implements(&self, trait_name: &str, method: &str) -> bool {
        self.methods
            .get(trait_name)
            .is_some_and(|methods| methods.contains(method))
    }

    /// Whether the file that calls the macro with the trait's rows has, or imports, a function for the op.
    pub fn writes(&self, trait_name: &str, op: &str) -> bool {
        self.functions
            .get(&table_macro(trait_name))
            .is_some_and(|functions| functions.contains(op))
    }

    /// Whether the decorator calls the macro with the rows of that trait, for example `module_ops!` for `ModuleOps`.
    pub fn forwards_rows(&self, trait_name: &str) -> bool {
        self.functions.contains_key(&table_macro(trait_name))
    }
}

/// The name of the trait, if the item implements one for the decorator.
fn decorated(item: &ItemImpl) -> Option<String> {
    let (_, path, _) = item.trait_.as_ref()?;
    match &*item.self_ty {
        Type::Path(decorated) if last(&decorated.path) == DECORATOR => Some(last(path)),
        _ => None,
    }
}

/// Adds the names that a `use` brings into a file.
fn imported(tree: &UseTree, names: &mut BTreeSet<String>) {
    match tree {
        UseTree::Path(path) => imported(&path.tree, names),
        UseTree::Name(name) => {
            names.insert(name.ident.to_string());
        }
        UseTree::Rename(rename) => {
            names.insert(rename.rename.to_string());
        }
        UseTree::Group(group) => group.items.iter().for_each(|tree| imported(tree, names)),
        UseTree::Glob(_) => {}
    }
}

fn last(path: &syn::Path) -> String {
    let last = path.segments.last();
    last.map(|segment| segment.ident.to_string())
        .unwrap_or_default()
}

/// The name of the macro with the rows of a trait: the trait's name in snake case.
pub fn table_macro(trait_name: &str) -> String {
    let mut name = String::new();
    for letter in trait_name.chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.extend(letter.to_lowercase());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r#"
        use burn_amp_core::{float_tensor_ops, module_ops};

        impl<B: Backend, P: Source> burn_backend::Backend for Amp<B, P> {
            fn name(device: &Self::Device) -> String { format!("amp<{}>", B::name(device)) }
        }
        impl<B: Backend> Backend for Trace<B> {
            fn sync(device: &Self::Device) {}
        }
        impl<B> Amp<B> {
            fn seed() {}
        }
        impl<B> FloatTensorOps<Amp<B>> for Amp<B> {
            float_tensor_ops! { forward! }
        }
        impl<B> ModuleOps<Trace<B>> for Trace<B> {
            module_ops! { record! }
        }
        fn float_into_data() {}
    "#;

    fn sources() -> Sources {
        let mut sources = Sources::default();
        sources.add(SOURCE).unwrap();
        sources
    }

    #[test]
    fn only_impls_of_the_trait_for_the_decorator_count() {
        let sources = sources();
        assert!(sources.implements("Backend", "name"));
        assert!(!sources.implements("Backend", "sync"));
        assert!(!sources.implements("Backend", "seed"));
        assert!(!sources.implements("AutodiffBackend", "name"));
    }

    #[test]
    fn ops_by_hand_are_functions_in_the_file_that_forwards_the_rows() {
        let mut sources = sources();
        sources.add("fn float_cast() {}").unwrap();
        let imports = "use super::ops::{float_add, all::{float_sub as float_mul}}; impl<B> QTensorOps<Amp<B>> for Amp<B> { q_tensor_ops! { forward! } }";
        sources.add(imports).unwrap();
        assert!(sources.writes("QTensorOps", "float_add"));
        assert!(sources.writes("QTensorOps", "float_mul"));
        assert!(!sources.writes("QTensorOps", "float_sub"), "renamed");
        assert!(sources.writes("FloatTensorOps", "float_into_data"));
        assert!(!sources.writes("FloatTensorOps", "seed"), "a method");
        assert!(!sources.writes("FloatTensorOps", "float_cast"), "elsewhere");
        assert!(!sources.writes("ModuleOps", "float_into_data"));
    }

    #[test]
    fn rows_are_forwarded_where_their_macro_is_called_for_the_decorator() {
        assert!(sources().forwards_rows("FloatTensorOps"));
        assert!(!sources().forwards_rows("ModuleOps"), "for another backend");
    }

    #[test]
    fn table_macros_are_named_after_their_trait() {
        assert_eq!(table_macro("QTensorOps"), "q_tensor_ops");
        assert_eq!(table_macro("ModuleOps"), "module_ops");
    }
}
