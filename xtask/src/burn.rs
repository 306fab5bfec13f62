//! Reads Burn's traits that `Amp`, the decorator, implements, from the sources of the locked Burn.

use std::{fs, path::Path};

use anyhow::{Context, Result, bail};
use syn::{Item, TraitItem};

use crate::shape;

/// The crate that declares the traits.
pub const CRATE: &str = "burn-backend";

/// The op traits, whose methods are the rows of the table, with their files.
pub const OP_TRAITS: &[(&str, &str)] = &[
    ("FloatTensorOps", "src/backend/ops/tensor.rs"),
    ("IntTensorOps", "src/backend/ops/int_tensor.rs"),
    ("BoolTensorOps", "src/backend/ops/bool_tensor.rs"),
    ("ModuleOps", "src/backend/ops/modules/base.rs"),
    ("ActivationOps", "src/backend/ops/activation.rs"),
    ("QTensorOps", "src/backend/ops/qtensor.rs"),
    ("TransactionOps", "src/backend/ops/transaction.rs"),
];

/// The backend traits, which have no rows because the decorator implements them by hand, with their files.
pub const BACKEND_TRAITS: &[(&str, &str)] = &[
    ("Backend", "src/backend/base.rs"),
    ("AutodiffBackend", "src/backend/base.rs"),
    ("DistributedBackend", "src/backend/distributed/ops.rs"),
];

/// A required or provided method of one of these traits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Method {
    /// The trait that declares it.
    pub trait_name: &'static str,
    pub name: String,
    /// Its signature in the words of the table.
    pub shape: String,
}

/// Reads the methods of `traits` from the crate's sources in `folder`.
pub fn methods(folder: &Path, traits: &[(&'static str, &str)]) -> Result<Vec<Method>> {
    let mut methods = Vec::new();
    for &(trait_name, file) in traits {
        let path = folder.join(file);
        let source = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        methods.extend(parse(&source, trait_name).with_context(|| path.display().to_string())?);
    }
    Ok(methods)
}

/// Reads the methods of one trait.
///
/// Methods behind a feature of Burn are included, because burn-amp forwards them behind a feature of its own.
pub fn parse(source: &str, trait_name: &'static str) -> Result<Vec<Method>> {
    let file = syn::parse_file(source)?;
    let item = file.items.into_iter().find_map(|item| match item {
        Item::Trait(item) if item.ident == trait_name => Some(item),
        _ => None,
    });
    let Some(item) = item else {
        bail!("no trait `{trait_name}`");
    };
    let methods = item.items.into_iter().filter_map(|item| match item {
        TraitItem::Fn(method) => Some(Method {
            trait_name,
            name: method.sig.ident.to_string(),
            shape: shape::of_signature(&method.sig),
        }),
        _ => None,
    });
    Ok(methods.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r#"
        pub struct Other;
        pub trait Elsewhere { fn elsewhere(); }
        /// Documented.
        pub trait FloatTensorOps<B: Backend> {
            type Kind;
            /// Required.
            fn float_exp(tensor: FloatTensor<B>) -> FloatTensor<B>;
            fn float_neg(tensor: FloatTensor<B>) -> FloatTensor<B> {
                Self::float_mul_scalar(tensor, (-1f32).into())
            }
            #[cfg(feature = "distributed")]
            fn float_share(tensor: FloatTensor<B>);
            type Other;
        }
    "#;

    #[test]
    fn required_provided_and_feature_gated_methods_are_read() {
        let methods = parse(SOURCE, "FloatTensorOps").unwrap();
        let read: Vec<_> = methods
            .iter()
            .map(|m| (m.name.as_str(), m.shape.as_str()))
            .collect();
        assert_eq!(
            read,
            [
                ("float_exp", "(F) -> F"),
                ("float_neg", "(F) -> F"),
                ("float_share", "(F) -> ()"),
            ]
        );
    }

    #[test]
    fn a_trait_that_has_moved_is_an_error() {
        let error = parse(SOURCE, "IntTensorOps").unwrap_err();
        assert_eq!(error.to_string(), "no trait `IntTensorOps`");
    }
}
