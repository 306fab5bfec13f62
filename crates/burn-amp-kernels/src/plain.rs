//! Backends that compute with the references.

#[cfg(feature = "flex")]
impl crate::Kernels for burn_flex::Flex {}

#[cfg(feature = "candle")]
impl<F, I> crate::Kernels for burn_candle::Candle<F, I>
where
    F: burn_candle::FloatCandleElement,
    I: burn_candle::IntCandleElement,
{
}

#[cfg(feature = "ndarray")]
impl<E, I, Q> crate::Kernels for burn_ndarray::NdArray<E, I, Q> where Self: burn_backend::Backend {}

#[cfg(feature = "tch")]
impl<E: burn_tch::TchElement> crate::Kernels for burn_tch::LibTorch<E> {}
