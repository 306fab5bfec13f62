//! What the decorator's sources implement, read without compiling them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::{Context, Result};
use proc_macro2::{TokenStream, TokenTree};
use syn::{
    ImplItem, ItemImpl, Macro, Type,
    visit::{self, Visit},
};

/// The decorating type.
const DECORATOR: &str = "Amp";

/// The names found in the sources of the decorator's crate.
#[derive(Debug, Default)]
pub struct Sources {
    /// Methods written in an `impl … for Amp<…>`, by the name of the trait.
    methods: BTreeMap<String, BTreeSet<String>>,
    /// Functions written inside of macro calls, where ops by hand stand next to the table's rows.
    in_macros: BTreeSet<String>,
    /// Macros that are called.
    calls: BTreeSet<String>,
}

impl Sources {
    /// Reads every `.rs` file in `folder` and below it.
    pub fn read(folder: &Path) -> Result<Self> {
        let mut sources = Self::default();
        sources.read_folder(folder)?;
        Ok(sources)
    }

    fn read_folder(&mut self, folder: &Path) -> Result<()> {
        let named = || folder.display().to_string();
        for entry in fs::read_dir(folder).with_context(named)? {
            let path = entry.with_context(named)?.path();
            if path.is_dir() {
                self.read_folder(&path)?;
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                fs::read_to_string(&path)
                    .map_err(anyhow::Error::from)
                    .and_then(|source| self.add(&source))
                    .with_context(|| path.display().to_string())?;
            }
        }
        Ok(())
    }

    /// Adds one file.
    pub fn add(&mut self, source: &str) -> Result<()> {
        self.visit_file(&syn::parse_file(source)?);
        Ok(())
    }

    /// Whether the method is written in an `impl` of its trait for the decorator.
    pub fn implements(&self, trait_name: &str, method: &str) -> bool {
        self.methods
            .get(trait_name)
            .is_some_and(|methods| methods.contains(method))
    }

    /// Whether the op is written out: in an `impl` of its trait, or beside the rows in the call of the table's macro.
    pub fn writes(&self, trait_name: &str, op: &str) -> bool {
        self.implements(trait_name, op) || self.in_macros.contains(op)
    }

    /// Whether the macro with the rows of that trait is called, for example `module_ops!` for `ModuleOps`.
    pub fn forwards_rows(&self, trait_name: &str) -> bool {
        self.calls.contains(&table_macro(trait_name))
    }

    fn add_tokens(&mut self, tokens: TokenStream) {
        let mut tokens = tokens.into_iter().peekable();
        while let Some(token) = tokens.next() {
            match (token, tokens.peek()) {
                (TokenTree::Group(group), _) => self.add_tokens(group.stream()),
                (TokenTree::Ident(word), Some(TokenTree::Ident(name))) if word == "fn" => {
                    self.in_macros.insert(name.to_string());
                }
                (TokenTree::Ident(name), Some(TokenTree::Punct(bang))) if bang.as_char() == '!' => {
                    self.calls.insert(name.to_string());
                }
                _ => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Sources {
    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        visit::visit_item_impl(self, item);
        let Some((_, path, _)) = &item.trait_ else {
            return;
        };
        let Type::Path(decorated) = &*item.self_ty else {
            return;
        };
        let last = |path: &syn::Path| path.segments.last().map(|last| last.ident.to_string());
        if last(&decorated.path).as_deref() != Some(DECORATOR) {
            return;
        }
        let methods = item.items.iter().filter_map(|item| match item {
            ImplItem::Fn(method) => Some(method.sig.ident.to_string()),
            _ => None,
        });
        let trait_name = last(path).unwrap_or_default();
        self.methods.entry(trait_name).or_default().extend(methods);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        let name = call.path.segments.last().map(|last| last.ident.to_string());
        self.calls.extend(name);
        self.add_tokens(call.tokens.clone());
    }
}

/// The name of the macro with a trait's part of the table: the trait's name in snake case.
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
        fn attention() {}
        impl<B> ModuleOps<Amp<B>> for Amp<B> {
            fn deform_conv2d_backward() {}
        }

        mod nested {
            float_tensor_ops! { forward! for Amp {
                /// fn in_a_comment
                async fn float_into_data(tensor: F) -> Result<TensorData> { todo() }
            } }
        }
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
    fn ops_by_hand_stand_in_an_impl_or_in_a_macro_call() {
        let sources = sources();
        assert!(sources.writes("ModuleOps", "deform_conv2d_backward"));
        assert!(sources.writes("FloatTensorOps", "float_into_data"));
        assert!(!sources.writes("FloatTensorOps", "in_a_comment"));
        assert!(!sources.writes("ModuleOps", "attention"), "a free function");
    }

    #[test]
    fn a_table_is_forwarded_where_its_macro_is_called() {
        assert!(sources().forwards_rows("FloatTensorOps"));
        assert!(!sources().forwards_rows("ModuleOps"), "only imported");
    }

    #[test]
    fn table_macros_are_named_after_their_trait() {
        assert_eq!(table_macro("QTensorOps"), "q_tensor_ops");
        assert_eq!(table_macro("ModuleOps"), "module_ops");
    }
}
