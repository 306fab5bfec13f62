//! The kernels of burn-amp, for Burn 0.22: the sources of `crates/burn-amp-kernels`, from which `build.rs` takes the runtime.

#![allow(
    macro_expanded_macro_exports_accessed_by_absolute_paths,
    reason = "the sources name a macro by its path"
)]

include!(concat!(env!("OUT_DIR"), "/src/root.rs"));
