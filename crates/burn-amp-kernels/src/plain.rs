//! Backends that compute with the references.

#[cfg(feature = "flex")]
impl crate::Kernels for burn_flex::Flex {}

#[cfg(feature = "tch")]
impl<E: burn_tch::TchElement> crate::Kernels for burn_tch::LibTorch<E> {}
