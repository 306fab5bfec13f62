//! The modules around a parameter.

/// The modules around a parameter, as Burn names their types to visitors, the innermost last.
#[derive(Default)]
pub(crate) struct Modules(Vec<String>);

impl Modules {
    pub(crate) fn enter(&mut self, container_type: &str) {
        self.0.push(container_type.to_owned());
    }

    pub(crate) fn exit(&mut self) {
        self.0.pop();
    }

    /// Whether the innermost module is a norm.
    pub(crate) fn is_norm(&self) -> bool {
        self.0.last().is_some_and(|module| module.ends_with("Norm"))
    }

    /// Whether the optimizer keeps more bytes for the parameters directly inside it: it is a norm or an embedding.
    pub(crate) fn keeps_more(&self) -> bool {
        let innermost = self.0.last();
        self.is_norm() || innermost.is_some_and(|module| module.ends_with("Embedding"))
    }
}
