//! Whether the `burn-autodiff` of the program is that of burn-amp.

/// What the name means if the glob import below does not have it.
#[allow(dead_code, reason = "hidden by the constant of the patched crate")]
const IS_BURN_AMP: bool = false;

/// Whether the program's patch is in force. Burn's own crate lacks the constant of that name.
pub(crate) const fn is_in_force() -> bool {
    #[allow(
        unused_imports,
        reason = "Burn's own crate has nothing that is named here"
    )]
    use burn_autodiff_of_program::*;

    IS_BURN_AMP
}
